"""The tool by which a model calls its other tools from a program: each call is one of Pentad, and the program waits.

While its calls are made nothing of it runs: its state is kept with its own call, from which any worker goes on.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from importlib import import_module
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated

from pydantic import Field
from pydantic_core import to_json

from pentad.contracts.suspensions import Suspension
from pentad.contracts.tools import Effect, OutcomeKind, ToolOutcome, ToolSpec
from pentad.services.tool_worker.builtins.programs.callable_tools import CallableTools
from pentad.services.tool_worker.builtins.programs.program_state import (
    InterpreterLostError,
    ProgramEnd,
    ProgramFailedError,
    UnkeepableProgramError,
)
from pentad.services.tool_worker.sources import OnProgress, ToolInvocation
from pentad.shared.clipping import clip
from pentad.shared.errors import PentadError
from pentad.shared.plugins.definition import ToolDefinition
from pentad.shared.plugins.errors import InvalidArguments
from pentad.shared.plugins.registry import define
from pentad.shared.store.store import Store

if TYPE_CHECKING:
    from pentad.services.tool_worker.builtins.programs.interpreters import Interpreters

log = logging.getLogger(__name__)
_INTERPRETERS = "pentad.services.tool_worker.builtins.programs.interpreters"
"""The module that imports the interpreter: an extra, which a small image does not have."""
_NOT_INSTALLED = "the package pydantic-monty is not installed where the tool-worker runs: pip install 'pentad[code]'"
MAX_CODE_CHARS = 32 * 1024
"""Characters of a program."""
_MAX_RESULT_BYTES = 128 * 1024
"""Bytes of a program's result, as JSON."""
_TIMEOUT_S = 60.0
"""Seconds from a program's beginning, or from the results of its calls, to its next calls or its end."""


def run_program(code: Annotated[str, Field(min_length=1, max_length=MAX_CODE_CHARS)]) -> None:
    """Runs a Python program that calls your other tools, when a task takes several calls, or results that need work.

    Every tool of yours is a function of its own name: w = get_weather(place="Paris"). Several calls at once:
    a, b = await asyncio.gather(get_weather(place="Paris"), get_weather(place="Oslo")), after import asyncio. A result
    that is JSON comes parsed, any other as text. A failed call raises RuntimeError with the reason. For a name that
    is no identifier: call_tool("the-name", place="Paris"). The value of the last expression and what is printed is
    what you are told. There are json, re, math, datetime and collections; no files, network or other packages.

    Args:
        code: The whole program.
    """


class ProgramTool:
    """A source of one tool, ``run_program``. It is there once the start has shown that its interpreter works."""

    quick = False

    def __init__(self, store: Store, *, confined: bool = True) -> None:
        """``confined``: whether the kernel confines the interpreter, too."""
        self._store, self._confined = store, confined
        self._definition: ToolDefinition = define(run_program, effect=Effect.PURE, timeout=_TIMEOUT_S)
        self._interpreters: Interpreters | None = None
        self.tools: Mapping[str, ToolSpec] = MappingProxyType({})

    async def start(self, changed: Callable[[], None]) -> None:
        """Start the interpreter; where there is none, the log says why and there is no tool."""
        try:
            module = await asyncio.to_thread(import_module, _INTERPRETERS)
        except ModuleNotFoundError as error:
            if error.name != "pydantic_monty":
                raise
            log.warning("run_program is not offered: %s", _NOT_INSTALLED)
            return
        try:
            interpreters: Interpreters = module.Interpreters(CallableTools(self._store), confined=self._confined)
            self._interpreters = interpreters
            await interpreters.open()
        except PentadError as error:
            log.warning("run_program is not offered: %s", error)
            await self.stop(0)
            return
        self.tools = MappingProxyType({self._definition.spec.name: self._definition.spec})

    async def stop(self, grace_s: float) -> None:
        """End what runs."""
        if self._interpreters is not None:
            await self._interpreters.aclose()
            self._interpreters = None

    async def run(self, invocation: ToolInvocation, on_progress: OnProgress, *, alone: bool = False) -> ToolOutcome:
        """Run one stretch of a program. Every failure is an outcome; one whose process was lost runs once more."""
        assert self._interpreters is not None
        name, begun = invocation.tool, perf_counter()

        def outcome(kind: OutcomeKind, text: str, suspension: Suspension | None = None) -> ToolOutcome:
            return ToolOutcome(kind, text, round((perf_counter() - begun) * 1000), suspension=suspension)

        try:
            code = self._definition.validate(invocation.args)["code"]
            running = self._interpreters.stretch(code, invocation.resumed)
            end = await asyncio.wait_for(running, invocation.timeout_s)
        except InvalidArguments as error:
            return outcome("error", str(error))
        except (UnkeepableProgramError, ProgramFailedError) as error:
            return outcome("error", f"{name}: {error}")
        except InterpreterLostError as error:
            return outcome("crashed" if alone else "interrupted", f"{name}: {error}")
        except TimeoutError:
            return outcome("timeout", f"{name}: it has neither ended nor made a call within {invocation.timeout_s:g} s")
        if isinstance(end, Suspension):
            return outcome("suspended", "", end)
        return outcome("ok", _told(end))


def _told(end: ProgramEnd) -> str:
    """Return what a model is told of a program that has ended."""
    result = clip(end.result, _MAX_RESULT_BYTES)
    if result is not end.result:
        result = to_json(f"{result} [cut: longer than {_MAX_RESULT_BYTES} bytes]").decode()
    printed = f',"printed":{to_json(end.printed).decode()}' if end.printed else ""
    return f'{{"result":{result}{printed}}}'
