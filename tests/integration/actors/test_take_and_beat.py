"""One worker at a time per actor, by a lease that a silent worker loses and nobody can steal back."""

import pytest

from pentad.shared.actors.actors import MESSAGE_BYTES, TASK_MESSAGES, Actors
from tests.integration.actors.moves import SESSION, TASK, Moves, commit


async def test_a_wake_up_that_is_not_current_is_acknowledged_and_dropped(moves: Moves) -> None:
    await moves.mail()
    (wake,) = await moves.read()
    await moves.store.call("HSET", TASK.header, "wake", "1-1")
    assert await moves.one.take(TASK, wake) is None
    assert await moves.pending() == {}


async def test_a_wake_up_of_an_actor_that_is_gone_leaves_no_key_behind(moves: Moves) -> None:
    await moves.mail()
    (wake,) = await moves.read()
    await moves.store.call("DEL", *TASK.all())
    assert await moves.one.take(TASK, wake) is None
    assert await moves.store.call("EXISTS", *TASK.all()) == 0


async def test_a_leased_wake_up_stays_pending(moves: Moves) -> None:
    await moves.mail()
    (wake,) = await moves.read()
    await moves.take(moves.one, wake)
    assert await moves.offer(wake) == "leased"
    assert list(await moves.pending()) == [wake]


async def test_a_worker_waits_for_the_end_of_anothers_lease_and_then_takes_it(moves: Moves) -> None:
    await moves.mail()
    (wake,) = await moves.read()
    await moves.take(Actors(moves.store, "short", 100), wake)
    taken = await moves.two.take(TASK, wake)
    assert taken is not None
    assert taken.lease.attempt == 2


async def test_whoever_takes_over_finds_the_actor_as_it_was_and_a_higher_attempt(moves: Moves) -> None:
    await moves.mail()
    (wake,) = await moves.read()
    first = await moves.take(moves.one, wake)
    await moves.expire()
    second = await moves.take(moves.two, wake)
    assert second.mail == first.mail
    assert (second.lease.attempt, second.lease.starts) == (first.lease.attempt + 1, 2)
    assert second.lease.token != first.lease.token


async def test_a_step_takes_in_a_bounded_piece_of_the_messages_and_all_signals(moves: Moves) -> None:
    """Nothing walks messages of any number, and results are found wherever they lie."""
    await moves.mail(count=TASK_MESSAGES + 6)
    await moves.mail("result")
    (wake,) = await moves.read()
    taken = await moves.take(moves.one, wake)
    assert [m.number for m in taken.messages] == list(range(1, TASK_MESSAGES + 1))
    assert [(m.number, m.kind) for m in taken.signals] == [(TASK_MESSAGES + 7, "result")]
    step = commit()
    step.consume(taken.read)
    step.mode = "complete"
    assert await moves.one.commit(step, taken) == "continued", "what it has not read waits"
    (again,) = await moves.read()
    assert len((await moves.take(moves.one, again)).messages) == 6


