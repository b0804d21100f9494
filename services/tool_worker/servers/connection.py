"""One connection to a server, kept up by one task: it connects, lists the tools, and connects again.

What the SDK opens must be closed by the task that opened it. So the owner does both, and calls of other tasks borrow
the client while it is there.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from time import monotonic, perf_counter, time_ns
from typing import Any

import anyio
from mcp import Client, MCPError
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp_types import (
    CONNECTION_CLOSED,
    HEADER_MISMATCH,
    INVALID_REQUEST,
    REQUEST_TIMEOUT,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ErrorData,
    Implementation,
    InputRequiredResult,
    PaginatedRequestParams,
    Tool,
    ToolListChangedNotification,
)
from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from pentad.contracts.ids import rfc3339
from pentad.contracts.suspensions import Resumption
from pentad.contracts.tool_servers import ServerCondition, ToolServer
from pentad.contracts.tools import Artifact, ToolOutcome
from pentad.services.tool_worker.children.call_server import MAX_PROGRESS
from pentad.services.tool_worker.servers.http_link import HttpLink
from pentad.services.tool_worker.servers.inputs import CannotAskError, answered, is_state_lost, same_answer
from pentad.services.tool_worker.servers.links import (
    LOST,
    NOT_SENT,
    SESSION_GONE,
    SIGN_IN,
    Bearer,
    Challenge,
    ServerLink,
)
from pentad.services.tool_worker.servers.program_link import ProgramLink, ProgramNotFoundError
from pentad.services.tool_worker.servers.results import input_required, outcome_of, wants_input
from pentad.services.tool_worker.servers.tool_list import ListedTool
from pentad.services.tool_worker.sources import OnProgress
from pentad.shared import metrics
from pentad.shared.clipping import plain, said_by
from pentad.shared.entry_file import complaints
from pentad.shared.outbound.address_guard import AddressGuard
from pentad.shared.plugins.results import clean
from pentad.shared.telemetry import ThrottledLog

for _name in ("mcp", "client"):  # the SDK logs what servers send, with their errors: what matters of it is told here
    logging.getLogger(_name).setLevel(logging.CRITICAL)
log = logging.getLogger(__name__)
_say = ThrottledLog(log)

CONNECT_S = 60.0
"""Seconds until a server must have listed its tools: some are installed when they are first started."""
POLL_S = 60.0
"""Seconds between two looks at the tools of a server that does not tell of changes."""
_POLL_TELLING_S = 300.0
"""Likewise of one that does: it may have been lost without a word."""
_SETTLE_S = 1.0
"""Seconds between two looks at the tools at least, however often a server says that they have changed."""
_FIRST_PAUSE_S, _MAX_PAUSE_S = 0.2, 60.0
"""Seconds between two attempts to connect: the first pause, doubled each time up to the last."""
_QUIET_S = 60.0
"""Seconds of a good connection after which pauses begin anew."""
_WAIT_S = 15.0
"""Seconds after its loss for which calls wait for a connection: it may be back in a moment."""
_ATTEMPT_S = 5.0
"""Seconds that a call waits for the next attempt to connect to a server that is away for longer."""
_MAX_PAGES, _MAX_LISTED, _MAX_LISTED_BYTES = 40, 1_000, 8 << 20
"""Pages, tools, and bytes of schemas that are read of one list."""
_MAX_WHY = 500
"""Characters of an error that are kept."""
_LOST_WORDS = ("Connection closed", "SSE stream")
"""Beginnings of the SDK's own words for a connection that has ended."""
_SHORTEST = 4
"""Characters of a text that is hidden: shorter ones stand everywhere."""
_TOKEN_WORD = "[token]"
"""Word that stands in the place of a user's token."""
_CLOSE_S = 8.0
"""Seconds that the end of a connection may take."""
_Answer: TypeAdapter[CallToolResult | InputRequiredResult] = TypeAdapter(CallToolResult | InputRequiredResult)


_STATE_PAUSES_S = (0.05, 0.1, 0.25, 0.25, 0.25)
"""Seconds before a call is made again that a server wants to be made again and asks nothing for."""


async def _asks_in_the_old_way(context: Any, params: Any) -> ErrorData:
    """Refuse a question during a call, as servers of before 2026 ask: the call would have to wait for a person."""
    return ErrorData(code=INVALID_REQUEST, message="Questions during a call are not answered here")


class NotStartedError(Exception):
    """The server has not begun a call. The text says why."""


class CallLostError(Exception):
    """The connection ended during a call. The text says how."""


