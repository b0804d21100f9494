"""One script from the request to its end: what it prints, returns and asks for is read as it comes, with bounds."""

import asyncio
import json
import os
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from pentad.shared.child_processes import ending
from pentad.shared.clipping import clip, visible
from pentad.shared.errors import PentadError
from pentad.shared.sandbox.creations import Creations
from pentad.shared.sandbox.limits import ScriptLimits
from pentad.shared.sandbox.workspace import ScriptFile

_CHUNK = 65_536
_MESSAGE_BYTES = 4_096
_START_S = 20.0
"""Seconds beyond a script's own that it may take until it begins and until its end is told."""


class SandboxError(PentadError):
    """Scripts cannot be run here. The text says why, and what to do."""


class ScriptLostError(PentadError):
    """The process of a script was lost through no fault of the script: it may run again."""


EndKind = Literal["ok", "error", "timeout"]


@dataclass(frozen=True, slots=True)
class ScriptEnd:
    """The outcome of a script."""

    kind: EndKind
    result: Any = None
    """The result of the script, as JSON values."""
    error: str = ""
    """Why it failed: the traceback, or the bound that it has met."""
    printed: str = ""
    """The text that it has printed, in a form that a terminal can show."""
    files: Sequence[ScriptFile] = ()
    """Files that it has left in its folder."""


class ScriptRun:
    """The ends of one script's pipes, and what was read from them."""

    def __init__(self, limits: ScriptLimits) -> None:
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._setup, self._their_setup = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._setup.setblocking(False)
        self._printed_end, their_printed = os.pipe()
        self._result_end, their_result = os.pipe()
        self._theirs = [their_printed, their_result]
        self._descriptors = [self._printed_end, self._result_end]
        """File descriptors of ours that are open."""
        for end in self._descriptors:
            os.set_blocking(end, False)
        self._printed, self._result = bytearray(), bytearray()
        self._flooded = 0
        self._process: int | None = None
        """The pidfd of the script."""
        self._broken: tuple[EndKind, str] | None = None
        """The bound at which the script was ended from here."""
        self._timer: asyncio.TimerHandle | None = None
        """Ends the script in time; runs from its beginning."""
        self._told: asyncio.Future[str] = self._loop.create_future()

    def hand_over(self, job: bytes, send: Callable[[list[int]], None]) -> None:
        """Give the script's process its ends, by ``send``."""
        held = os.memfd_create("job", os.MFD_CLOEXEC)
        try:
            with open(held, "wb", closefd=False) as file:
                file.write(job)
            os.lseek(held, 0, os.SEEK_SET)
            send([held, *self._theirs, self._their_setup.fileno()])
        finally:
            os.close(held)

    async def ended(self) -> ScriptEnd:
        """Wait for the end. Raises ``ScriptLostError`` when its process was lost, ``SandboxError`` when none began."""
        self._let_go()
        self._loop.add_reader(self._setup, self._hear)
        self._loop.add_reader(self._printed_end, self._read_printed)
        self._loop.add_reader(self._result_end, self._read_result)
        try:
            async with asyncio.timeout(self._limits.wall_s + _START_S):
                return self._outcome(await self._told)
        except TimeoutError:
            raise ScriptLostError("the interpreter that scripts are forked from does not answer") from None
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def _outcome(self, told: str) -> ScriptEnd:
        word, _, rest = told.partition(" ")
        if word == "failed":
            raise SandboxError(f"the process of a script could not be confined: {rest}")
        if word != "ended":
            raise ScriptLostError("the interpreter that scripts are forked from has ended")
        self._read_printed()
        self._read_result()
        printed = self._shown()
        if self._broken is not None:
            return ScriptEnd(self._broken[0], error=self._broken[1], printed=printed)
        return self._read(int(rest), printed)

    def _read(self, code: int, printed: str) -> ScriptEnd:
        said: Any = None
        if code == 0:
            with suppress(ValueError, RecursionError):  # a script can write there what it likes
                said = json.loads(bytes(self._result))
        if not isinstance(said, dict):
            return ScriptEnd("error", error=_ending(code, self._limits), printed=printed)
        if "error" in said:
            return ScriptEnd("error", error=visible(clip(str(said["error"]), _CHUNK)), printed=printed)
        return ScriptEnd("ok", said.get("result"), printed=printed)

    def _shown(self) -> str:
        limit = self._limits.printed_bytes
        text = visible(bytes(self._printed[:limit]).decode(errors="replace"))
        cut = len(self._printed) + self._flooded - limit
        return f"{text}\n[cut: {cut} more bytes were printed]" if cut > 0 else text

    def _hear(self) -> None:
        try:
            data, passed, _, _ = socket.recv_fds(self._setup, _MESSAGE_BYTES, 1)
        except BlockingIOError:
            return
        except OSError:
            data, passed = b"", []
        self._descriptors += passed
        if data == b"started" and passed:
            self._process, wall_s = passed[0], self._limits.wall_s
            why = f"it has not ended within {wall_s:g} s"
            self._timer = self._loop.call_later(wall_s, self._end, "timeout", why)
            if self._broken is not None:
                self._kill()
        elif data == b"watch" and passed:
            creations = Creations(passed[0], self._limits.creations)
            self._loop.add_reader(passed[0], self._answer, creations)
        else:
            self._loop.remove_reader(self._setup)
            if not self._told.done():
                self._told.set_result(data.decode(errors="replace"))

    def _answer(self, creations: Creations) -> None:
        if not creations.answer():
            most = self._limits.creations
            self._end("error", f"it has made more than {most} files and folders; opening one to write counts, too")

    def _read_printed(self) -> None:
        for data in self._arrived(self._printed_end):
            room = self._limits.printed_bytes + 1 - len(self._printed)
            self._printed += data[:room]
            self._flooded += max(0, len(data) - room)
            if self._flooded > self._limits.flood_bytes:
                self._end("error", f"it has printed more than {self._limits.flood_bytes} bytes: print less")

    def _read_result(self) -> None:
        most = self._limits.result_bytes + _CHUNK
        for data in self._arrived(self._result_end):
            self._result += data[: most - len(self._result)]
            if len(self._result) >= most:
                self._end("error", f"its result has more than {self._limits.result_bytes} bytes: return less")

    def _arrived(self, end: int) -> list[bytes]:
        """Return what can be read now; a few pieces at most, so that no script holds the loop."""
        pieces: list[bytes] = []
        while len(pieces) < 4:
            try:
                data = os.read(end, _CHUNK)
            except BlockingIOError:
                break
            if not data:
                self._loop.remove_reader(end)
                break
            pieces.append(data)
        return pieces

    def _end(self, kind: EndKind, why: str) -> None:
        if self._broken is None:
            self._broken = kind, why
        self._kill()

    def _kill(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process, signal.SIGKILL)

    def _let_go(self) -> None:
        """Close the script's ends here, so that the end of its process is seen."""
        while self._theirs:
            os.close(self._theirs.pop())
        self._their_setup.close()

    def close(self) -> None:
        """End the script, if it runs still, and close everything."""
        self._kill()
        self._let_go()
        for end in (self._setup.fileno(), *self._descriptors):
            self._loop.remove_reader(end)
        self._setup.close()
        while self._descriptors:
            os.close(self._descriptors.pop())


def _ending(code: int, limits: ScriptLimits) -> str:
    """Say how a process ended that wrote no result."""
    if code == -signal.SIGXCPU:
        return f"it has used its {limits.cpu_s} s of processor time"
    if code == -signal.SIGSYS:
        return "it has made a system call of another architecture, which no script may"
    return f"its process ended without a result: {ending(code)}"
