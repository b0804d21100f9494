"""A graph runs as if nothing had happened, whichever of its steps the runner is killed in."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import Reply, say
from tests.support.processes.crew import LONG
from tests.support.processes.system import System
from tests.support.redis.bus_client import EPHEMERAL, Bus
from tests.support.redis.redis_server import RedisServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance

COUNTS = {"gateway": 1, "router": 1, "task-runner": 1, "tool-worker": 1}
EVERY = 1 if LONG else 5
"""In the short form the runner is killed at every fifth question to the model."""


def _llm(key: str, **fields: Any) -> dict[str, Any]:
    return {"key": key, "kind": "llm", "system_prompt": f"You are {key}.", "tools": [], **fields}


INNER = {"name": "inner", "nodes": [_llm("in"), _llm("out")], "entry": "in", "ends": ["out"]}
INNER["edges"] = [{"from": "in", "to": "out"}]
GRAPH = {
    "name": "whole",
    "timeout": 600,
    "nodes": [
        _llm("first"),
        {"key": "fan", "kind": "parallel", "branches": ["one", "two"], "join": "all", "then": "each"},
        _llm("one", writes="one"),
        {"key": "two", "kind": "tool", "tool": "calculator", "args": {"expression": "6 * 7"}},
        {"key": "each", "kind": "map", "over": "state.items", "node": "item", "max_parallel": 3, "then": "sub"},
        _llm("item"),
        {"key": "sub", "kind": "graph", "graph": "inner"},
        {"key": "who", "kind": "ask", "question": "Who are you?", "writes": "who"},
        _llm("last", system_prompt="You are last. {{state.who}} {{state.each}} {{state.two}}"),
    ],
    "edges": [
        {"from": "first", "to": "first", "when": "it is not done"},
        {"from": "first", "to": "fan"},
        {"from": "sub", "to": "who"},
        {"from": "who", "to": "last"},
    ],
    "entry": "first",
    "ends": ["last"],
}
SHOWN = ("type", "node", "content", "tool", "result", "status", "reason", "next", "step")
Told = dict[str, list[tuple[Any, ...]]]
"""What clients were told of each task, by what the task is for."""


class Model:
    """The model: what it says follows from what it is asked. It counts questions of each session, and waits at one."""

    def __init__(self) -> None:
        self.asked: dict[str, list[str]] = {}
        self.stop_at: tuple[str, int] | None = None
        self.stopped = asyncio.Event()
        self._never = asyncio.Event()

    def __call__(self, request: dict[str, Any]) -> Reply:
        system, *messages = request["messages"]
        session = next(m["content"] for m in messages if m["role"] == "user")
        judges = system["content"].startswith("You watch")
        who = "judge" if judges else system["content"].partition(".")[0].removeprefix("You are ")
        asked = self.asked.setdefault(session, [])
        asked.append(who)
        if self.stop_at == (session, len(asked)):
            self.stop_at = None
            self.stopped.set()
            return say("never", wait=self._never, wait_after=0)
        if judges:
            return say('{"holds": [false]}')
        if who == "item":
            return say(f"did {messages[-1]['content']}")
        return say(f"{who}: {system['content'].partition('. ')[2].partition(chr(10))[0]}")


@asynccontextmanager
async def stand(folder: Path) -> AsyncIterator[tuple[System, Model, Bus]]:
    model = Model()
    async with RedisServer() as redis, ScriptedModel(model, record=False) as server, Bus(redis.url) as bus:
        (file := folder / "graphs.json").write_text(json.dumps({"graphs": [GRAPH, INNER]}))
        environment = {"LLM_BASE_URL": server.base_url, "PENTAD_LEASE_S": "0.6", "PENTAD_INSTRUCTIONS": str(file)}
        async with System(redis.url, folder, COUNTS, environment) as system:
            yield system, model, bus


async def told(bus: Bus, session: str) -> Told:
    """Events of each task in their order, without what every run has anew."""
    found: Told = {}
    names: dict[str, str] = {}
    for event in await bus.events(session):
        if event["type"] in EPHEMERAL or event["type"] == "message_routed" or not event.get("task_id"):
            continue
        if event["type"] == "task_start":
            about = f"{event.get('node', 'root')} {event['goal']}"
            names.setdefault(event["task_id"], about)
        shown = [event.get(name) for name in SHOWN]
        found.setdefault(names[event["task_id"]], []).append(tuple(shown))
    return found


async def run(bus: Bus, session: str) -> Told:
    """Run the graph to its question, answer that, and wait for the end."""
    await bus.send(session, session, instruction="whole", state={"items": ["a", "b", "c", "d", "e"]})
    await bus.until(session, "task_status")
    await bus.send("Mimi", session)
    (root,) = {e["task_id"] for e in await bus.events(session, "task_start") if not e.get("parent_task_id")}

    async def ended() -> bool:
        return any(e["task_id"] == root for e in await bus.events(session, "task_end"))

    await wait_until(f"the graph of {session} to end", ended)
    return await told(bus, session)


def without_name(found: Told, session: str) -> Told:
    """The same, whichever session it was."""
    return {
        about.replace(session, "S"): [tuple(str(part).replace(session, "S") for part in each) for each in events]
        for about, events in found.items()
    }


async def test_a_killed_runner_changes_nothing_of_a_graph(tmp_path: Path) -> None:
    """Two branches, five items, a graph in the graph, a judged edge and a question; order inside each task."""
    async with stand(tmp_path) as (system, model, bus):
        (runner,) = system.named("task-runner")
        whole = without_name(await run(bus, "undisturbed"), "undisturbed")
        questions = model.asked["undisturbed"]
        assert Counter(questions) == Counter(first=1, judge=1, one=1, item=5, **{"in": 1}, out=1, last=1)
        assert len(whole) == 1 + 2 + 5 + 1, sorted(whole)
        for number in range(1, len(questions) + 1, EVERY):
            session = f"killed-{number}"
            model.stop_at = session, number
            model.stopped.clear()
            going = asyncio.create_task(run(bus, session))
            await model.stopped.wait()
            system.restart(runner)
            again = without_name(await going, session)
            assert again == whole, f"killed at question {number}, of {model.asked[session][number - 1]}"
            repeated = Counter(model.asked[session]) - Counter(questions)
            assert sum(repeated.values()) <= 3, "only what was under way is asked again"
            assert repeated["judge"] <= (model.asked[session][number - 1] == "judge")


@pytest.mark.slow
async def test_a_runner_that_is_killed_again_and_again_comes_to_the_same_end(tmp_path: Path) -> None:
    """It is killed wherever it is: before, in and after commits."""
    async with stand(tmp_path) as (system, _, bus):
        (runner,) = system.named("task-runner")
        whole = without_name(await run(bus, "undisturbed"), "undisturbed")
        going = asyncio.create_task(run(bus, "killed"))
        for number in range(12 if LONG else 3):
            events = len(await bus.events("killed"))

            async def more(events: int = events) -> bool:
                return going.done() or len(await bus.events("killed")) > events

            await wait_until(f"the run to go on before kill {number}", more)
            system.restart(runner)
        assert without_name(await going, "killed") == whole
