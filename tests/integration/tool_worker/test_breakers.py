"""A tool that keeps failing is left alone for a while: over all workers, and for the tenant whose calls fail."""

import re
from pathlib import Path

import pytest

from pentad.shared.keys import BREAKER_CHANGES, TOOL_BREAKER, tool_breaker
from pentad.shared.store.store import Store
from tests.support.limited_calls import Calls, by_tenant, workers
from tests.support.redis.stepping import step_back
from tests.support.waiting import wait_until

REFUSED = re.compile(
    r"error: flaky has failed 3 times in a row \(last: tool 'flaky' failed: RuntimeError: the service is down\); "
    r"calls are refused until \d\d:\d\d:\d\d UTC"
)


def broken(calls: Calls) -> Path:
    return Path(f"{calls.ledger}.broken")


async def fail(calls: Calls, times: int, tenant: str = "default") -> None:
    """Have calls fail one after the other."""
    broken(calls).touch()
    for n in range(times):
        await calls.ask("flaky", tenant=tenant, number=n)
        await calls.ended()


async def test_after_failures_in_a_row_calls_are_refused_at_once_and_told_why_and_until_when(
    store: Store, tmp_path: Path
) -> None:
    calls = Calls(store, tmp_path / "ledger")
    async with workers(store, 1):
        await fail(calls, 3)
        await wait_until("the breaker to open", lambda: opened(store))
        await fail(calls, 1)
        assert REFUSED.fullmatch(list((await calls.results()).values())[-1])
    assert len(calls.runs()) == 3


async def opened(store: Store, tenant: str = "default") -> bool:
    return bool(await store.call("HEXISTS", tool_breaker(f"flaky:{tenant}"), "until"))


async def test_a_call_that_succeeds_between_failures_keeps_it_closed(store: Store, tmp_path: Path) -> None:
    calls = Calls(store, tmp_path / "ledger")
    async with workers(store, 1):
        await fail(calls, 2)
        broken(calls).unlink()
        await calls.ask("flaky", number=1)
        await calls.ended()
        await wait_until("the failures to be forgotten", lambda: forgotten(store))
        await fail(calls, 2)
        assert not await opened(store)


async def forgotten(store: Store) -> bool:
    return not await store.call("EXISTS", tool_breaker("flaky:default"))


async def test_another_worker_refuses_too_and_another_tenant_is_served(store: Store, tmp_path: Path) -> None:
    calls = Calls(store, tmp_path / "ledger")
    async with workers(store, 1):
        await fail(calls, 3)
        await wait_until("the breaker to open", lambda: opened(store))
    broken(calls).unlink()
    async with workers(store, 1) as [worker]:
        await wait_until("the worker to hear of it", lambda: worker._guard.breakers._known)
        await calls.ask("flaky", tenant="other", number=7)
        await calls.ask("flaky", number=7)
        told = await calls.ended()
    assert REFUSED.fullmatch(told["call-0-default-4"])
    assert told["call-0-other-3"] == "fine 7"
    assert by_tenant(calls.runs()) == {"default": 3, "other": 1}


async def due(store: Store) -> None:
    """The time for which calls are refused is over."""
    await store.call("HSET", tool_breaker("flaky:default"), "until", await store.clock() - 1)
    await store.call("ZADD", BREAKER_CHANGES, 1000, "flaky:default")


async def test_one_trial_call_is_made_and_its_success_lets_all_be_made(store: Store, tmp_path: Path) -> None:
    calls = Calls(store, tmp_path / "ledger")
    async with workers(store, 2) as both:
        await fail(calls, 3)
        await wait_until("the breaker to open", lambda: opened(store))
        broken(calls).unlink()
        await due(store)
        await wait_until("both to hear of it", lambda: all(worker._guard.breakers._seen == 1000 for worker in both))
        await calls.ask("flaky", number=1)
        assert list((await calls.ended()).values())[-1] == "fine 1"
        await wait_until("the breaker to close", lambda: forgotten(store))
        await wait_until("both to hear of it", lambda: not any(worker._guard.breakers._known for worker in both))
        await calls.ask("flaky", 20, number=2)
        assert list((await calls.ended()).values())[-20:] == ["fine 2"] * 20


