"""Each end of a task, and each move out of an ended one, asks an archiver to remember what was said and by whom."""

from pathlib import Path

from pydantic_core import from_json

from pentad.contracts.commands import WakeUp
from pentad.contracts.streams import REMEMBER, SESSION_WAKE
from pentad.shared.actors.transcript import shown
from pentad.shared.keys import timers
from pentad.shared.store.store import Store
from pentad.shared.work.timers import TimerLoop
from tests.integration.handlers.flow import Flow, answer
from tests.integration.handlers.test_move import prepared


async def asked(store: Store) -> list[str]:
    """The tasks that are to be remembered, in order, when the pause after their ends is over."""
    for member in await store.call("ZRANGE", timers(0), 0, -1):
        if member.startswith(b"remember "):
            await store.call("ZADD", timers(0), "XX", 1, member)
    await TimerLoop(store, [0]).fire(0)
    found = await store.call("XRANGE", REMEMBER.key(0), "-", "+")
    return [WakeUp.model_validate(from_json(fields[1])).actor for _, fields in found]


async def test_an_end_asks_once_and_the_transcript_says_who_spoke(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, lambda _: answer("Noted.")).prepare()
    await flow.say("my cat is called Ada", message_id="m1", user_id="ada")
    await flow.drive()
    task = await flow.task()
    assert await asked(store) == [task.actor]
    await flow.say("and my dog Bruno", message_id="m2", task_id=task.task, user_id="bob")
    await flow.drive()
    assert await asked(store) == [task.actor] * 2
    said = [shown(raw) for raw in await store.call("LRANGE", task.log, 0, -1)]
    assert [(m["role"], m.get("user_id")) for m in said] == [
        ("user", "ada"), ("assistant", None), ("user", "bob"), ("assistant", None),
    ]  # fmt: skip
    marked, last = await store.call("HMGET", task.header, "remember_of", "last_step")
    assert marked == last


async def test_turn_after_turn_is_remembered_once_and_what_goes_on_not_yet(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, lambda _: answer("Noted.")).prepare()
    await flow.say("my cat is called Ada")
    await flow.drive()
    task = await flow.task()
    await flow.say("and my dog Bruno", task_id=task.task)
    await flow.once(SESSION_WAKE)
    assert await asked(store) == []
    await flow.drive()
    await flow.say("and my fish", task_id=task.task)
    await flow.drive()
    assert await asked(store) == [task.actor]


async def test_a_move_out_of_an_ended_task_asks_again_for_both(store: Store, tmp_path: Path) -> None:
    mover = await prepared(store, tmp_path)
    first, other = await mover.two_tasks("one", "two")
    before = len(await asked(store))
    await mover.move("u1", first, other)
    await mover.flow.drive()
    assert set((await asked(store))[before:]) == {f"default/{first}", f"default/{other}"}
