"""Limits of tools hold over all workers, are fair among tenants, and cost nothing while calls wait."""

from pathlib import Path

from pentad.shared.keys import TOOL_STATES, waiting_calls
from pentad.shared.store.store import Store
from tests.integration.tool_worker.limited import Calls, most_at_once, most_within, rounds_until, workers
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
    assert (len(runs), most_within(runs, 1.0)) == (22, 5)
    assert runs[-1].start - runs[0].start < 5.5


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
