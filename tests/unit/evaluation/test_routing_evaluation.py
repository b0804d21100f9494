"""`make eval-routing` reads labelled messages, decides each by the product's own functions, and says so in JSON."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pentad.shared.models.embeddings import HashingEmbedding
from pentad.shared.models.ports import ModelFailed
from tests.evaluation.routing import main


def said(*texts: str) -> list[dict[str, str]]:
    return [{"role": "assistant" if at % 2 else "user", "text": text} for at, text in enumerate(texts)]


def session_task(name: str, rank: int, *texts: str) -> dict[str, Any]:
    return {"id": name, "goal": texts[0], "last_active_rank": rank, "asked": False, "messages": said(*texts)}


TASKS = [
    session_task("t1", 1, "I need a flight to Lisbon", "From which airport?"),
    session_task("t2", 0, "Book a table for dinner", "For how many people?"),
]


def item(number: int, kind: str, message: str, gold: str, lang: str = "en") -> dict[str, Any]:
    return {"id": f"{number:04}", "lang": lang, "message": message, "tasks": TASKS, "gold": gold, "kind": kind}


ITEMS = [
    item(0, "continue", "for five people", "t2"),
    item(1, "switch", "From Hamburg airport to Lisbon", "t1"),
    item(2, "new", "你好，帮我找一家评分高的酒店，要有停车场和早餐，谢谢", "new", "zh"),
]


def written(folder: Path, content: object) -> str:
    path = folder / "data.json.gz"
    path.write_bytes(gzip.compress(json.dumps(content).encode()))
    return str(path)


def test_the_last_line_is_the_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--data", written(tmp_path, ITEMS), "--predictions", str(tmp_path / "predictions.json")]) == 0
    table, _, last = capsys.readouterr().out.strip().rpartition("\n")
    figures = json.loads(last)
    names = "items accuracy continue switch new mean recall_at_3 recall_at_5 alone alone_accuracy p50_ms p95_ms"
    assert list(figures) == names.split()
    assert (figures["items"], figures["accuracy"], figures["mean"]) == (3, 100.0, 100.0)
    assert figures["recall_at_3"] is None
    assert 0 < figures["p50_ms"] <= figures["p95_ms"]
    assert "language zh" in table
    assert json.loads((tmp_path / "predictions.json").read_text()) == {"0000": "t2", "0001": "t1", "0002": "new"}


def test_a_plain_file_is_read_too_and_recency_is_a_setting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "data.json"
    path.write_text(json.dumps(ITEMS))
    assert main(["--data", str(path), "--recency", "50"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["switch"] == 0.0


def test_what_is_taken_for_control_counts_as_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--data", written(tmp_path, [item(0, "continue", "cancel that", "t2")])]) == 0
    out = capsys.readouterr().out
    assert json.loads(out.splitlines()[-1])["accuracy"] == 0.0
    assert "taken for control             100.0 % of 1" in out


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ([], "no list of messages"),
        ({"id": 1}, "item 0: KeyError 'tasks'"),
        (7, "item 0: TypeError"),
        ([{"id": "0"}], "item 0: KeyError 'tasks'"),
        ([ITEMS[0], 3], "item 1: TypeError"),
        ([item(0, "sideways", "hi", "t1")], "its kind or its gold"),
        ([item(0, "switch", "hi", "t9")], "its kind or its gold"),
    ],
)
def test_a_file_of_another_form_is_refused_with_the_place(
    content: object, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--data", written(tmp_path, content)]) == 2
    assert complaint in capsys.readouterr().err


def test_what_cannot_be_read_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(json.dumps(ITEMS).encode())[:60])
    for path in (cut, tmp_path / "missing"):
        assert main(["--data", str(path)]) == 2
        assert "cannot be read" in capsys.readouterr().err
    (empty := tmp_path / "empty").mkdir()
    assert main(["--data", str(empty)]) == 2
    assert "holds no list of messages" in capsys.readouterr().err
    assert main(["--data", written(tmp_path, ITEMS), "--embed", "tarot"]) == 2
    assert "EMBED_MODEL_TYPE=tarot" in capsys.readouterr().err


class BrokenEmbedding(HashingEmbedding):
    """Fails as an endpoint does."""

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        raise ModelFailed(f"no answer to {len(texts)} texts")


def test_a_model_that_fails_ends_it_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.evaluation.routing.make_embedding_model", lambda kind: BrokenEmbedding())
    assert main(["--data", written(tmp_path, ITEMS), "--embed", "local"]) == 2
    assert "the embedding model failed: no answer to 4 texts" in capsys.readouterr().err
