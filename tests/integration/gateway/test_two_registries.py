"""Changes of two registries at two gateways that exclude each other: never do both succeed.

An instruction or a graph that names a model, and the deletion of that model; an instruction and a graph of one name.
All orders of their commands are tried, one after the other; nothing is timed.
"""

import asyncio
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, cast

import pytest

from pentad.contracts.instructions import Instruction
from pentad.contracts.models import ModelEntry
from pentad.services.gateway.edge.problems import ProblemError
from pentad.services.gateway.operator.models import ModelRegistry
from pentad.services.gateway.operator.runnables import (
    KnownRunnables,
    RegistryParts,
    graph_registry,
    instruction_registry,
)
from pentad.shared.keys import GRAPHS_REGISTRY, INSTRUCTIONS_REGISTRY, MODELS_REGISTRY
from pentad.shared.models.configured_models import configured_models
from pentad.shared.registries.registrations import REGISTERED_GRAPHS, REGISTERED_INSTRUCTIONS, REGISTERED_MODELS
from pentad.shared.settings import load_settings
from pentad.shared.store.store import Store

MODEL = {"id": "m", "endpoint": "http://h:3/v1"}
POET = {"name": "poet", "system_prompt": "Rhyme.", "model": "m"}
GRAPH = {
    "name": "poet",
    "nodes": [{"key": "a", "kind": "llm", "system_prompt": "Rhyme.", "model": "m"}],
    "entry": "a",
    "ends": ["a"],
}
SURE_COMMANDS = 4
"""Each of the two makes at least so many commands: two reads, the other registry's new version, its own write."""


class Turns:
    """Two gateways' commands about two registries, one at a time, in a given order; then each goes on to its end."""

    def __init__(self, store: Store, about: Sequence[str]) -> None:
        self.store, self._about = store, {*about}
        self._waiting: asyncio.Future[None] | None = None

    async def call(self, *args: Any, **options: Any) -> Any:
        await self._turn(args)
        return await self.store.call(*args, **options)

    async def run(self, script: str, keys: Any, args: Any) -> Any:
        await self._turn(keys)
        return await self.store.run(script, keys, args)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def _turn(self, words: Sequence[Any]) -> None:
        if not self._about & {*words}:
            return
        self._waiting = asyncio.get_running_loop().create_future()
        await self._waiting

    async def until_it_waits(self, work: asyncio.Task[Any]) -> None:
        while self._waiting is None and not work.done():
            await asyncio.wait([work], timeout=0.001)  # a command or a thread of its own is under way

    async def step(self, work: asyncio.Task[Any]) -> None:
        """Let it make its next command, and come to the one after that."""
        await self.until_it_waits(work)
        if self._waiting is not None:
            waiting, self._waiting = self._waiting, None
            waiting.set_result(None)
            await self.until_it_waits(work)


class Gateway:
    """The registries of one gateway, of which two are looked at."""

    def __init__(self, store: Store, *about: str) -> None:
        self.turns = Turns(store, about)
        stepped = cast("Store", self.turns)
        known = KnownRunnables(stepped, ())
        self.models = ModelRegistry(stepped, configured_models(load_settings({})), [known])
        parts = RegistryParts(stepped, known, self.models, _no_tools)
        self.instructions, self.graphs = instruction_registry(parts), graph_registry(parts)

    def register(self, body: dict[str, Any]) -> Any:
        """Begin to register an instruction or a graph."""
        return (self.graphs if "nodes" in body else self.instructions).register(body)


async def _no_tools() -> Sequence[str]:
    return ()


def orders() -> Iterator[list[int]]:
    """Every order of the commands that each surely makes."""
    both = 2 * SURE_COMMANDS
    for first in combinations(range(both), SURE_COMMANDS):
        yield [0 if n in first else 1 for n in range(both)]


async def _begin(store: Store) -> None:
    await store.call("DEL", MODELS_REGISTRY, INSTRUCTIONS_REGISTRY, GRAPHS_REGISTRY)
    entry = ModelEntry.model_validate(MODEL)
    assert await REGISTERED_MODELS.write(store, await REGISTERED_MODELS.read(store), "m", entry)


async def _in_this_order(gateways: Sequence[Gateway], works: Sequence[Any], order: Sequence[int]) -> list[Any]:
    tasks = [asyncio.create_task(work) for work in works]
    for who in order:
        await gateways[who].turns.step(tasks[who])
    for gateway, task in zip(gateways, tasks, strict=True):
        while not task.done():
            await gateway.turns.step(task)
    return list(await asyncio.gather(*tasks, return_exceptions=True))


