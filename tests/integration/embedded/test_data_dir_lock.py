"""One system to a data directory."""

import os
from pathlib import Path

import pytest

from pentad.shared.embedded.embedded import DataDirLock
from pentad.shared.errors import SettingsError


def test_the_second_is_told_who_is_there_and_what_to_do(tmp_path: Path) -> None:
    with DataDirLock(tmp_path), pytest.raises(SettingsError, match=f"process {os.getpid()} already runs.*--data-dir"):
        DataDirLock(tmp_path).acquire()


def test_it_is_free_again_after_the_first_has_gone(tmp_path: Path) -> None:
    with DataDirLock(tmp_path):
        pass
    (tmp_path / "lock").write_text("99999999")  # what a killed one leaves
    with DataDirLock(tmp_path):
        assert (tmp_path / "lock").read_text() == str(os.getpid())


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match=r"PENTAD_DATA_DIR cannot be used: .*file"):
        DataDirLock(tmp_path / "file" / "data").acquire()
