"""What leaves a task with a message that is moved away, decided from its transcript alone."""

from typing import Any

import pytest

from pentad.contracts.tools import Effect, ToolSpec
from pentad.services.task_runner.domain.message_move import (
    Fate,
    MovedPart,
    RemainingTranscript,
    fate_of,
    moved_part,
    past_effects,
    without_part,
)
from pentad.services.task_runner.domain.own_tools import ANSWERED, COMPLETED
from pentad.shared.actors.headers import OpenCall, TaskHeader

LIVE = TaskHeader("default", "t", "s1", "active")
ENDED = TaskHeader("default", "t", "s1", "completed")
CANCELLED = TaskHeader("default", "t", "s1", "cancelled")


def transcript(text: str) -> list[dict[str, Any]]:
    """``u1``: a user's message, ``a1`` an answer, ``c1`` an answer with a tool call, ``t`` its result, ``q`` that of a
    question, ``d`` that of the call that ends a task, ``r`` a repair, ``k1`` a user's message that the task began with,
    ``m`` what was recalled for it,
    ``x2,3`` an exclusion of these positions, ``b`` an old answer that it began with."""
    return [_line(word) for word in text.split()]


def _line(word: str) -> dict[str, Any]:
    kind, rest = word[0], word[1:]
    call = {"id": f"call-{rest}", "function": {"name": "pay", "arguments": "{}"}}
    lines: dict[str, dict[str, Any]] = {
        "u": {"role": "user", "content": "", "message_id": word},
        "k": {"role": "user", "content": "", "message_id": f"u{rest}", "origin": "context"},
        "b": {"role": "assistant", "content": ""},
        "r": {"role": "user", "content": "", "origin": "repair"},
        "m": {"role": "user", "content": "", "origin": "recalled"},
        "t": {"role": "tool", "content": ""},
        "q": {"role": "tool", "content": ANSWERED},
        "d": {"role": "tool", "content": COMPLETED},
        "x": {"role": "exclusion", "positions": [int(n) for n in rest.split(",") if n], "message_id": "u9"},
    }
    if kind in lines:
        return lines[kind]
    calls = {"tool_calls": [call]} if kind == "c" else {}
    return {"role": "assistant", "content": "", "step": int(rest), **calls}


@pytest.mark.parametrize(
    ("text", "message", "positions", "last"),
    [
        ("u1", "u1", (0,), True),
        ("u1 a1", "u1", (0, 1), True),
        ("u1 a1 u2 a2", "u1", (0, 1), False),
        ("u1 a1 u2 a2", "u2", (2, 3), True),
        ("u1 c1 t t c2 t a3 u2 a4", "u1", (0, 1, 2, 3, 4, 5, 6), False),
        ("u1 a1 r a2", "u1", (0, 1, 2, 3), True),
        ("u1 c1 t u2 a2", "u1", (0, 1, 2), False),
        ("u1 c1 t u2 a2", "u2", (3, 4), True),
        ("u1 u2 a1", "u1", (0,), False),
        ("u1 u2 a1", "u2", (1,), False),
        ("u1 u2 a1 x1", "u1", (0, 2), True),
        ("u1 a1 u2 a2 x0,1 u3", "u2", (2, 3), False),
        ("u1 a1 x0,1 u1 a2", "u1", (3, 4), True),
        ("k1 b u2 a1", "u2", (2, 3), True),
        ("k1 k2 u3 a1", "u3", (2, 3), True),
        ("m u1 a1", "u1", (1, 2, 0), True),
        ("m u1 a1 u2 a2", "u1", (1, 2, 0), False),
        ("m u1 a1 u2 a2", "u2", (3, 4), True),
        ("m u1 a1 m u2 a2", "u1", (1, 2, 0), False),
        ("m u1 a1 m u2 a2", "u2", (4, 5, 3), True),
        ("m u1 u2 a1", "u1", (1,), False),
        ("m u1 u2 a1 x2", "u1", (1, 3, 0), True),
    ],
)
def test_a_message_leaves_with_its_direct_answer(
    text: str, message: str, positions: tuple[int, ...], last: bool
) -> None:
    found = moved_part(transcript(text), message)
    assert found is not None
    assert (found.positions, found.last) == (positions, last)


@pytest.mark.parametrize("text", ["", "a1", "u2 a1", "u1 a1 x0,1", "k1 u2 a1", "u1 b u2 a1"])
def test_what_was_never_said_to_the_task_or_has_left_does_not_leave(text: str) -> None:
    assert moved_part(transcript(text), "u1") is None


def test_later_answers_stay_and_are_named_and_calls_leave() -> None:
    assert moved_part(transcript("u1 c1 t a2 u2 c3 t a4 x u3 a5"), "u1") == MovedPart(
        place=0, positions=(0, 1, 2, 3), calls=(("call-1", "pay"),), last=False, later_steps=(4, 5)
    )


@pytest.mark.parametrize("text", ["u1 c1 t u2 c2 t a3 u3 u4 a4 r a5", "k1 u2 a1 u1 c2 t a3"])
def test_what_remains_never_has_a_call_without_its_result(text: str) -> None:
    lines = transcript(text)
    for line in lines:
        if line["role"] == "user" and not line.get("origin"):
            found = moved_part(lines, line["message_id"])
            assert found is not None
            kept = [entry for n, entry in enumerate(lines) if n not in found.positions]
            for before, after in zip(kept, [*kept[1:], {"role": "end"}], strict=True):
                assert bool(before.get("tool_calls")) == (after["role"] == "tool")


