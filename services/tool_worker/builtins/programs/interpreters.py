"""The interpreters that programs run in: processes of ``pydantic-monty``, each used for one stretch of one program."""

import asyncio
from contextlib import AsyncExitStack

import pydantic_monty as monty
from pydantic_monty._binary import find_monty_binary

from pentad.contracts.suspensions import Resumption, Suspension
from pentad.services.tool_worker.builtins.programs.callable_tools import CallableTools
from pentad.services.tool_worker.builtins.programs.program_run import VERSION, ProgramLimits, ProgramRun
from pentad.services.tool_worker.builtins.programs.program_state import InterpreterLostError, ProgramEnd, ProgramState
from pentad.shared.errors import PentadError
from pentad.shared.sandbox.launcher import Launcher
from pentad.shared.sandbox.sandbox import landlock_here
from pentad.shared.sandbox.script_run import SandboxError

_PROGRAMS_AT_ONCE = 4
"""Programs that compute at once in one tool-worker; others wait, within the time of their call."""
_HANG_S = 5.0
"""Seconds beyond its own limits after which an interpreter is ended."""
_POLICY: monty.OSPolicy = {"sleep": "system", "sleep_system_max": float("inf")}
"""Sleeps are not cut short: too long ones are refused where they are asked for."""
_SETTLE_S = 0.2
"""Seconds in which the threads of the pool let go of Python after its end: a process that exits sooner may abort."""


class InterpreterError(PentadError):
    """Programs cannot be run here. The text says why, and what to do."""


class Interpreters:
    """A pool of interpreters. A process is used once, so no program finds anything of another.

    ``confined``: whether the kernel confines each, too. Raises ``InterpreterError`` where it cannot.
    """

    def __init__(self, tools: CallableTools, limits: ProgramLimits | None = None, *, confined: bool = True) -> None:
        self._tools, self._limits = tools, limits or ProgramLimits()
        self._opened = AsyncExitStack()
        longest = self._limits.stretch_s + _HANG_S
        self._launcher = _launcher(round(longest) + 1) if confined else None
        self._pool = monty.AsyncMonty(
            binary_path=None if self._launcher is None else self._launcher.path,
            max_processes=_PROGRAMS_AT_ONCE,
            max_checkouts_per_worker=1,
            request_timeout=longest,
        )

    async def open(self) -> None:
        """Start the first process and try it. Raises ``InterpreterError``."""
        try:
            await self._opened.enter_async_context(self._pool)
            async with self._pool.checkout() as session:
                works = await session.feed_run("6 * 7") == 42
        except (monty.MontyError, OSError, RuntimeError) as error:
            raise InterpreterError(f"its interpreter does not start: {error}; docs/sandbox.md") from error
        if not works:
            raise InterpreterError("its interpreter does not calculate: install pydantic-monty again")

    async def aclose(self) -> None:
        """End all processes."""
        await self._opened.aclose()
        if self._launcher is not None:
            await asyncio.to_thread(self._launcher.remove)
        await asyncio.sleep(_SETTLE_S)

    async def stretch(self, code: str, resumed: Resumption | None) -> Suspension | ProgramEnd:
        """Run a program until it needs calls or has ended. Cancelling this ends its process.

        Raises ``ProgramFailedError``, ``InterpreterLostError``, and ``UnkeepableProgramError`` for a program that
        cannot go on from what was kept of it.
        """
        state = ProgramState(version=VERSION)
        if resumed is not None:
            state = ProgramState.read(resumed.state, VERSION)
        if self._launcher is not None:
            self._launcher.keep()
        try:
            limits = self._limits.for_interpreter(state.seconds)
            async with self._pool.checkout(limits=limits, os_policy=_POLICY) as session:
                run = ProgramRun(session, code, self._tools, state)
                return await run.go(None if resumed is None else resumed.results or ())
        except monty.MontyCrashedError as error:
            raise InterpreterLostError(f"the interpreter of the program was lost: {error}") from None


def _launcher(cpu_s: int) -> Launcher:
    """Return the program that confines itself and becomes the interpreter. Raises ``InterpreterError``."""
    if not landlock_here():
        raise InterpreterError("the kernel has no Landlock, or has it turned off: docs/sandbox.md")
    try:
        return Launcher(find_monty_binary(), cpu_s)
    except (SandboxError, OSError) as error:
        raise InterpreterError(f"its interpreter cannot be confined: {error}; docs/sandbox.md") from error
