"""Files go with what is erased and with sessions that are forgotten, also when an archiver is killed; others stay."""

import os
from pathlib import Path
from typing import Any

import pytest

from pentad.services.archiver.erasing import Erasing, TaskEraser
from pentad.services.archiver.kept_tasks import KeptTasks
from pentad.services.archiver.session_files import ErasedFiles, OldFiles
from pentad.shared.embedder.embedder import HashingEmbedder
from pentad.shared.keys import SessionKeys
from pentad.shared.store.store import Store
from pentad.shared.workspace.file_store import Place
from pentad.shared.workspace.local_files import LocalFiles
from pentad.shared.workspace.workspace import FileLimits, Workspaces
from tests.integration.erasing.erasable import END_S, Erasable

OTHER = SessionKeys(0, "default", "s2")


@pytest.fixture
def files(world: Erasable, tmp_path: Path) -> Workspaces:
    """The files of a world that erases them, too."""
    workspaces = Workspaces(str(tmp_path / "files"), FileLimits(1 << 20, 1 << 24))
    erased, memory = ErasedFiles(workspaces), world.erasing._memory
    eraser = TaskEraser(
        world.store, world.records, memory, HashingEmbedder(), world.flow.actors, (10, 1000), END_S, files=erased
    )
    world.erasing = Erasing(world.store, KeptTasks(world.store, world.records), eraser, memory, [0], erased)
    return workspaces


async def names(files: Workspaces, session: str) -> list[str]:
    return [file.path for file in await files.open("default", session).list()]


@pytest.mark.parametrize("state", ["ended", "archived"])
@pytest.mark.parametrize(("kind", "stays"), [("session", False), ("user", False), ("task", True)])
async def test_the_files_of_a_session_go_with_it_and_those_of_others_stay(
    world: Erasable, files: Workspaces, state: str, kind: str, stays: bool
) -> None:
    task = await world.tell("my zebra is called Ada", user_id="ada")
    other = await world.tell("my boat is green", OTHER, user_id="bob")
    for session in ("s1", "s2"):
        await files.open("default", session).write("a", b"zebra")
    await world.bring_to(state, task, other)
    await world.ask(kind, task)
    await world.erase()
    assert await names(files, "s1") == (["a"] if stays else [])
    assert await names(files, "s2") == ["a"]


@pytest.mark.parametrize("state", ["ended", "archived"])
async def test_the_files_of_a_session_in_which_others_spoke_stay_when_a_user_goes(
    world: Erasable, files: Workspaces, state: str
) -> None:
    task = await world.tell("my zebra is called Ada", user_id="ada", task_id="new")
    other = await world.tell("my boat is green", user_id="bob", task_id="new")
    await files.open("default", "s1").write("a", b"theirs")
    await world.bring_to(state, task, other)
    await world.ask("user", task)
    await world.erase()
    assert await names(files, "s1") == ["a"]


async def test_an_archiver_that_is_killed_in_the_middle_goes_on(
    world: Erasable, files: Workspaces, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    task = await world.tell("my zebra is called Ada")
    for number in range(3):
        await files.open("default", "s1").write(f"f{number}", b"zebra")
    await world.ask("session", task)

    def die(folder: str, *_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr("pentad.shared.workspace.local_files.shutil.rmtree", die)
        with pytest.raises(KeyboardInterrupt):
            await files.erase("default", "s1")
    assert await names(files, "s1") == []
    assert os.listdir(tmp_path / "files" / "default"), "what it had still to remove"
    await world.erase()
    assert os.listdir(tmp_path / "files" / "default") == []


async def test_what_the_calls_of_an_erased_task_have_made_goes(files: Workspaces) -> None:
    workspace = files.open("default", "s1")
    await workspace.keep_artifact("call-0-a", "plot.png", b"x")
    await workspace.keep_artifact("call-0-b", "plot.png", b"x")
    messages = [{"role": "tool", "tool_call_id": "call-0-a", "content": "..."}, {"role": "user", "content": "hi"}]
    await ErasedFiles(files).of_calls("default", "s1", messages)
    assert await names(files, "s1") == ["artifacts/call-0-b/plot.png"]


async def test_old_files_of_forgotten_sessions_go_and_no_others(
    store: Store, files: Workspaces, tmp_path: Path
) -> None:
    for session in ("forgotten", "known", "fresh"):
        await files.open("default", session).write("a", b"x")
    await store.call("HSET", SessionKeys(0, "default", "known").header, "last_in", "1-0")
    for session in ("forgotten", "known"):
        folder = LocalFiles(str(tmp_path / "files")).folder(Place("default", session))
        os.utime(f"{folder}/a", (1, 1))
    old = OldFiles(store, files, 1, 3600)
    assert await old.look() == 1
    assert [len(await names(files, session)) for session in ("forgotten", "known", "fresh")] == [0, 1, 1]
    assert await old.look() == 0