@pytest.mark.parametrize(
    ("text", "without", "rest"),
    [
        ("u1 a1", (0, 1), RemainingTranscript(None, True)),
        ("k1 b u2 a1", (2, 3), RemainingTranscript(None, True)),
        ("u1 a1 u2 a2", (2, 3), RemainingTranscript("u1", True)),
        ("u1 c1 t u2 c2 t", (3, 4, 5), RemainingTranscript("u1", False)),
        ("u1 a1 u2 x0,1", (2,), RemainingTranscript(None, True)),
        ("u1 c1 q u2 a2", (3, 4), RemainingTranscript("u1", False, asks=True)),
        ("u1 c1 q t u2", (4,), RemainingTranscript("u1", False, asks=True)),
        ("u1 c1 q u2 c2 t u3", (6,), RemainingTranscript("u2", False)),
        ("u1 c1 d u2 a2", (3, 4), RemainingTranscript("u1", True)),
        ("", (), RemainingTranscript(None, True)),
    ],
)
def test_what_remains_is_answered_or_not(text: str, without: tuple[int, ...], rest: RemainingTranscript) -> None:
    assert without_part(transcript(text), without) == rest


def test_an_answer_that_was_cut_short_is_none() -> None:
    said = transcript("u1 a1")
    cut = [said[0], {**said[1], "finish_reason": "interrupted"}]
    assert (without_part(said, ()).answered, without_part(cut, ()).answered) == (True, False)


def test_what_remains_knows_what_it_began_with_and_the_last_budget() -> None:
    lines = transcript("k1 u1 a1 u2 a2 u3 a3")
    for number, budget in ((1, None), (3, {"steps": 2}), (5, {"steps": 1})):
        lines[number] |= {"content": f"said {number}", "budget": budget}
    assert without_part(lines, (1, 2, 5, 6)) == RemainingTranscript(
        "u2", True, began_with="said 3", budget={"steps": 2}
    )


def test_what_remains_knows_for_whom_later_steps_are() -> None:
    """The zone is that of the newest message with a known one, as if they had come one after the other."""
    lines = transcript("u1 a1 u2 a2 u3 a3")
    lines[0] |= {"metadata": {"time_zone": "Asia/Tokyo"}}
    lines[2] |= {"user_id": "ann", "metadata": {"time_zone": "Mars/Base"}, "traceparent": "00-1"}
    lines[4] |= {"user_id": "bob", "metadata": {"time_zone": "Europe/Paris"}}
    rest = without_part(lines, (4, 5))
    assert (rest.speaker, rest.metadata, rest.traceparent) == ("ann", lines[2]["metadata"], "00-1")
    assert rest.time_zone == "Asia/Tokyo"
    first = without_part(lines, (2, 3, 4, 5))
    assert (first.speaker, first.metadata, first.traceparent) == ("", lines[0]["metadata"], "")


SAID, UNANSWERED, NOTHING = (
    RemainingTranscript("u1", True),
    RemainingTranscript("u1", False),
    RemainingTranscript(None, True),
)
ASKING = RemainingTranscript("u1", False, asks=True)
FAILED = TaskHeader("default", "t", "s1", "failed")
OPEN = (OpenCall("c1", "ask_user", "", "person"), OpenCall("c2", "pay", "default"))
ANSWERED_EARLY = TaskHeader("default", "t", "s1", "active", open=OPEN)


@pytest.mark.parametrize(
    ("task", "rest", "state", "fate"),
    [
        (LIVE, NOTHING, {}, "cancelled"),
        (ENDED, NOTHING, {}, "cancelled"),
        (CANCELLED, NOTHING, {}, "as_it_was"),
        (LIVE, NOTHING, {"asked": True}, "as_it_was"),
        (ENDED, SAID, {}, "as_it_was"),
        (ENDED, SAID, {"last": False}, "as_it_was"),
        (ENDED, UNANSWERED, {}, "goes_on"),
        (ENDED, UNANSWERED, {"last": False}, "as_it_was"),
        (ENDED, ASKING, {}, "asks"),
        (ENDED, ASKING, {"asked": True}, "as_it_was"),
        (FAILED, UNANSWERED, {}, "as_it_was"),
        (CANCELLED, ASKING, {}, "as_it_was"),
        (LIVE, ASKING, {}, "asks"),
        (ANSWERED_EARLY, UNANSWERED, {"calls_left": True}, "asks"),
        (ANSWERED_EARLY, UNANSWERED, {"calls_left": True, "asked": True}, "as_it_was"),
        (LIVE, SAID, {}, "completed"),
        (LIVE, UNANSWERED, {}, "goes_on"),
        (LIVE, UNANSWERED, {"calls_left": True}, "as_it_was"),
        (LIVE, SAID, {"last": False}, "as_it_was"),
        (LIVE, SAID, {"asked": True}, "as_it_was"),
    ],
)
def test_a_task_ends_when_nothing_is_left_to_do(
    task: TaskHeader, rest: RemainingTranscript, state: Any, fate: Fate
) -> None:
    assert fate_of(task, rest, **({"last": True, "asked": False, "calls_left": False} | state)) == fate


def test_effects_are_named_unless_the_tool_only_reads() -> None:
    specs = {"look": ToolSpec(name="look", effect=Effect.PURE), "note": ToolSpec(name="note", effect=Effect.IDEMPOTENT)}
    found = past_effects([("c1", "look"), ("c2", "note"), ("c3", "gone")], specs)
    assert [(e.tool_call_id, e.effect) for e in found] == [("c2", Effect.IDEMPOTENT), ("c3", Effect.UNSAFE)]
