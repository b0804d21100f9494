"""The history of typed lines, for the arrow keys: a private file of bounded size, one entry a line."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.history import History

ENTRIES = 1000


def default_path() -> Path:
    """Return the history file in the user's state folder."""
    return Path.home() / ".local" / "state" / "pentad" / "chat_history"


class Kept(History):
    """The history of one file. Does without where that cannot be read or written."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def load_history_strings(self) -> Iterable[str]:
        """The newest first; what is beyond the bound is cut off."""
        lines: list[str] = []
        with suppress(OSError):
            _make_private(self._path)
            lines = self._path.read_text(errors="replace").splitlines()
            if len(lines) > ENTRIES:
                lines = lines[-ENTRIES:]
                self._path.write_text("\n".join(lines) + "\n")
        return reversed(lines)

    def store_string(self, string: str) -> None:
        """Keep one more."""
        with suppress(OSError):
            _make_private(self._path)
            with self._path.open("a") as file:
                file.write(" ".join(string.splitlines()) + "\n")


def _make_private(path: Path) -> None:
    """The file, readable by its owner alone from its first byte on."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    path.chmod(0o600)
