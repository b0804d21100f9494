"""The worker's side of one child: what it runs, whether it answers, how it ends."""

import asyncio
import logging
from asyncio import AbstractEventLoop
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pentad.contracts.graphs import GraphSpec
from pentad.contracts.hooks import HookSpec
from pentad.contracts.instructions import Instruction
from pentad.contracts.tools import OutcomeKind, ToolSpec
from pentad.services.tool_worker.children.call import ChildCall
from pentad.services.tool_worker.children.launch import Launched, reap
from pentad.services.tool_worker.children.tool_frames import Frame, FrameWriter, Unpacker, context_frame
from pentad.shared.child_processes import ending
from pentad.shared.plugins.errors import PluginError
from pentad.shared.settings import tool_environment

LEAVE_S = 1.0
"""How long a child may take to end when told to."""
START_S = 120.0
"""How long the plugins may take to import."""
_EXIT_S = 0.5

_log = logging.getLogger("pentad.tools")


ANSWER_S = 1.0
"""How long a ping or a cancellation may stay unanswered."""


class PingMonitor:
    """One ping at a time and the time since it was sent."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._asked: float | None = None

    @property
    def turns(self) -> bool:
        """Whether the other side's loop turns: no ping has waited too long for its answer."""
        return self._asked is None or self._loop.time() - self._asked < ANSWER_S * 0.9

    def ask(self) -> bool:
        """Whether a ping should be sent now; it then counts as sent."""
        if self._asked is not None:
            return False
        self._asked = self._loop.time()
        return True

    def answered(self) -> None:
        """The ping has come back."""
        self._asked = None

    def judge_later(self, seconds: float, verdict: Callable[..., None], *args: Any) -> None:
        """Calls ``verdict`` in two stages, so that answers are read in between even when our own loop was held up."""
        self._loop.call_later(seconds * 0.9, lambda: self._loop.call_later(seconds * 0.1, verdict, *args))


