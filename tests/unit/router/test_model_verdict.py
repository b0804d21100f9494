"""What a model is asked about a message, and what its answer means."""

from typing import Any

import pytest
from pydantic_core import from_json

from pentad.services.router.domain.model_verdict import (
    NEW,
    Verdict,
    candidates_of,
    confirmed,
    kept_verdict,
    question_text,
    verdict_bytes,
    verdict_of,
    without_model,
)
from pentad.services.router.domain.rules import Question, Route
from pentad.shared.actors.headers import TaskHeader
from pentad.shared.actors.mail import SessionMessage

TASKS = [
    TaskHeader("default", "t-a", "s1", "active", goal="a flight"),
    TaskHeader("default", "t-b", "s1", "completed", goal="a table"),
]
QUESTION = Question((*TASKS,))
WEIGHED = Route("append", "words", TASKS[0], candidates=["t-a", "t-b"], scores={}, confidence=0.5, stage="similarity")


def turn(task: str, content: str) -> SessionMessage:
    return SessionMessage(role="user", content=content, task_id=task, at="now")


def test_it_is_shown_the_candidates_and_only_their_last_turns() -> None:
    turns = [turn("t-a", f"a{n}") for n in range(6)] + [turn("other", "secret"), turn("t-b", "x" * 9_000)]
    shown = from_json(question_text("where?", TASKS, turns))
    assert shown["message"] == "where?"
    assert [task["task"] for task in shown["tasks"]] == ["1", "2"]
    assert shown["tasks"][0]["last_turns"] == [f"user: a{n}" for n in range(2, 6)]
    assert len(question_text("m" * 60_000, TASKS, turns)) < 10_000


@pytest.mark.parametrize(("named", "task"), [("1", "t-a"), ("2", "t-b"), ("new", NEW)])
def test_a_number_names_a_task(named: str, task: str) -> None:
    verdict = verdict_of({"task": named, "confidence": 0.9, "reason": "so"}, TASKS, "m")
    assert verdict == Verdict(task, 0.9, "so", "m")


@pytest.mark.parametrize("named", ["0", "3", "t-a", ""])
def test_a_task_that_was_not_asked_about_is_no_answer(named: str) -> None:
    with pytest.raises(ValueError, match="there are 1, 2, new"):
        verdict_of({"task": named, "confidence": 0.9, "reason": "so"}, TASKS, "m")


@pytest.mark.parametrize(
    ("verdict", "decision", "task", "stage"),
    [
        (Verdict("t-a", 0.9, "r", "m"), "append", TASKS[0], "model"),
        (Verdict("t-b", 0.6, "r", "m"), "reopen", TASKS[1], "model"),
        (Verdict(NEW, 0.7, "r", "m"), "new", None, "model"),
        (Verdict("t-b", 0.59, "r", "m"), "append", TASKS[0], "similarity"),
    ],
)
def test_a_sure_model_decides_and_an_unsure_one_does_not(
    verdict: Verdict, decision: str, task: TaskHeader | None, stage: str
) -> None:
    route = confirmed(QUESTION, WEIGHED, verdict, 0.6)
    assert (route.decision, route.task, route.stage) == (decision, task, stage)
    assert "m" in route.reason


def test_without_a_model_the_weighing_decides_and_says_so() -> None:
    route = without_model(WEIGHED, "it is away")
    assert (route.task, route.stage, route.reason) == (
        TASKS[0],
        "similarity",
        "words; no model confirms it: it is away",
    )


@pytest.mark.parametrize(
    "kept",
    [b"", b"{", b"[]", b'["1-1","t-a","x","r","m"]', b'["1-1","gone",0.9,"r","m"]', b'["2-2","t-a",0.9,"r","m"]'],
)
def test_what_was_kept_for_another_message_or_cannot_be_used_is_nothing(kept: bytes) -> None:
    assert kept_verdict(kept, "1-1", TASKS) is None


@pytest.mark.parametrize("task", ["t-b", NEW])
def test_a_verdict_is_read_as_it_was_kept(task: str) -> None:
    verdict = Verdict(task, 0.75, "a reason", "m")
    assert kept_verdict(verdict_bytes(verdict, "1-1"), "1-1", TASKS) == verdict


def test_the_candidates_are_those_of_the_weighing() -> None:
    some: dict[str, Any] = {"candidates": ["t-b"]}
    assert candidates_of(QUESTION, Route("append", "words", TASKS[1], **some)) == [TASKS[1]]
