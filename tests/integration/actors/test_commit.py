"""A step happens once: all of it or nothing, whoever asks and however often."""

import pytest

from pentad.contracts.events import Content
from pentad.contracts.streams import TASK_WAKE
from pentad.shared.actors.actors import Taken
from pentad.shared.actors.headers import HEADER_FORMAT
from pentad.shared.keys import TaskKeys, load, timers
from tests.integration.actors.moves import SESSION, TASK, Moves, commit

OTHER = TaskKeys(0, "default", "task-0-b")


@pytest.fixture
async def taken(moves: Moves) -> Taken:
    """The task under the first worker's lease, with one message read."""
    await moves.mail()
    (wake,) = await moves.read()
    return await moves.take(moves.one, wake)


async def test_a_commit_writes_everything_and_acknowledges(moves: Moves, taken: Taken) -> None:
    step = commit("step-1")
    step.consume(1)
    step.log(b"entry")
    step.event(SESSION, b"{}")
    step.set(TASK.header, reason="because", step=1)
    assert await moves.one.commit(step, taken) == "committed"
    header = await moves.header()
    assert (header["v"], header["last_step"], header["exp"], header["wake"]) == ("1", "step-1", "0", "")
    assert header["format"] == str(HEADER_FORMAT), "a later version knows how to read it"
    assert await moves.store.call("LRANGE", TASK.log, 0, -1) == [b"entry"]
    assert await moves.store.call("XLEN", SESSION.events) == 1
    assert await moves.store.call("TTL", SESSION.events) > 0
    assert (await moves.kinds(), await moves.pending(), await moves.unread()) == ([], {}, 0)


async def test_the_same_commit_again_changes_nothing_and_has_the_same_outcome(moves: Moves, taken: Taken) -> None:
    await moves.mail()
    step = commit("step-1")
    step.consume(1)
    step.log(b"entry")
    step.mode = "complete"
    outcomes = [await moves.one.commit(step, taken) for _ in range(3)]
    assert outcomes == ["continued", "continued", "continued"]
    assert await moves.store.call("LLEN", TASK.log) == 1
    assert len(await moves.read()) == 1


async def test_a_zombies_commit_is_stale_and_writes_nothing(moves: Moves, taken: Taken) -> None:
    await moves.expire()
    await moves.take(moves.two, taken.lease.wake_id)
    step = commit()
    step.log(b"zombie")
    assert await moves.one.commit(step, taken) == "lost"
    assert await moves.store.call("EXISTS", TASK.log) == 0
    assert list(await moves.pending()) == [taken.lease.wake_id]


async def test_a_commit_to_a_version_that_has_passed_is_stale(moves: Moves, taken: Taken) -> None:
    assert await moves.one.commit(commit(), taken) == "committed"
    assert await moves.one.commit(commit(), taken) == "lost"


async def test_a_commit_to_a_task_that_is_gone_is_stale_and_makes_no_key(moves: Moves, taken: Taken) -> None:
    await moves.store.call("DEL", *TASK.all())
    assert await moves.one.commit(commit(), taken) == "lost"
    assert await moves.store.call("EXISTS", *TASK.all()) == 0


@pytest.mark.parametrize(("kind", "outcome"), [("user", "continued"), ("result", "committed"), ("cancel", "committed")])
async def test_a_task_does_not_complete_while_a_newer_message_waits(
    moves: Moves, taken: Taken, kind: str, outcome: str
) -> None:
    await moves.mail(kind)
    step = commit()
    step.consume(1)
    step.log(b"answer")
    step.mode = "complete"
    step.finish()
    step.set(TASK.header, status="completed")
    assert await moves.one.commit(step, taken) == outcome
    assert (await moves.header())["status"] == ("active" if outcome == "continued" else "completed")
    assert await moves.store.call("LLEN", TASK.log) == 1
    left = [] if kind == "cancel" else [kind]
    assert await moves.kinds() == left, "what was asked of the task as it was ends with it"
    assert len(await moves.read()) == len(left), "what is left has a wake-up in any case"


