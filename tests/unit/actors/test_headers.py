"""Headers and mail are read as they were written."""

import pytest

from pentad.contracts.envelope import Budget
from pentad.shared.actors.headers import Mail, OpenCall, lease_of, mail_of, pairs, task_header
from pentad.shared.actors.session_header import recent_field, session_header
from pentad.shared.errors import DamagedError

FULL = {
    "status": b"active", "session": b"s1", "user": b"u", "goal": b"g", "created": b"5", "step": b"3",
    "turn_tokens": b"7.0", "usd": b"0.25", "budget": b'{"steps":4}', "open": b'[["c1","echo","default"]]',
    "token": b"9", "starts": b"1", "wake": b"1-1", "unheard-of": b"x",
}  # fmt: skip


def test_a_task_is_read_with_every_field_in_its_type() -> None:
    task = task_header("default", "t", FULL)
    assert task is not None
    assert (task.status, task.session, task.created, task.step, task.turn_tokens, task.usd) == (
        "active", "s1", 5, 3, 7, 0.25,
    )  # fmt: skip
    assert task.budget == Budget(steps=4)
    assert task.open == (OpenCall("c1", "echo", "default"),)
    assert (task.describe().waiting_for, task.describe().waiting_for_tools) == (["c1"], ["echo"])


@pytest.mark.parametrize("raw", [{}, {"status": b""}, {"token": b"1", "mail": b"3"}])
def test_a_hash_without_a_status_is_no_task(raw: dict[str, bytes]) -> None:
    assert task_header("default", "t", raw) is None


@pytest.mark.parametrize(
    ("value", "read"),
    [(b"9" * 308, 253_402_300_799_999), (b"9" * 400, 253_402_300_799_999), (b"inf", 253_402_300_799_999),
     (b"nan", 0), (b"-5", 0), (b"-inf", 0)],
)  # fmt: skip
def test_an_absurd_number_makes_no_task_unreadable(value: bytes, read: int) -> None:
    """An earlier version kept what a model said of itself as it came."""
    numbers = ("input_tokens", "turn_tokens", "created", "updated", "usd", "turn_usd")
    task = task_header("default", "t", {**FULL, **dict.fromkeys(numbers, value)})
    assert task is not None
    assert (task.input_tokens, task.turn_tokens, task.created, task.usd) == (read, read, read, read)
    assert task.describe().usage.input_tokens == read


@pytest.mark.parametrize(
    "wrong",
    [{"status": b"later"}, {"step": b"many"}, {"budget": b"{"}, {"open": b"["}, {"open": b'[["a"]]'}, {"open": b"[1]"},
     {"open": b'[["a", "ask_user", "", "nobody"]]'}, {"open": b'[["a", "ask_user", "", true, false]]'}],
)  # fmt: skip
def test_a_header_that_cannot_be_read_says_so(wrong: dict[str, bytes]) -> None:
    with pytest.raises(DamagedError, match="the header of task t cannot be read"):
        task_header("default", "t", FULL | wrong)


@pytest.mark.parametrize(("written", "is_read"), [(b"1", True), (b"2", False), (b"10", False), (b"x", False)])
def test_a_header_of_a_newer_version_is_refused_with_that_reason(written: bytes, is_read: bool) -> None:
    """Promise: later versions read what this one writes, and this one does not guess what a later one wrote."""
    if is_read:
        assert task_header("default", "t", FULL | {"format": written}) == task_header("default", "t", FULL)
    else:
        with pytest.raises(DamagedError, match=r"task t has the format .*: a newer version wrote it"):
            task_header("default", "t", FULL | {"format": written})


def test_text_that_is_not_utf8_is_shown_as_far_as_it_goes() -> None:
    task = task_header("default", "t", {**FULL, "goal": b"g\xff"})
    assert task is not None
    assert task.goal == "g\ufffd"


def test_empty_fields_are_unset() -> None:
    task = task_header(
        "default", "t", {"status": b"waiting", "session": b"s1", "reason": b"question", "budget": b"", "open": b""}
    )
    assert task is not None
    assert (task.budget, task.open, task.describe().waiting_for) == (None, (), ["question"])
    assert task.describe().waiting_for_tools is None


@pytest.mark.parametrize(("status", "ended"), [("active", False), ("waiting", False), ("completed", True),
                                               ("failed", True), ("cancelled", True)])  # fmt: skip
def test_which_statuses_are_an_end(status: str, ended: bool) -> None:
    task = task_header("default", "t", {"status": status.encode(), "session": b"s1"})
    assert task is not None
    assert task.ended is ended


def test_a_session_that_nobody_wrote_to_is_an_empty_one() -> None:
    empty = session_header({})
    assert (empty.recent, empty.done, empty.done_at, empty.last_in) == ((), "", 0, "")


def test_the_live_tasks_are_ordered_by_when_they_were_spoken_to() -> None:
    spoken_to = {recent_field(f"t{n}"): str(n).encode() for n in (2, 9, 10)}
    assert session_header(spoken_to).recent == ("t10", "t9", "t2")


def test_mail_keeps_its_body_whatever_is_in_it() -> None:
    assert mail_of([b'1 user {"a": "b c"}', b"12 cancel {}", b"13 odd "]) == (
        Mail(1, "user", b'{"a": "b c"}'),
        Mail(12, "cancel", b"{}"),
        Mail(13, "odd", b""),
    )


def test_a_lease_is_what_a_take_has_given() -> None:
    lease = lease_of({"token": b"3", "nonce": b"n", "attempt": b"2", "starts": b"1"}, "1-1", 5)
    assert (lease.token, lease.version, lease.wake_id, lease.attempt, lease.starts, lease.now) == (
        "3.n",
        "0",
        "1-1",
        2,
        1,
        5,
    )


def test_a_hash_comes_as_pairs() -> None:
    assert pairs([b"a", b"1", b"b", b""]) == {"a": b"1", "b": b""}
    with pytest.raises(ValueError, match="shorter"):
        pairs([b"a"])
