"""Limits of tools hold over all workers, are fair among tenants, and cost nothing while calls wait."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pentad.contracts.streams import TOOL_CALLS
from pentad.services.tool_worker.app import ToolWorker
from pentad.shared.keys import TOOL_STATES, waiting_calls
from pentad.shared.store.store import Store
from tests.support.limited_calls import Calls, most_at_once, most_within, rounds_until, workers
from tests.support.waiting import wait_until


async def test_no_more_calls_of_a_tool_run_at_once_than_it_allows_over_three_workers(
    store: Store, tmp_path: Path
) -> None:
    calls = Calls(store, tmp_path / "ledger")
    async with workers(store, 3):
        await calls.ask("two_at_once", 40, seconds=0.05)
        told = await calls.ended()
    runs = calls.runs()
    assert set(told.values()) == {"done"}
    assert (len(runs), most_at_once(runs)) == (40, 2)
    assert runs[-1].end - runs[0].start < 2.5, "the next call begins as soon as one has ended"
    assert await store.call("HLEN", waiting_calls(0)) == 0


async def test_a_rate_is_kept_in_every_window_and_is_used(store: Store, tmp_path: Path) -> None:
    calls = Calls(store, tmp_path / "ledger")
    async with workers(store, 3):
        await calls.ask("five_a_second", 22, seconds=0)
        await calls.ended()
    runs = calls.runs()
    # Half a window: a busy machine begins a call some tenths of a second after it was counted.
    assert (len(runs), most_within(runs, 0.5)) == (22, 5)
    assert 3.5 < runs[-1].start - runs[0].start < 6.5


async def test_a_tenant_with_many_waiting_calls_does_not_hold_up_another(store: Store, tmp_path: Path) -> None:
    calls = Calls(store, tmp_path / "ledger")
    async with workers(store, 2):
        await calls.ask("two_at_once", 200, tenant="a", seconds=0.1)
        await wait_until("the calls to wait", lambda: _waiting(store, 198))
        begun = len(calls.runs())
        await calls.ask("two_at_once", tenant="b", seconds=0.1)
        await wait_until("the call of b", lambda: any(ran.tenant == "b" for ran in calls.runs()))
    assert rounds_until(calls.runs(), "b") - begun <= 4


async def _waiting(store: Store, count: int) -> bool:
    return bool(await store.call("HLEN", waiting_calls(0)) >= count)


async def test_keys_of_limits_end(store: Store, tmp_path: Path) -> None:
    calls = Calls(store, tmp_path / "ledger")
    async with workers(store, 1):
        await calls.ask("two_at_once", 4, seconds=0.01)
        await calls.ask("five_a_second", 4, seconds=0.01)
        await calls.ended()
    for key in await store.call("KEYS", f"{TOOL_STATES}*"):
        assert await store.call("TTL", key) > 0, key


async def test_a_thousand_waiting_calls_hold_nothing_in_a_worker_and_it_does_not_spin(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls(store, tmp_path / "ledger")
    async with workers(store, 1) as [worker]:
        idle = len(asyncio.all_tasks())
        await calls.ask("one_unsafe", 1000, seconds=30)
        await wait_until("the calls to wait", lambda: _waiting(store, 999))
        await wait_until("the first call", lambda: len(calls.runs()) == 1)
        await wait_until("the worker to hold the one that runs", lambda: _handled(worker) == 1)
        assert len(asyncio.all_tasks()) < idle + 20
        told = await _scripts_within(monkeypatch, 3.0)
        assert told.count("tool_limit") < 20, "a beat twice a second, and a look now and then"
        await store.call("DEL", calls.keys().calls)  # the task ends


def _handled(worker: ToolWorker) -> int:
    return sum(len(consumer._running) for consumer in worker.consumers)


async def _scripts_within(monkeypatch: pytest.MonkeyPatch, seconds: float) -> list[str]:
    """Return the names of the scripts that this process runs within so many seconds."""
    names: list[str] = []
    run = Store.run

    async def noted(self: Store, name: str, keys: Sequence[str], args: Sequence[Any], *more: Any, **named: Any) -> Any:
        names.append(name)
        return await run(self, name, keys, args, *more, **named)

    monkeypatch.setattr(Store, "run", noted)
    await asyncio.sleep(seconds)  # what is looked for is that nothing happens
    return names


async def test_a_call_that_is_cancelled_while_it_waits_costs_no_turn(store: Store, tmp_path: Path) -> None:
    calls = Calls(store, tmp_path / "ledger")
    async with workers(store, 2):
        await calls.ask("two_at_once", 2, seconds=1)
        await wait_until("two runs", lambda: len(calls.runs()) == 2)
        await calls.ask("two_at_once", 100, seconds=60)
        await wait_until("the calls to wait", lambda: _waiting(store, 100))
        gone = [call for _, call in calls.asked[2:]]
        await calls.ask("two_at_once", 2, seconds=0)
        await wait_until("all to wait", lambda: _waiting(store, 102))
        await store.call("HDEL", calls.keys().calls, *gone)
        assert len(await calls.ended(4)) == 4
        await wait_until("what waited to be forgotten", lambda: _none_waits(store))
    assert {ran.call for ran in calls.runs()}.isdisjoint(gone)


async def _none_waits(store: Store) -> bool:
    return bool(await store.call("HLEN", waiting_calls(0)) == 0)


async def test_calls_go_on_when_redis_has_lost_who_waits(store: Store, tmp_path: Path) -> None:
    """A failover may take back the last writes."""
    calls = Calls(store, tmp_path / "ledger")
    async with workers(store, 2):
        await calls.ask("two_at_once", 6, seconds=0.5)
        await wait_until("the calls to wait", lambda: _waiting(store, 4))
        await store.call("DEL", *await store.call("KEYS", f"{TOOL_STATES}*"))
        await calls.ended()
    assert most_at_once(calls.runs()) == 2


async def test_a_stopping_worker_gives_its_places_to_others_at_once(store: Store, tmp_path: Path) -> None:
    calls = Calls(store, tmp_path / "ledger")
    async with workers(store, 1):
        async with workers(store, 1):
            await calls.ask("two_at_once", 8, seconds=0.4)
            await wait_until("two runs", lambda: len(calls.runs()) >= 2)
        await calls.ended()
    runs = calls.runs()
    assert max(later.start - earlier.start for earlier, later in pairwise(runs)) < 1.5


async def test_an_unsafe_call_whose_worker_died_is_reported_although_there_is_no_place(
    store: Store, tmp_path: Path
) -> None:
    calls = Calls(store, tmp_path / "ledger")
    async with workers(store, 1):
        await calls.ask("one_unsafe", seconds=5)
        await wait_until("a call to run", lambda: len(calls.runs()) == 1)
        await calls.ask("one_unsafe", seconds=0)
        await wait_until("another to wait", lambda: _waiting(store, 1))
        [_, (_, call)] = calls.asked
        await store.call("HSET", calls.keys().calls, call, "started somebody-else 1")
        await store.run(
            "call_unpark", [waiting_calls(0), calls.keys().calls, TOOL_CALLS.key(0, queue="default")], [call]
        )
        told = await calls.ended(1)
        assert list(told) == [call], "it is told before the other has ended"
    assert told[call].startswith("error: outcome unknown")
    assert len(calls.runs()) == 1


async def test_a_tool_without_limits_asks_nobody(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Calls(store, tmp_path / "ledger")
    asked = list[str]()
    run = Store.run

    async def noted(self: Store, name: str, keys: Sequence[str], args: Sequence[Any], *more: Any, **named: Any) -> Any:
        asked.append(name)
        return await run(self, name, keys, args, *more, **named)

    async with workers(store, 1):
        monkeypatch.setattr(Store, "run", noted)
        await calls.ask("flaky", 20, number=1)
        await calls.ended()
    assert {"tool_limit", "breaker_note", "call_park"}.isdisjoint(asked)
    assert asked.count("call_start") == asked.count("call_close") == 20


async def test_a_limit_that_is_gone_lets_waiting_calls_run(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls(store, tmp_path / "ledger")
    async with workers(store, 1) as [worker]:
        await calls.ask("two_at_once", 12, seconds=1)
        await wait_until("the calls to wait", lambda: _waiting(store, 10))
        processes = worker._processes
        free = {name: spec.model_copy(update={"concurrency": None}) for name, spec in processes.tools.items()}
        monkeypatch.setattr(type(processes), "tools", property(lambda _: free))
        worker._changed.set()
        await calls.ended()
