"""A commit's arguments are what its script reads: keys by index, checks first, operations in order."""

from pentad.contracts.envelope import Contract
from pentad.contracts.streams import TOOL_CALLS
from pentad.shared.actors.commit import Commit
from pentad.shared.keys import SessionKeys, TaskKeys, bell, places, task_queue, timers

TASK = TaskKeys(0, "default", "task-0-a")
SESSION = SessionKeys(0, "default", "s1")
HEAD = ["token", "7", "step-1", 3, 4, "group", "1-1", "default/task-0-a"]


class Note(Contract):
    """Something to append."""

    text: str = "x"


def made() -> Commit:
    return Commit(TASK, "step-1", events_maxlen=100, events_ttl_s=60)


def arguments(commit: Commit) -> list[object]:
    whole: list[object] = list(commit.arguments("token", "7", "1-1", (3, 4), "group", "10 1000"))
    assert whole[:8] == HEAD
    assert whole.pop(10) == "10 1000"
    return whole[8:]


def test_an_empty_commit_has_the_actors_keys_and_no_operation() -> None:
    commit = made()
    assert commit.keys[:5] == [TASK.header, TASK.messages, TASK.signals, TASK.log, TASK.wake]
    assert commit.keys[5:] == [places(0), task_queue(0, "default")]
    assert arguments(commit) == ["continue", "----s--"]


def test_a_session_has_no_transcript() -> None:
    commit = Commit(SESSION, "step-1")
    assert commit.keys == [SESSION.header, SESSION.messages, SESSION.signals, SESSION.header, SESSION.wake]


def test_checks_come_before_operations_whenever_they_are_added() -> None:
    commit = made()
    commit.log(b"entry")
    commit.expect(SESSION.header, "none")
    commit.expect_no_new_result()
    commit.mode = "stop"
    assert arguments(commit) == ["stop", "---ls---", "expect", 8, "none", "no-new-result", "log", b"entry"]


def test_a_key_is_named_once_and_then_by_its_place() -> None:
    commit = made()
    commit.set(SESSION.header, live="t", done="")
    commit.cut(SESSION.header, "live", "t")
    commit.unset(TASK.header, "a", "b")
    assert commit.keys[7:] == [SESSION.header]
    assert arguments(commit)[2:] == [
        *("set", 8, 2, 0, "live", "t", "done", ""), *("cut", 8, "live", "t"), *("unset", 1, 2, "a", "b"),
    ]  # fmt: skip


def test_what_is_set_in_a_hash_is_one_operation() -> None:
    commit = made()
    commit.set(TASK.header, status="active", step=1)
    commit.stamp(TASK.header, "updated")
    commit.log(b"entry")
    commit.set(TASK.header, step=2)
    assert arguments(commit)[2:] == [
        *("log", b"entry"), *("set", 1, 3, 1, "updated", "", "status", "active", "step", 2),
    ]  # fmt: skip


def test_what_is_set_keeps_its_place_among_other_operations_on_its_hash_and_before_the_end() -> None:
    commit = made()
    commit.set(TASK.header, deadline=5)
    commit.unset(TASK.header, "deadline")
    commit.set(TASK.header, deadline=6)
    commit.expire(TASK.header, 60)
    commit.set(TASK.header, reason="a")
    commit.finish()
    commit.set(TASK.header, reason="b")
    assert arguments(commit)[2:] == [
        *("set", 1, 1, 0, "deadline", 5), *("unset", 1, 1, "deadline"), *("set", 1, 1, 0, "deadline", 6),
        *("expire", 1, 60), *("set", 1, 1, 0, "reason", "a"), "finish", *("set", 1, 1, 0, "reason", "b"),
    ]  # fmt: skip


def test_operations_keep_their_order_and_layout() -> None:
    commit = made()
    commit.unmail([1, 2])
    commit.push(TASK.steps, b"s", 9)
    commit.set_once(TASK.big, "n", "v")
    commit.incr(TASK.header, step=1, usd=0.0)
    commit.queue(TOOL_CALLS, TOOL_CALLS.key(0, queue="q"), Note())
    commit.rewake()
    commit.finish()
    assert commit.keys[7:] == [TASK.steps, TASK.big, "pentad:{0}:tools:q"]
    assert arguments(commit)[2:] == [
        *("unmail", 1, "unmail", 2), *("push", 8, b"s", 9), *("setnx", 9, "n", "v"), *("incr", 1, "step", 1),
        *("queue", 10, b'{"text":"x"}'), "rewake", "finish",
    ]  # fmt: skip


def test_the_doorbell_is_rung_once_for_a_session_and_before_its_events() -> None:
    commit = made()
    commit.event(SESSION, Note())
    commit.event(SESSION, b"{}")
    commit.delta(SESSION, Note, b"{}", "d")
    assert commit.keys[7:] == [bell(0), SESSION.events]
    assert arguments(commit)[2:] == [
        *("ring", 8, "default/s1"), *("event", 9, b'{"text":"x"}', 100, 60), *("event", 9, b"{}", 100, 60),
        *("delta", 9, b"{}", 100, 60, "d"),
    ]  # fmt: skip


def test_timers_are_named_by_kind_and_task_and_never_lie_in_the_past() -> None:
    commit = made()
    commit.timer(TASK, "retry", -5)
    commit.untimer(TASK, "timeout", "retry")
    assert commit.keys[7:] == [timers(0)]
    assert arguments(commit)[2:] == [
        *("timer", 8, "retry default/task-0-a", 0),
        *("untimer", 8, 2, "timeout default/task-0-a", "retry default/task-0-a"),
    ]  # fmt: skip


def test_a_key_that_is_only_read_at_first_is_checked_when_it_is_written() -> None:
    commit = made()
    commit.expect(SESSION.header, "none")
    commit.set(SESSION.header, live="t")
    commit.push(TASK.steps, b"s")
    assert arguments(commit)[1] == "----s--hl"


def test_mail_to_another_names_its_header_mailbox_and_stream() -> None:
    commit = made()
    commit.post(SESSION, "user", b"{}")
    assert commit.keys[7:] == [SESSION.header, SESSION.messages, SESSION.wake]
    assert arguments(commit)[2:] == ["post", 8, 9, 10, "default/s1", "user", b"{}"]


def test_everything_that_commits_together_lies_in_one_slot() -> None:
    commit = made()
    commit.event(SESSION, b"{}")
    commit.post(SESSION, "user", b"{}")
    commit.timer(TASK, "retry", 1)
    assert all("{0}" in key for key in commit.keys)
