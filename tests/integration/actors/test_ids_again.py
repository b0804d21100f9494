"""A Redis that lost its last writes may give their ids again: who holds an old one acknowledges no other's work."""

from pentad.contracts.streams import ARCHIVE, EXTRACT, TOOL_CALLS
from pentad.shared.keys import bell, timers
from pentad.shared.store.store import Argument
from pentad.shared.work.broker import ensure_group
from tests.integration.actors.moves import SESSION, TASK, Moves

QUEUE = TOOL_CALLS.key(0, queue="default")
WAKE_UP = '{"type":"wake_up","version":1,"actor":"%s"}'


async def _another(moves: Moves, stream: str, group: str, data: str) -> str:
    """Give another's entry to the worker ``one``; its id is what somebody else holds from before."""
    await ensure_group(moves.store, stream, group)
    await moves.store.call("XADD", stream, "*", "data", data)
    (entry,) = await moves.read("one", stream, group)
    return entry


async def test_a_wake_up_of_another_actor_stays(moves: Moves) -> None:
    entry = await _another(moves, TASK.wake, "task-runner", WAKE_UP % (TASK.actor + "b"))
    assert await moves.two.take(TASK, entry) is None
    await moves.two.release(TASK, entry)
    assert list(await moves.pending()) == [entry]


async def test_an_own_wake_up_that_is_not_current_is_acknowledged(moves: Moves) -> None:
    entry = await _another(moves, TASK.wake, "task-runner", WAKE_UP % TASK.actor)
    assert await moves.two.take(TASK, entry) is None
    assert await moves.pending() == {}


async def test_another_call_in_the_queue_stays(moves: Moves) -> None:
    entry = await _another(moves, QUEUE, "tool-worker", '{"tool_call_id":"c2"}')
    start: list[Argument] = ["c1", "owner", "pure", entry, "tool-worker", 20, "one"]
    assert await moves.store.run("call_start", [TASK.calls, QUEUE], start) == [b"closed"]
    keys = [TASK.calls, QUEUE, TASK.header, TASK.signals, TASK.wake, SESSION.events, bell(0)]
    close: list[Argument] = ["c1", entry, "tool-worker", TASK.actor, "{}", "{}", 100, 100, SESSION.actor]
    assert (await moves.store.run("call_close", keys, close))[0] == b"closed"
    await moves.store.call("HSET", TASK.calls, "c1", "open 0")
    assert (await moves.store.run("call_close", keys, close))[0] == b"ok", "its result is taken all the same"
    release: list[Argument] = ["c1", "owner", "pure", entry, "tool-worker", "{}", "one"]
    assert await moves.store.run("call_release", [TASK.calls, QUEUE], release) == b"closed"
    await moves.store.call("HSET", TASK.calls, "c1", "open 0")
    assert await moves.store.run("call_release", [TASK.calls, QUEUE], release) == b"gone"
    assert await moves.store.call("XLEN", QUEUE) == 1, "no copy: its own entry is somewhere"
    assert list(await moves.pending(QUEUE, "tool-worker")) == [entry]


async def test_another_task_to_archive_stays(moves: Moves) -> None:
    stream = ARCHIVE.key(0)
    entry = await _another(moves, stream, "archiver", WAKE_UP % "default/task-0-b")
    args: list[Argument] = ["archiver", entry, "s1", TASK.task, f"archive {TASK.actor}", 5000, ""]
    await moves.store.run("archive", [stream, SESSION.header, timers(0), *TASK.all(), EXTRACT.key(0)], args)
    handed: list[Argument] = ["archiver", "one", entry, WAKE_UP % TASK.actor]
    assert await moves.store.run("entry_release", [stream], handed) == 0
    assert list(await moves.pending(stream, "archiver")) == [entry]


async def test_a_record_of_lost_steps_does_not_remove_the_task(moves: Moves) -> None:
    """Versions are counted again after a loss; the step's id tells."""
    await moves.store.call("HSET", TASK.header, "status", "completed", "v", 3, "last_step", "s3-now", "wake", "")
    args: list[Argument] = ["archiver", "1-1", "s3-lost", TASK.task, f"archive {TASK.actor}", 5000, ""]
    assert (
        await moves.store.run("archive", [ARCHIVE.key(0), SESSION.header, timers(0), *TASK.all(), EXTRACT.key(0)], args)
        == b"moved"
    )
    assert await moves.store.call("EXISTS", TASK.header) == 1
