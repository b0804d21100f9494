"""Which model answered, what it cost, and what happens when the first of a chain fails: what a task keeps of it."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import from_json

from pentad.contracts.instructions import Instruction
from pentad.contracts.models import ModelEntry
from pentad.shared.keys import timers
from pentad.shared.models.model_list import merged
from pentad.shared.models.model_pool import ModelPool, OpenGate
from pentad.shared.models.ports import (
    ChatRequest,
    DeltaSink,
    ModelAnswer,
    ModelCutOff,
    ModelGate,
    ModelUnavailable,
    ToolCallDraft,
    Usage,
)
from pentad.shared.registries.model_places import ModelPlaces
from pentad.shared.store.store import Store
from pentad.shared.work.timers import TimerLoop
from tests.integration.handlers.flow import SESSION, Flow, answer
from tests.support.waiting import PATIENCE_S

ECHO = ToolCallDraft("echo", '{"text":"x"}')


class Named:
    """A client with a name, which does what its script says."""

    place = None
    learned = ()
    window = None

    def __init__(self, name: str, *script: Any) -> None:
        self.name, self.script = name, list(script)
        self.asked = 0

    def warm(self) -> None:
        """Nothing to prepare."""

    async def stream(self, request: ChatRequest, on_delta: DeltaSink) -> ModelAnswer:
        self.asked += 1
        said = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(said, ModelUnavailable):
            raise said
        on_delta("content", f"{self.name} {self.asked}")
        for _ in range(3):
            await asyncio.sleep(0)  # what was said is on its way before what follows
        if isinstance(said, Exception):
            raise said
        calls = (said,) if isinstance(said, ToolCallDraft) else ()
        text = "" if calls else str(said)
        return ModelAnswer(text, "", calls, "stop", Usage(1_000_000, 500_000), f"server's {self.name}")

    async def aclose(self) -> None:
        """Nothing is open."""


def pool(clients: Sequence[Named], entries: Sequence[dict[str, Any]], gate: ModelGate | None = None) -> ModelPool:
    by_id = {str(entry["id"]): client for entry, client in zip(entries, clients, strict=True)}
    models = merged((), [ModelEntry.model_validate(entry) for entry in entries], ())
    return ModelPool(lambda known: by_id[known.entry.id], gate or OpenGate(), models)


async def events(store: Store) -> list[dict[str, Any]]:
    return [from_json(fields[1]) for _, fields in await store.call("XRANGE", SESSION.events, "-", "+")]


async def fire(flow: Flow, kind: str) -> None:
    """The task's timer is due now."""
    task = await flow.task()
    assert await flow.store.call("ZADD", timers(0), "XX", "CH", 1, f"{kind} {task.actor}") == 1
    await TimerLoop(flow.store, [0]).fire(0)
    await flow.drive()


async def test_the_cost_of_its_steps_is_in_the_tasks_usage_and_its_end(store: Store, tmp_path: Path) -> None:
    models = pool([Named("a", ECHO, "done")], [{"id": "a", "default": True, "prices": {"input": 0.2, "output": 0.1}}])
    flow = await Flow(store, tmp_path, lambda _: answer("never"), models=models).prepare()
    await flow.say("go")
    await flow.drive()
    end = (await events(store))[-1]
    assert (end["type"], end["status"]) == ("task_end", "completed")
    assert end["usage"]["usd"] == pytest.approx(0.5)
    assert float(await store.call("HGET", (await flow.task()).header, "usd")) == pytest.approx(0.5)


async def test_a_budget_in_money_ends_the_turn_once_it_is_spent(store: Store, tmp_path: Path) -> None:
    model = Named("a", ECHO)
    models = pool([model], [{"id": "a", "default": True, "prices": {"input": 0.2, "output": 0.1}}])
    flow = await Flow(store, tmp_path, lambda _: answer("never"), models=models).prepare()
    await flow.say("go", budget={"usd": 0.6})
    await flow.drive()
    told = await events(store)
    assert (told[-1]["type"], told[-1]["reason"]) == ("task_status", "budget_exceeded")
    assert model.asked == 3, "0.25 each: the third goes beyond 0.6"
    assert [e["budget"]["usd"] for e in told if e["type"] == "tool_call"] == pytest.approx([0.35, 0.1, 0.0])


