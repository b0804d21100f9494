"""Law 1, and a clock that steps back ten minutes: nothing that is due lies further ahead than it is long."""

from pathlib import Path
from typing import Any

import pytest

from pentad.shared.keys import TaskKeys, model_places, timers, timers_set
from pentad.shared.kinds import TimerKind
from pentad.shared.models.ports import ChatRequest, ModelBusy, ModelUnavailable
from pentad.shared.registries.model_places import ModelPlaces
from pentad.shared.store.store import Store
from pentad.shared.work.timers import TimerLoop
from tests.integration.handlers.flow import SESSION, Flow, answer
from tests.support.redis.stepping import step_back
from tests.support.waiting import wait_until

ECHO = ("echo", '{"text":"x"}')
NOTHING = {"steps": 0}


async def due_in(store: Store, task: TaskKeys, kind: TimerKind) -> int:
    """In how many ms a task's timer is due."""
    score = await store.call("ZSCORE", timers(0), f"{kind} {task.actor}")
    assert score is not None, kind
    return int(score) - await store.clock()


async def field_ahead(store: Store, task: TaskKeys, name: str) -> int:
    """How many ms a time in the task's header lies ahead."""
    return int(await store.call("HGET", task.header, name)) - await store.clock()


def unavailable(_: ChatRequest) -> Any:
    """The model's server is away."""
    raise ModelUnavailable("away", 20)


async def ended(store: Store, folder: Path) -> TaskKeys:
    """A task that has ended: it is to be remembered, and archived."""
    flow = await Flow(store, folder, lambda _: answer("done")).prepare()
    await flow.say("hello")
    await flow.drive()
    return await flow.task()


async def asking(store: Store, folder: Path) -> TaskKeys:
    """A task whose model cannot be had: it is asked again."""
    flow = await Flow(store, folder, unavailable).prepare()
    await flow.say("hello")
    await flow.drive()
    return await flow.task()


async def calling(store: Store, folder: Path) -> TaskKeys:
    """A task whose tool call has not come back."""
    flow = await Flow(store, folder, lambda _: answer("", ECHO)).prepare()
    flow._served.pop()
    await flow.say("hello")
    await flow.drive()
    return await flow.task()


async def waiting(store: Store, folder: Path) -> TaskKeys:
    """A task that waits for a person."""
    flow = await Flow(store, folder, lambda _: answer("done")).prepare()
    await flow.say("hello", budget=NOTHING)
    await flow.drive()
    return await flow.task()


@pytest.mark.parametrize(
    ("begin", "kind", "length_ms", "counts_from"),
    [
        (ended, "remember", 1_000, ""),
        (ended, "archive", 300_000, "ended_at"),
        (asking, "retry", 21_000, "retry_since"),
        (calling, "timeout", 600_000, "asked_at"),
        (waiting, "wait", 2_592_000_000, "waiting_at"),
        (waiting, "stale", 86_400_000, "updated"),
    ],
)
async def test_a_timer_that_was_set_before_the_step_is_due_after_its_own_length(
    store: Store, tmp_path: Path, begin: Any, kind: TimerKind, length_ms: int, counts_from: str
) -> None:
    task = await begin(store, tmp_path)
    await step_back(store)
    assert await due_in(store, task, kind) > 599_000
    await TimerLoop(store, [0]).fire(0)
    assert await due_in(store, task, kind) <= length_ms
    if counts_from:
        assert await field_ahead(store, task, counts_from) <= 0, "what is compared with it when it fires"


async def test_a_deadline_is_a_date_and_stays_where_it_is(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, lambda _: answer("", ECHO)).prepare()
    flow._served = flow._served[:1]
    await flow.say("go", deadline="2099-01-01T00:00:00Z")
    await flow.drive()
    task = await flow.task()
    await step_back(store)
    before = await store.call("ZSCORE", timers(0), f"deadline {task.actor}")
    await TimerLoop(store, [0]).fire(0)
    assert await store.call("ZSCORE", timers(0), f"deadline {task.actor}") == before
    assert await store.call("ZSCORE", timers_set(0), f"deadline {task.actor}") is None


