"""Tools that a program hands over to ``pentad.start()``: they run in the program's own process, beside the services."""

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from inspect import isawaitable
from threading import Thread
from time import perf_counter
from types import MappingProxyType
from typing import Any

from pentad.contracts.tools import ToolOutcome, ToolSpec
from pentad.services.tool_worker.children.call_server import (
    CANCELLED,
    MAX_PROGRESS,
    Answer,
    close_objects,
    failure,
    success,
)
from pentad.services.tool_worker.sources import OnProgress, ToolInvocation
from pentad.shared.plugins.companions import CompanionDefinition
from pentad.shared.plugins.context import ToolContext
from pentad.shared.plugins.definition import ToolDefinition, companions_of
from pentad.shared.plugins.results import clean
from pentad.shared.settings import tool_environment

Runs = ToolDefinition | CompanionDefinition
"""The tool that a call runs, or a companion of it."""


class GivenTools:
    """A source of tools that may be closures, and methods of the program's own objects.

    They have the limits of other tools but one: nothing ends a plain function whose time is over, so its thread is
    left alone, and counts among the ``threads`` until it ends by itself.
    """

    quick = False

    def __init__(self, definitions: Sequence[ToolDefinition], threads: int) -> None:
        self._definitions = {definition.spec.name: definition for definition in definitions}
        self._companions = companions_of(definitions)
        self._threads = threads
        environment = tool_environment({name for definition in definitions for name in definition.env})
        self.tools: Mapping[str, ToolSpec] = MappingProxyType(
            {
                name: each.spec.model_copy(update={"missing_env": [v for v in each.env if v not in environment]})
                for name, each in self._definitions.items()
            }
        )

    async def start(self, changed: Callable[[], None]) -> None:
        """Make ready for calls: the tools themselves are here already."""
        self._free = asyncio.Semaphore(self._threads)

    async def stop(self, grace_s: float) -> None:
        """Close the objects whose methods are tools. Calls have ended by then."""
        await close_objects(self._definitions.values())

    async def run(self, invocation: ToolInvocation, on_progress: OnProgress, *, alone: bool = False) -> ToolOutcome:
        """Run one call. Every failure is an outcome; cancelling it cancels the tool."""
        definition = self._companions.get(invocation.name) or self._definitions[invocation.tool]
        begun = perf_counter()
        loop = asyncio.get_running_loop()
        context = replace(invocation.context, report=_LatestProgress(loop, on_progress))
        # A task of its own: what the tool does to it, cancelling included, is not done to us.
        running = loop.create_task(self._answer(definition, invocation.args, context, invocation.files_of))
        try:
            await asyncio.wait({running}, timeout=invocation.timeout_s)
        except asyncio.CancelledError:
            running.cancel()
            raise
        if not running.done():
            running.cancel()
            text = f"{invocation.tool}: no result within {invocation.timeout_s:g} s"
            return ToolOutcome("timeout", text, _ms(begun))
        kind, text, made = CANCELLED if running.cancelled() else running.result()
        return ToolOutcome(kind, text, _ms(begun), made=made)

    async def _answer(self, definition: Runs, args: dict[str, Any], context: ToolContext, call: str | None) -> Answer:
        try:
            if definition.belongs_to is not None:
                await definition.belongs_to.ready()
            if definition.is_async:
                return success(definition.spec.name, await definition.call(args, context), call)
            return await self._in_thread(definition, args, context, call)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # sys.exit() in a tool must not end the program
            return failure(definition.spec.name, error)

    async def _in_thread(
        self, definition: Runs, args: dict[str, Any], context: ToolContext, call: str | None
    ) -> Answer:
        """Run a plain function; one that returns an awaitable goes on on the loop.

        A daemon thread: one that hangs must not hold up the end of the program.
        """
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Any] = loop.create_future()

        def finish(value: Any, error: BaseException | None) -> None:
            self._free.release()
            if ended.done():
                return
            if error is None:
                ended.set_result(value)
            else:
                ended.set_exception(error)

        def work() -> None:
            value, wrong = None, None
            try:
                value = definition.call(args, context)
            except BaseException as error:
                wrong = error
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(finish, value, wrong)

        Thread(target=copy_context().run, args=(work,), name=f"tool {definition.spec.name}", daemon=True).start()
        value = await ended
        return success(definition.spec.name, await value if isawaitable(value) else value, call)


class _LatestProgress:
    """Tells on the loop what a tool says of itself, from whatever thread: the last of what it says faster than that."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_progress: OnProgress) -> None:
        self._loop, self._on_progress = loop, on_progress
        self._lock = threading.Lock()
        """A thread must not find that the loop will tell what it says while the loop is taking what was said before."""
        self._said: tuple[str, float | None] | None = None

    def __call__(self, text: str, fraction: float | None) -> None:
        told = clean(text[:MAX_PROGRESS]), fraction
        with self._lock:
            waits, self._said = self._said is not None, told
        if not waits:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        with self._lock:
            said, self._said = self._said, None
        if said is not None:
            self._on_progress(*said)


def _ms(begun: float) -> int:
    return round((perf_counter() - begun) * 1000)
