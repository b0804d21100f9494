"""A tool call is opened once, started by one owner and closed once."""

import pytest

from pentad.contracts.streams import TOOL_CALLS
from pentad.shared.keys import bell
from pentad.shared.store.store import Argument
from pentad.shared.work.broker import ensure_group
from tests.integration.actors.moves import SESSION, TASK, Moves

QUEUE = TOOL_CALLS.key(0, queue="default")
GROUP = "tool-worker"


async def queued(moves: Moves, call: str = "c1") -> str:
    """An open call in its queue, given to the worker ``one``."""
    await ensure_group(moves.store, QUEUE, GROUP)
    await moves.store.call("HSET", TASK.calls, call, "open 0")
    await moves.store.call("XADD", QUEUE, "*", "data", call)
    (entry,) = await moves.read("one", QUEUE, GROUP)
    return entry


async def start(
    moves: Moves, entry: str, owner: str, effect: str = "pure", most: int = 20, consumer: str = "one"
) -> list[str]:
    return await claim(moves, entry, owner, consumer, effect, most)


async def claim(moves: Moves, entry: str, owner: str, consumer: str, effect: str = "pure", most: int = 20) -> list[str]:
    """What the script says to an owner whose consumer was, or was not, given the entry."""
    args: list[Argument] = ["c1", owner, effect, entry, GROUP, most, consumer]
    verdict = await moves.store.run("call_start", [TASK.calls, QUEUE], args)
    return [v.decode() if isinstance(v, bytes) else str(v) for v in verdict]


async def close(moves: Moves, entry: str) -> str:
    keys = [TASK.calls, QUEUE, TASK.header, TASK.signals, TASK.wake, SESSION.events, bell(0)]
    args: list[Argument] = ["c1", entry, GROUP, TASK.actor, "{}", "{}", 100, 100, SESSION.actor]
    outcome: bytes = (await moves.store.run("call_close", keys, args))[0]
    return outcome.decode()


async def release(moves: Moves, entry: str, owner: str, effect: str, consumer: str = "one") -> str:
    args: list[Argument] = ["c1", owner, effect, entry, GROUP, "c1", consumer]
    outcome: bytes = await moves.store.run("call_release", [TASK.calls, QUEUE], args)
    return outcome.decode()


async def test_a_call_has_one_result_whoever_closes_it(moves: Moves) -> None:
    entry = await queued(moves)
    await start(moves, entry, "a")
    assert [await close(moves, entry) for _ in range(2)] == ["ok", "closed"]
    assert await moves.kinds() == ["result"]
    assert await moves.store.call("XLEN", SESSION.events) == 1
    assert await moves.pending(QUEUE, GROUP) == {}
    assert len(await moves.read()) == 1


async def test_a_closed_call_in_the_queue_is_not_started(moves: Moves) -> None:
    entry = await queued(moves)
    await moves.store.call("HDEL", TASK.calls, "c1")
    assert await start(moves, entry, "a") == ["closed"]
    assert await moves.pending(QUEUE, GROUP) == {}


async def test_a_pure_call_of_a_dead_worker_is_started_again(moves: Moves) -> None:
    entry = await queued(moves)
    assert await start(moves, entry, "a") == ["run", "1"]
    assert await start(moves, entry, "b") == ["run", "2"]


async def test_an_unsafe_call_has_one_owner_ever(moves: Moves) -> None:
    entry = await queued(moves)
    assert await start(moves, entry, "a", "unsafe") == ["run", "1"]
    assert await start(moves, entry, "b", "unsafe") == ["unknown", "1"]
    assert await release(moves, entry, "a", "unsafe") == "started"
    assert await start(moves, entry, "a", "unsafe") == ["claimed", "1"]


async def test_a_start_whose_reply_was_lost_is_still_the_owners(moves: Moves) -> None:
    entry = await queued(moves)
    await start(moves, entry, "a")
    assert await start(moves, entry, "a") == ["claimed", "1"]


async def test_too_many_starts_are_poison(moves: Moves) -> None:
    entry = await queued(moves)
    for owner in "ab":
        await start(moves, entry, owner, most=2)
    assert await start(moves, entry, "c", most=2) == ["poison", "2"]


