"""What reaches a client never mixes two attempts, repeats nothing and leaves no hole (hazard 4)."""

import json
import random

import pytest

from pentad.shared.events.deltas import DROP, DeltaFilter, StreamEvent, reaches_back, without_finished

T = "task-0-a"


def delta(
    text: str, offset: int, attempt: int = 1, step: int = 1, kind: str = "content", number: int = 1
) -> StreamEvent:
    """A delta as a runner writes it."""
    body = {"type": kind, "task_id": T, "step": step, "attempt": attempt, "offset": offset, "content": text}
    mark = f"{kind} {T} {step} {attempt} {offset} {len(text)}"
    return StreamEvent(f"{number}-0".encode(), json.dumps(body).encode(), mark.encode())


def message(step: int = 1, attempt: int = 1, number: int = 1) -> StreamEvent:
    """A step's durable text."""
    body = {"type": "message", "task_id": T, "step": step, "attempt": attempt, "content": "whole"}
    return StreamEvent(f"{number}-0".encode(), json.dumps(body, separators=(",", ":")).encode())


def event(kind: str, **fields: object) -> StreamEvent:
    """Another durable event."""
    return StreamEvent(b"1-0", json.dumps({"type": kind, "task_id": T} | fields, separators=(",", ":")).encode())


def through(events: list[StreamEvent], view: DeltaFilter | None = None) -> list[tuple[int, int, str]]:
    """Attempt, offset and text of the deltas that pass."""
    view = view or DeltaFilter()
    passed = [e for e in map(view.apply, events) if e is not None and e.mark is not None]
    bodies = [json.loads(e.data) for e in passed]
    return [(b["attempt"], b["offset"], b["content"]) for b in bodies]


