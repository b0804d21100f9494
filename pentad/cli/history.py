"""What was typed before, kept for the arrow keys: a private file of bounded size."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ENTRIES = 1000


def default_path() -> Path:
    """In the user's state folder."""
    return Path.home() / ".local" / "state" / "pentad" / "chat_history"


@contextmanager
def input_history(path: Path) -> Iterator[None]:
    """Arrow keys and line editing while inside; what was typed is kept. Does without where that cannot be."""
    try:
        import readline
    except ImportError:
        yield
        return
    with suppress(OSError):
        _make_private(path)
        readline.read_history_file(path)
    readline.set_history_length(ENTRIES)
    try:
        yield
    finally:
        with suppress(OSError):
            readline.write_history_file(path)
            path.chmod(0o600)


def _make_private(path: Path) -> None:
    """The file, readable by its owner alone from its first byte on."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    path.chmod(0o600)
