"""What is decided about webhooks: when an event is tried again, which events a callback gets, what a secret is."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pentad.contracts.receivers import check_webhook_url, signing_key
from pentad.contracts.turns import ASKED, NEEDS_APPROVAL
from pentad.contracts.webhooks import (
    CALLBACK_EVENTS,
    WEBHOOK_EVENTS,
    Webhook,
    WebhookRequest,
)
from pentad.services.gateway.domain.frames import UnreadableError, read_message
from pentad.services.gateway.domain.webhooks import (
    GIVE_UP_MS,
    MAX_PAUSE_S,
    CallbackTurn,
    Outcome,
    delivery_id,
    next_attempt,
    read_waiting,
    read_webhook,
)

Json = dict[str, Any]
FAILED = Outcome(500, "it answered 500")
_MAX_ATTEMPTS_A_DAY = 40


def pauses(outcome: Outcome = FAILED, chance: float = 0.5) -> list[int]:
    """Return the pauses between all attempts of one event, in ms."""
    found, age = list[int](), 0
    while (again := next_attempt(outcome, len(found), age, chance)) is not None:
        found.append(again.after_ms)
        age += again.after_ms
    return found


def test_an_event_is_tried_again_for_a_day_with_growing_pauses() -> None:
    found = pauses()
    assert found[:7] == [2_000, 10_000, 30_000, 60_000, 300_000, 900_000, 1_800_000]
    assert set(found[7:-1]) == {3_600_000}
    assert GIVE_UP_MS <= sum(found) <= GIVE_UP_MS + 1_000
    assert len(found) < _MAX_ATTEMPTS_A_DAY


@given(st.floats(0, 1), st.text(max_size=30) | st.integers(0, 10**12).map(str))
def test_whatever_a_server_asks_for_attempts_stay_within_bounds(chance: float, retry_after: str) -> None:
    found = pauses(Outcome(503, "busy", retry_after), chance)
    assert 20 < len(found) < _MAX_ATTEMPTS_A_DAY
    assert all(1_000 <= each <= MAX_PAUSE_S * 1_000 for each in found)


def test_a_server_that_asks_for_a_pause_gets_it() -> None:
    assert pauses(Outcome(429, "slowly", "600"))[0] == 600_000


def test_a_server_that_is_gone_is_not_asked_again() -> None:
    assert pauses(Outcome(410, "gone")) == []


def about(kind: str, **fields: Any) -> Json:
    ids = {
        "event_id": "e",
        "at": "2030-01-01T00:00:00.000Z",
        "tenant_id": "t",
        "session_id": "s",
        "task_id": "task-0-a",
    }
    return {"type": kind, **ids, **fields}


ROUTED = about("message_routed", message_id="m", decision="new", confidence=1.0, reason="test")


@pytest.mark.parametrize(
    ("events", "taken", "over"),
    [
        ([ROUTED, about("task_end", status="completed", steps=1)], 2, True),
        ([about("task_end", status="completed", steps=1, task_id="task-0-b"), ROUTED], 1, False),
        ([ROUTED, about("task_status", status="waiting", reason=ASKED)], 2, True),
        ([ROUTED, about("task_status", status="waiting", reason=NEEDS_APPROVAL)], 2, False),
        (
            [
                ROUTED,
                about("task_status", status="waiting", reason=NEEDS_APPROVAL),
                about("message", step=1, attempt=1, content="x"),
                about("task_end", status="failed", steps=1),
                about("message", step=2, attempt=1, content="of the next turn"),
            ],
            4,
            True,
        ),
        ([about("message_routed", message_id="m", decision="rejected", confidence=1.0, reason="full")], 1, True),
        ([about("error", code="internal", message="lost", message_id="m", task_id=None)], 1, True),
        ([about("of a later version"), ROUTED], 1, False),
    ],
)
def test_a_callback_gets_the_events_of_its_turn_until_that_ends(events: list[Json], taken: int, over: bool) -> None:
    turn = CallbackTurn("m")
    assert sum([turn.takes(event) for event in events]) == taken
    assert turn.over is over


def test_each_delivery_has_an_id_of_its_own() -> None:
    given_ids = [("w", "l", "1-0", "e"), ("v", "l", "1-0", "e"), ("w", "k", "1-0", "e"), ("w", "l", "1-1", "e")]
    assert len({delivery_id(*each) for each in given_ids}) == len(given_ids)
    assert delivery_id("w", "l", "1-0", "e") == delivery_id("w", "l", "1-0", "e")


def test_an_item_of_a_lane_is_read_as_it_was_written() -> None:
    waiting = read_waiting(b'7-1 1700 {"a": "b c"}')
    assert (waiting.entry, waiting.since_ms, waiting.event) == ("7-1", 1700, b'{"a": "b c"}')


def test_deltas_are_no_events_of_webhooks_and_callbacks_get_events_that_there_are() -> None:
    assert not WEBHOOK_EVENTS & {"content", "thinking", "tool_progress", "snapshot"}
    assert set(CALLBACK_EVENTS) <= WEBHOOK_EVENTS
    hook = Webhook(id="w", tenant_id="t", url="https://example.com", events=("*",), created_ms=0)
    assert hook.wants("task_end")
    assert not hook.wants("content")


@pytest.mark.parametrize("url", ["https://example.com", "http://[2001:db8::1]:8080/a?b=c%20d", "https://h/x/y?z=@"])
def test_addresses_are_taken(url: str) -> None:
    assert check_webhook_url(url) == url


@given(st.text(max_size=200))
def test_a_strange_address_or_secret_is_refused_and_not_repeated(text: str) -> None:
    for check in (check_webhook_url, signing_key):
        with pytest.raises(ValueError, match="must be") as refused:
            check("x" + text)
        assert len(text) < 8 or text not in str(refused.value)


ANY = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=50), lambda s: st.lists(s, max_size=3))
FIELDS = st.sampled_from(["content", "url", "events", "session", "secret", "callback_url", "callback_secret", "x"])


@given(st.dictionaries(FIELDS, ANY))
def test_any_body_is_read_or_refused(body: Json) -> None:
    readers: tuple[Callable[[Json], Any], ...] = (read_webhook, lambda given: read_message(given, "t", "s", "m"))
    for read in readers:
        with suppress(UnreadableError):
            read(body)


def test_a_refusal_does_not_repeat_the_secret() -> None:
    with pytest.raises(ValidationError) as refused:
        WebhookRequest.model_validate({"url": "https://h/", "events": ["*"], "secret": "hush-hush"})
    assert "hush-hush" not in str(refused.value)
