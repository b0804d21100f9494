"""How models do is told while a process runs, and no longer."""

from collections.abc import Sequence

import pytest

from pentad.cli.doctor.diagnosis import diagnose
from pentad.contracts.models import ModelHealth
from pentad.shared.keys import MODEL_HEALTH
from pentad.shared.presence import announcements
from pentad.shared.presence.announcements import HealthReport, report_health, reported
from pentad.shared.store.store import Store
from tests.support.processes.running import beside
from tests.support.waiting import wait_until


def health(state: str) -> ModelHealth:
    return ModelHealth.model_validate({"id": "m", "kind": "llm", "state": state, "since": "2030-01-31T12:00:00.000Z"})


async def states(store: Store) -> Sequence[str]:
    return sorted(each.state for each in (await reported(store)).get("m", ()))


async def test_each_process_is_heard_and_the_worst_is_what_the_doctor_sees(store: Store) -> None:
    async with beside(report_health(store, "one", lambda _: [health("ok")])):
        async with beside(report_health(store, "two", lambda _: [health("open")])):
            await wait_until("both", lambda: _are(store, ["ok", "open"]))
            assert (await diagnose(store.url, 1)).health == (health("open"),)
        assert await states(store) == ["ok"]
        assert 0 < await store.call("TTL", MODEL_HEALTH) <= 60
    assert await states(store) == []


async def test_what_one_process_has_learned_of_a_model_is_said_whichever_does_worst(store: Store) -> None:
    """Promise: what is left out for a server is said by the doctor too, not only by the process that has learned it."""
    taught = health("ok").model_copy(update={"learned": ("does not count tokens",)})
    async with (
        beside(report_health(store, "one", lambda _: [health("ok")])),
        beside(report_health(store, "two", lambda _: [taught])),
        beside(report_health(store, "three", lambda _: [health("open")])),
    ):
        await wait_until("all", lambda: _are(store, ["ok", "ok", "open"]))
        [told] = (await diagnose(store.url, 1)).health
        assert (told.state, told.learned) == ("open", ("does not count tokens",))


async def _are(store: Store, expected: list[str]) -> bool:
    return await states(store) == expected


async def test_a_killed_process_and_a_newer_one_are_not_heard_and_swept_away(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = await store.clock()
    old = HealthReport(at=now - 11_000, models=(health("open"),)).to_json()
    ahead = HealthReport(at=now + 600_000, models=(health("open"),)).to_json()  # killed before the clock stepped back
    await store.call("HSET", MODEL_HEALTH, "before the step", ahead)
    await store.call("HSET", MODEL_HEALTH, "killed", old, "newer", b'{"at":"later"}', "odd", b"\xff")
    assert await reported(store) == {}
    monkeypatch.setattr(announcements, "_BEATS_PER_SWEEP", 1)
    async with beside(report_health(store, "one", lambda _: [health("ok")])):
        await wait_until("the sweep", lambda: _fields(store, [b"one"]))


async def _fields(store: Store, expected: list[bytes]) -> bool:
    fields: list[bytes] = await store.call("HKEYS", MODEL_HEALTH)
    return fields == expected