async def test_a_call_that_is_handed_back_is_open_in_the_queue_at_once_and_nothing_is_counted(moves: Moves) -> None:
    entry = await queued(moves)
    await start(moves, entry, "a")
    assert await release(moves, entry, "b", "pure", "two") == "lost"
    assert await release(moves, entry, "a", "pure") == "ok"
    (fresh,) = await moves.read("two", QUEUE, GROUP)
    assert await start(moves, fresh, "b", consumer="two") == ["run", "1"]
    assert await moves.pending(QUEUE, GROUP) == {fresh: "two"}


@pytest.mark.parametrize(("effect", "then"), [("pure", ["run", "2"]), ("unsafe", ["unknown", "1"])])
async def test_a_call_that_a_dead_worker_has_started_is_handed_on_by_who_lacks_its_tool(
    moves: Moves, effect: str, then: list[str]
) -> None:
    entry = await queued(moves)
    await start(moves, entry, "a", effect)
    await moves.store.call("XCLAIM", QUEUE, GROUP, "two", 0, entry)
    assert await release(moves, entry, "b", effect, "two") == "ok"
    assert await moves.store.call("HGET", TASK.calls, "c1") == b"started a 1"
    (fresh,) = await moves.read("three", QUEUE, GROUP)
    assert await start(moves, fresh, "c", effect, consumer="three") == then
    assert await moves.pending(QUEUE, GROUP) == {fresh: "three"}


async def test_a_closed_call_is_not_handed_back(moves: Moves) -> None:
    entry = await queued(moves)
    await close(moves, entry)
    assert await release(moves, entry, "a", "pure") == "closed"
    assert await moves.unread(QUEUE, GROUP) == 0


async def test_a_beat_keeps_the_own_calls_and_names_the_lost_ones(moves: Moves) -> None:
    entry = await queued(moves)
    await start(moves, entry, "a")
    names = [QUEUE, TASK.calls, TASK.calls]
    args: list[Argument] = [GROUP, "two", "a", "c1", entry, "c9", "1-1"]
    assert await moves.store.run("call_beat", names, args) == [b"c9"]
    assert await moves.pending(QUEUE, GROUP) == {entry: "two"}
    args[2] = "b"
    assert await moves.store.run("call_beat", names, args) == [b"c1", b"c9"]


async def test_a_beat_acknowledges_a_call_that_was_closed_while_it_ran_so_that_nobody_takes_it_over(
    moves: Moves,
) -> None:
    entry = await queued(moves)
    await start(moves, entry, "a")
    await moves.store.call("HDEL", TASK.calls, "c1")
    args: list[Argument] = [GROUP, "one", "a", "c1", entry]
    assert await moves.store.run("call_beat", [QUEUE, TASK.calls], args) == [b"c1"]
    assert await moves.pending(QUEUE, GROUP) == {}


async def test_a_beat_keeps_the_rest_when_the_key_of_one_call_is_of_another_kind(moves: Moves) -> None:
    entry = await queued(moves)
    await start(moves, entry, "a")
    await moves.store.call("SET", "pentad:{0}:foreign", "x")
    args: list[Argument] = [GROUP, "two", "a", "c8", "1-1", "c1", entry]
    assert await moves.store.run("call_beat", [QUEUE, "pentad:{0}:foreign", TASK.calls], args) == [b"c8"]
    assert await moves.pending(QUEUE, GROUP) == {entry: "two"}


async def test_a_large_result_is_kept_aside_with_its_mail(moves: Moves) -> None:
    entry = await queued(moves)
    keys = [TASK.calls, QUEUE, TASK.header, TASK.signals, TASK.wake, SESSION.events, bell(0), TASK.big]
    args: list[Argument] = ["c1", entry, GROUP, TASK.actor, "{}", "{}", 100, 100, SESSION.actor, "c1", "large"]
    assert (await moves.store.run("call_close", keys, args))[0] == b"ok"
    assert await moves.store.call("HGET", TASK.big, "c1") == b"large"


async def test_an_entry_that_went_to_another_while_it_waited_is_not_started_here(moves: Moves) -> None:
    entry = await queued(moves)
    await moves.store.call("XCLAIM", QUEUE, GROUP, "two", 0, entry)
    assert await start(moves, entry, "a") == ["taken"]
    assert await start(moves, entry, "b", consumer="two") == ["run", "1"]
