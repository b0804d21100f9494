"""The second wall around scripts, where it can be had: namespaces of their own, made by bubblewrap."""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ENVIRONMENT: Mapping[str, str] = {"HOME": ".", "LANG": "C.UTF-8", "TMPDIR": "."}
"""All that scripts have of an environment: they begin in their folder."""
_ALONE = "--unshare-all --die-with-parent --new-session --clearenv --proc /proc --dev /dev".split()
_OF_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/alternatives")
"""Where the interpreter and the libraries below it are."""
_PARTS = ("pentad/__init__.py", "pentad/shared/__init__.py", "pentad/shared/sandbox")
"""Files of ours that the interpreter imports."""


def find_bubblewrap() -> str | None:
    """Return where the program bubblewrap is; None where it is not installed."""
    return shutil.which("bwrap")


class Namespaces:
    """A view of the system with the interpreter and the scripts' folders alone: no network, no other processes.

    ``root``: where the package lies; ``home``: the folder of the scripts' folders.
    """

    def __init__(self, bubblewrap: str, root: Path, home: str) -> None:
        self._bubblewrap, self._root, self._home = bubblewrap, root, home

    def around(self, command: Sequence[str]) -> list[str]:
        """Return the command that runs another within."""
        return [self._bubblewrap, *_ALONE, *self._variables(), *self._places(), "--chdir", "/", *command]

    @staticmethod
    def _variables() -> Iterator[str]:
        for name, text in ENVIRONMENT.items():
            yield from ("--setenv", name, text)

    def _places(self) -> Iterator[str]:
        for path in (*_OF_SYSTEM, *self._interpreter()):
            if os.path.islink(path):
                yield from ("--symlink", os.readlink(path), path)
            elif os.path.exists(path):
                yield from ("--ro-bind", path, path)
        for part in _PARTS:
            path = str(self._root / part)
            yield from ("--ro-bind", path, path)
        yield from ("--bind", self._home, self._home)

    @staticmethod
    def _interpreter() -> Iterator[str]:
        for path in dict.fromkeys((sys.base_prefix, sys.base_exec_prefix)):
            if not path.startswith("/usr"):
                yield os.path.realpath(path)
