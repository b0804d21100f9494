"""A child's side of the conversation: runs calls as tasks or in threads and answers each once."""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from inspect import isawaitable
from types import MappingProxyType
from typing import Any, cast

from pentad.contracts.tools import Artifact, OutcomeKind
from pentad.services.tool_worker.children.tool_frames import Frame, FrameWriter, Unpacker, context_from
from pentad.services.tool_worker.children.tool_output import flush_call_output, output_context
from pentad.services.tool_worker.tool_value import value_of
from pentad.shared.clipping import said_by
from pentad.shared.plugins.companions import CompanionDefinition
from pentad.shared.plugins.context import ToolContext
from pentad.shared.plugins.definition import ToolDefinition, ToolObject, companions_of
from pentad.shared.plugins.errors import InvalidArguments, SetupFailed, UnusableResult
from pentad.shared.plugins.hooks import HookDefinition
from pentad.shared.plugins.results import clean
from pentad.shared.settings import take_into_environment

MAX_BACKLOG = 1 << 20
"""Bytes waiting for the worker beyond which progress is dropped."""
MAX_UNSENT = 1_000
"""Progress messages of a tool that holds the loop; more are dropped."""
MAX_PROGRESS = 4_000
"""Characters of one progress message."""


_MAX_ERROR = 4_000

Callee = ToolDefinition | HookDefinition | CompanionDefinition
"""The tool or hook that a call runs, or a companion of a tool."""
Answer = tuple[OutcomeKind, str, tuple[Artifact, ...]]
"""``ok``, the result and the files that were made; or another kind, the reason, and none."""

CANCELLED: Answer = ("cancelled", "it was cancelled", ())
"""The answer of a call that was cancelled."""

_log = logging.getLogger("pentad.tools")