CASES = {
    "in order": ([delta("ab", 0), delta("cd", 2)], [(1, 0, "ab"), (1, 2, "cd")]),
    "a repeat": ([delta("ab", 0), delta("ab", 0), delta("c", 2)], [(1, 0, "ab"), (1, 2, "c")]),
    "an overlap": ([delta("abc", 0), delta("bcde", 1)], [(1, 0, "abc"), (1, 3, "de")]),
    "a hole": ([delta("ab", 0), delta("ef", 4), delta("gh", 6)], [(1, 0, "ab")]),
    "a hole that is filled": ([delta("ab", 0), delta("ef", 4), delta("cdef", 2)], [(1, 0, "ab"), (1, 2, "cdef")]),
    "an older attempt": ([delta("x", 0, 2), delta("a", 0, 1), delta("y", 1, 2)], [(2, 0, "x"), (2, 1, "y")]),
    "a newer attempt": ([delta("a", 0, 1), delta("x", 0, 2), delta("b", 1, 1)], [(1, 0, "a"), (2, 0, "x")]),
    "a newer attempt whose beginning was lost": ([delta("a", 0, 1), delta("y", 1, 2), delta("b", 1, 1)], [(1, 0, "a")]),
    "an older step": ([delta("x", 0, 3, 2), delta("a", 0, 1, 1)], [(3, 0, "x")]),
    "a beginning that was not seen": ([delta("cd", 2)], []),
    "after the message": ([delta("a", 0), message(), delta("b", 1), delta("z", 0, 9)], [(1, 0, "a")]),
    "the step after the message": ([message(), delta("n", 0, 2, 2)], [(2, 0, "n")]),
    "after a tool call": ([delta("a", 0), event("tool_call"), delta("b", 1)], [(1, 0, "a")]),
    "after the end": ([delta("a", 0), event("task_end"), delta("b", 1)], [(1, 0, "a")]),
    "thinking has its own offsets": (
        [delta("hm", 0, kind="thinking"), delta("a", 0), delta("m", 2, kind="thinking")],
        [(1, 0, "hm"), (1, 0, "a"), (1, 2, "m")],
    ),
    "characters, not bytes": ([delta("\U0001f30dü", 0), delta("ü!", 1)], [(1, 0, "\U0001f30dü"), (1, 2, "!")]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_client_sees_each_attempt_once_and_in_order(case: str) -> None:
    events, expected = CASES[case]
    assert through(events) == expected


def test_durable_events_always_pass() -> None:
    view = DeltaFilter()
    for durable in (message(), event("tool_call"), event("task_end"), event("task_start"), message()):
        assert view.apply(durable) is durable


def test_a_mark_that_is_none_is_dropped() -> None:
    assert DeltaFilter().judge(b"content") == DROP
    assert DeltaFilter().judge(b"content t one 1 0 1") == DROP


@pytest.mark.parametrize("seed", range(300))
def test_two_attempts_are_never_mixed_whatever_the_interleaving(seed: int) -> None:
    """An old runner and a new one write at once; pieces are repeated, overlap and get lost."""
    dice = random.Random(seed)
    texts = {attempt: f"{attempt}" * dice.randint(1, 30) for attempt in (1, 2)}
    writers = {attempt: _pieces(dice, attempt, text) for attempt, text in texts.items()}
    mixed = []
    while any(writers.values()):
        attempt = dice.choice([a for a, left in writers.items() if left])
        mixed.append(writers[attempt].pop(0))
    if dice.random() < 0.5:
        mixed.insert(dice.randint(0, len(mixed)), message(attempt=2))
    shown, newest = "", 0
    for attempt, offset, text in through(mixed):
        assert attempt >= newest
        if attempt > newest:
            shown, newest = "", attempt
        assert offset == len(shown)
        shown += text
        assert texts[attempt].startswith(shown)


def _pieces(dice: random.Random, attempt: int, text: str) -> list[StreamEvent]:
    pieces, offset = [], 0
    while offset < len(text):
        length = dice.randint(1, 5)
        start = max(0, offset - dice.choice((0, 0, 2)))
        piece = delta(text[start : offset + length], start, attempt)
        pieces += [piece] * dice.choice((0, 1, 1, 1, 1, 1, 2))
        offset += length
    return pieces


def test_a_resumed_client_goes_on_where_it_was() -> None:
    view = DeltaFilter()
    view.prime([delta("ab", 0), delta("cd", 2)])
    assert through([delta("cdef", 2), delta("x", 0, 0)], view) == [(1, 4, "ef")]


def test_priming_trusts_an_attempt_whose_beginning_is_too_far_back() -> None:
    view = DeltaFilter()
    view.prime([delta("cd", 2)])
    assert through([delta("ef", 4)], view) == [(1, 4, "ef")]


def test_priming_keeps_a_hole_a_hole() -> None:
    view = DeltaFilter()
    view.prime([delta("ab", 0), delta("ef", 4)])
    assert through([delta("gh", 6)], view) == []


def test_priming_reads_back_until_every_attempt_begins() -> None:
    assert reaches_back([])
    assert reaches_back([delta("a", 0), delta("b", 1)])
    assert not reaches_back([delta("b", 1)])
    assert reaches_back([delta("b", 1), message()])
    assert not reaches_back([message(), delta("b", 1, 2, 2)])


def test_a_replay_leaves_out_what_its_message_says() -> None:
    kept = [message(), delta("x", 0, 2, 2)]
    assert without_finished([delta("a", 0), delta("b", 1), *kept]) == kept
    unfinished = [delta("a", 0), event("tool_call")]
    assert without_finished(unfinished) == unfinished


def test_the_cursor_is_spliced_in_front_without_touching_the_rest() -> None:
    assert json.loads(delta("ü\U0001f30d", 0, number=7).text) == {"id": "7-0"} | json.loads(
        delta("ü\U0001f30d", 0).data
    )


def test_a_user_cannot_forge_an_end() -> None:
    """Content that quotes an end is text within text."""
    quoted = StreamEvent(b"1-0", json.dumps({"type": "task_start", "goal": '"type":"task_end"', "task_id": T}).encode())
    nested = event("approval_request", args={"type": "task_end"})
    assert quoted.closes is None
    assert nested.closes is None


def test_what_a_filter_remembers_is_bounded() -> None:
    view = DeltaFilter()
    for number in range(5000):
        view.judge(f"content task-{number} 1 1 0 1".encode())
    assert len(view._tasks) <= 512
