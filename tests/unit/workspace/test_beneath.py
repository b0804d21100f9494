"""Nothing outside of a folder is opened, whatever lies in it: by the kernel at once, and name by name."""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pentad.shared.workspace.beneath import FOLDER, Opens, open_at_once, open_by_names, opened, opener_of_this_machine
from pentad.shared.workspace.file_errors import FileMissingError, FileRefusedError

HAS_OPENAT2 = opener_of_this_machine() is open_at_once


@pytest.fixture(params=["openat2", "names"])
def opens(request: pytest.FixtureRequest) -> Opens:
    if request.param == "names":
        return open_by_names
    if not HAS_OPENAT2:
        pytest.skip("this kernel has no openat2")
    return open_at_once


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "secret").write_text("outside")
    root = tmp_path / "root"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "c.txt").write_text("inside")
    handle = os.open(root, FOLDER)
    yield handle
    os.close(handle)


def read(opens: Opens, folder: int, path: str) -> bytes:
    with opened(opens, folder, path) as handle:
        return os.read(handle, 100)


def test_a_file_beneath_is_opened(opens: Opens, folder: int) -> None:
    assert read(opens, folder, "a/b/c.txt") == b"inside"


def link_to(target: str) -> Callable[[Path], None]:
    return lambda root: (root / "x").symlink_to(target)


def listening_socket(root: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(root / "x"))


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (None, "../secret"),
        (None, "a/../../secret"),
        (None, "/etc/passwd"),
        (None, "a/b"),
        (link_to("../secret"), "x"),
        (link_to("a/b/c.txt"), "x"),
        (link_to("../"), "x/secret"),
        (link_to("a"), "x/b/c.txt"),
        (link_to("/proc/self/root"), "x/etc/passwd"),
        (link_to("/proc/self/fd/0"), "x"),
        (link_to("/dev/zero"), "x"),
        (lambda root: os.mkfifo(root / "x"), "x"),
        (listening_socket, "x"),
    ],
)
def test_what_leads_out_or_is_no_file_is_refused(
    opens: Opens, folder: int, tmp_path: Path, make: Callable[[Path], None] | None, path: str
) -> None:
    if make is not None:
        make(tmp_path / "root")
    with pytest.raises(FileRefusedError):
        read(opens, folder, path)


def test_a_device_is_refused(opens: Opens, folder: int, tmp_path: Path) -> None:
    try:
        os.mknod(tmp_path / "root" / "zero", 0o20600, os.makedev(1, 5))
        os.close(os.open(tmp_path / "root" / "zero", os.O_RDONLY))
    except OSError:
        pytest.skip("devices are made by root, where that is allowed")
    with pytest.raises(FileRefusedError, match="device"):
        read(opens, folder, "zero")


def test_a_file_that_is_not_there_is_missing(opens: Opens, folder: int) -> None:
    with pytest.raises(FileMissingError):
        read(opens, folder, "a/none")
    with pytest.raises(FileMissingError):
        read(opens, folder, "a/b/c.txt/d")


def test_a_folder_that_becomes_a_link_under_way_never_leads_out(opens: Opens, folder: int, tmp_path: Path) -> None:
    root, out = tmp_path / "root", tmp_path / "out"
    (out / "b").mkdir(parents=True)
    (out / "b" / "c.txt").write_text("outside")
    (root / "link").symlink_to(out)
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            os.rename(root / "a", root / "kept")
            os.rename(root / "link", root / "a")
            os.rename(root / "a", root / "link")
            os.rename(root / "kept", root / "a")

    thread = threading.Thread(target=swap)
    thread.start()
    seen: set[bytes] = set()
    try:
        for attempt in range(1_000_000):
            if attempt >= 3_000 and seen:  # on a busy machine the folder may be a link at all of the first looks
                break
            try:
                seen.add(read(opens, folder, "a/b/c.txt"))
            except (FileRefusedError, OSError):
                continue
    finally:
        over.set()
        thread.join()
    assert seen == {b"inside"}
