"""The way to Redis: one client, scripts by their digest, and concurrent commands sent together.

Commands that are issued in one turn of the loop leave in one write: under load a command costs a fraction of a round
trip, and alone it waits for nothing. Nothing here is retried by itself: a lost reply is not a lost command
(hazard 13), so only the caller knows whether sending again is safe. `guarded` is for those who know.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic
from typing import Any, ParamSpec, TypeVar

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, RedisError, ResponseError

from pentad.contracts.ids import rfc3339
from pentad.shared.errors import OutageError, RefusedWriteError
from pentad.shared.store.redis_replies import Heard, TooLargeReplyError
from pentad.shared.store.refusals import is_outage, said
from pentad.shared.store.script import read_scripts
from pentad.shared.store.trouble import Trouble, explained
from pentad.shared.store.wire import Wire, Word, connect
from pentad.shared.telemetry import ThrottledLog

log = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")
Argument = Word
Command = Sequence[Argument]

_say = ThrottledLog(log)
_CLOCK_S = 5.0
_SILENT_S = 1.0
_MOST_HEARD = 256 << 10
"""Bytes of an entry that is listened for: of a larger one it is told only that it has come."""
_LONGEST_PAUSE_S = 1.0
"""Between two attempts of `guarded`."""
_LATELY_S = 1.5
"""Longer than any pause of `guarded`: as long as somebody is refused, the last refusal is not older."""


class Store:
    """Redis as the rest of Pentad sees it."""

    _refused_at = float("-inf")
    """Loop time at which Redis last did not serve."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.redis: Any = connect(url)
        """A plain client for those who look from outside, e.g. tests. No service asks through it: it would stay with a
        server that is not the primary any more. Connects on first use."""
        self._wire = Wire(url)
        self._blocking_wire = Wire(url, most_bytes=_MOST_HEARD)
        """A connection for reads that block: commands behind one on the same connection wait with it."""
        self.scripts = read_scripts()
        self._clock = (0, float("-inf"))
        self._trouble = Trouble()

    @property
    def trouble(self) -> str | None:
        """Why Redis did not serve when it was last asked, or does not serve some commands; None when all is well."""
        return self._trouble.text

    @property
    def away(self) -> bool:
        """Whether Redis refuses something just now, or leaves something unanswered."""
        return self._wire.silence > _SILENT_S or asyncio.get_running_loop().time() - self._refused_at < _LATELY_S

    @property
    def connection(self) -> int:
        """Number of the connection that commands go over: the next one may lead to a server that knows less."""
        return self._wire.opened

    async def call(self, *command: Argument, on: int | None = None) -> Any:
        """Send one command, together with whatever else is ready to leave.

        ``on``: over this `connection` or not at all.
        Raises ``OutageError`` when Redis is unavailable; then the command may or may not have been executed, unless it
        is a ``RefusedWriteError``: then it was not.
        """
        try:
            reply = await (self._wire.ask(*command) if on is None else self._wire.ask_on(on, *command))
        except Exception as error:
            raise await self._understood(error, command) from None
        if self._trouble.down is not None:
            self._trouble.over()
        return reply

    async def read(self, wire: Wire, *command: Argument) -> Any:
        """Send one command over a connection of the caller's own, e.g. one that waits. Raises as `call` does."""
        try:
            return await wire.ask(*command)
        except Exception as error:
            raise await self._understood(error, command) from None

    async def _understood(self, error: Exception, command: Sequence[Argument]) -> Exception:
        """The error that the caller gets: an outage, said once for readiness, or what the server said."""
        if not is_outage(error):
            return error
        self._refused_at = asyncio.get_running_loop().time()
        kind = RefusedWriteError if isinstance(error, ResponseError) else OutageError
        return kind(self._trouble.note(error, await explained(error, command, self._wire)))

    def refused(self, why: str) -> OutageError:
        """The error for something that Redis would not do; readiness says so for a while."""
        return OutageError(self._trouble.refuse(why))

    def unfit(self, why: str | None) -> None:
        """Note the change that the server needs; readiness shows it as long as it is not None."""
        self._trouble.unfit = why

    def stumbled(self, what: str, error: Exception) -> None:
        """Note that a loop, which goes on, was refused something for no reason that this version knows."""
        _say.error(what, "%s", self._trouble.refuse(f"{what} is refused: {said(error)}"))

    def send(self, *command: Argument) -> None:
        """Send a command and wait for nothing: for what may be lost. It keeps its place before later commands."""
        self._wire.tell(*command)

    async def answers(self, commands: Sequence[Command], on: int | None = None) -> list[Any]:
        """Send several commands that may be refused; returns each reply, or the refusal. Nothing is noted.

        They leave in one write. ``on``: see `call`. Raises ``OutageError`` when the connection fails.
        """
        try:
            asked = [self._wire.ask(*c) if on is None else self._wire.ask_on(on, *c) for c in commands]
        except RedisConnectionError as error:
            raise await self._understood(error, ()) from None
        replies: list[Any] = []
        try:
            for heard in asked:
                try:
                    replies.append(await heard)
                except ResponseError as refusal:
                    replies.append(refusal)
        except Exception as error:
            raise await self._understood(error, ()) from None
        finally:
            for heard in asked[len(replies) :]:
                heard.cancel()  # what becomes of the others is nobody's any more
        return replies

    async def calls(self, commands: Sequence[Command]) -> list[Any]:
        """Send several commands in one write; returns the replies. Raises as `call` does."""
        replies = await self.answers(commands)
        for reply, command in zip(replies, commands, strict=True):
            if isinstance(reply, Exception):
                raise await self._understood(reply, command)
        if self._trouble.down is not None:
            self._trouble.over()
        return replies

    def listen(self, stream: str, after: str, block_ms: int) -> Heard:
        """Ask for the first entry of a stream after this one, or for None when there is none within ``block_ms``.

        The command is sent at once, on a connection of its own, so that no other command waits for it. `heard` awaits
        the reply.
        """
        return self._blocking_wire.ask("XREAD", "COUNT", 1, "BLOCK", block_ms, "STREAMS", stream, after)

    async def heard(self, listening: Heard, stream: str) -> Any:
        """Return the reply to `listen` for this stream; None too for a large entry.

        Raises ``OutageError`` as `call` does.
        """
        try:
            return await listening
        except TooLargeReplyError:
            return None
        except Exception as error:
            raise await self._understood(error, ("XREAD", stream)) from None

    async def run(self, name: str, keys: Sequence[str], args: Sequence[Argument], on: int | None = None) -> Any:
        """Run a script. ``on`` and errors: see `call`."""
        script = self.scripts[name]
        command = ("EVALSHA", script.digest, len(keys), *keys, *args)
        try:  # as `call`, which would cost each script another task's frame
            reply = await (self._wire.ask(*command) if on is None else self._wire.ask_on(on, *command))
        except NoScriptError:
            return await self.call("EVAL", script.body, len(keys), *keys, *args, on=on)
        except Exception as error:
            raise await self._understood(error, command) from None
        if self._trouble.down is not None:
            self._trouble.over()
        return reply

    async def run_and_ask(
        self, name: str, keys: Sequence[str], args: Sequence[Argument], questions: Sequence[Command], on: int
    ) -> tuple[Any, list[Any] | None]:
        """Run a script, and ask behind it in the same write. The answers are None when the server refuses one of them.

        ``on`` and errors of the script: see `call`.
        """
        script, rest = self.scripts[name], (len(keys), *keys, *args)
        reply, *answers = await self.answers([("EVALSHA", script.digest, *rest), *questions], on=on)
        if isinstance(reply, NoScriptError):
            reply = await self.call("EVAL", script.body, *rest, on=on)
        elif isinstance(reply, Exception):
            raise await self._understood(reply, ("EVALSHA", script.digest, *rest))
        return reply, None if any(isinstance(answer, Exception) for answer in answers) else answers

    async def groups(self, stream: str) -> list[dict[bytes, Any]]:
        """The consumer groups of a stream, as XINFO tells them; none where there is no such stream yet."""
        try:
            found = await self.call("XINFO", "GROUPS", stream)
        except ResponseError as error:
            if "no such key" not in str(error):
                raise
            return []
        return [dict(zip(flat[::2], flat[1::2], strict=True)) for flat in found]

    async def clock(self) -> int:
        """The server's clock, in ms: the only clock that leases, timers and events go by."""
        seconds, micros = await self.call("TIME")
        now = int(seconds) * 1000 + int(micros) // 1000
        self._clock = (now, monotonic())
        return now

    async def now(self) -> str:
        """The server's clock as RFC 3339, for events: between two readings it goes on by our own."""
        return rfc3339(await self.now_ms())

    async def now_ms(self) -> int:
        """The server's clock in ms: between two readings it goes on by our own."""
        read, at = self._clock
        passed = monotonic() - at
        return read + round(passed * 1000) if passed < _CLOCK_S else await self.clock()

    async def close(self) -> None:
        """Close the connections; commands under way are cancelled."""
        await self._wire.close()
        await self._blocking_wire.close()
        await self.redis.aclose()


async def guarded(what: str, attempt: Callable[P, Awaitable[T]], *args: P.args, **options: P.kwargs) -> T:
    """Repeat something that is safe to repeat until Redis answers: reads, and scripts guarded by an id or a version.

    ``args`` and ``options`` are the attempt's.
    """
    pause = 0.05
    while True:
        try:
            return await attempt(*args, **options)
        except (OutageError, RedisError, OSError) as error:
            if not isinstance(error, OutageError) and not is_outage(error):
                raise
            _say.warning(what, "%s waits for Redis: %s", what, error)
        await asyncio.sleep(pause * random.uniform(0.5, 1.0))
        pause = min(pause * 2, _LONGEST_PAUSE_S)