async def test_a_failing_trial_has_calls_refused_for_longer(store: Store, tmp_path: Path) -> None:
    calls = Calls(store, tmp_path / "ledger")
    async with workers(store, 1) as [worker]:
        await fail(calls, 3)
        await wait_until("the breaker to open", lambda: opened(store))
        await due(store)
        await wait_until("it to hear of it", lambda: worker._guard.breakers._seen == 1000)
        await fail(calls, 1)
        assert len(calls.runs()) == 4

        async def longer() -> bool:
            return bool(await store.call("HGET", tool_breaker("flaky:default"), "pause") == b"60000")

        await wait_until("the longer pause", longer)


async def test_wrong_arguments_are_no_failures_of_the_tool(store: Store, tmp_path: Path) -> None:
    calls = Calls(store, tmp_path / "ledger")
    async with workers(store, 1):
        await calls.ask("flaky", 10, number="many")
        told = await calls.ended()
    assert all(text.startswith("error: flaky: number") or "number" in text for text in told.values())
    assert await store.call("KEYS", f"{TOOL_BREAKER}*") == []


async def test_a_tool_may_have_no_breaker(store: Store, tmp_path: Path) -> None:
    calls = Calls(store, tmp_path / "ledger")
    async with workers(store, 1):
        await calls.ask("always_tried", 20)
        await calls.ended()
    assert len(calls.runs()) == 20
    assert await store.call("KEYS", f"{TOOL_BREAKER}*") == []


async def note(store: Store, what: str, call: str, *, within_ms: int = 60_000) -> bool:
    names = [tool_breaker("t:a"), BREAKER_CHANGES]
    return bool(await store.run("breaker_note", names, [what, "t:a", call, 3, within_ms, 10_000, "it broke"]))


async def open_it(store: Store) -> None:
    for n in range(3):
        await note(store, "failed", f"c{n}")


async def test_failures_that_are_far_apart_do_not_count_together(store: Store) -> None:
    await note(store, "failed", "c0")
    await note(store, "failed", "c1")
    times = (await store.call("HGET", tool_breaker("t:a"), "times")).split()
    await store.call("HSET", tool_breaker("t:a"), "times", b" ".join([b"%d" % (int(times[0]) - 60_001), times[1]]))
    await note(store, "failed", "c2")
    assert await store.call("HGET", tool_breaker("t:a"), "until") is None


async def test_one_of_several_calls_becomes_the_trial_and_another_when_it_is_lost(store: Store) -> None:
    await open_it(store)
    assert not await note(store, "try", "c4")
    await store.call("HSET", tool_breaker("t:a"), "until", await store.clock() - 1)
    assert [await note(store, "try", call) for call in ("c4", "c5", "c4")] == [True, False, True]
    await note(store, "gone", "c4")
    assert await note(store, "try", "c5")
    await store.call("HSET", tool_breaker("t:a"), "trial_end", await store.clock() - 1)
    assert await note(store, "try", "c6"), "its worker was killed"


async def test_calls_that_were_lost_with_one_worker_are_one_failure(store: Store) -> None:
    for n in range(9):
        await note(store, "lost", f"c{n}")
    assert await store.call("HMGET", tool_breaker("t:a"), "row", "until") == [b"1", None]
    for n in range(2):  # some time passes, and another is lost
        times = await store.call("HGET", tool_breaker("t:a"), "times")
        await store.call("HSET", tool_breaker("t:a"), "times", " ".join(str(int(at) - 10_000) for at in times.split()))
        await note(store, "lost", f"later{n}")
    assert await store.call("HEXISTS", tool_breaker("t:a"), "until")


@pytest.mark.parametrize("what", ["ok", "failed"])
async def test_a_call_that_had_begun_before_changes_nothing_of_an_open_breaker(store: Store, what: str) -> None:
    await open_it(store)
    before = await store.call("HGETALL", tool_breaker("t:a"))
    await note(store, what, "late")
    assert await store.call("HGETALL", tool_breaker("t:a")) == before


async def test_no_breaker_stays_open_when_the_clock_steps_back(store: Store) -> None:
    await open_it(store)
    await step_back(store, 3_600_000)
    assert await note(store, "try", "c4")
    await step_back(store, 3_600_000)
    assert await note(store, "try", "c5"), "its trial was begun before the step"


async def test_keys_of_breakers_end(store: Store) -> None:
    await note(store, "failed", "c0")
    assert 0 < await store.call("TTL", tool_breaker("t:a")) <= 60
    await open_it(store)
    assert 0 < await store.call("TTL", tool_breaker("t:a")) <= 630
    assert await store.call("TTL", BREAKER_CHANGES) > 0
