"""A model's calls are counted in the whole system: two processes never have more than its limit, and a killed one's
places are free again."""

import asyncio
import random

import pytest

from pentad.shared.keys import model_places, model_probe
from pentad.shared.models.ports import ModelBusy
from pentad.shared.registries import model_places as module
from pentad.shared.registries.model_places import ModelPlaces
from pentad.shared.store.store import Store
from tests.support.processes.running import beside
from tests.support.waiting import wait_until

LEASE_MS = 1000


async def refused(places: ModelPlaces, caller: str, limit: int = 2, wait: bool = True) -> float:
    """After how many seconds the caller is to come back."""
    with pytest.raises(ModelBusy) as busy:
        await places.enter("m", limit, caller, wait)
    return busy.value.retry_after or 0.0


async def test_two_processes_together_have_no_more_than_the_limit(store: Store) -> None:
    one, other = ModelPlaces(store), ModelPlaces(store)
    first = await one.enter("m", 2, "t1", False)
    await other.enter("m", 2, "t2", False)
    assert await refused(one, "t3") > 0
    assert await refused(other, "t4") > 0
    await one.enter("another", 2, "t3", False)
    one.leave("m", first)
    await wait_until("the place", lambda: _entered(one, "t3"))


async def _entered(places: ModelPlaces, caller: str, limit: int = 2) -> bool:
    try:
        await places.enter("m", limit, caller, True)
    except ModelBusy:
        return False
    return True


async def test_a_place_of_a_killed_process_is_free_after_its_lease_and_one_in_use_is_not(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BEAT_S", 0.05)
    living, killed = ModelPlaces(store, LEASE_MS), ModelPlaces(store, LEASE_MS)
    await killed.enter("m", 2, "t1", False)
    await living.enter("m", 2, "t2", False)
    async with beside(living.keep()):
        await refused(living, "t3")
        await wait_until("the killed one's place", lambda: _entered(living, "t3"))
        over = await store.clock() + 1.5 * LEASE_MS
        while await store.clock() < over:
            await refused(living, "t4")
            await asyncio.sleep(0.05)


async def test_those_far_behind_are_told_to_ask_seldom(store: Store) -> None:
    places = ModelPlaces(store)
    await places.enter("m", 1, "t0", False)
    pauses = [await refused(places, f"t{n}", 1) for n in range(1, 30)]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (0.25, 5.0)


async def test_who_waits_goes_before_who_comes_later_in_the_order_in_which_they_came(store: Store) -> None:
    places = ModelPlaces(store)
    held = await places.enter("m", 1, "t0", False)
    assert await refused(places, "t1", 1) < await refused(places, "t2", 1)
    places.leave("m", held)
    await refused(places, "newcomer", 1, wait=False)
    held = await places.enter("m", 1, "t1", True)
    assert await refused(places, "t2", 1) == 0.25, "now it is the next"
    places.leave("m", held)
    await refused(places, "newcomer", 1)
    await places.enter("m", 1, "t2", True)


async def test_a_place_is_not_kept_for_those_who_do_not_come_back(store: Store) -> None:
    places = ModelPlaces(store)
    held = await places.enter("m", 1, "t0", False)
    await refused(places, "gone", 1)
    places.leave("m", held)
    seconds, _ = await store.call("TIME")
    await store.call("ZADD", model_places("m")[2], (int(seconds) - 60) * 1000, "gone")
    await places.enter("m", 1, "newcomer", False)


async def test_a_place_is_not_kept_for_those_who_come_back_only_later(store: Store) -> None:
    places = ModelPlaces(store)
    held = await places.enter("m", 1, "t0", False)
    await refused(places, "far", 1)
    places.leave("m", held)
    seconds, _ = await store.call("TIME")
    await store.call("ZADD", model_places("m")[2], (int(seconds) + 4) * 1000, "far")
    await places.enter("m", 1, "newcomer", False)


async def test_many_callers_each_get_a_place_and_never_too_many_at_once(store: Store) -> None:
    """Seeded: 60 calls of two processes at a limit of 4."""
    chance, limit, now, most = random.Random(7), 4, 0, 0
    both = (ModelPlaces(store), ModelPlaces(store))

    async def call(number: int) -> int:
        nonlocal now, most
        places, asked = both[number % 2], 0
        while True:
            asked += 1
            try:
                place = await places.enter("m", limit, f"t{number}", True)
            except ModelBusy as busy:
                await asyncio.sleep(busy.retry_after or 0)
                continue
            now += 1
            most = max(most, now)
            await asyncio.sleep(chance.uniform(0.01, 0.05))
            now -= 1
            places.leave("m", place)
            return asked

    asked = await asyncio.gather(*(call(number) for number in range(60)))
    assert most == limit
    assert max(asked) < 60, "nobody spins"


async def test_every_key_of_it_ends(store: Store) -> None:
    places = ModelPlaces(store)
    await places.enter("m", 1, "t0", False)
    await refused(places, "t1", 1)
    assert await places.may_probe("m", 1.0)
    for key in (*model_places("m"), model_probe("m")):
        assert 0 < await store.call("PTTL", key) <= 15_000, key


async def test_one_process_probes_at_a_time(store: Store) -> None:
    one, other = ModelPlaces(store), ModelPlaces(store)
    assert await one.may_probe("m", 60)
    assert not await other.may_probe("m", 60)
    one.probed("m")
    await wait_until("the probe's end", lambda: other.may_probe("m", 60))
