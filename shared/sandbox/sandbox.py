"""Runs scripts of models: each in a process of its own, forked from a warm interpreter and confined by the kernel."""

import asyncio
import json
import sys
from dataclasses import asdict, dataclass, replace
from tempfile import NamedTemporaryFile
from typing import Any

from pentad.shared.sandbox.interpreter import Interpreter
from pentad.shared.sandbox.limits import MAX_ARGS_BYTES, MAX_CODE_BYTES, SCRIPTS_AT_ONCE, ScriptLimits
from pentad.shared.sandbox.script_run import SandboxError, ScriptEnd, ScriptLostError, ScriptRun
from pentad.shared.sandbox.workspace import left_files, make_home, make_workspace, remove

_PROBE_S = 20.0
_PROBE = """
import os, socket
def refused(attempt, *args):
    try:
        attempt(*args)
    except (PermissionError, FileNotFoundError):
        return True
    return False
with open("own", "w") as file:
    file.write("x")
result = [refused(open, args), refused(socket.socket), refused(os.fork)]
"""
"""A script that tells whether it is confined: it can write in its own folder, and reads no file elsewhere, has no
socket, and starts no process."""


def landlock_here() -> int:
    """Return the version of Landlock that the kernel has; 0 where it has none, and on other systems."""
    if sys.platform != "linux":
        return 0
    from pentad.shared.sandbox.kernel import landlock_version

    return landlock_version()


@dataclass(frozen=True, slots=True)
class Confining:
    """How scripts are confined here. ``landlock``: version in use, 0 for none."""

    landlock: int
    namespaces: bool

    @property
    def words(self) -> str:
        """How, in words."""
        parts = [f"Landlock {self.landlock}"] * bool(self.landlock) + ["seccomp"] + ["bubblewrap"] * self.namespaces
        return ", ".join(parts)


_NOT_PROVED = Confining(0, namespaces=False)


