"""Models that are registered while the system runs, as every process comes to know them, whatever becomes of Redis."""

from collections.abc import Sequence

import pytest

from pentad.contracts.ids import milliseconds
from pentad.contracts.instructions import Instruction
from pentad.contracts.models import ModelEntry
from pentad.shared.keys import (
    INSTRUCTIONS_REGISTRY,
    MODELS_REGISTRY,
    VERSION,
    VERSIONS_KEPT,
    VERSIONS_TTL_S,
    registry_versions,
)
from pentad.shared.registries import registrations
from pentad.shared.registries.registrations import REGISTERED_INSTRUCTIONS as INSTRUCTIONS
from pentad.shared.registries.registrations import REGISTERED_MODELS as MODELS
from pentad.shared.registries.registrations import Registered
from pentad.shared.store.store import Store
from pentad.shared.telemetry import ThrottledLog
from tests.support.processes.running import beside
from tests.support.redis.failover import Redundant
from tests.support.waiting import wait_until

A, B = ModelEntry(id="a", model="m1"), ModelEntry(id="b", prices={"input": 1.0})  # type: ignore[arg-type]
KNOWN_S = 2.0


class Follower:
    """What one process knows."""

    def __init__(self) -> None:
        self.told: list[list[str]] = []

    def use(self, entries: Sequence[ModelEntry]) -> None:
        self.told.append([f"{entry.id} {entry.model}" for entry in entries])

    async def until(self, *known: str) -> None:
        await wait_until(f"{known} to be known", lambda: bool(self.told) and self.told[-1] == [*known])


async def test_an_entry_is_kept_as_it_was_written_and_removed_for_good(store: Store) -> None:
    assert await MODELS.read(store) == Registered(b"", ())
    assert await MODELS.write(store, await MODELS.read(store), "b", B)
    assert await MODELS.write(store, await MODELS.read(store), "a", A)
    assert (await MODELS.read(store)).entries == (A, B)
    assert await MODELS.write(store, await MODELS.read(store), "b", None)
    assert (await MODELS.read(store)).entries == (A,)
    assert await store.call("TTL", MODELS_REGISTRY) == -1


async def test_of_two_who_change_it_at_once_the_second_must_look_again(store: Store) -> None:
    first = second = await MODELS.read(store)
    assert await MODELS.write(store, first, "a", A)
    assert not await MODELS.write(store, second, "a", A.model_copy(update={"model": "m2"}))
    assert (await MODELS.read(store)).entries == (A,)


