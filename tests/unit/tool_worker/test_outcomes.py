"""What a tool call's outcome is to the model and to clients."""

import pytest

from pentad.contracts.tools import Effect, OutcomeKind, ToolOutcome
from pentad.services.tool_worker.children.call_server import failure, success
from pentad.services.tool_worker.domain import (
    RESULT_LIMIT,
    CallName,
    after_outcome,
    bounded,
    named_call,
    told_outcome,
)
from pentad.shared.clipping import clip
from pentad.shared.plugins.errors import InvalidArguments

KINDS: tuple[OutcomeKind, ...] = ("ok", "error", "timeout", "cancelled", "crashed")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("effect", list(Effect))
def test_an_outcome_of_the_call_itself_is_its_end(kind: OutcomeKind, effect: Effect) -> None:
    assert after_outcome(kind, effect) == "close"


@pytest.mark.parametrize(
    ("effect", "verdict"), [(Effect.PURE, "again"), (Effect.IDEMPOTENT, "again"), (Effect.UNSAFE, "unknown")]
)
def test_a_call_whose_process_was_lost_goes_by_its_effect(effect: Effect, verdict: str) -> None:
    assert after_outcome("interrupted", effect) == verdict


@pytest.mark.parametrize(
    ("text", "limit", "kept"),
    [
        ("", 3, ""),
        ("abc", 3, "abc"),
        ("abcd", 3, "abc"),
        ("aéb", 2, "a"),
        ("aéb", 3, "aé"),
        ("日本", 5, "日"),
        ("日", 2, ""),
    ],
)
def test_text_is_cut_at_a_character(text: str, limit: int, kept: str) -> None:
    assert clip(text, limit) == kept
    assert len(clip(text, limit).encode()) <= limit


def test_text_that_fits_is_the_same_object() -> None:
    text = "x" * 100
    assert clip(text, 100) is text


def test_text_that_is_not_unicode_can_be_cut() -> None:
    assert clip("\ud800" * 10, 4) == "????"


def test_a_result_that_is_too_long_says_that_it_was_cut() -> None:
    kept = bounded(ToolOutcome("ok", "x" * (RESULT_LIMIT + 1), 5))
    assert kept.text.endswith(f"[cut: longer than {RESULT_LIMIT} bytes]")
    assert (kept.ok, kept.duration_ms) == (True, 5)
    short = ToolOutcome("ok", "x")
    assert bounded(short) is short


def test_the_model_is_told_what_is_an_error() -> None:
    assert (ToolOutcome("ok", "42").for_model, ToolOutcome("timeout", "no").for_model) == ("42", "error: no")


CALL = b'{"tenant_id":"acme","task_id":"task-0-a","tool_call_id":"call-0-b","args":{"tool_call_id":"call-0-other"}'


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (CALL + b"}", CallName("acme", "task-0-a", "call-0-b")),
        (CALL, CallName("acme", "task-0-a", "call-0-b")),
        (b'{"task_id" : "t", "tool_call_id": "c"', CallName("default", "t", "c")),
        (b'{"tenant_id":null,"task_id":"t","tool_call_id":"c"}', CallName("default", "t", "c")),
        (b"", None),
        (b"[]", None),
        (b'{"task_id":"t"}', None),
        (b'{"task_id":"t","tool_call_id":7}', None),
        (b'{"task_id":"t:calls","tool_call_id":"c"}', None),
        (b'{"task_id":"t","tool_call_id":"\xff"', None),
    ],
)
def test_a_call_is_named_by_what_can_be_read(data: bytes, name: CallName | None) -> None:
    assert named_call(data) == name


@pytest.mark.parametrize("sign", ["x", "é", "日", "🌡"])
def test_of_a_result_that_is_too_long_the_worker_gets_so_much_that_it_sees_that(sign: str) -> None:
    """Promise: what cannot be kept is not sent either, and the model is told that there was more."""
    kind, sent, _ = success("long", sign * (2 * RESULT_LIMIT), None)
    assert RESULT_LIMIT < len(sent.encode()) <= RESULT_LIMIT + 4
    assert bounded(ToolOutcome(kind, sent)).text.endswith(f"[cut: longer than {RESULT_LIMIT} bytes]")


def test_wrong_arguments_that_a_tool_finds_itself_are_no_failure_of_the_tool() -> None:
    kind, text, _ = failure("weather", InvalidArguments("no such city"))
    assert (kind, text) == ("refused", "no such city")
    told = told_outcome(ToolOutcome(kind, text))
    assert (told.kind, told.for_model) == ("error", "error: no such city")