async def test_a_step_takes_in_a_bounded_number_of_bytes_and_one_message_at_least(moves: Moves) -> None:
    await moves.mail(body=b"x" * (MESSAGE_BYTES + 1))
    await moves.mail(body=b"x" * (MESSAGE_BYTES // 2), count=2)
    (wake,) = await moves.read()
    taken = await moves.take(moves.one, wake)
    assert [m.number for m in taken.messages] == [1]
    step = commit()
    step.consume(1)
    await moves.one.commit(step, taken)
    (wake,) = await moves.read()
    assert [m.number for m in (await moves.take(moves.one, wake)).messages] == [2]


async def test_a_token_is_given_once_also_when_redis_has_lost_its_last_writes(moves: Moves) -> None:
    """After a failover the counter goes on from an earlier number: an old holder must not pass for the new one."""
    await moves.mail()
    (wake,) = await moves.read()
    before = {name: await moves.store.call("DUMP", name) for name in (TASK.header, TASK.messages)}
    old = await moves.take(moves.one, wake)
    for name, value in before.items():  # what a replica without the last write has
        await moves.store.call("RESTORE", name, 0, value, "REPLACE")
    await moves.mail(body=b"newer")
    new = await moves.take(moves.two, wake)
    assert old.lease.token.split(".")[0] == new.lease.token.split(".")[0]
    step = commit()
    step.consume(2)
    assert await moves.one.beat(TASK, old.lease) is None
    assert await moves.one.look(TASK, old) is None
    await moves.one.release(TASK, wake, old.lease.token)
    assert await moves.one.commit(step, old) == "lost"
    assert len(new.messages) == 2
    assert await moves.two.commit(commit(), new) == "committed"


async def test_a_lease_that_ends_further_ahead_than_a_lease_is_long_is_over(moves: Moves) -> None:
    """The clock has stepped back since it was taken."""
    await moves.mail()
    (wake,) = await moves.read()
    await moves.take(moves.one, wake)
    await moves.store.call("HINCRBY", TASK.header, "exp", 3_600_000)
    await moves.two.release(TASK, wake)
    (wake,) = await moves.read()
    assert await moves.two.take(TASK, wake) is not None


async def test_a_lease_of_a_process_with_a_longer_one_is_kept(moves: Moves) -> None:
    """How long a lease is, its taker says: not who looks at it."""
    await moves.mail()
    (wake,) = await moves.read()
    await moves.take(moves.one, wake)
    short = Actors(moves.store, "short", 100)
    await short.release(TASK, wake)
    assert await moves.pending() == {wake: "one"}


async def test_a_zombies_beat_neither_extends_the_lease_nor_steals_the_entry_back(moves: Moves) -> None:
    await moves.mail()
    (wake,) = await moves.read("one")
    zombie = (await moves.take(moves.one, wake)).lease
    await moves.expire()
    owner = (await moves.take(moves.two, wake)).lease
    assert await moves.two.beat(TASK, owner) == ""
    assert await moves.one.beat(TASK, zombie) is None
    assert await moves.pending() == {wake: "two"}


async def test_a_beat_tells_of_a_message_only_where_one_is_news(moves: Moves) -> None:
    await moves.mail(count=3)
    (wake,) = await moves.read()
    taken = await moves.take(moves.one, wake)
    assert await moves.one.beat(TASK, taken.lease, taken.newest) == ""
    await moves.mail("result")
    assert await moves.one.beat(TASK, taken.lease, taken.newest) == "", "a result is no message"
    await moves.mail()
    assert await moves.one.beat(TASK, taken.lease) == "", "nobody asked"
    assert await moves.one.beat(TASK, taken.lease, taken.newest) == "user"
    await moves.one.post(TASK, "cancel", b"{}", ("active",), "cancel")
    assert await moves.one.beat(TASK, taken.lease, taken.newest) == "cancel", "a control goes first"


async def test_a_beat_keeps_the_entry_young_and_brings_control_mail(moves: Moves) -> None:
    await moves.mail()
    (wake,) = await moves.read()
    lease = (await moves.take(moves.one, wake)).lease
    await moves.expire()
    await moves.one.post(TASK, "cancel", b"{}", ("active",), "cancel")
    assert await moves.one.beat(TASK, lease) == "cancel"
    assert int((await moves.header())["exp"]) > lease.now


async def test_looking_again_is_a_new_attempt_and_only_for_the_holder(moves: Moves) -> None:
    await moves.mail(count=2)
    (wake,) = await moves.read()
    taken = await moves.take(moves.one, wake)
    await moves.mail("cancel")
    again = await moves.one.look(TASK, taken)
    assert again is not None
    assert [m.kind for m in again.mail][-1] == "cancel"
    assert again.lease.attempt == taken.lease.attempt + 1
    await moves.expire()
    await moves.take(moves.two, wake)
    assert await moves.one.look(TASK, taken) is None


async def test_a_release_hands_back_at_once_and_counts_nothing(moves: Moves) -> None:
    await moves.mail()
    (wake,) = await moves.read("one")
    taken = await moves.take(moves.one, wake)
    await moves.one.release(TASK, wake, taken.lease.token)
    assert await moves.pending() == {}
    (fresh,) = await moves.read("two")
    assert (await moves.take(moves.two, fresh)).lease.starts == 1


async def test_a_zombie_cannot_hand_back_what_another_holds(moves: Moves) -> None:
    await moves.mail()
    (wake,) = await moves.read()
    zombie = (await moves.take(moves.one, wake)).lease
    await moves.expire()
    await moves.take(moves.two, wake)
    await moves.one.release(TASK, wake, zombie.token)
    await moves.one.release(TASK, wake)
    assert list(await moves.pending()) == [wake]
    assert await moves.unread() == 0


async def test_a_wake_up_that_was_read_and_not_begun_is_handed_back(moves: Moves) -> None:
    await moves.mail()
    (wake,) = await moves.read("one")
    await moves.one.release(TASK, wake)
    (fresh,) = await moves.read("two")
    assert fresh != wake
    assert await moves.two.take(TASK, fresh) is not None


@pytest.mark.parametrize(("statuses", "posted"), [(("active",), True), (("completed",), False), (("none",), False)])
async def test_mail_is_posted_only_to_the_status_that_the_sender_saw(
    moves: Moves, statuses: tuple[str, ...], posted: bool
) -> None:
    assert await moves.one.post(TASK, "user", b"{}", statuses) == "active"
    assert bool(await moves.kinds()) is posted


async def test_control_mail_of_a_kind_waits_once(moves: Moves) -> None:
    for _ in range(2):
        await moves.one.post(TASK, "cancel", b"{}", ("active",), "cancel")
    assert await moves.kinds() == ["cancel"]


async def test_posting_twice_wakes_once(moves: Moves) -> None:
    await moves.mail(count=2)
    assert len(await moves.read()) == 1
    assert await moves.one.post(SESSION, "user", b"{}", ("active",)) == "none"


async def test_a_session_is_read_one_message_at_a_time_and_the_rest_comes_next(moves: Moves) -> None:
    """A hot session costs what it is sent, not its backlog for each message."""
    for _ in range(3):
        await moves.one.post(SESSION, "user", b"{}", ("none",))
    for number in (1, 2, 3):
        (wake,) = await moves.read("one", SESSION.wake, "router")
        taken = await moves.one.take(SESSION, wake)
        assert taken is not None
        assert [m.number for m in taken.messages] == [number]
        step = commit(actor=SESSION)
        step.consume(number)
        assert await moves.one.commit(step, taken) == "committed"
    assert await moves.read("one", SESSION.wake, "router") == []


async def test_a_beat_that_comes_after_the_commit_leases_nothing(moves: Moves) -> None:
    await moves.mail()
    (wake,) = await moves.read("one")
    taken = await moves.take(moves.one, wake)
    assert await moves.one.commit(commit(), taken) == "committed"
    await moves.mail()
    (again,) = await moves.read("two")
    assert await moves.one.beat(TASK, taken.lease) is None
    assert await moves.offer(again) == "ok"