class Sandbox:
    """Runs scripts, a few at once. The interpreter that they are forked from is started when the first one comes.

    ``confined``: whether the kernel confines them; else they run as this user, with bounds of time and memory alone.
    ``landlock_at_most``: pretends that the kernel has no later version. ``bubblewrap``: where that program is; None:
    it is not used.
    """

    def __init__(
        self,
        limits: ScriptLimits | None = None,
        *,
        confined: bool = True,
        at_once: int = SCRIPTS_AT_ONCE,
        landlock_at_most: int | None = None,
        bubblewrap: str | None = None,
    ) -> None:
        self._limits, self._confined, self._at_once = limits or ScriptLimits(), confined, at_once
        self._landlock_at_most, self._bubblewrap = landlock_at_most, bubblewrap
        self._confining = _NOT_PROVED
        self._slots = asyncio.Semaphore(at_once)
        self._home: str | None = None
        self._interpreter: Interpreter | None = None

    @property
    def is_confined(self) -> bool:
        """Whether the kernel confines scripts."""
        return self._confined

    @property
    def home(self) -> str | None:
        """The folder in which running scripts have theirs; None before the first."""
        return self._home

    @property
    def interpreter(self) -> int | None:
        """The process from which scripts are forked; None before the first."""
        return None if self._interpreter is None else self._interpreter.pid

    async def prove(self) -> Confining:
        """Find out how scripts can be confined here, by running one. Raises ``SandboxError`` where they cannot be."""
        landlock = landlock_here() if self._landlock_at_most is None else min(landlock_here(), self._landlock_at_most)
        tries = [Confining(landlock, namespaces=True)] if self._bubblewrap else []
        tries += [Confining(landlock, namespaces=False)] if landlock else []
        reasons = [] if landlock else ["the kernel has no Landlock, or has it turned off"]
        if not self._bubblewrap:
            reasons.append("bubblewrap is not there")
        for each in tries:
            if (reason := await self._tried(each)) is None:
                return each
            reasons.append(f"with {each.words}: {reason}")
        raise SandboxError(
            f"scripts cannot be confined here: {'; '.join(reasons)}. They need Linux 5.13 or newer with Landlock "
            "(`lsm=` on the kernel's command line must name it), or bubblewrap where user namespaces are allowed, and "
            "a seccomp profile that allows `seccomp` and `landlock_*`"
        )

    async def _tried(self, confining: Confining) -> str | None:
        """Return why scripts are not confined so; None if they are."""
        await asyncio.to_thread(self._end_interpreter)
        self._confining = confining
        self._slots = asyncio.Semaphore(self._at_once if confining.landlock else 1)  # else they see each other's files
        try:
            with NamedTemporaryFile() as elsewhere:
                end = await asyncio.wait_for(self._run_within(ScriptLimits(), _PROBE, elsewhere.name), _PROBE_S)
        except (SandboxError, ScriptLostError, OSError) as error:
            return str(error)
        except TimeoutError:
            return f"a script did not end within {_PROBE_S:g} s"
        if end.kind != "ok" or end.result != [True, True, True]:
            return end.error or f"a script was not refused what it must be: {end.result}"
        return None

    async def run(self, code: str, args: Any = None) -> ScriptEnd:
        """Run a script to its end. Raises ``ScriptLostError`` when its process is lost, ``SandboxError`` without one.

        Cancelling this ends the script.
        """
        return await self._run_within(self._limits, code, args)

    async def _run_within(self, limits: ScriptLimits, code: str, args: Any) -> ScriptEnd:
        if len(code.encode(errors="replace")) > MAX_CODE_BYTES:
            return ScriptEnd("error", error=f"the code has more than {MAX_CODE_BYTES} bytes: make it shorter")
        if len(json.dumps(args, ensure_ascii=False).encode(errors="replace")) > MAX_ARGS_BYTES:
            return ScriptEnd("error", error=f"the arguments have more than {MAX_ARGS_BYTES} bytes of JSON: give less")
        job = json.dumps({"code": code, "args": args}).encode()
        async with self._slots:
            if self._home is None:
                self._home = await asyncio.to_thread(make_home)
            folder = await asyncio.to_thread(make_workspace, self._home)
            try:
                return await self._run(limits, job, folder)
            finally:
                await asyncio.shield(asyncio.to_thread(remove, folder))

    async def _run(self, limits: ScriptLimits, job: bytes, folder: str) -> ScriptEnd:
        run = ScriptRun(limits)
        try:
            end = await self._followed(run, limits, job, folder)
        finally:
            run.close()
        files = await asyncio.to_thread(left_files, folder, limits.creations, limits.kept_bytes)
        return replace(end, files=files)

    async def _followed(self, run: ScriptRun, limits: ScriptLimits, job: bytes, folder: str) -> ScriptEnd:
        """Begin a script and wait for its end. An interpreter that has died is replaced when the next one comes."""
        if self._confined and self._confining == _NOT_PROVED:
            raise SandboxError("it is not known yet how scripts can be confined here: await prove() first")
        asked = {
            "folder": folder,
            "limits": asdict(limits),
            "confined": self._confined,
            "landlock": self._confining.landlock,
        }
        request = json.dumps(asked).encode()
        if self._interpreter is None:
            assert self._home is not None
            around = self._bubblewrap if self._confining.namespaces else None
            self._interpreter = Interpreter(self._home, around)
        interpreter = self._interpreter
        try:
            run.hand_over(job, lambda ends: interpreter.ask(request, ends))
            return await run.ended()
        except ScriptLostError as error:
            if self._interpreter is not interpreter:  # another script has been lost with it, and said so
                raise
            said = interpreter.last_words()
            self._end_interpreter()
            raise ScriptLostError(f"{error}: {said}" if said else str(error)) from None

    def _end_interpreter(self) -> None:
        interpreter, self._interpreter = self._interpreter, None
        if interpreter is not None:
            interpreter.end()

    async def aclose(self) -> None:
        """End what runs, and remove every folder."""
        await asyncio.to_thread(self._end_interpreter)
        if self._home is not None:
            await asyncio.to_thread(remove, self._home)
            self._home = None
