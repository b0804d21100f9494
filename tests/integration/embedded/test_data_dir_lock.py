"""One system to a data directory."""

import os
import stat
from pathlib import Path

import pytest

from pentad.shared.embedded.data_dir import DataDirLock
from pentad.shared.errors import SettingsError


def test_the_second_is_told_who_is_there_and_what_to_do(tmp_path: Path) -> None:
    with DataDirLock(tmp_path), pytest.raises(SettingsError, match=f"process {os.getpid()} already runs.*--data-dir"):
        DataDirLock(tmp_path).acquire()


@pytest.mark.parametrize(
    "left_behind", ["99999999", str(os.getppid()), ""], ids=["nobody's", "another program's", "no"]
)
def test_it_is_free_again_after_the_first_has_gone(tmp_path: Path, left_behind: str) -> None:
    """A killed one leaves its process id, which the system may have given to another program since."""
    with DataDirLock(tmp_path):
        pass
    (tmp_path / "lock").write_text(left_behind)
    with DataDirLock(tmp_path):
        assert (tmp_path / "lock").read_text() == str(os.getpid())


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match=r"PENTAD_DATA_DIR cannot be used: .*file"):
        DataDirLock(tmp_path / "file" / "data").acquire()


@pytest.mark.parametrize("mode", [0o755, 0o777, 0o750, 0o770])
def test_others_lose_their_rights_to_an_existing_directory(
    tmp_path: Path, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "records").mkdir()
    (tmp_path / "data").chmod(mode)
    with DataDirLock(tmp_path / "data"):
        assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    assert "others could look into" in caplog.text


def test_a_directory_that_everybody_shares_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    with pytest.raises(SettingsError, match=r"others write to: choose one of your own as PENTAD_DATA_DIR"):
        DataDirLock(tmp_path / "shared").acquire()
    assert stat.S_IMODE((tmp_path / "shared").stat().st_mode) == 0o1777


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can open a folder that belongs to another user")
def test_root_refuses_the_folder_of_another_user(tmp_path: Path) -> None:
    """Links of that user would lead root to any file of the machine."""
    (tmp_path / "data").mkdir(mode=0o700)
    os.chown(tmp_path / "data", 65534, 65534)
    with pytest.raises(SettingsError, match=r"belongs to user 65534 and this is root: run as that user, or choose"):
        DataDirLock(tmp_path / "data").acquire()
    assert not list((tmp_path / "data").iterdir())


def test_a_lock_that_points_elsewhere_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "data" / "lock").symlink_to(tmp_path / "victim")
    with pytest.raises(SettingsError, match="PENTAD_DATA_DIR cannot be used"):
        DataDirLock(tmp_path / "data").acquire()
    assert (tmp_path / "victim").read_text() == "precious"