async def test_a_person_s_archiving_at_once_is_done_at_once(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, lambda _: answer("done")).prepare()
    await flow.say("hello")
    await flow.drive()
    task = await flow.task()
    assert await flow.actors.archive_now(task) == "completed"
    await step_back(store)
    loop = TimerLoop(store, [0])
    await wait_until("the timer to fire", lambda: _fired(loop, store, task, "archive"))


async def _fired(loop: TimerLoop, store: Store, task: TaskKeys, kind: TimerKind) -> bool:
    await loop.fire(0)
    return await store.call("ZSCORE", timers(0), f"{kind} {task.actor}") is None


async def test_what_is_left_of_timers_ends_with_them(store: Store, tmp_path: Path) -> None:
    """Law 14: what was noted beside a timer goes when it fires, and also when somebody has removed the timer alone."""
    task = await waiting(store, tmp_path)
    await store.call("ZREM", timers(0), f"wait {task.actor}", f"stale {task.actor}")
    await step_back(store)
    await TimerLoop(store, [0]).fire(0)
    assert await store.call("EXISTS", timers(0), timers_set(0)) == 0


async def test_the_model_is_asked_again_at_intervals_and_not_for_longer_than_a_step(
    store: Store, tmp_path: Path
) -> None:
    """The pause was worked out from a time that lay ahead: it was 0, again and again, for ten minutes."""
    task = await asking(store, tmp_path)
    await step_back(store)
    await store.call("ZADD", timers(0), 1, f"retry {task.actor}")
    flow = await Flow(store, tmp_path, unavailable).prepare()
    loop = TimerLoop(store, [0])
    await wait_until("the timer to fire", lambda: _fired(loop, store, task, "retry"))
    await flow.drive()
    assert flow.model.asked == 1
    assert 15_000 < await due_in(store, task, "retry") <= 21_000
    assert await field_ahead(store, task, "retry_since") <= 0
    assert SESSION.tenant == task.tenant


async def test_a_killed_call_s_place_at_a_model_is_free_after_its_lease(store: Store) -> None:
    killed, other = ModelPlaces(store, lease_ms=300), ModelPlaces(store, lease_ms=300)
    await killed.enter("m", 1, "t1", False)
    await step_back(store)
    with pytest.raises(ModelBusy):
        await other.enter("m", 1, "t2", True)

    async def entered() -> bool:
        try:
            await other.enter("m", 1, "t2", True)
        except ModelBusy:
            return False
        return True

    await wait_until("the killed one's place", entered)


async def test_a_living_call_keeps_its_place_over_the_step(store: Store) -> None:
    living, other = ModelPlaces(store), ModelPlaces(store)
    place = await living.enter("m", 1, "t1", False)
    await step_back(store)
    with pytest.raises(ModelBusy):
        await other.enter("m", 1, "t2", True)
    await store.run("model_beat", model_places("m")[:1], [15_000, place])
    with pytest.raises(ModelBusy):
        await other.enter("m", 1, "t2", True)


async def test_who_waited_before_the_step_goes_before_who_comes_after_it(store: Store) -> None:
    places = ModelPlaces(store)
    held = await places.enter("m", 1, "t0", False)
    for caller in ("t1", "t2"):
        with pytest.raises(ModelBusy):
            await places.enter("m", 1, caller, True)
    await step_back(store)
    with pytest.raises(ModelBusy):
        await places.enter("m", 1, "newcomer", True)
    assert await store.call("ZRANGE", model_places("m")[1], 0, -1) == [b"t1", b"t2", b"newcomer"]
    back = await store.call("ZRANGE", model_places("m")[2], 0, -1, "WITHSCORES")
    assert max(map(float, back[1::2])) <= await store.clock() + 5_000, "those who do not come back are forgotten"
    places.leave("m", held)


async def test_a_killed_probe_of_a_model_does_not_keep_others_from_probing(store: Store) -> None:
    killed, other = ModelPlaces(store), ModelPlaces(store)
    assert await killed.may_probe("m", 1.0)
    assert not await other.may_probe("m", 1.0)
    await step_back(store)
    assert await other.may_probe("m", 1.0)
    assert not await killed.may_probe("m", 1.0)
