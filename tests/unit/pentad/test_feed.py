"""The pure parts of following a session: cursors, waiting times, frames."""

import pytest

from pentad.client.feed import MAX_DELAY_S, backoff, is_after, parse_event
from pentad.client.gateway import Address, seconds


@pytest.mark.parametrize(
    ("cursor", "other", "after"),
    [
        ("5-0", None, True),
        ("5-1", "5-0", True),
        ("10-0", "9-9", True),
        ("5-10", "5-9", True),
        ("5-0", "5-0", False),
        ("5-0", "5-1", False),
        ("5-0", "0", True),
        ("0-0", "0", False),
        ("odd", "5-0", True),
    ],
)
def test_cursors_are_compared_by_number(cursor: str, other: str | None, after: bool) -> None:
    assert is_after(cursor, other) is after


def test_waiting_times_grow_to_a_limit_and_never_vanish() -> None:
    assert 0.05 <= backoff(0) <= 0.1
    assert all(MAX_DELAY_S / 2 <= backoff(failures) <= MAX_DELAY_S for failures in (5, 50, 5000))


def test_a_bare_error_frame_is_an_event_of_the_session() -> None:
    event = parse_event({"type": "error", "code": "busy", "message": "later", "retry_after": 2}, "s1")
    assert event is not None
    assert (event.type, event.session_id) == ("error", "s1")


@pytest.mark.parametrize("frame", [{}, {"type": "pong"}, {"type": "mood"}, {"type": "content", "step": "x"}])
def test_what_is_no_event_is_passed_over(frame: dict[str, str]) -> None:
    assert parse_event(frame, "s1") is None


@pytest.mark.parametrize(("text", "value"), [("3", 3.0), ("0.5", 0.5), ("-1", 0.0), (None, None), ("Sat, 1 Jan", None)])
def test_retry_after_is_seconds_or_nothing(text: str | None, value: float | None) -> None:
    assert seconds(text) == value


def test_an_address_never_shows_its_key() -> None:
    address = Address.parse("https://example.org/base/", "secret")
    assert address.events_url("s1", "5-0") == "wss://example.org/base/v1/ws?session_id=s1&after=5-0"
    assert "secret" not in f"{address} {address!r} {address.unreachable()} {address.not_authorized()}"
