"""`make bench-memory` reads conversations, recalls by the product's own functions, and says what it found in JSON."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pentad.shared.models.embeddings import HashingEmbedding
from pentad.shared.models.ports import ModelFailed
from tests.evaluation.memory import main

SAID = [
    ("1", "Ada", "I adopted a cat in Lisbon last week."),
    ("1", "Bob", "What is it called?"),
    ("1", "Ada", "Mimi, after my aunt."),
    ("2", "Bob", "The boat is painted green now."),
    ("2", "Ada", "My aunt Mimi Solberg lives in Tromso."),
    ("3", "Bob", "Tromso is dark in winter, and full of reindeer."),
    ("3", "Ada", "Good night!"),
]
TURNS = [
    {"id": f"D{at}", "s": session, "date": "1:56 pm on 8 May, 2023", "speaker": speaker, "text": text}
    for at, (session, speaker, text) in enumerate(SAID)
]


def question(text: str, category: str, *evidence: str) -> dict[str, Any]:
    return {"q": text, "cat": category, "ev": list(evidence), "ev_fix": list(evidence)}


QUESTIONS = [
    question("Which colour has Bob's boat?", "single-hop", "D3"),
    question("When did Ada adopt her cat?", "temporal", "D0"),
    question("What animals live where Mimi Solberg lives?", "multi-hop", "D4", "D5"),
    question("Why did Bob sell the cat?", "adversarial", "D3"),
    question("What has no evidence?", "single-hop"),
]
CONVERSATION = {"id": "c1", "turns": TURNS, "qa": QUESTIONS}


def written(folder: Path, content: object) -> str:
    path = folder / "data.json.gz"
    path.write_bytes(gzip.compress(json.dumps(content).encode()))
    return str(path)


def test_the_last_line_is_the_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--data", written(tmp_path, [CONVERSATION, CONVERSATION | {"id": "c2"}])]) == 0
    table, _, last = capsys.readouterr().out.strip().rpartition("\n")
    figures = json.loads(last)
    names = "questions recall_at_5 recall_at_10 recall_at_20 by_category p50_ms p95_ms"
    assert list(figures) == names.split()
    assert (figures["questions"], figures["recall_at_5"], figures["recall_at_20"]) == (6, 100.0, 100.0)
    assert "BM25 alone                      83.3    83.3    83.3" in table  # misses the second hop
    assert figures["by_category"]["temporal"] == {
        "questions": 2,
        "recall_at_5": 100.0,
        "recall_at_10": 100.0,
        "recall_at_20": 100.0,
    }
    assert set(figures["by_category"]) == {"single-hop", "temporal", "multi-hop"}
    assert 0 < figures["p50_ms"] <= figures["p95_ms"]
    assert all(name in table for name in ("BM25 alone", "dense alone", "in c2", "without its embedding"))


def test_a_plain_file_and_unknown_dates_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "data.json"
    turns = [turn | {"date": "some day", "speaker": ""} for turn in TURNS]
    path.write_text(json.dumps([{"id": 7, "turns": turns, "qa": QUESTIONS[:1]}]))
    assert main(["--data", str(path)]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["recall_at_10"] == 100.0


def test_a_turn_without_words_is_no_segment_and_counts_as_not_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    turns = [TURNS[0], TURNS[1] | {"text": "..."}]
    conversation = {"id": "c", "turns": turns, "qa": [question("What was left unsaid?", "open-domain", "D1")]}
    assert main(["--data", written(tmp_path, [conversation])]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["recall_at_20"] == 0.0


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ([], "no list of conversations"),
        ({"id": 1}, "no list of conversations"),
        ([{"id": "c"}], "item 0: KeyError 'turns'"),
        ([CONVERSATION, 3], "item 1: TypeError"),
        ([CONVERSATION | {"qa": [{"q": "?"}]}], "item 0: KeyError 'cat'"),
        ([CONVERSATION | {"qa": QUESTIONS[3:]}], "no question with evidence"),
    ],
)
def test_a_file_without_conversations_is_refused(
    content: object, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--data", written(tmp_path, content)]) == 2
    assert complaint in capsys.readouterr().err


def test_a_missing_file_and_an_unknown_embedding_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--data", str(tmp_path / "none.json")]) == 2
    assert "cannot be read" in capsys.readouterr().err
    assert main(["--data", written(tmp_path, [CONVERSATION]), "--embed", "word2vec"]) == 2
    assert "EMBED_MODEL_TYPE" in capsys.readouterr().err


def test_an_embedding_model_that_fails_ends_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(self: HashingEmbedding, texts: Sequence[str]) -> list[list[float]]:
        raise ModelFailed("the endpoint is on fire")

    monkeypatch.setattr(HashingEmbedding, "embed", fail)
    assert main(["--data", written(tmp_path, [CONVERSATION])]) == 2
    assert "the endpoint is on fire" in capsys.readouterr().err
