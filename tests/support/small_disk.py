"""A disk of its own for a test, small enough to be filled: a file with ext4 in it, mounted; for root alone."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

_BALLAST = "ballast"


class SmallDisk:
    """A mounted disk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def fill(self) -> None:
        """Leave no room at all."""
        piece = 1 << 20
        with (self.path / _BALLAST).open("ab", buffering=0) as file:
            while piece:
                try:
                    os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), piece)
                except OSError:
                    piece //= 2

    def free(self) -> None:
        """Give the room back."""
        (self.path / _BALLAST).unlink(missing_ok=True)


@contextmanager
def small_disk(folder: Path, mib: int) -> Iterator[SmallDisk]:
    """A disk of so many MiB while it lasts; the test is skipped, with the reason, where none can be mounted."""
    with ExitStack() as stack:
        try:
            disk = stack.enter_context(mounted(folder / "disk", mib))
        except RuntimeError as error:
            pytest.skip(str(error))
        yield disk


@contextmanager
def mounted(path: Path, mib: int) -> Iterator[SmallDisk]:
    """A disk of so many MiB at this path. Raises ``RuntimeError`` where none can be mounted."""
    if (why := missing()) is not None:
        raise RuntimeError(why)
    image = path.with_name(f"{path.name}.img")
    path.mkdir()
    with image.open("wb") as file:
        file.truncate(mib << 20)
    made = _run("mkfs.ext4", "-q", "-m", "0", str(image))
    if not made.returncode:
        made = _run("mount", "-o", "loop", str(image), str(path))
    if made.returncode:
        raise RuntimeError(f"no disk can be mounted here: {made.stderr.strip()}")
    try:
        yield SmallDisk(path)
    finally:
        _run("umount", "-l", str(path))
        image.unlink(missing_ok=True)


def missing() -> str | None:
    """Why no disk can be mounted here, and what it takes; None: as far as one can tell it can."""
    if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
        return "to mount a small disk needs root and mkfs.ext4"
    return None


def _run(*command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