async def test_an_end_that_takes_all_messages_says_up_to_which_and_wakes_for_the_rest(
    moves: Moves, taken: Taken
) -> None:
    await moves.mail("user")
    step = commit()
    step.mode = "stop"
    assert await moves.one.commit(step, taken) == "committed"
    assert (await moves.header())["ended_mail"] == "2"
    assert len(await moves.read()) == 1


async def test_a_failure_ends_whatever_has_come_and_what_has_come_wakes_again(moves: Moves, taken: Taken) -> None:
    await moves.mail("user")
    step = commit()
    step.mode = "fail"
    assert await moves.one.commit(step, taken) == "committed"
    assert len(await moves.read()) == 1


async def test_a_failure_is_refused_when_a_cancel_has_come(moves: Moves, taken: Taken) -> None:
    await moves.mail("user")
    await moves.one.post(TASK, "cancel", b"{}", ("active",), "cancel")
    step = commit()
    step.mode = "fail"
    assert await moves.one.commit(step, taken) == "overtaken"
    again = await moves.one.look(TASK, taken)
    assert again is not None
    assert await moves.one.commit(step, again) == "committed"
    assert await moves.kinds() == ["user", "user"]


@pytest.mark.parametrize("kind", ["result", "approval"])
async def test_giving_calls_up_is_refused_when_a_result_or_a_decision_has_come(
    moves: Moves, taken: Taken, kind: str
) -> None:
    step = commit()
    step.expect_no_new_result()
    step.log(b"given up")
    await moves.mail(kind)
    assert await moves.one.commit(step, taken) == "overtaken"
    assert await moves.store.call("EXISTS", TASK.log) == 0
    again = await moves.one.look(TASK, taken)
    assert again is not None
    assert await moves.one.commit(step, again) == "committed"


async def test_an_actor_that_has_changed_its_status_refuses_the_whole(moves: Moves, taken: Taken) -> None:
    step = commit()
    step.expect(OTHER.header, "none")
    step.set(OTHER.header, status="active")
    step.post(OTHER, "user", b"{}")
    await moves.store.call("HSET", OTHER.header, "status", "cancelled")
    assert await moves.one.commit(step, taken) == "overtaken"
    assert (await moves.kinds(OTHER), await moves.unread()) == ([], 0)
    await moves.store.call("DEL", OTHER.header)
    assert await moves.one.commit(step, taken) == "committed"
    assert await moves.kinds(OTHER) == ["user"]


async def test_messages_that_are_consumed_do_not_wait_any_more_and_those_passed_on_do(
    moves: Moves, taken: Taken
) -> None:
    """What counts for back-pressure is what no step has taken in yet, of all and of the tenant."""
    await moves.mail(count=3)
    await moves.store.call("HSET", load(0), "mail", 9, "tenant:default", 4, "tenant:other", 5)
    step = commit()
    step.consume(2)
    assert await moves.one.commit(step, taken) == "committed"
    assert await moves.waiting() == {"mail": 7, "tenant:default": 2, "tenant:other": 5}
    (wake,) = await moves.read()
    step, taken = commit(), await moves.take(moves.one, wake)
    step.pass_on(3)
    assert await moves.one.commit(step, taken) == "committed"
    assert await moves.waiting() == {"mail": 7, "tenant:default": 2, "tenant:other": 5}
    (wake,) = await moves.read() or [(await moves.header())["wake"]]
    await moves.mail(count=3)
    taken = await moves.take(moves.one, wake or (await moves.read())[0])
    step = commit()
    step.consume(99)
    assert await moves.one.commit(step, taken) == "committed"
    assert await moves.waiting() == {"mail": 3, "tenant:other": 5}, "it never counts below nothing"