async def test_every_process_knows_a_change_within_two_seconds_and_hears_of_nothing_else(store: Store) -> None:
    assert registrations._EVERY_S < KNOWN_S
    one, other = Follower(), Follower()
    async with (
        beside(MODELS.keep_following(store, one.use)),
        beside(MODELS.keep_following(store, other.use)),
    ):
        await one.until()
        await MODELS.write(store, await MODELS.read(store), "a", A)
        await one.until("a m1")
        await other.until("a m1")
        await MODELS.write(store, await MODELS.read(store), "a", A.model_copy(update={"model": "m2"}))
        await one.until("a m2")
        await MODELS.write(store, await MODELS.read(store), "a", None)
        await one.until()
        await other.until()
    assert one.told == [[], ["a m1"], ["a m2"], []]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no json",
        b"\xff",
        b"[]",
        b'{"id":"x","of_a_newer_version":1}',
        b'{"id":"x","kind":"video"}',
        b'{"id":"another"}',
        b'{"id":"x","parameters":{"a":' + b"[" * 5000 + b"]" * 5000 + b"}}",
        b'{"id":"x","model":"' + b"y" * 100_000 + b'"}',
    ],
)
async def test_an_entry_that_cannot_be_read_is_left_out_and_said_and_stops_nothing(
    store: Store, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    monkeypatch.setattr(registrations, "_say", ThrottledLog(registrations.log))
    await MODELS.write(store, await MODELS.read(store), "a", A)
    await store.call("HSET", MODELS_REGISTRY, "x", body, "@", b"{}", b"\xff", b"{}")
    assert (await MODELS.read(store)).entries == (A,)
    said = [line for line in caplog.messages if "b'x'" in line]
    assert len(said) == 1
    assert len(said[0]) < 2000


async def test_a_change_after_a_failover_that_lost_the_last_one_is_not_missed() -> None:
    async with Redundant() as redis:
        store, follower = Store(redis.url), Follower()
        async with beside(MODELS.keep_following(store, follower.use)):
            redis.hold_back()
            await MODELS.write(store, await MODELS.read(store), "a", A)
            await follower.until("a m1")
            await redis.take_over("killed", 0.1)
            await wait_until("the new primary", lambda: _write(store, B))
            await wait_until("what it has", lambda: follower.told[-1] == ["b None"])
        await store.close()


async def _write(store: Store, entry: ModelEntry) -> bool:
    from pentad.shared.errors import OutageError

    try:
        return await MODELS.write(store, await MODELS.read(store), entry.id, entry)
    except OutageError:
        return False


async def test_the_version_is_no_models_id() -> None:
    with pytest.raises(ValueError, match="id"):
        ModelEntry(id=VERSION)


POET = Instruction(name="poet", system_prompt="Rhyme.", output="json", output_schema={"type": "string"})


async def test_instructions_are_kept_beside_the_models_and_apart_from_them(store: Store) -> None:
    assert await INSTRUCTIONS.write(store, await INSTRUCTIONS.read(store), "poet", POET)
    assert (await INSTRUCTIONS.read(store)).entries == (POET,)
    assert (await MODELS.read(store)).entries == ()
    assert await store.call("TTL", INSTRUCTIONS_REGISTRY) == -1


async def test_a_field_of_a_newer_version_does_not_cost_an_instruction(store: Store) -> None:
    await store.call("HSET", INSTRUCTIONS_REGISTRY, "poet", b'{"colour":"red",' + POET.to_json()[1:])
    assert (await INSTRUCTIONS.read(store)).entries == (POET,)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b'{"name":"x","system_prompt":""}',
        b'{"name":"another","system_prompt":"x"}',
        b'{"name":"x","system_prompt":"x","output":"video"}',
        b'{"name":"x","system_prompt":"x","output":"json","output_schema":{"type":"objekt"}}',
        b'{"name":"x","system_prompt":"' + b"y" * 600_000 + b'"}',
    ],
)
async def test_an_instruction_that_cannot_be_used_is_left_out_and_said(
    store: Store, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    monkeypatch.setattr(registrations, "_say", ThrottledLog(registrations.log))
    await INSTRUCTIONS.write(store, await INSTRUCTIONS.read(store), "poet", POET)
    await store.call("HSET", INSTRUCTIONS_REGISTRY, "x", body)
    assert (await INSTRUCTIONS.read(store)).entries == (POET,)
    (said,) = caplog.messages
    assert said.startswith("b'x' of the registered instructions is left out")
    assert len(said) < 2000


async def test_the_last_versions_of_an_entry_are_kept_and_end(store: Store) -> None:
    for number in range(VERSIONS_KEPT + 3):
        entry = A.model_copy(update={"model": f"m{number}"})
        assert await MODELS.write(store, await MODELS.read(store), "a", entry)
        assert await MODELS.write(store, await MODELS.read(store), "a", entry)  # the same again is no version
    assert await MODELS.write(store, await MODELS.read(store), "a", None)
    found = await MODELS.versions(store, "a")
    assert [each["entry"] and each["entry"]["model"] for each in found[:3]] == [None, "m12", "m11"]
    assert len(found) == VERSIONS_KEPT
    assert milliseconds(found[0]["at"]) >= milliseconds(found[1]["at"])
    assert 0 < await store.call("TTL", registry_versions(MODELS_REGISTRY, "a")) <= VERSIONS_TTL_S
    assert await MODELS.versions(store, "b") == []


async def test_a_change_of_several_entries_keeps_a_version_of_each(store: Store) -> None:
    assert await MODELS.write_all(store, await MODELS.read(store), {"a": A, "b": B})
    assert [len(await MODELS.versions(store, name)) for name in ("a", "b")] == [1, 1]
    assert not await MODELS.write(store, Registered(b"another", ()), "a", None)
    assert len(await MODELS.versions(store, "a")) == 1


async def test_a_version_that_cannot_be_read_keeps_its_place(store: Store) -> None:
    assert await MODELS.write(store, await MODELS.read(store), "a", A)
    await store.call("LPUSH", registry_versions(MODELS_REGISTRY, "a"), "rubbish")
    assert [each["at"] is None for each in await MODELS.versions(store, "a")] == [True, False]