class ToolProcess(asyncio.Protocol):
    """One child process. Belongs to the loop it was made in."""

    def __init__(self, launched: Launched, threads: int, on_change: Callable[["ToolProcess"], None], own: bool) -> None:
        self.own = own
        """Whether it serves a single call."""
        self.calls: dict[int, ChildCall] = {}
        self.tools: dict[str, tuple[ToolSpec, bool]] = {}
        """Each tool with whether it is async."""
        self.instructions: tuple[Instruction, ...] = ()
        self.graphs: tuple[GraphSpec, ...] = ()
        self.hooks: dict[str, tuple[HookSpec, bool]] = {}
        """Each hook with whether it is async."""
        self.companions: dict[str, bool] = {}
        """Each companion of a tool with whether it is async."""
        self.files: tuple[str, ...] = ()
        """Files that the plugins were imported from."""
        self.imports = 0
        """How often the plugins had changed when it was started."""
        self.ready = self.blocked = self.retired = self.killed = False
        self._why = ""
        """Why it was ended, in words; '' when it was not."""
        self.gone = asyncio.Event()
        """Set when the process is reaped and its calls have their outcomes."""
        self._launched = launched
        self._free_threads = threads
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._hello: asyncio.Future[None] = self._loop.create_future()
        self._hung_up = asyncio.Event()
        self._hang_up: Callable[[], None] = launched.connection.close
        self._unpacker = Unpacker()
        self._ping_monitor = PingMonitor(self._loop)
        self._leaving = False
        self._last_resort: asyncio.TimerHandle | None = None
        self._ending: asyncio.Task[None] | None = None

    @property
    def serves(self) -> bool:
        """Whether it may get new calls."""
        return self.ready and not (self.blocked or self.retired or self.own or self._ending)

    def takes(self, threaded: bool) -> bool:
        """Whether it has room for a call."""
        return self.serves and (self._free_threads > 0 or not threaded)

    async def open(self) -> None:
        """Waits until the plugins are imported. Raises ``PluginError`` when they are not; the process then ends."""
        try:
            await self._loop.create_unix_connection(lambda: self, sock=self._launched.connection)
            async with asyncio.timeout(START_S):
                await self._hello
        except TimeoutError:
            self.kill()
            raise PluginError(f"the plugins did not import within {START_S:.0f} s") from None
        except BaseException:
            self.kill()
            raise
        self.ready = True

    def start(self, call: ChildCall) -> None:
        """Hands it a call."""
        call.begin(self, self._loop)
        invocation = call.invocation
        if self.gone.is_set():
            call.lose("it ended before the call", guilty=False)
            return
        try:
            self._outbox.send(
                [
                    *("call", call.number, invocation.name, invocation.args),
                    *(context_frame(invocation.context), invocation.keeps_files),
                ]
            )
        except ValueError as error:
            call.finish("error", f"the arguments of {invocation.title} cannot be sent: {error}")
            return
        self.calls[call.number] = call
        self._free_threads -= call.threaded

    def give_up(self, call: ChildCall) -> None:
        """Cancels a call that nobody waits for. If its code does not end, the process has to."""
        if call.number not in self.calls:
            return
        if self.own:
            self.kill(_given_up(call))
            return
        self._outbox.send(["cancel", call.number])
        self._ping()
        self._ping_monitor.judge_later(ANSWER_S, self._judge, call)

    def check(self) -> None:
        """Called every now and then while it has calls: is it alive, does its loop turn?"""
        if self._launched.process.poll() is not None:
            self._lose()  # what a tool left behind may hold the connection open
        elif not self._ping_monitor.turns:
            self._ping_monitor.judge_later(0.1, self._block)
        else:
            self._ping()

    @property
    def served(self) -> int:
        """Calls in it that somebody waits for."""
        return sum(not call.over for call in self.calls.values())

    def retire(self, why: str, level: int = logging.WARNING) -> None:
        """No new calls. Its other calls go on up to their own time limits, then it ends. It ends at once, and its calls
        with it, when its loop does not turn: none of them could answer."""
        if not self.retired:
            self.retired = True
            pid = self._launched.process.pid
            _log.log(level, "%s: process %d gets no new calls%s", why, pid, self._what_follows())
        if self._ping_monitor.turns:
            self._leave_when_idle(why)
        else:
            self.kill(f"it was ended because {why} and blocks its loop")
        self._on_change(self)

    def _what_follows(self) -> str:
        if not self._ping_monitor.turns:
            return f" and is ended now: it does not answer any more; {self.served} other calls in it end too"
        return f" and is ended when its {self.served} other calls are over" if self.served else " and is ended"

    def leave(self) -> None:
        """Tells it to end and sees to it."""
        if self._leaving or self._ending is not None:
            return
        self._leaving = self.retired = True
        if not self.ready:
            self.kill()
            return
        self._outbox.send(["stop"])
        self._stop_waiting()
        self._last_resort = self._loop.call_later(LEAVE_S, self.kill)

    def kill(self, why: str = "") -> None:
        """Ends it now. Its unfinished calls become ``interrupted``, and say why where that is known."""
        if self._ending is None:
            self.killed, self._why = True, why
            self._launched.kill()
            self._lose()

    def connection_made(self, transport: Any) -> None:
        self._outbox = FrameWriter(self._loop, transport)
        self._hang_up = self._outbox.abort

    def data_received(self, data: bytes) -> None:
        for frame in self._unpacker.feed(data):
            self._read_frame(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        self._hung_up.set()
        self._lose()

    def _read_frame(self, frame: Frame) -> None:
        match frame[0]:
            case "bytes":
                if (call := self.calls.get(frame[1])) is not None:
                    call.add_bytes(frame[2])
            case "done":
                self._done(*frame[1:])
            case "progress":
                self._progress(*frame[1:])
            case "pong":
                self._pong()
            case "ready":
                environment = tool_environment({name for _, _, names in frame[1] for name in names})
                for spec, is_async, names in frame[1]:
                    missing = [name for name in names if name not in environment]
                    self.tools[spec["name"]] = ToolSpec(**spec | {"missing_env": missing}), is_async
                self.instructions = tuple(Instruction(**fields) for fields in frame[2])
                self.files = tuple(frame[3])
                self.graphs = tuple(GraphSpec.model_validate(fields) for fields in frame[4])
                self.hooks = {spec["name"]: (HookSpec(**spec), is_async) for spec, is_async in frame[5]}
                self.companions = frame[6]
                self._outbox.send(["env", environment])
                self._hello.set_result(None)
            case "failed":
                self._hello.set_exception(PluginError(frame[1]))

    def _done(self, number: int, kind: OutcomeKind, text: str, files: list[tuple[str, str, int]]) -> None:
        call = self.calls.pop(number)
        self._free_threads += call.threaded
        call.finish(kind, text, files)
        if self.retired:
            self._leave_when_idle("its calls are over")
        self._on_change(self)

    def _progress(self, number: int, text: str, fraction: float | None) -> None:
        call = self.calls.get(number)
        if call is None or call.over:
            return
        try:
            call.on_progress(text, fraction)
        except Exception:
            _log.exception("progress of tool %s could not be told", call.invocation.tool)

    def _ping(self) -> None:
        if self._ping_monitor.ask():
            self._outbox.send(["ping", 0])

    def _pong(self) -> None:
        self._ping_monitor.answered()
        if self.blocked:
            self.blocked = False
            self._on_change(self)

    def _block(self) -> None:
        if self._ping_monitor.turns or self._ending is not None:
            return
        if self.retired:
            self.kill("it was ended because it did not answer any more")
        elif not self.blocked:
            self.blocked = True
            _log.warning("a tool blocks the loop of process %d: it gets no new calls", self._launched.process.pid)
            self._on_change(self)

    def _judge(self, call: ChildCall) -> None:
        """The time to answer a cancellation is over."""
        if call.number in self.calls and self._ending is None:
            self.retire(_given_up(call))

    def _leave_when_idle(self, why: str) -> None:
        if not self.calls:
            self.leave()
        elif not self.served:
            self.kill(f"it was ended because {why}")  # only code that does not end is left

    def _lose(self) -> None:
        self._ending = self._ending or self._loop.create_task(self._end())

    async def _end(self) -> None:
        """Reaps the process, reads what it had still said and settles its calls."""
        returncode = await reap(self._launched, patient=not self.killed)
        with suppress(TimeoutError):
            async with asyncio.timeout(_EXIT_S):
                await self._hung_up.wait()
        self._stop_waiting()
        self._settle(self._why or ending(returncode))
        self._hang_up()
        self._launched.let_go()
        self.gone.set()
        self._on_change(self)

    def _settle(self, how: str) -> None:
        """Gives everybody who still waits an answer."""
        if not self._hello.done():
            self._hello.set_exception(PluginError(f"the process ended while it imported the plugins: {how}"))
        guilty = len(self.calls) == 1 and not self.killed
        for call in self.calls.values():
            call.lose(how, guilty=guilty)
        self.calls.clear()

    def _stop_waiting(self) -> None:
        if self._last_resort is not None:
            self._last_resort.cancel()
            self._last_resort = None


def _given_up(call: ChildCall) -> str:
    """Say why the process of this call is ended."""
    return f"a call of {call.invocation.title} does not end, though its time is over or its task gave it up"