def _refused(outcome: Any) -> bool:
    assert not isinstance(outcome, BaseException) or isinstance(outcome, ProblemError), outcome
    return isinstance(outcome, ProblemError)


KINDS: list[tuple[Any, Any, str]] = [
    (POET, REGISTERED_INSTRUCTIONS, INSTRUCTIONS_REGISTRY),
    (GRAPH, REGISTERED_GRAPHS, GRAPHS_REGISTRY),
]


@pytest.mark.parametrize(("body", "registry", "key"), KINDS, ids=["instruction", "graph"])
async def test_in_no_order_is_what_names_a_model_registered_and_the_model_deleted(
    store: Store, body: dict[str, Any], registry: Any, key: str
) -> None:
    outcomes = set()
    for order in orders():
        await _begin(store)
        one, other = gateways = Gateway(store, MODELS_REGISTRY, key), Gateway(store, MODELS_REGISTRY, key)
        registering, deleting = one.register(body), other.models.delete("m")
        found = tuple(_refused(each) for each in await _in_this_order(gateways, (registering, deleting), order))
        left = await REGISTERED_MODELS.read(store), await registry.read(store)
        assert found != (False, False), f"both succeeded in the order {order}"
        assert bool(left[1].entries) is not found[0], order
        assert bool(left[0].entries) is found[1], order
        outcomes.add(found)
    assert outcomes >= {(False, True), (True, False)}, "who comes first succeeds"


async def test_in_no_order_do_an_instruction_and_a_graph_come_to_have_one_name(store: Store) -> None:
    outcomes = set()
    for order in orders():
        await _begin(store)
        about = INSTRUCTIONS_REGISTRY, GRAPHS_REGISTRY
        one, other = gateways = Gateway(store, *about), Gateway(store, *about)
        found = tuple(
            _refused(each)
            for each in await _in_this_order(gateways, (one.register(POET), other.register(GRAPH)), order)
        )
        left = await REGISTERED_INSTRUCTIONS.read(store), await REGISTERED_GRAPHS.read(store)
        assert tuple(not each.entries for each in left) == found, order
        assert found != (False, False), f"both succeeded in the order {order}"
        outcomes.add(found)
    assert outcomes >= {(False, True), (True, False)}, "who comes first succeeds"


@pytest.mark.slow
@pytest.mark.parametrize(("body", "registry", "key"), KINDS, ids=["instruction", "graph"])
async def test_in_no_order_does_a_model_that_is_named_come_to_embed(
    store: Store, body: dict[str, Any], registry: Any, key: str
) -> None:
    embeds = {**MODEL, "kind": "embedding"}
    for order in orders():
        await _begin(store)
        one, other = gateways = Gateway(store, MODELS_REGISTRY, key), Gateway(store, MODELS_REGISTRY, key)
        works = one.register(body), other.models.register(embeds)
        found = [_refused(each) for each in await _in_this_order(gateways, works, order)]
        assert any(found), f"both succeeded in the order {order}"
        assert bool((await registry.read(store)).entries) is not found[0], order


async def test_an_instruction_that_names_nothing_registered_changes_no_model(store: Store) -> None:
    await _begin(store)
    before = await REGISTERED_MODELS.read(store)
    gateway = Gateway(store)
    for body in ({"name": "poet", "system_prompt": "Rhyme."}, {**POET, "model": "default"}):
        await _in_this_order([gateway], [gateway.instructions.register(body)], [])
    assert await REGISTERED_MODELS.read(store) == before
    (kept,) = (await REGISTERED_INSTRUCTIONS.read(store)).entries
    assert kept == Instruction.model_validate({**POET, "model": "default"})


async def test_who_is_overtaken_each_time_is_told_to_try_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    await _begin(store)

    async def overtaken(*_: object) -> bool:
        return False

    for registry in (REGISTERED_MODELS, REGISTERED_INSTRUCTIONS):
        monkeypatch.setattr(registry, "renew", overtaken)
    gateway = Gateway(store)
    for work in (gateway.instructions.register(POET), gateway.models.delete("m")):
        (found,) = await _in_this_order([gateway], [work], [])
        assert (found.status, found.retry_after) == (429, 1.0)
