"""A program that starts another one confined, for libraries that start programs themselves and take a path alone."""

import os
import stat
import sys
from pathlib import Path

from pentad.shared.sandbox.script_run import SandboxError
from pentad.shared.sandbox.workspace import make_home, remove

_SHARED = Path(__file__).parents[1]
_PACKAGES = (("pentad", str(_SHARED.parent)), ("pentad.shared", str(_SHARED)))
"""Packages of the launcher's module, and their folders. Their own first modules are not run: each stretch of a program
waits for its launcher, and they would take longer than all else."""
_MAX_FIRST_LINE = 127
"""Characters that all kernels read of a script's first line."""
_LINES = """\
import sys
for name, folder in {packages!r}:
    sys.modules[name] = package = type(sys)(name)
    package.__path__ = [folder]
from pentad.shared.sandbox.confined_program import become
become({program!r}, sys.argv[1:], {cpu_s!r})
"""


class Launcher:
    """A script that confines itself and becomes a program. ``cpu_s``: seconds of a processor that each start has.

    Raises ``SandboxError``, ``OSError``.
    """

    def __init__(self, program: str, cpu_s: int) -> None:
        python = os.path.realpath(sys.executable)
        first = f"#!{python} -ISB"
        if len(first) > _MAX_FIRST_LINE or " " in python:
            raise SandboxError(
                f"the kernel starts no script of the interpreter {python}: install Python at a short path"
            )
        body = _LINES.format(packages=_PACKAGES, program=os.path.realpath(program), cpu_s=cpu_s)
        self._text, self._folder = f"{first}\n{body}", make_home()
        self.path = os.path.join(self._folder, "confined")
        """The script, to be started in place of the program."""
        self.keep()

    def keep(self) -> None:
        """Write the script where it is not there any more: temporary folders are swept. Raises ``SandboxError``,
        ``OSError``."""
        if os.path.exists(self.path):
            return
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        found = os.lstat(self._folder)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise SandboxError(f"{self._folder} belongs to somebody else: start the tool-worker again")
        part = f"{self.path}.{os.getpid()}"
        with open(part, "w") as file:
            file.write(self._text)
        os.chmod(part, 0o700)
        os.replace(part, self.path)

    def remove(self) -> None:
        """Remove the script."""
        remove(self._folder)
