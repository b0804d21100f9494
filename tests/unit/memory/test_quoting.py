"""Of what was found is quoted what is new and fits, each with its anchor, the tasks beside."""

import json

import pytest

from pentad.contracts.quotes import quotes_in
from pentad.shared.memory.quotes import MOST_QUOTES, hits_about, new_hits, quotation_of, related_tasks, tokens_in
from pentad.shared.memory.ranking import MemoryHit
from pentad.shared.owners import Owner
from pentad.shared.vectors.points import Payload


def hit(text: str, task: str = "task-0-1", score: float = 0.5, at: int = 1_900_000_000_000) -> MemoryHit:
    payload = Payload(Owner("t1"), "episodic", "user_message", task, "s1", 0, at, 0.0, f"a1.{text[:20]}", text)
    return MemoryHit(text, payload, score, {})


def texts(hits: list[MemoryHit]) -> list[str]:
    return [each.payload.text for each in hits]


def test_what_the_prompt_says_already_is_not_quoted() -> None:
    hits = [
        hit("what is my  CAT called?"),
        hit("my cat is called Ada"),
        hit("earlier in the session"),
        hit("own", "task-0-9"),
    ]
    known = ["What is my cat called?", "said earlier in the session, and more"]
    assert texts(list(new_hits(hits, known, "task-0-9"))) == ["my cat is called Ada"]


def test_the_same_words_are_quoted_once_where_they_rank_best() -> None:
    hits = [hit("my cat is called Ada", "task-0-2"), hit("My cat is  called Ada", "task-0-3"), hit("the cat sleeps")]
    assert [each.payload.task for each in new_hits(hits, (), "task-0-9")] == ["task-0-2", "task-0-1"]


def test_an_earlier_asking_of_the_same_does_not_make_it_known() -> None:
    hits = [hit("what is the capital of Mongolia?", score=0.9), hit("the cat sleeps", score=0.8)]
    assert hits_about("What is the capital of Mongolia?", hits, ["What is the capital of Mongolia?"], "task-0-9") == []


@pytest.mark.parametrize("tokens", [0, 50, 150, 400, 2_000])
def test_the_whole_text_keeps_to_the_budget(tokens: int) -> None:
    hits = [hit(f"number {n}: " + "words " * (5 * n), f"task-0-{n}") for n in range(30)]
    text, anchors = quotation_of(hits, tokens)
    assert tokens_in(text) <= tokens
    assert (text == "") == (anchors == ())
    assert len(anchors) <= MOST_QUOTES
    assert bool(anchors) == (tokens >= 150)


def test_each_quote_has_its_anchor_date_and_task() -> None:
    hits = [
        hit("one", "task-0-2"),
        hit("two", "task-0-1"),
        hit("three", "task-0-2", at=1_900_000_060_000),
        hit("old", at=0),
    ]
    text, anchors = quotation_of(hits, 2_000)
    assert anchors == ("a1.one", "a1.two", "a1.three", "a1.old")
    assert [(q.quote, q.text, q.at[:10], q.anchor) for q in quotes_in(text)] == [
        (1, "one", "2030-03-17", "a1.one"),
        (2, "two", "2030-03-17", "a1.two"),
        (3, "three", "2030-03-17", "a1.three"),
        (4, "old", "", "a1.old"),
    ]
    tasks = [json.loads(line) for line in text.splitlines() if '"task":' in line]
    assert [(each["task"], each["quotes"]) for each in tasks] == [("task-0-2", [1, 3]), ("task-0-1", [2, 4])]
    assert tasks[0]["at"] == "2030-03-17T17:47:40.000Z"


def test_no_more_than_five_tasks_are_named() -> None:
    assert [each.task for each in related_tasks([hit(str(n), f"task-0-{n}") for n in range(9)])] == [
        f"task-0-{n}" for n in range(5)
    ]
