"""Wall clocks that step while processes run: each process lives on a host of its own, whose clock is a file's number.

clocks = Clocks(directory)                            # RuntimeError where it cannot be built
subprocess.Popen(command, env=clocks.environment("router-1"))
clocks.step(["router-1"], 600)                        # ten minutes on, at once, for its children too

The monotonic clock stays true, as on a host: all that measures how long something takes goes by that one. Of
libfaketime, which does the same, version 0.9.10 is no help: with a true monotonic clock ``time.sleep`` fails.
"""

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

_SOURCE = Path(__file__).with_name("stepped_clock.c")
_NUMBER = struct.Struct("=q")
VARIABLES = ("LD_PRELOAD", "STEPPED_CLOCK")
"""Environment variables that give a process one of these clocks."""


class Clocks:
    """The clocks of some processes, by name. A name keeps its clock over a restart of its process."""

    def __init__(self, directory: Path) -> None:
        """``directory``: folder of the library and the clocks. Raises ``RuntimeError`` if it cannot be built."""
        self._directory, self._library = directory, directory / "stepped_clock.so"
        self._off: dict[str, int] = {}
        self._common = 0
        directory.mkdir(parents=True, exist_ok=True)
        _build(self._library)

    def environment(self, name: str) -> dict[str, str]:
        """Return the variables for a process. A new clock has the offset to which `step_all` has stepped the others."""
        if name not in self._off:
            self._off[name] = self._common
            self._write(name)
        return dict(zip(VARIABLES, (str(self._library), str(self._file(name))), strict=True))

    def off(self, name: str) -> int:
        """Return the seconds by which a clock differs from those that only `step_all` has stepped."""
        return self._off[name] - self._common

    @property
    def common(self) -> int:
        """Return the seconds by which `step_all` has stepped all clocks together."""
        return self._common

    def step(self, names: Iterable[str], seconds: int) -> None:
        """Step these clocks, forward or back."""
        for name in names:
            self._off[name] += seconds
            self._write(name)

    def step_all(self, seconds: int) -> None:
        """Step every clock, later ones, too."""
        self._common += seconds
        self.step(self._off, seconds)

    def _write(self, name: str) -> None:
        """Write eight bytes in place, so that processes with the file mapped see the old number or the new one."""
        file = os.open(self._file(name), os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.pwrite(file, _NUMBER.pack(self._off[name]), 0)
        finally:
            os.close(file)

    def _file(self, name: str) -> Path:
        return self._directory / f"{name}.clock"


def missing() -> str | None:
    """Return why clocks cannot step on this machine and what to do, or None."""
    if sys.platform != "linux":
        return "to step clocks needs Linux: its programs are started with a library of ours before their own"
    if shutil.which("cc") is None:
        return "to step clocks needs a C compiler, which is not here: install gcc"
    return None


def _build(library: Path) -> None:
    if (why := missing()) is not None:
        raise RuntimeError(why)
    command = ["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl"]
    made = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    if made.returncode:
        raise RuntimeError(f"the clock that steps cannot be built here: {made.stderr.strip()}")
