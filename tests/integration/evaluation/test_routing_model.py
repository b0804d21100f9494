"""`make eval-routing MODEL=id` asks a configured model where words are not sure, and counts what it decides."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.routing import main
from tests.support.models.model_server import Script, ScriptedModel
from tests.support.models.replies import Reply, fail, say
from tests.unit.evaluation.test_routing_evaluation import item, written

UNCLEAR = "Thursday at eleven would be better."
ITEMS = [
    item(0, "switch", UNCLEAR, "t1"),
    item(1, "new", "Hello! Please write a long poem about the autumn leaves for my grandmother's birthday.", "new"),
]


def named(subject: str) -> Script:
    """Names the task that began with this."""

    def script(request: dict[str, Any]) -> Reply:
        assert request["model"] == "m1"
        question = json.loads(request["messages"][1]["content"])
        assert question["message"] == UNCLEAR, "words are sure of the other"
        (task,) = [task["task"] for task in question["tasks"] if subject in task["began_with"]]
        return say(json.dumps({"task": task, "confidence": 0.9, "reason": "I know"}))

    return script


async def evaluated(
    folder: Path, script: Script, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[dict[str, Any], str]:
    """The figures, and the table above them."""
    async with ScriptedModel(script) as server:
        entry = {"id": "judge", "endpoint": server.base_url, "model": "m1"}
        (file := folder / "models.json").write_text(json.dumps({"models": [entry]}))
        monkeypatch.setenv("PENTAD_MODELS", str(file))
        options = ["--data", written(folder, ITEMS), "--model", "judge"]
        assert await asyncio.to_thread(main, options) == 0
    table, _, last = capsys.readouterr().out.strip().rpartition("\n")
    figures: dict[str, Any] = json.loads(last)
    return figures, " ".join(table.split())


async def test_the_model_decides_what_words_leave_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    figures, table = await evaluated(tmp_path, named("flight"), monkeypatch, capsys)
    assert (figures["accuracy"], figures["switch"], figures["alone"]) == (100.0, 100.0, 50.0)
    assert "stage model 100.0 % of 1" in table


async def test_a_model_that_is_wrong_is_counted_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    figures, table = await evaluated(tmp_path, named("table"), monkeypatch, capsys)
    assert (figures["switch"], figures["new"]) == (0.0, 100.0)
    assert "stage model 0.0 % of 1" in table


async def test_without_an_answer_of_the_model_the_words_decide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    figures, table = await evaluated(tmp_path, lambda _: fail(401), monkeypatch, capsys)
    assert figures["items"] == 2
    assert "stage open 0.0 % of 1" in table
    assert "stage model - % of 0" in table


def test_a_model_that_nobody_has_configured_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PENTAD_MODELS", "LLM_BASE_URL", "LLM_API_KEY", "LLM_MODEL_ID"):
        monkeypatch.delenv(name, raising=False)
    for name in ("judge", "default"):
        assert main(["--data", written(tmp_path, ITEMS), "--model", name]) == 2
        assert f"MODEL={name}: there is no such chat model" in capsys.readouterr().err
