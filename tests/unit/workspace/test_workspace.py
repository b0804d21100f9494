"""A workspace in a folder and as objects: whole changes, once each, within its limits."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from pentad.shared.errors import OutageError, SettingsError
from pentad.shared.workspace.file_errors import (
    FileChangedError,
    FileMissingError,
    FileRefusedError,
    FileTooLargeError,
    WorkspaceFullError,
)
from pentad.shared.workspace.file_store import MAX_PARTS, FileStore, Place
from pentad.shared.workspace.local_files import LocalFiles
from pentad.shared.workspace.object_files import ObjectFiles
from pentad.shared.workspace.workspace import Expected, FileLimits, Workspace, Workspaces
from tests.unit.workspace.conftest import LIMITS


async def content(workspace: Workspace, path: str) -> str:
    return (await workspace.read(path, 10_000_000)).decode()


def parts(data: Path) -> list[Path]:
    return list(data.glob("files/us/*/parts/*"))


async def paths(workspace: Workspace) -> list[str]:
    return [file.path for file in await workspace.list()]


async def test_a_file_is_written_listed_read_and_removed(workspace: Workspace) -> None:
    assert await workspace.list() == []
    await workspace.write("notes/a.md", b"one")
    await workspace.write("b.txt", b"two!")
    assert [(file.path, file.size) for file in await workspace.list()] == [("b.txt", 4), ("notes/a.md", 3)]
    assert await content(workspace, "notes/a.md") == "one"
    await workspace.remove("notes/a.md")
    assert await paths(workspace) == ["b.txt"]
    with pytest.raises(FileMissingError, match=r"no file 'notes/a.md'"):
        await workspace.read("notes/a.md", 10)
    with pytest.raises(FileMissingError):
        await workspace.remove("notes/a.md")


async def test_each_version_has_a_tag_of_its_own(workspace: Workspace) -> None:
    tags = set()
    for text in (b"one", b"two", b"three"):
        await workspace.write("a", text)
        (listed,), info = await workspace.list(), await workspace.info("a")
        assert info is not None
        assert listed.etag == info.etag
        tags.add(info.etag)
    assert len(tags) == 3


async def test_a_writer_may_say_which_version_it_replaces(workspace: Workspace) -> None:
    await workspace.write("a", b"one", Expected(absent=True))
    with pytest.raises(FileChangedError, match="already"):
        await workspace.write("a", b"two", Expected(absent=True))
    info = await workspace.info("a")
    assert info is not None
    await workspace.write("a", b"two!", Expected(etag=info.etag))
    with pytest.raises(FileChangedError, match="changed meanwhile"):
        await workspace.write("a", b"three", Expected(etag=info.etag))
    with pytest.raises(FileChangedError, match="no file 'b' any more"):
        await workspace.write("b", b"x", Expected(etag=info.etag))
    assert await content(workspace, "a") == "two!"


async def test_a_text_is_appended_and_replaced(workspace: Workspace) -> None:
    assert await workspace.append("log", b"one\n") == "Appended 4 bytes to log, which has 4 now."
    await workspace.append("log", b"two\n")
    await workspace.replace("log", "one", "1")
    assert await content(workspace, "log") == "1\ntwo\n"
    with pytest.raises(FileRefusedError, match="does not stand in 'log'"):
        await workspace.replace("log", "three", "3")
    await workspace.append("log", b"two\n")
    with pytest.raises(FileRefusedError, match="2 times"):
        await workspace.replace("log", "two", "2")
    with pytest.raises(FileMissingError):
        await workspace.replace("none", "a", "b")


@pytest.mark.parametrize("kind", ["append", "replace", "create"])
async def test_a_call_that_runs_again_changes_nothing_more(workspace: Workspace, kind: str) -> None:
    await workspace.write("a", b"x")

    async def change() -> str:
        if kind == "append":
            return await workspace.append("a", b"y", call="call-1")
        if kind == "replace":
            return await workspace.replace("a", "x", "xx", call="call-1")
        return await workspace.write("b", b"z", Expected(absent=True), call="call-1", told="made")

    first = await change()
    assert await change() == first
    assert await content(workspace, "a") == {"append": "xy", "replace": "xx", "create": "x"}[kind]
    await workspace.write("a", b"another's")
    assert await change() == first
    assert await content(workspace, "a") == "another's"


class Died(BaseException):
    """The writer is killed here."""


@pytest.mark.parametrize("at", ["write", "finish", "note", "put"])
async def test_a_writer_that_is_killed_leaves_no_half_file_and_its_call_is_made_once(
    workspaces: Workspaces, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    workspace = workspaces.open("us", "s1")
    await workspace.write("a", b"before")
    store = workspaces._opened()
    place = Place("us", "s1")

    def die(*_: Any, **__: Any) -> None:
        raise Died

    with monkeypatch.context() as killed:
        # What is cleaned up after an error is not after a kill.
        killed.setattr(type(store), "forget", lambda *_: None)
        probe = store.new_part(place, "probe")
        probe.discard()
        killed.setattr(type(probe), "discard", lambda self: self._file.close())
        killed.setattr(type(probe) if at in ("write", "finish") else type(store), at, die)
        with pytest.raises(Died):
            await workspace.append("a", b" after", call="call-1")
    assert await content(workspace, "a") == "before"
    assert await paths(workspace) == ["a"]
    await workspace.append("a", b" after", call="call-1")
    await workspace.append("a", b" after", call="call-1")
    assert await content(workspace, "a") == "before after"


async def test_a_writer_that_is_killed_behind_its_change_does_not_make_it_again(
    workspaces: Workspaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = workspaces.open("us", "s1")
    store = workspaces._opened()
    put = type(store).put

    def put_and_die(self: FileStore, *args: Any) -> None:
        put(self, *args)
        raise Died

    with monkeypatch.context() as killed:
        killed.setattr(type(store), "put", put_and_die)
        killed.setattr(type(store), "forget", lambda *_: None)
        with pytest.raises(Died):
            await workspace.append("a", b"x", call="call-1")
    await workspace.append("a", b"x", call="call-1")
    assert await content(workspace, "a") == "x"


async def test_tenants_and_sessions_see_their_own_files_alone(workspaces: Workspaces) -> None:
    homes = [("us", "s1"), ("us", "S1"), ("them", "s1"), ("us", "s1%2Fx"), ("us", "数")]
    for number, home in enumerate(homes):
        await workspaces.open(*home).write("a", str(number).encode())
    for number, home in enumerate(homes):
        assert await content(workspaces.open(*home), "a") == str(number)
    assert sorted((place.tenant, place.session) for place in await workspaces.places()) == sorted(homes)
    await workspaces.erase("us", "s1")
    await workspaces.erase("us", "s1")
    assert await workspaces.open("us", "s1").list() == []
    assert await content(workspaces.open("them", "s1"), "a") == "2"
    assert len(await workspaces.places()) == 4


@pytest.mark.parametrize(("tenant", "session"), [("..", "s"), ("a/b", "s"), ("", "s"), ("us", ""), ("us", "a/b")])
async def test_what_is_no_session_has_no_workspace(workspaces: Workspaces, tenant: str, session: str) -> None:
    with pytest.raises(FileRefusedError, match="names no session"):
        workspaces.open(tenant, session)


async def test_the_limits_of_file_and_workspace_are_kept(workspace: Workspace) -> None:
    with pytest.raises(FileTooLargeError, match=r"at most 4,000,000 bytes here \(PENTAD_FILE_BYTES\)"):
        await workspace.write("a", bytes(4_000_001))
    for name in "abc":
        await workspace.write(name, bytes(3_000_000))
    with pytest.raises(WorkspaceFullError, match=r"12,000,000 bytes, and may have 10,000,000"):
        await workspace.write("d", bytes(3_000_000))
    await workspace.write("c", bytes(4_000_000))  # in place of what is there
    with pytest.raises(WorkspaceFullError):
        await workspace.append("a", b"x")
    assert sum(file.size for file in await workspace.list()) <= 10_000_000
    assert await paths(workspace) == ["a", "b", "c"]


async def test_the_number_of_files_is_bounded(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pentad.shared.workspace.workspace.MAX_FILES", 3)
    for name in "abc":
        await workspace.write(name, b"")
    with pytest.raises(WorkspaceFullError, match="has 3 files"):
        await workspace.write("d", b"")
    await workspace.write("a", b"again")


async def test_two_workers_never_fill_a_workspace_beyond_its_limit(tmp_path: Path) -> None:
    limits = FileLimits(file_bytes=1000, workspace_bytes=3500)
    workers = [Workspaces(str(tmp_path), limits).open("us", "s") for _ in range(2)]
    done = await asyncio.gather(
        *(workers[n % 2].write(f"f{n}", bytes(1000)) for n in range(12)), return_exceptions=True
    )
    refused = [each for each in done if isinstance(each, WorkspaceFullError)]
    assert len(refused) == 9
    assert sum(file.size for file in await workers[0].list()) == 3000


async def test_two_workers_that_append_lose_nothing(tmp_path: Path) -> None:
    workers = [Workspaces(str(tmp_path), LIMITS).open("us", "s") for _ in range(2)]
    await asyncio.gather(*(workers[n % 2].append("log", b"%d\n" % n) for n in range(20)))
    assert sorted(map(int, (await content(workers[0], "log")).split())) == list(range(20))


async def test_an_upload_is_seen_when_it_is_whole(workspace: Workspace) -> None:
    upload = await workspace.upload("big/file.bin")
    await upload.write(b"half")
    assert await workspace.list() == []
    await upload.abort()
    upload = await workspace.upload("big/file.bin")
    await upload.write(b"one ")
    await upload.write(b"two")
    info = await upload.commit()
    await upload.abort()
    assert (info.path, info.size) == ("big/file.bin", 7)
    assert await content(workspace, "big/file.bin") == "one two"
    upload = await workspace.upload("x")
    with pytest.raises(FileTooLargeError):
        await upload.write(bytes(5_000_000))
    await upload.abort()


async def test_uploads_at_once_are_bounded_and_what_was_left_is_removed(local: Workspace, tmp_path: Path) -> None:
    uploads = [await local.upload("x") for _ in range(MAX_PARTS)]
    with pytest.raises(FileRefusedError, match="on their way into this workspace already"):
        await local.upload("x")
    for part in parts(tmp_path):
        os.utime(part, (0, 0))
    await (await local.upload("x")).commit()
    assert not parts(tmp_path)
    for upload in uploads:
        await upload.abort()


async def test_an_upload_into_an_erased_workspace_brings_nothing_back(workspaces: Workspaces) -> None:
    workspace = workspaces.open("us", "s1")
    upload = await workspace.upload("x")
    await upload.write(b"late")
    await workspaces.erase("us", "s1")
    with pytest.raises((FileRefusedError, OutageError)):
        await upload.commit()
    assert await workspace.list() == []


@pytest.mark.parametrize(("first", "second"), [("a", "a/b"), ("a/b", "a")])
async def test_a_path_is_a_file_or_a_folder(workspace: Workspace, first: str, second: str) -> None:
    await workspace.write(first, b"x")
    with pytest.raises(FileRefusedError):
        await workspace.write(second, b"y")
    assert await paths(workspace) == [first]


async def test_links_that_a_script_made_lead_nowhere(local: Workspace, tmp_path: Path) -> None:
    folder = await local.folder()
    assert folder is not None
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    files = Path(folder)
    (files / "link").symlink_to(tmp_path / "outside")
    (files / "file").symlink_to(tmp_path / "outside" / "secret")
    os.mkfifo(files / "pipe")
    assert await local.list() == []
    for path in ("link/secret", "file", "pipe"):
        with pytest.raises(FileRefusedError):
            await local.read(path, 100)
        with pytest.raises(FileRefusedError):
            await local.write(path, b"x")
        with pytest.raises(FileRefusedError):
            await local.append(path, b"x")
        with pytest.raises((FileRefusedError, FileMissingError)):
            await local.remove(path)
    with pytest.raises(FileRefusedError):
        await local.write("link/new", b"x")
    assert os.listdir(tmp_path / "outside") == ["secret"]


async def test_names_that_a_script_made_count_and_are_not_shown(local: Workspace) -> None:
    folder = await local.folder()
    assert folder is not None
    (Path(folder) / "bad\nname").write_bytes(bytes(9_000_000))
    assert await local.list() == []
    with pytest.raises(WorkspaceFullError):
        await local.write("a", bytes(2_000_000))


def make_sparse(path: Path, at: int, data: bytes) -> None:
    with path.open("wb") as file:
        file.seek(at)
        file.write(data)


async def test_a_gigabyte_is_read_in_ranges(tmp_path: Path) -> None:
    workspace = Workspaces(str(tmp_path), FileLimits(1 << 31, 1 << 32)).open("us", "s")
    folder = await workspace.folder()
    assert folder is not None
    make_sparse(Path(folder) / "big", 1 << 30, b"end")
    reading = await workspace.open("big")
    try:
        assert reading.info.size == (1 << 30) + 3
        assert await reading.read(1 << 30, 100) == b"end"
        assert await reading.read(5, 3) == b"\0\0\0"
    finally:
        await reading.close()
    with pytest.raises(FileRefusedError, match=r"1,073,741,827 bytes"):
        await workspace.read("big", 1000)


async def test_an_artifact_lies_in_the_folder_of_its_call(workspace: Workspace) -> None:
    png = b"\x89PNG\r\n\x1a\n" + bytes(10)
    kept = await workspace.keep_artifact("call-0-x", "../plot", png)
    assert (kept.path, kept.media_type, kept.size) == ("artifacts/call-0-x/plot.png", "image/png", 18)
    assert kept.digest.startswith("sha256:")
    assert await workspace.keep_artifact("call-0-x", "../plot", png) == kept
    await workspace.keep_artifact("call-0-y", "", b"a,b", "text/csv")
    assert await paths(workspace) == ["artifacts/call-0-x/plot.png", "artifacts/call-0-y/result.csv"]
    await workspace.remove_artifacts({"call-0-x", "call-0-z"})
    await workspace.remove_artifacts({"call-0-x", "call-0-z"})
    assert await paths(workspace) == ["artifacts/call-0-y/result.csv"]


async def test_a_full_disk_is_an_outage_and_leaves_the_file_as_it_was(
    workspaces: Workspaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = workspaces.open("us", "s1")
    await workspace.write("a", b"before")
    kind = type(workspaces._opened())

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(kind, "put", full)
    with pytest.raises(OutageError, match="files is unavailable: No space left"):
        await workspace.write("a", b"after")
    assert await content(workspace, "a") == "before"
    assert isinstance(workspaces._opened(), LocalFiles | ObjectFiles)


def test_a_store_that_nobody_knows_is_refused_with_the_variable() -> None:
    with pytest.raises(SettingsError, match="PENTAD_FILES names a store nonsense://"):
        Workspaces("nonsense://x", LIMITS)