class SignInNeededError(Exception):
    """A person has to sign in before a call is made; it was not made."""

    def __init__(self, challenge: Challenge) -> None:
        super().__init__("a person has to sign in")
        self.challenge = challenge


class ServerConnection:
    """A connection to a server. ``changed``: called when its tools or its condition have become others.

    ``hidden``: texts that nobody may see, such as the secrets in it. ``guard``, ``bearer``: see `HttpLink`.
    """

    def __init__(
        self,
        server: ToolServer,
        changed: Callable[[], None],
        *,
        guard: AddressGuard | None = None,
        bearer: Bearer | None = None,
        hidden: Mapping[str, str] | None = None,
        longest_s: float = 600.0,
    ) -> None:
        self._bearer = bearer
        self._server, self._changed, self._guard, self._longest_s = server, changed, guard, longest_s
        self._hidden = {name: text for name, text in (hidden or {}).items() if len(text) >= _SHORTEST}
        self.listed: tuple[ListedTool, ...] = ()
        """The tools as the server listed them last."""
        self.cut = False
        """Whether the server has more tools than were read."""
        self.condition: ServerCondition = "connecting"
        self.since = _now()
        self.error: str | None = None
        self.challenge: Challenge | None = None
        """The server's words of how to sign in when it refused the connection; None where it did not."""
        self.said: str | None = None
        """Last words of a server that is away."""
        self.protocol: str | None = None
        self.used_at = monotonic()
        """When the last call began or ended."""
        self.calls = 0
        """Calls that run."""
        self._client: Client | None = None
        self._ready = asyncio.Event()
        self._tried = asyncio.Event()
        """Set once the first attempt to connect has ended."""
        self._attempt = asyncio.Event()
        """Set when the attempt to connect ends that is under way, or comes next."""
        self._lost_at = monotonic()
        self._was_ready = False
        self._wanted = asyncio.Event()
        """Set by a call that waits for a connection."""
        self._look = asyncio.Event()
        """Set when the tools may have changed, or the connection may have ended."""
        self._owner: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to keep the connection up."""
        self._owner = asyncio.create_task(self._keep())

    async def tried(self) -> None:
        """Wait until the first attempt to connect has ended."""
        await self._tried.wait()

    async def stop(self) -> None:
        """End the connection, and a program that was started for it. Calls end as lost."""
        if self._owner is None:
            return
        self._owner.cancel()
        await asyncio.wait({self._owner}, timeout=_CLOSE_S)

    # Calls

    async def call(
        self,
        tool: str,
        args: dict[str, Any],
        timeout_s: float,
        on_progress: OnProgress,
        resumed: Resumption | None = None,
        files_of: str | None = None,
    ) -> ToolOutcome:
        """Call a tool by the server's own name for it. Every failure is an outcome; cancelling it tells the server.

        Raises ``SignInNeededError`` where it was not made because a person has to sign in. ``resumed``: the answer with
        which a suspended call goes on. ``files_of``: id of the call whose files are kept.
        """
        begun, limit = perf_counter(), monotonic() + timeout_s
        self.calls += 1
        try:
            params = CallToolRequestParams(name=tool, arguments=args)
            answer = await self._call(params, resumed, timeout_s, limit, on_progress)
            outcome = answer if isinstance(answer, ToolOutcome) else outcome_of(tool, answer, files_of)
        finally:
            self.calls -= 1
            self.used_at = monotonic()
        took, suspension = round((perf_counter() - begun) * 1000), outcome.suspension
        if suspension is not None:
            told = self.without_secrets(suspension.message)
            suspension = suspension.model_copy(update={"message": told})
        text, made = self.without_secrets(outcome.text), tuple(map(self._hiding, outcome.made))
        return ToolOutcome(outcome.kind, text, took, suspension=suspension, made=made)

    async def _call(
        self,
        params: CallToolRequestParams,
        resumed: Resumption | None,
        timeout_s: float,
        limit: float,
        on_progress: OnProgress,
    ) -> ToolOutcome | CallToolResult | InputRequiredResult:
        """Return the server's answer, or the outcome of a call that has none."""
        named, tool = f"the server {self._server.name!r}", params.name
        try:
            if resumed is not None and resumed.needs == "input":
                result = await self._resumed(params, resumed, limit, on_progress)
            else:
                result = await self._patiently(params, limit, on_progress)
            for pause in _STATE_PAUSES_S:  # it has only a state, and wants to be asked again with that
                if not isinstance(result, InputRequiredResult) or result.input_requests:
                    break
                await asyncio.sleep(pause)
                params = params.model_copy(update={"input_responses": None, "request_state": result.request_state})
                result = await self._patiently(params, limit, on_progress)
        except CannotAskError as error:
            return input_required(tool, str(error))
        except NotStartedError as error:
            return ToolOutcome("error", f"{named} cannot be reached, and the call was not made: {error}")
        except CallLostError as error:
            return ToolOutcome("interrupted", f"{named} was lost during the call: {error}")
        except TimeoutError:
            return ToolOutcome("timeout", f"{tool}: no result within {timeout_s:g} s")
        except MCPError as error:
            if wants_input(error.code):
                return input_required(tool, self._told(error))
            return ToolOutcome("error", f"{named} refused the call: {self._told(error)}")
        except ValidationError:
            return ToolOutcome("error", f"{named} answered what is no result of a tool")
        except (RuntimeError, ValueError) as error:
            return ToolOutcome("error", f"{tool}: {self._told(error)}")
        return result

    async def _resumed(
        self, params: CallToolRequestParams, resumed: Resumption, limit: float, on_progress: OnProgress
    ) -> CallToolResult | InputRequiredResult:
        """Make a call with a person's answer. A server that knows its own state no more is asked anew, and given the
        answer where it asks the same. Raises what `_once` does, and ``CannotAskError``."""
        try:
            return await self._patiently(answered(params, resumed), limit, on_progress)
        except MCPError as error:
            if not is_state_lost(error.data):
                raise
        result = await self._patiently(params, limit, on_progress)
        again = same_answer(result, resumed) if isinstance(result, InputRequiredResult) else None
        return result if again is None else await self._patiently(answered(params, again), limit, on_progress)

    async def _patiently(
        self, params: CallToolRequestParams, limit: float, on_progress: OnProgress
    ) -> CallToolResult | InputRequiredResult:
        """Make a call, once more where the server was away. Raises what `_once` does."""
        try:
            return await self._once(params, limit, on_progress)
        except NotStartedError:  # it comes back in a moment
            return await self._once(params, limit, on_progress)

    async def _once(
        self, params: CallToolRequestParams, limit: float, on_progress: OnProgress
    ) -> CallToolResult | InputRequiredResult:
        """Make a call once.

        Raises ``NotStartedError``, ``CallLostError``, ``TimeoutError``, ``MCPError`` for an error of the server, and
        ``ValidationError``.
        """
        client = await self._connected(limit)
        try:
            async with asyncio.timeout(max(0.0, limit - monotonic()) + 1.0):
                return await self._send(client, params, limit, on_progress)
        except MCPError as error:
            if error.code == REQUEST_TIMEOUT:
                raise TimeoutError from None
            if (challenge := self._challenge_of(error)) is not None:
                raise SignInNeededError(challenge) from None
            if error.code in (NOT_SENT, SESSION_GONE):
                self._suspect(client)
                raise NotStartedError(self._told(error)) from None
            closed = error.code == CONNECTION_CLOSED and str(error).startswith(_LOST_WORDS)
            if closed or error.code == LOST:
                self._suspect(client)
                raise CallLostError(self._told(error)) from None
            raise
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
            if isinstance(error, TimeoutError):
                raise
            self._suspect(client)
            raise CallLostError(self._told(error)) from None

    async def _send(
        self, client: Client, params: CallToolRequestParams, limit: float, on_progress: OnProgress
    ) -> CallToolResult | InputRequiredResult:
        """Send a call. The SDK's own method would check the result against a schema of the server's, on this loop."""

        async def tell(progress: float, total: float | None, message: str | None) -> None:
            said = message or (f"{progress:g}" if total is None else f"{progress:g} of {total:g}")
            text = clean(said[:MAX_PROGRESS])
            fraction = min(1.0, max(0.0, progress / total)) if total is not None and total > 0 else None
            on_progress(self.without_secrets(text), fraction)

        async def ask() -> CallToolResult | InputRequiredResult:
            return await client.session.send_request(
                CallToolRequest(params=params),
                _Answer,
                request_read_timeout_seconds=max(0.001, limit - monotonic()),
                progress_callback=tell,
            )

        try:
            return await ask()
        except MCPError as error:
            if error.code != HEADER_MISMATCH:
                raise
        await self._read_list(client)  # the server has other schemas than were read: with theirs it takes the call
        return await ask()

    async def _connected(self, limit: float) -> Client:
        """Return the client once there is a connection. Raises ``NotStartedError``, and ``SignInNeededError``."""
        if self._client is None:
            self._wanted.set()
            attempt, now = self._attempt, monotonic()
            patience = self._lost_at + _WAIT_S - now
            with suppress(TimeoutError):
                async with asyncio.timeout(min(max(patience, _ATTEMPT_S), max(0.0, limit - now))):
                    await (self._ready if patience > 0 else attempt).wait()
        if self._client is None and self.challenge is not None:
            raise SignInNeededError(self.challenge)
        if self._client is None:
            raise NotStartedError(self.error or "it has not answered yet")
        return self._client

    def _suspect(self, client: Client) -> None:
        """Have the owner look whether the connection that a call failed on is still good."""
        if client is self._client:
            self._client = None
            self._ready.clear()
            self._look.set()

    # The owner

    async def _keep(self) -> None:
        """Connect, again and again, until cancelled."""
        failures = 0
        while True:
            link, refused = self._link(), None
            begun = monotonic()
            try:
                await self._serve(link)
                why = ""
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                why = "the connection was given up"  # of the SDK's own making
            except BaseExceptionGroup as group:
                task = asyncio.current_task()
                if task is None or task.cancelling() or group.split((KeyboardInterrupt, SystemExit))[0] is not None:
                    raise
                first = _first_of(group)
                why, refused = self._told(first), self._challenge_of(first)
            except TimeoutError:
                why = f"no answer within {CONNECT_S:g} s"
            except Exception as error:
                why, refused = self._told(error), self._challenge_of(error)
            was_ready = self.condition == "ready"
            failures = 1 if was_ready and monotonic() - begun > _QUIET_S else failures + 1
            self.challenge = refused
            self._lost(link, why)
            metrics.mcp_losses.labels(self._server.name).inc()
            self._wanted.clear()
            await self._pause(failures, was_ready)

    async def _pause(self, failures: int, was_ready: bool) -> None:
        """Wait before the next attempt; a call that wants the server shortens a long wait."""
        if was_ready and failures == 1:
            return
        pause = min(_MAX_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(failures - 1, 12)) * random.uniform(0.5, 1.5)
        with suppress(TimeoutError):
            await asyncio.sleep(min(pause, 1.0))
            async with asyncio.timeout(max(0.0, pause - 1.0)):
                await self._wanted.wait()

    def _link(self) -> ServerLink:
        if self._server.command is not None:
            return ProgramLink(self._server, self._look.set)
        return HttpLink(self._server, self._guard, self._longest_s, self._bearer)

    async def _serve(self, link: ServerLink) -> None:
        """Connect, list the tools, and list them again whenever they may have changed, until the link ends."""
        self._look.clear()
        async with asyncio.timeout(CONNECT_S) as limit:
            client = Client(
                link.open(),
                message_handler=self._heard,
                client_info=Implementation(name="pentad", version="0.3.0"),
                read_timeout_seconds=CONNECT_S,
                elicitation_callback=_asks_in_the_old_way,
                cache=None,
            )
            async with client:
                await self._read_list(client)
                limit.reschedule(None)
                self._become_ready(client)
                tells = _tells(client)
                listening = asyncio.create_task(self._listen(client)) if tells else None
                try:
                    await self._watch(client, link, _POLL_TELLING_S if tells else POLL_S)
                finally:
                    if listening is not None:
                        listening.cancel()
                        await asyncio.gather(listening, return_exceptions=True)

    async def _watch(self, client: Client, link: ServerLink, poll_s: float) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(poll_s * random.uniform(0.8, 1.2)):
                    await self._look.wait()
            if link.has_ended:
                return
            await asyncio.sleep(_SETTLE_S if self._client is client else 0)
            self._look.clear()
            before = self.listed, self.cut
            await self._read_list(client)
            if self._client is not client:  # a call has failed, and the server is there all the same
                self._become_ready(client)
            elif (self.listed, self.cut) != before:
                self._changed()

    async def _listen(self, client: Client) -> None:
        """Listen for changes of the tools, which servers of the newer protocol tell to those who ask."""
        pause = _FIRST_PAUSE_S
        while True:
            try:
                async with client.listen(tools_list_changed=True) as changes:
                    self._look.set()  # what has changed before was not told
                    async for _ in changes:
                        pause = _FIRST_PAUSE_S
                        self._look.set()
            except ListenNotSupportedError:
                return
            except (MCPError, SubscriptionLost, TimeoutError, anyio.ClosedResourceError, anyio.BrokenResourceError):
                pass
            await asyncio.sleep(pause)
            pause = min(_MAX_PAUSE_S, pause * 2)

    async def _heard(self, message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._look.set()

    async def _read_list(self, client: Client) -> None:
        """Read the list of tools, as much of it as is bounded. Raises what the SDK raises."""
        found, size, cursor = list[ListedTool](), 0, None
        for _ in range(_MAX_PAGES):
            params = PaginatedRequestParams(cursor=cursor) if cursor is not None else None
            page = await client.session.list_tools(params=params)
            found += map(_listed, page.tools)
            size += sum(len(to_json(tool.input_schema)) for tool in page.tools)
            cursor = page.next_cursor
            if cursor is None or len(found) > _MAX_LISTED or size > _MAX_LISTED_BYTES:
                break
        self.listed, self.cut = tuple(found[:_MAX_LISTED]), cursor is not None or len(found) > _MAX_LISTED

    def _become_ready(self, client: Client) -> None:
        self._client, self.error, self.said, self.protocol = client, None, None, client.protocol_version
        self._become("ready")
        self.challenge = None
        self._was_ready = True
        self._ready.set()
        self._end_attempt()
        self._changed()

    def _end_attempt(self) -> None:
        self._tried.set()
        self._attempt.set()
        self._attempt = asyncio.Event()

    def _lost(self, link: ServerLink, why: str) -> None:
        if self._was_ready:
            self._lost_at, self._was_ready = monotonic(), False
        self._client = None
        self._ready.clear()
        if self.challenge is not None:
            self._ready.set()  # who waits need not: only a person changes this
        about = self.without_secrets(link.about())
        parts = [part for part in (why, about) if part]
        self.error = plain("; ".join(dict.fromkeys(parts)) or "it has ended", _MAX_WHY)
        self.said = plain(self.without_secrets(link.words()), _MAX_WHY) or None
        self._become("failing")
        self._end_attempt()
        said = "" if self.said is None else f"; it said: {self.said}"
        _say.warning(self._server.name, "the MCP server %r is not there: %s%s", self._server.name, self.error, said)
        self._changed()

    def _become(self, condition: ServerCondition) -> None:
        if condition != self.condition:
            self.condition, self.since = condition, _now()

    # What may be told

    def without_secrets(self, text: str) -> str:
        """Return a text in which the secrets of this connection are not."""
        for name, secret in self._hidden.items():
            if secret in text:
                text = text.replace(secret, f"[secret {name}]")
        for token in () if self._bearer is None else self._bearer.hidden():
            text = text.replace(token, _TOKEN_WORD)
        return text

    def _hiding(self, made: Artifact) -> Artifact:
        """Return a file in which the secrets of this connection are not."""
        data = made.data
        for name, secret in self._hidden.items():
            data = data.replace(secret.encode(), f"[secret {name}]".encode())
        for token in () if self._bearer is None else self._bearer.hidden():
            data = data.replace(token.encode(), _TOKEN_WORD.encode())
        return replace(made, data=data, name=self.without_secrets(made.name))

    def _challenge_of(self, error: BaseException) -> Challenge | None:
        """Return what a server that wants a person to sign in says of how; None for any other error."""
        if self._bearer is None or not isinstance(error, MCPError) or error.code != SIGN_IN:
            return None
        try:
            return Challenge.model_validate(error.data)
        except ValidationError:
            return None  # the server has made it

    def _told(self, error: BaseException) -> str:
        if isinstance(error, ValidationError):
            wrong = next(iter(complaints(error)), "")
            return plain(f"its answer does not fit the protocol: {self.without_secrets(wrong)}", _MAX_WHY)
        if isinstance(error, ProgramNotFoundError | MCPError):
            return plain(self.without_secrets(said_by(error)), _MAX_WHY)
        return plain(self.without_secrets(f"{said_by(error) or type(error).__name__}"), _MAX_WHY)


def _first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error in a group, and in the groups in it."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _tells(client: Client) -> bool:
    """Return whether a server tells of changes of its tools."""
    tools = client.server_capabilities.tools
    return tools is not None and bool(tools.list_changed)


def _listed(tool: Tool) -> ListedTool:
    hints = tool.annotations
    title = tool.title or (hints.title if hints is not None else None) or ""
    read_only = hints is not None and hints.read_only_hint is True
    idempotent = hints is not None and hints.idempotent_hint is True
    return ListedTool(tool.name, tool.description or title, tool.input_schema, read_only, idempotent)


def _now() -> str:
    return rfc3339(time_ns() // 1_000_000)