async def test_who_answered_is_in_the_transcript_the_manifest_and_the_event(store: Store, tmp_path: Path) -> None:
    clients = [Named("a", ModelUnavailable("away")), Named("b", "done")]
    models = pool(clients, [{"id": "a", "default": True, "fallbacks": ["b"]}, {"id": "b"}])
    flow = await Flow(store, tmp_path, lambda _: answer("never"), models=models).prepare()
    await flow.say("go")
    await flow.drive()
    task = await flow.task()
    (message,) = (e for e in await events(store) if e["type"] == "message")
    assert (message["attempt"], message["model"], message["model_id"]) == (1, "server's b", "b")
    assert b'"model":"server\'s b","model_id":"b"' in (await store.call("LRANGE", task.log, -1, -1))[0]
    (step,) = await store.call("LRANGE", task.steps, 0, -1)
    assert {name: from_json(step)["manifest"][name] for name in ("model", "model_id")} == {
        "model": "server's b",
        "model_id": "b",
    }


async def test_after_cut_answers_the_attempt_grows_and_the_fallback_answers(store: Store, tmp_path: Path) -> None:
    main, spare = Named("a", ModelCutOff("cut")), Named("b", "done")
    models = pool([main, spare], [{"id": "a", "default": True, "fallbacks": ["b"]}, {"id": "b"}])
    flow = await Flow(store, tmp_path, lambda _: answer("never"), models=models).prepare()
    await flow.say("go")
    await flow.drive()
    for _ in range(2):
        await fire(flow, "retry")
    told = await events(store)
    deltas = [(e["attempt"], e["offset"], e["content"]) for e in told if e["type"] == "content"]
    assert deltas == [(1, 0, "a 1"), (2, 0, "a 2"), (3, 0, "b 1")]
    (message,) = (e for e in told if e["type"] == "message")
    assert (message["attempt"], message["content"], message["model_id"]) == (3, "done", "b")
    assert told[-1]["status"] == "completed"


async def test_when_all_are_down_the_step_waits_for_the_earliest_and_asks_nobody(store: Store, tmp_path: Path) -> None:
    models = pool([Named("a", ModelUnavailable("away"))], [{"id": "a", "default": True}])
    (live,) = models.live
    for _ in range(3):
        live.circuit.failed(live.circuit.since, "away", asked_s=40.0)
    flow = await Flow(store, tmp_path, lambda _: answer("never"), models=models).prepare()
    await flow.say("go")
    begun = await store.clock()
    await flow.drive()
    due = int(await store.call("ZSCORE", timers(0), f"retry {(await flow.task()).actor}"))
    assert 38_000 < due - begun < 41_000
    assert live.client.asked == 0  # type: ignore[attr-defined]


async def test_an_instructions_own_model_is_asked(store: Store, tmp_path: Path) -> None:
    own = Instruction(name="poet", system_prompt="Rhyme.", model="b")
    main, named = Named("a", "never"), Named("b", "done")
    models = pool([main, named], [{"id": "a", "default": True}, {"id": "b"}])
    flow = await Flow(store, tmp_path, lambda _: answer("never"), instructions=[own], models=models).prepare()
    await flow.say("go", instruction="poet")
    await flow.drive()
    assert (main.asked, named.asked) == (0, 1)


async def test_a_model_that_is_not_there_yet_is_waited_for(store: Store, tmp_path: Path) -> None:
    own = Instruction(name="poet", system_prompt="Rhyme.", model="late")
    models = pool([Named("a", "never")], [{"id": "a", "default": True}])
    flow = await Flow(store, tmp_path, lambda _: answer("never"), instructions=[own], models=models).prepare()
    await flow.say("go", instruction="poet")
    await flow.drive()
    told = await events(store)
    assert "there is no chat model 'late'" in told[-1]["reason"]
    models._make = lambda _: Named("late", "done")
    models.use(merged((), [ModelEntry(id="a", default=True), ModelEntry(id="late")], ()))
    await fire(flow, "retry")
    assert (await events(store))[-1]["status"] == "completed"


async def test_a_task_without_a_place_comes_back_when_it_is_told(store: Store, tmp_path: Path) -> None:
    places = ModelPlaces(store)
    models = pool([Named("a", "done")], [{"id": "a", "default": True, "concurrency": 1}], places)
    held = await places.enter("a", 1, "somebody", False)
    flow = await Flow(store, tmp_path, lambda _: answer("never"), models=models).prepare()
    await flow.say("go")
    begun = await store.clock()
    await flow.drive()
    task = await flow.task()
    due = int(await store.call("ZSCORE", timers(0), f"retry {task.actor}"))
    assert 200 < due - begun < 5000
    assert (await events(store))[-1]["type"] == "task_status"
    places.leave("a", held)
    await fire(flow, "retry")
    assert (await events(store))[-1]["status"] == "completed"
    assert await asyncio.wait_for(places.enter("a", 1, "next", False), PATIENCE_S), "it gave its place back"
