"""Which failures of the machine are outages, and which are damage."""

import errno
from pathlib import Path

import pytest

from pentad.shared.passing_failures import passes, tells_passing, want_of_room

PASSING = ["ENOSPC", "EDQUOT", "EROFS", "EIO", "ENOMEM", "EMFILE", "ENFILE", "EACCES", "ESTALE", "EFBIG"]


@pytest.mark.parametrize("name", PASSING)
def test_what_waiting_can_heal_is_an_outage(name: str) -> None:
    """An accepted erasure must not become a dead letter because a disk was full for some seconds."""
    number = getattr(errno, name)
    assert passes(OSError(number, "no"))
    assert tells_passing(RuntimeError(f"cannot save: no (os error {number}) at path /x"))


def test_want_of_memory_is_an_outage() -> None:
    assert passes(MemoryError())


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOENT, "no"), OSError(errno.EISDIR, "no"), ValueError("(os error 28)")]
)
def test_other_errors_are_not(error: Exception) -> None:
    assert not passes(error)


def test_only_numbers_of_the_system_are_read_in_a_text() -> None:
    assert not tells_passing(RuntimeError("checksum mismatch (os error 2)"))
    assert not tells_passing(RuntimeError("damaged: 28"))


def test_a_disk_with_room_lacks_nothing_also_for_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    assert want_of_room(tmp_path / "not" / "yet") is None
