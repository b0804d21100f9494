"""The interpreters that programs run in: processes of ``pydantic-monty``, each used for one stretch of one program."""

from contextlib import AsyncExitStack

import pydantic_monty as monty

from pentad.contracts.suspensions import Resumption, Suspension
from pentad.services.tool_worker.builtins.programs.callable_tools import CallableTools
from pentad.services.tool_worker.builtins.programs.program_run import VERSION, ProgramLimits, ProgramRun
from pentad.services.tool_worker.builtins.programs.program_state import InterpreterLostError, ProgramEnd, ProgramState
from pentad.shared.errors import PentadError

_PROGRAMS_AT_ONCE = 4
"""Programs that compute at once in one tool-worker; others wait, within the time of their call."""
_HANG_S = 5.0
"""Seconds beyond its own limits after which an interpreter is ended."""


class InterpreterError(PentadError):
    """Programs cannot be run here. The text says why, and what to do."""


class Interpreters:
    """A pool of interpreters. A process is used once, so no program finds anything of another.

    ``program``: the interpreter's program, or one that confines itself and becomes it; None: as it was installed.
    """

    def __init__(self, tools: CallableTools, limits: ProgramLimits | None = None, program: str | None = None) -> None:
        self._tools, self._limits = tools, limits or ProgramLimits()
        self._opened = AsyncExitStack()
        self._pool = monty.AsyncMonty(
            binary_path=program,
            max_processes=_PROGRAMS_AT_ONCE,
            max_checkouts_per_worker=1,
            request_timeout=self._limits.stretch_s + _HANG_S,
        )

    async def open(self) -> None:
        """Start the first process and try it. Raises ``InterpreterError``."""
        try:
            await self._opened.enter_async_context(self._pool)
            async with self._pool.checkout() as session:
                works = await session.feed_run("6 * 7") == 42
        except (monty.MontyError, OSError, RuntimeError) as error:
            raise InterpreterError(f"its interpreter does not start: {error}") from error
        if not works:
            raise InterpreterError("its interpreter does not calculate: install pydantic-monty again")

    async def aclose(self) -> None:
        """End all processes."""
        await self._opened.aclose()

    async def stretch(self, code: str, resumed: Resumption | None) -> Suspension | ProgramEnd:
        """Run a program until it needs calls or has ended. Cancelling this ends its process.

        Raises ``ProgramFailedError``, ``InterpreterLostError``, and ``UnkeepableProgramError`` for a program that
        cannot go on from what was kept of it.
        """
        state = ProgramState(version=VERSION)
        if resumed is not None:
            state = ProgramState.read(resumed.state, VERSION)
        try:
            async with self._pool.checkout(limits=self._limits.for_interpreter(state.seconds)) as session:
                run = ProgramRun(session, code, self._tools, state)
                return await run.go(None if resumed is None else resumed.results or ())
        except monty.MontyCrashedError as error:
            raise InterpreterLostError(f"the interpreter of the program was lost: {error}") from None
