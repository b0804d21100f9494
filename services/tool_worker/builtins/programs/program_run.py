"""One stretch of a program: from its beginning, or from the results of its calls, to its next calls or its end."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import pydantic_monty as monty

from pentad.contracts.suspensions import (
    MAX_INNER_CALLS,
    MAX_INNER_ROUNDS,
    MAX_MESSAGE,
    InnerCall,
    InnerResult,
    Suspension,
)
from pentad.services.tool_worker.builtins.programs.awaited_calls import Span, awaited_calls
from pentad.services.tool_worker.builtins.programs.call_values import (
    UnfitArgumentsError,
    json_of,
    named_arguments,
    value_of,
)
from pentad.services.tool_worker.builtins.programs.callable_tools import CallableTools
from pentad.services.tool_worker.builtins.programs.program_state import (
    ProgramCall,
    ProgramEnd,
    ProgramFailedError,
    ProgramState,
    UnkeepableProgramError,
)
from pentad.shared.clipping import clip, visible

CALL_TOOL = "call_tool"
"""Function of programs that calls a tool whose name is no word of Python."""
VERSION = monty.__version__
"""Version of the interpreter that this process has."""
_FLOOD_BYTES = 256 * 1024
"""Bytes that one stretch may print."""
_PRINTED_BYTES = 32 * 1024
"""Bytes of what a program prints that are kept."""
_ERROR_CHARS = 4_000
_SLEEP_S = 10.0
"""Seconds that a program may sleep in one stretch."""
_SLEEPS = frozenset({"system.sleep", "system.async_sleep"})

_Call = monty.AsyncFunctionSnapshot
_Paused = monty.AsyncFunctionSnapshot | monty.AsyncFutureSnapshot
_Answer = monty.ExternalReturnValue | monty.ExternalExceptionData


@dataclass(frozen=True, slots=True)
class ProgramLimits:
    """How much one program may use."""

    stretch_s: float = 10.0
    """Seconds that it may compute between two calls."""
    total_s: float = 60.0
    """Seconds that it may compute altogether."""
    memory_bytes: int = 64 * 1024 * 1024
    depth: int = 400
    """Calls of its own functions within each other."""

    def for_interpreter(self, used_s: float) -> monty.ResourceLimits:
        """Return what the interpreter holds a program to that has computed for so many seconds."""
        left = max(0.001, min(self.stretch_s, self.total_s - used_s))
        return {
            "max_feed_duration_secs": left,
            "max_memory": self.memory_bytes,
            "max_recursion_depth": self.depth,
            "max_suspensions": 1_000,
        }


@dataclass(slots=True)
class ProgramRun:
    """A program in a fresh interpreter, ``session``, with what is known of its earlier stretches."""

    session: monty.AsyncMontySession
    code: str
    tools: CallableTools
    state: ProgramState
    awaited: frozenset[Span] = field(init=False)
    made: Counter[str] = field(init=False)
    begun: list[ProgramCall] = field(init=False)
    slept_s: float = 0.0
    output: monty.CollectString = field(init=False)
    """Text that this stretch has printed."""

    def __post_init__(self) -> None:
        self.awaited, self.made = awaited_calls(self.code), Counter(self.state.made)
        self.begun = list(self.state.begun)
        self.output = monty.CollectString(_FLOOD_BYTES)

    async def go(self, results: Sequence[InnerResult] | None) -> Suspension | ProgramEnd:
        """Run until the program needs calls or has ended. Raises ``ProgramFailedError``, and ``MontyCrashedError`` when
        the interpreter is lost otherwise than by a step without end.

        ``results``: those of the calls that it waits for; None for a program that begins.
        """
        begun = perf_counter()
        try:
            snapshot = await (self._begun() if results is None else self._resumed(results))
            while not isinstance(snapshot, monty.MontyComplete):
                if isinstance(snapshot, monty.AsyncFutureSnapshot):
                    return await self._suspension(snapshot, self._next_awaited(snapshot.pending_call_ids), begun)
                if isinstance(snapshot, monty.AsyncNameLookupSnapshot):
                    snapshot = await self._looked_up(snapshot)
                elif snapshot.is_os_function:
                    snapshot = await self._of_system(snapshot)
                else:
                    call = await self._read(snapshot)
                    if not isinstance(call, ProgramCall):
                        snapshot = await snapshot.resume(call)
                    elif self._is_awaited(snapshot):
                        self.begun.append(call)
                        snapshot = await snapshot.resume({"future": ...})
                    else:
                        return await self._suspension(snapshot, [call], begun)
            return await self._end(snapshot.output)
        except monty.MontyCrashedError as lost:
            if not lost.timed_out:
                raise
            raise self._failed("TimeoutError: it computes for longer than it may, in one step of its own") from None
        except monty.MontyError as error:
            raise self._failed(_told(error)) from None
        except UnkeepableProgramError as error:
            raise self._failed(str(error)) from None

    async def _begun(self) -> monty.AsyncSnapshot:
        return await self.session.feed_start(self.code, print_callback=self.output)

    async def _resumed(self, results: Sequence[InnerResult]) -> monty.AsyncSnapshot:
        """Go on from what was kept, with the results of the calls that the program waits for."""
        asked = self.state.asked
        if len(results) != len(asked):
            raise UnkeepableProgramError(f"it waits for {len(asked)} results and has got {len(results)}: run it again")
        snapshot = await self.session.load_snapshot(self.state.unpacked, print_callback=self.output)
        answers = {number: _answer(result) for number, result in zip(asked, results, strict=True)}
        if isinstance(snapshot, monty.AsyncFutureSnapshot):
            return await snapshot.resume({**answers})
        if not isinstance(snapshot, monty.AsyncFunctionSnapshot):
            raise UnkeepableProgramError("what was kept of the program does not wait for a call: run it again")
        return await snapshot.resume(answers[snapshot.call_id])

    async def _looked_up(self, snapshot: monty.AsyncNameLookupSnapshot) -> monty.AsyncSnapshot:
        """A name that the program has not defined is a tool, to be kept or handed on as a function, or a mistake."""
        name = snapshot.variable_name
        if name != CALL_TOOL and await self.tools.parameters_of(name) is None:
            return await snapshot.resume()

        def tool() -> None:
            """Stand for the tool: the interpreter keeps the name alone."""

        tool.__name__ = name
        return await snapshot.resume(value=tool)

    async def _of_system(self, snapshot: _Call) -> monty.AsyncSnapshot:
        """Sleep for a program; all else that it asks of a system is not there."""
        if snapshot.function_name not in _SLEEPS:
            return await snapshot.resume_not_handled()
        seconds = float(snapshot.args[0])
        if not 0 <= seconds <= _SLEEP_S - self.slept_s:
            why = f"a program may sleep {_SLEEP_S:g} s between two calls of tools, no longer"
            return await snapshot.resume({"exc_type": "RuntimeError", "message": why})
        self.slept_s += seconds
        await asyncio.sleep(seconds)
        return await snapshot.resume({"return_value": None})

    async def _read(self, snapshot: _Call) -> ProgramCall | monty.ExternalExceptionData:
        """Return the call that the program makes, or the error that it gets in its place."""
        name, positional = str(snapshot.function_name), list(snapshot.args)
        if name == CALL_TOOL:
            if not positional or not isinstance(positional[0], str):
                return {"exc_type": "TypeError", "message": f"{CALL_TOOL}() takes the name of a tool first"}
            name = positional.pop(0)
        parameters = await self.tools.parameters_of(name)
        if parameters is None:
            return {"exc_type": "NameError", "message": f"name {name[:64]!r} is not defined, and no tool has it"}
        try:
            args = named_arguments(name, positional, snapshot.kwargs, parameters)
        except UnfitArgumentsError as error:
            return {"exc_type": "TypeError", "message": str(error)}
        if sum(self.made.values()) + len(self.begun) >= MAX_INNER_ROUNDS:
            raise UnkeepableProgramError(f"it has made {MAX_INNER_ROUNDS} calls, and may make no more")
        return ProgramCall(id=snapshot.call_id, tool=name, args=args)

    def _is_awaited(self, snapshot: _Call) -> bool:
        at = snapshot.position
        return snapshot.allow_eager_await or (at.start, at.end) in self.awaited

    def _next_awaited(self, pending: Sequence[int]) -> list[ProgramCall]:
        """Take the calls that are made next out of those that the program awaits."""
        chosen = [call for call in self.begun if call.id in pending][:MAX_INNER_CALLS]
        if not chosen:
            raise UnkeepableProgramError("it awaits something that is no call of a tool")
        self.begun = [call for call in self.begun if call not in chosen]
        return chosen

    async def _suspension(self, snapshot: _Paused, calls: Sequence[ProgramCall], since: float) -> Suspension:
        """Return what the program needs, with the state from which it goes on."""
        self.made.update(call.tool for call in calls)
        state = ProgramState(
            version=VERSION,
            asked=[call.id for call in calls],
            begun=self.begun,
            made=dict(self.made),
            printed=self._printed(),
            seconds=self.state.seconds + perf_counter() - since - self.slept_s,
        )
        try:
            kept = await asyncio.to_thread(lambda: state.with_dump(snapshot.dump()))
        except UnkeepableProgramError:
            self.made.subtract(call.tool for call in calls)
            raise
        wanted = [InnerCall(tool=call.tool, args=call.args) for call in calls]
        words = f"it waits for {', '.join(dict.fromkeys(call.tool for call in calls))}"
        return Suspension(needs="calls", message=words[:MAX_MESSAGE], state=kept, calls=wanted)

    async def _end(self, output: Any) -> ProgramEnd:
        """Return the end: the value of the last expression, else of the variable ``result``."""
        if self.begun:
            names = ", ".join(dict.fromkeys(call.tool for call in self.begun))
            raise self._failed(f"it has ended without awaiting its calls of {names}, which were not made: await them")
        if output is None:
            try:
                output = await self.session.feed_run("result", print_callback=self.output)
            except monty.MontyRuntimeError:  # there is none
                output = None
        return ProgramEnd(json_of(output, _shown), self._printed())

    def _printed(self) -> str:
        """Return what was printed in all stretches, as much as is kept."""
        text = self.state.printed + visible(self.output.output)
        shown = clip(text, _PRINTED_BYTES)
        return text if shown is text else f"{shown}\n[cut: longer than {_PRINTED_BYTES} bytes]"

    def _failed(self, why: str) -> ProgramFailedError:
        """Return the failure, with what a model needs to know before it tries again."""
        told = [why]
        if made := {tool: times for tool, times in self.made.items() if times}:
            calls = ", ".join(f"{tool} ({times})" for tool, times in made.items())
            told.append(f"Calls that it had made before, which are not undone: {calls}")
        if printed := self._printed():
            told.append(f"It had printed:\n{printed}")
        return ProgramFailedError("\n\n".join(told))


def _answer(result: InnerResult) -> _Answer:
    """Return a call's result as the program gets it: a failed call raises in it."""
    if result.ok:
        return {"return_value": value_of(result)}
    return {"exc_type": "RuntimeError", "message": result.text}


def _shown(value: Any) -> Any:
    """Return what stands for a value of a program that JSON has not: the attributes of an object, else its text."""
    return value.attributes if isinstance(value, monty.MontyClassProxy) else str(value)


def _told(error: monty.MontyError) -> str:
    shown = error.display() if isinstance(error, monty.MontyRuntimeError | monty.MontySyntaxError) else str(error)
    text = visible(shown).strip()
    half = _ERROR_CHARS // 2
    return text if len(text) <= _ERROR_CHARS else f"{text[:half]}\n[...]\n{text[-half:]}"
