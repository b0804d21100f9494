"""What persons say about routing is kept where an operator asks for it, and never keeps a message from moving."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

import pentad
from pentad.services.gateway.tasks import eval_cases
from tests.evaluation.routing import main as evaluate
from tests.integration.gateway.conftest import running
from tests.integration.gateway.speaker import TASK, Speaker
from tests.integration.gateway.test_moves import OTHER, asked, two_tasks
from tests.support.waiting import PATIENCE_S, in_time


@asynccontextmanager
async def keeping(redis: str, tmp_path: Path, folder: Path | None) -> AsyncIterator[Callable[[str, str], Any]]:
    """A gateway that keeps cases in the folder; yields what asks it to move a message."""
    settings = {} if folder is None else {"pentad_eval_cases": str(folder)}
    async with (
        running(redis, pentad_data_dir=tmp_path, **settings) as gateway,
        httpx2.AsyncClient(base_url=gateway.address, trust_env=False, timeout=PATIENCE_S) as http,
    ):

        async def move(message: str, to: str) -> int:
            body = {"message_id": message, "to": to}
            return (await http.post(f"/v1/tasks/{TASK}/move", json=body)).status_code

        yield move


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def kept(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in folder.glob("*.json")]


async def test_a_correction_is_a_case_that_the_evaluation_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "cases"
    async with pentad.start(tmp_path / "data", pentad_eval_cases=folder) as agent:
        alice = agent.session("alice")
        await alice.ask("what is 6*7?", message_id="m1")
        await alice.ask("and times 2?", message_id="m2")
        (task,) = await agent.inspection.tasks()
        turn = await alice.move("m2", "new", task.task_id)
        async for _ in turn:
            """Until the other task has answered."""
        second = (await agent.inspection.tasks())[0].task_id
        (case,) = kept(folder)
        assert (case["message"], case["gold"], case["kind"]) == ("and times 2?", "new", "new")
        await alice.management.move("m2", task.task_id, second)
    (again,) = kept(folder)
    assert (again["gold"], again["kind"]) == (task.task_id, "continue")
    assert again["tasks"] == case["tasks"]
    assert [turn["text"] for turn in again["tasks"][0]["messages"]] == ["what is 6*7?", "6*7 = 42"]
    (path,) = folder.iterdir()
    assert (path.stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (0o600, 0o700)
    assert await asyncio.to_thread(evaluate, ["--data", str(folder)]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["items"] == 1
    both = tmp_path / "both.jsonl"
    both.write_bytes(path.read_bytes() * 2)
    assert await asyncio.to_thread(evaluate, ["--data", str(both)]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["items"] == 2


async def test_asked_again_before_and_after_a_crash_it_is_one_case(
    redis_url: str, speaker: Speaker, tmp_path: Path
) -> None:
    keys, folder = await two_tasks(speaker), tmp_path / "cases"
    async with keeping(redis_url, tmp_path, folder) as move:
        assert await move("m2", OTHER) == 202
        (first,) = kept(folder)
    async with keeping(redis_url, tmp_path, folder) as move:
        assert await move("m2", OTHER) == 202
        assert kept(folder) == [first]
        assert await move("m9", "new") == 404
        assert kept(folder) == [first]
    assert len(await asked(speaker, keys)) == 1


async def test_unset_nothing_is_kept(redis_url: str, speaker: Speaker, tmp_path: Path) -> None:
    await two_tasks(speaker)
    before = files(tmp_path)
    async with keeping(redis_url, tmp_path, None) as move:
        assert await move("m2", "new") == 202
    assert files(tmp_path) == before


async def test_a_folder_that_cannot_be_written_or_is_full_keeps_no_message_from_moving(
    redis_url: str,
    speaker: Speaker,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys = await two_tasks(speaker)
    (taken := tmp_path / "taken").write_text("no folder")
    async with keeping(redis_url, tmp_path, taken) as move:
        assert await move("m2", "new") == 202
    (full := tmp_path / "full").mkdir()
    (full / "a.json").write_bytes(b"x" * 2_000)
    monkeypatch.setattr(eval_cases, "MOST_BYTES", 2_000)
    async with keeping(redis_url, tmp_path, full) as move:
        assert await move("m2", OTHER) == 202
    assert [path.name for path in full.iterdir()] == ["a.json"]
    assert [mail.to for mail in await asked(speaker, keys)] == ["new", OTHER]
    assert "could not be kept: FileExistsError" in caplog.text
    assert "take cases away" in caplog.text


async def test_a_case_that_is_damaged_is_written_anew(redis_url: str, speaker: Speaker, tmp_path: Path) -> None:
    await two_tasks(speaker)
    async with keeping(redis_url, tmp_path, tmp_path / "cases") as move:
        await move("m2", OTHER)
        (path,) = (tmp_path / "cases").iterdir()
        whole = path.read_text()
        for damaged in ("", "{", "[]", '{"tasks": 7}', '{"tasks": [{}]}', "\x00"):
            path.write_text(damaged)
            assert await move("m2", OTHER) == 202
            assert path.read_text() == whole


async def test_a_disk_that_hangs_holds_a_move_for_a_second_and_the_next_not_at_all(
    redis_url: str, speaker: Speaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, hung, writes = await two_tasks(speaker), threading.Event(), []

    def hang(*_: object) -> None:
        writes.append(1)
        hung.wait(20)

    monkeypatch.setattr(eval_cases, "_write", hang)
    monkeypatch.setattr(eval_cases, "_LIMIT_S", 0.1)
    try:
        async with keeping(redis_url, tmp_path, tmp_path / "cases") as move, in_time():
            assert [await move("m2", "new"), await move("m1", OTHER)] == [202, 202]
    finally:
        hung.set()
    assert writes == [1]
    assert len(await asked(speaker, keys)) == 2
