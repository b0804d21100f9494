"""A process whose event loop is held says so: in its metric, in its log, and to the doctor."""

import asyncio
import logging
import time

import pytest

from pentad.cli.doctor.diagnosis import diagnose
from pentad.cli.doctor.findings import of_redis
from pentad.shared import metrics
from pentad.shared.keys import LOOP_HOLDS
from pentad.shared.presence import loop_holds
from pentad.shared.presence.loop_holds import LoopHold, held_lately, keep_telling_holds, watch_loop
from pentad.shared.store.store import Store
from tests.support.processes.running import beside
from tests.support.waiting import wait_until


def delays_over(bound_s: float) -> int:
    """How many delays over this bound were measured in this process."""
    buckets = dict(metrics.loop_delay_seconds.labels().buckets())
    return buckets[float("inf")] - buckets[bound_s]


async def test_a_held_loop_is_measured_logged_and_found_by_the_doctor(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loop_holds, "_PUBLISH_S", 0.01)
    before = delays_over(1.0)
    with caplog.at_level(logging.WARNING):
        async with beside(watch_loop("router")), beside(keep_telling_holds(store)):
            await asyncio.sleep(0)
            time.sleep(1.2)  # noqa: ASYNC251 - what holds the loop
            await wait_until("the hold is told", lambda: store.call("EXISTS", LOOP_HOLDS))
    assert delays_over(1.0) - before == 1
    assert "the event loop of router was held for 1." in caplog.text
    assert 0 < await store.call("TTL", LOOP_HOLDS) <= 86_400
    seen = await diagnose(store.url, 1)
    [finding] = [each for each in of_redis("redis://h", True, seen) if each.name == "loop"]
    assert finding.level == "warn"
    assert finding.detail.startswith("the event loop of router was held for 1.")
    assert "see its log of that time" in finding.do


async def test_a_hold_counts_as_ours_only_as_far_as_the_process_worked() -> None:
    """Promise: `pentad_loop_held_seconds` grows by work, and not by a machine that gives the process no turn."""
    held, late = metrics.loop_held_seconds.labels(), metrics.loop_delay_seconds.labels()
    before, delayed = held.sum, late.sum
    async with beside(watch_loop("router")):
        await asyncio.sleep(0)
        time.sleep(0.5)  # noqa: ASYNC251 - as if the machine did something else
        await wait_until("the delay to be measured", lambda: late.sum - delayed > 0.4)
        assert held.sum - before < 0.2
        before, delayed, until = held.sum, late.sum, time.process_time() + 0.5
        while time.process_time() < until:
            pass
        await wait_until("the delay to be measured", lambda: late.sum - delayed > 0.4)
    assert held.sum - before > 0.4


async def test_of_a_process_that_gives_way_only_what_it_worked_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loop_holds, "LOGGED_DELAY_S", 0.3)
    late = metrics.loop_delay_seconds.labels()
    async with beside(watch_loop("archiver", gives_way=True)):
        await asyncio.sleep(0)
        before = late.sum
        time.sleep(0.5)  # noqa: ASYNC251 - as if others were busy
        await wait_until("the delay to be measured", lambda: late.sum - before > 0.4)
        assert caplog.text == ""
        before, until = late.sum, time.process_time() + 0.5
        while time.process_time() < until:
            pass
        await wait_until("the delay to be measured", lambda: late.sum - before > 0.4)
    assert "the event loop of archiver was held for" in caplog.text


async def test_a_shorter_hold_does_not_hide_a_longer_one_of_the_same_hour(store: Store) -> None:
    for seconds in (29.0, 1.5):
        await loop_holds._tell(store, loop_holds._UnpublishedHold("archiver", seconds))
    seen = await diagnose(store.url, 1)
    assert [(hold.who, hold.seconds) for hold in seen.holds] == [("archiver", 29.0)]


def test_what_is_a_day_old_or_of_a_newer_version_is_not_told() -> None:
    old = LoopHold(who="router", seconds=2, at=0).to_json()
    assert held_lately([old, b"{}", b"\xff"], 86_400_000) == ()
    assert len(held_lately([old], 86_399_999)) == 1