class CallServer(asyncio.Protocol):
    """Serves the worker until it says stop or hangs up."""

    def __init__(
        self,
        tools: Mapping[str, ToolDefinition],
        threads: int,
        hooks: Mapping[str, HookDefinition] = MappingProxyType({}),
    ) -> None:
        """``hooks``: by names with a dot, which no tool has."""
        self._tools, self._hooks = tools, hooks
        self._companions = companions_of(tools.values())
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="tool")
        self._tasks: dict[int, asyncio.Task[Any]] = {}
        self._threaded: set[int] = set()
        self._keeping: dict[int, str] = {}
        """Ids of the calls whose files are kept."""
        self._unpacker = Unpacker()
        self._unsent = 0

    @property
    def hangs(self) -> bool:
        """Whether a thread is still busy."""
        return bool(self._threaded)

    async def serve(self, connection: socket.socket) -> None:
        """Answers frames until the end. Tasks that still run are for the caller to cancel."""
        self._loop = asyncio.get_running_loop()
        self._over = self._loop.create_future()
        await self._loop.create_unix_connection(lambda: self, sock=connection)
        await self._over
        await close_objects(self._tools.values())
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._outbox.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Here and not after the connecting: what the worker has sent meanwhile is read first.
        self._outbox = FrameWriter(self._loop, cast(asyncio.Transport, transport))

    def data_received(self, data: bytes) -> None:
        for frame in self._unpacker.feed(data):
            self._read_frame(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        self._finish()

    def _finish(self) -> None:
        if not self._over.done():
            self._over.set_result(None)

    def _read_frame(self, frame: Frame) -> None:
        match frame[0]:
            case "call":
                self._call(*frame[1:])
            case "ping":
                self._outbox.send(["pong", frame[1]])
            case "cancel":
                self._cancel(frame[1])
            case "env":
                take_into_environment(frame[1])
            case "stop":
                self._finish()

    def _call(self, number: int, tool: str, args: dict[str, Any], told: list[Any], keeps: bool) -> None:
        definition: Callee | None = self._tools.get(tool) or self._hooks.get(tool) or self._companions.get(tool)
        if definition is None:  # the plugin's file changed after the worker had started
            self._answer(number, ("error", f"{tool!r} is gone from its plugin: restart the tool-worker", ()))
            return
        context = context_from(told, lambda text, fraction: self._progress(number, text, fraction))
        own = output_context(tool, context)
        if keeps:
            self._keeping[number] = context.tool_call_id
        if definition.belongs_to is not None and not definition.belongs_to.is_ready:
            self._make_ready(number, definition, definition.belongs_to, args, context, own)
        else:
            self._begin(number, definition, args, context, own)

    def _make_ready(
        self,
        number: int,
        definition: Callee,
        needed: ToolObject,
        args: dict[str, Any],
        context: ToolContext,
        own: Context,
    ) -> None:
        """Begin a call once the object is ready whose method it runs."""

        def go_on(done: asyncio.Task[None]) -> None:
            self._tasks.pop(number, None)
            if done.cancelled():
                self._answer(number, CANCELLED)
            elif (error := done.exception()) is not None:
                self._answer(number, failure(definition.spec.name, error, definition.word))
            else:
                self._begin(number, definition, args, context, own)

        task = self._loop.create_task(needed.ready(), context=own)
        self._tasks[number] = task
        task.add_done_callback(go_on)

    def _begin(self, number: int, definition: Callee, args: dict[str, Any], context: ToolContext, own: Context) -> None:
        if definition.is_async:
            self._start(
                number, _on_loop(definition, lambda: definition.call(args, context), self._keeping.get(number)), own
            )
        else:
            self._threaded.add(number)
            self._threads.submit(own.run, self._in_thread, number, definition, args, context)

    def _start(self, number: int, work: Any, own: Context) -> None:
        task = self._tasks[number] = self._loop.create_task(work, context=own)
        task.add_done_callback(lambda done: self._answer(number, _answer_of(done)))

    def _in_thread(self, number: int, definition: Callee, args: dict[str, Any], context: ToolContext) -> None:
        """Runs a plain function; one that returns an awaitable goes on on the loop."""
        try:
            value = definition.call(args, context)
            if isawaitable(value):
                self._loop.call_soon_threadsafe(self._go_on, number, definition, value, copy_context())
                return
            answer = success(definition.spec.name, value, self._keeping.get(number))
        except BaseException as error:  # as in _on_loop
            answer = failure(definition.spec.name, error, definition.word)
        flush_call_output()
        self._loop.call_soon_threadsafe(self._answer, number, answer)

    def _go_on(self, number: int, definition: Callee, value: Awaitable[Any], own: Context) -> None:
        self._threaded.discard(number)
        self._start(number, _on_loop(definition, lambda: value, self._keeping.get(number)), own)

    def _cancel(self, number: int) -> None:
        """Cancels a task; a thread cannot be stopped and answers when it ends."""
        if task := self._tasks.get(number):
            task.cancel()

    def _progress(self, number: int, text: str, fraction: float | None) -> None:
        """From the loop or any thread; arrives before the answer."""
        if self._unsent < MAX_UNSENT:
            self._unsent += 1
            frame = ["progress", number, clean(text[:MAX_PROGRESS]), fraction]
            self._loop.call_soon_threadsafe(self._send_progress, frame)

    def _send_progress(self, frame: Frame) -> None:
        self._unsent = max(0, self._unsent - 1)  # threads add without a lock: it may drift
        if self._outbox.backlog < MAX_BACKLOG:
            self._outbox.send(frame)

    def _answer(self, number: int, answer: Answer) -> None:
        self._tasks.pop(number, None)
        self._threaded.discard(number)
        self._keeping.pop(number, None)
        kind, text, artifacts = answer
        for made in artifacts:
            self._outbox.send_bytes(number, made.data)
        self._outbox.send(["done", number, kind, text, [[a.name, a.media_type, len(a.data)] for a in artifacts]])


async def close_objects(tools: Iterable[ToolDefinition]) -> None:
    """Close the objects whose methods these tools are, each once."""
    held = {id(tool.belongs_to): tool.belongs_to for tool in tools if tool.belongs_to is not None}
    await asyncio.gather(*(each.close() for each in held.values()))


async def _on_loop(definition: Callee, work: Callable[[], Awaitable[Any]], call: str | None) -> Answer:
    try:
        return success(definition.spec.name, await work(), call)
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # sys.exit() in a tool must not end the process
        return failure(definition.spec.name, error, definition.word)
    finally:
        flush_call_output()


def _answer_of(task: asyncio.Task[Answer]) -> Answer:
    return CANCELLED if task.cancelled() else task.result()


def success(tool: str, value: Any, call: str | None) -> Answer:
    """The answer of a tool that returned. ``call``: see `value_of`. Raises ``UnusableResult``."""
    made = value_of(tool, value, call)
    return "ok", made.text, made.artifacts


def failure(tool: str, error: BaseException, word: str = "tool") -> Answer:
    """The answer of a tool or hook that raised. The traceback goes to the log, for whoever wrote the tool."""
    if isinstance(error, InvalidArguments):
        return "refused", _cut(said_by(error)), ()
    if isinstance(error, SetupFailed | UnusableResult):
        return "error", _cut(said_by(error)), ()
    _log.warning("%s %s failed", word, tool, exc_info=error)
    told = f"{type(error).__name__}: {said_by(error)}".removesuffix(": ")
    return "error", _cut(f"{word} {tool!r} failed: {told}"), ()


def _cut(text: str) -> str:
    return clean(text if len(text) <= _MAX_ERROR else text[:_MAX_ERROR] + "...")
