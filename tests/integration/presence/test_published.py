"""The tools that workers publish, after Redis has lost them."""

import json
from pathlib import Path

import pytest

from pentad.contracts.tools import Effect, ToolSpec
from pentad.services.task_runner import tool_catalog
from pentad.services.task_runner.tool_catalog import ToolCatalog
from pentad.services.tool_worker.app import ToolWorker
from pentad.shared.keys import TOOLS_REGISTRY
from pentad.shared.presence.published import TOOLS
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store
from tests.support.waiting import wait_until

ONE, TWO = (ToolSpec(name=name, effect=Effect.PURE) for name in ("one", "two"))


async def test_a_worker_whose_tools_are_gone_publishes_them_again_at_once(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pentad.services.tool_worker.app.BEAT_S", 3600)
    settings = {"redis_url": store.url, "pentad_data_dir": tmp_path, "pentad_tool_processes": 1}
    worker = ToolWorker(Settings.model_validate(settings))
    await worker.start()
    before = await TOOLS.read(store)
    await store.call("FLUSHALL")
    await wait_until("the tools to be back", lambda: TOOLS.read(store))
    assert (await TOOLS.read(store), worker.alive()) == (before, True)
    await worker.stop()


async def test_a_published_tool_that_is_no_json_is_left_out(store: Store) -> None:
    """Its schema would go into every prompt, and model servers refuse what they cannot read."""
    now = await store.clock()
    schema = '{"type":"object","properties":{"x":{"type":"number","default":NaN}}}'
    await store.call("HSET", TOOLS_REGISTRY, "bad", f'{{"spec":{{"name":"bad","parameters":{schema}}},"beat":{now}}}')
    await TOOLS.publish(store, [ONE])
    assert list(await TOOLS.read(store)) == ["one"]


async def test_what_another_worker_has_published_meanwhile_does_not_hide_that_tools_are_gone(store: Store) -> None:
    await TOOLS.publish(store, [ONE])
    assert not await TOOLS.lost(store, [ONE])
    assert await TOOLS.lost(store, [ONE, TWO])
    assert not await TOOLS.lost(store, [])


async def test_a_runner_that_knows_of_no_tools_looks_each_time(store: Store) -> None:
    catalog = ToolCatalog(store)
    assert await catalog.specs() == {}
    await TOOLS.publish(store, [ONE])
    assert await catalog.specs() == {"one": ONE}


async def test_a_runner_goes_on_with_the_tools_it_knew_until_some_are_published(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_catalog, "_FRESH_S", -1.0)
    catalog = ToolCatalog(store)
    assert await catalog.specs() == {}
    await TOOLS.publish(store, [ONE, TWO])
    known = await catalog.specs()
    await store.call("DEL", TOOLS_REGISTRY)
    assert await catalog.specs() is known
    await TOOLS.publish(store, [TWO])
    assert await catalog.specs() == {"two": TWO}
    monkeypatch.setattr(tool_catalog, "_KEPT_S", -1.0)
    await store.call("DEL", TOOLS_REGISTRY)
    assert await catalog.specs() == {}


async def beaten(store: Store, ago_s: float, *specs: ToolSpec) -> None:
    """Tools whose worker was last heard of so long ago."""
    for spec in specs:
        said = {"spec": spec.model_dump(mode="json"), "beat": await store.clock() - round(ago_s * 1000)}
        await store.call("HSET", TOOLS_REGISTRY, spec.name, json.dumps(said))


async def test_a_tool_that_workers_of_its_queue_beat_without_is_gone(store: Store) -> None:
    other = ToolSpec(name="other", queue="gpu")
    await beaten(store, 90, ONE, other)
    assert list(await TOOLS.read(store)) == ["one", "other"]
    await TOOLS.publish(store, [TWO])
    assert list(await TOOLS.read(store)) == ["other", "two"]


async def test_a_tool_whose_worker_was_there_a_moment_ago_stays(store: Store) -> None:
    await beaten(store, 45, ONE)
    await TOOLS.publish(store, [TWO])
    assert list(await TOOLS.read(store)) == ["one", "two"]


async def test_a_runner_knows_which_tools_no_living_worker_has(store: Store) -> None:
    await beaten(store, 90, ONE)
    catalog = ToolCatalog(store)
    assert list(await catalog.specs()) == list(catalog.silent) == ["one"]


@pytest.mark.parametrize(("alone", "left"), [(True, False), (False, True)])
async def test_a_worker_of_a_whole_system_forgets_the_tools_of_before(
    store: Store, tmp_path: Path, alone: bool, left: bool
) -> None:
    """Elsewhere another worker may have them: its restart takes a while."""
    await TOOLS.publish(store, [ONE])
    settings = {"redis_url": store.url, "pentad_data_dir": tmp_path, "pentad_tool_processes": 1}
    worker = ToolWorker(Settings.model_validate(settings), alone=alone)
    await worker.start()
    found = await TOOLS.read(store)
    await worker.stop()
    assert ("one" in found, "calculator" in found) == (left, True)


async def test_what_was_published_before_the_clock_stepped_back_hides_no_tool_of_a_living_worker(store: Store) -> None:
    """It is the newest beat of the queue for ten minutes: living workers seemed to beat without their own tools."""
    await beaten(store, -600, ONE)
    await TOOLS.publish(store, [TWO])
    assert list(await TOOLS.read(store)) == ["one", "two"]