async def test_mail_that_was_seen_and_left_does_not_spin(moves: Moves, taken: Taken) -> None:
    assert await moves.one.commit(commit(), taken) == "committed"
    assert await moves.unread() == 0
    await moves.mail("result")
    assert len(await moves.read()) == 1


async def test_a_step_that_sends_mail_to_its_own_task_is_woken_by_it(moves: Moves, taken: Taken) -> None:
    """As it does when it answers a tool call that nobody can run: else the task waits for its step's time limit."""
    step = commit()
    step.consume(taken.read)
    step.post(TASK, "result", b"{}")
    await moves.one.commit(step, taken)
    assert await moves.unread() == 1
    assert await moves.kinds() == ["result"]


async def test_a_commit_can_ask_to_be_woken_again(moves: Moves, taken: Taken) -> None:
    step = commit()
    step.rewake()
    await moves.one.commit(step, taken)
    assert await moves.unread() == 1


async def test_what_belongs_to_the_end_is_left_out_when_it_did_not_end(moves: Moves, taken: Taken) -> None:
    await moves.mail("user")
    step = commit()
    step.mode = "complete"
    step.timer(TASK, "timeout", 1000)
    step.finish()
    step.untimer(TASK, "timeout")
    step.timer(TASK, "archive", 1000)
    assert await moves.one.commit(step, taken) == "continued"
    assert await moves.store.call("ZRANGE", timers(0), 0, -1) == [f"timeout {TASK.actor}".encode()]


async def test_every_operation_does_what_its_name_says(moves: Moves, taken: Taken) -> None:
    step = commit()
    for value in (b"a", b"b", b"c"):
        step.push(SESSION.turns, value, cap=2)
    step.set_once(TASK.big, "x", "first")
    step.set_once(TASK.big, "x", "second")
    step.set(SESSION.header, live=TASK.task, done="other")
    step.cut(SESSION.header, "live", TASK.task)
    step.cut(SESSION.header, "done", TASK.task)
    step.incr(TASK.header, step=2, usd=0.5, nothing=0)
    step.unset(TASK.header, "session")
    step.begin(TASK, SESSION, None)
    step.expire(SESSION.turns, 100)
    step.stamp(TASK.header, "asked_at", "ended_at")
    step.due(TASK, "deadline", 7)
    step.delta(SESSION, Content, b"{}", "content t 1 1 0 2")
    assert await moves.one.commit(step, taken) == "committed"
    assert await moves.store.call("LRANGE", SESSION.turns, 0, -1) == [b"b", b"c"]
    assert await moves.store.call("ZSCORE", timers(0), f"deadline {TASK.actor}") == b"7"
    assert await moves.store.call("HGET", TASK.big, "x") == b"first"
    assert await moves.header(SESSION) == {"done": "other"}
    header = await moves.header()
    assert taken.lease.now <= int(header["asked_at"]) == int(header["ended_at"]) <= await moves.store.clock()
    assert (header["step"], header["usd"], "session" in header, "nothing" in header) == ("2", "0.5", False, False)
    ranked = await moves.store.call("ZSCORE", "pentad:{0}:tasks:default", TASK.task)
    assert int(ranked) == int(header["created"]) == int(header["asked_at"]), "the time that the header has"
    assert 0 < await moves.store.call("TTL", SESSION.turns) <= 100
    ((_, delta),) = await moves.store.call("XRANGE", SESSION.events, "-", "+")
    assert delta == [b"data", b"{}", b"d", b"content t 1 1 0 2"]
    assert await moves.store.call("XLEN", "pentad:{0}:bell") == 1


async def test_a_handling_that_began_afresh_forgets_its_starts(moves: Moves, taken: Taken) -> None:
    assert (await moves.header())["starts"] == "1"
    await moves.one.commit(commit(), taken)
    assert (await moves.header())["starts"] == "0"
    assert TASK_WAKE.key(0) == TASK.wake
