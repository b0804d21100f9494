"""Where words are not sure, a model says which task is meant; without it, words decide."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import from_json

from pentad.contracts.instructions import Instruction
from pentad.contracts.streams import SESSION_WAKE
from pentad.services.router import model_confirmation
from pentad.shared.actors.commit import Commit
from pentad.shared.keys import SessionKeys
from pentad.shared.models.model_pool import pool_of
from pentad.shared.models.ports import ChatRequest, ModelAnswer, ModelUnavailable
from pentad.shared.store.store import Store
from tests.integration.handlers.flow import Flow, ScriptedPort, answer
from tests.integration.handlers.test_finding_its_task import routed
from tests.support.waiting import wait_until

OPENINGS = ["Find me a flight to Lisbon.", "Please book a table for four.", "Write a poem about leaves."]
UNCLEAR = "Thursday at eleven would be better."


class NamedModel(ScriptedPort):
    """A model somewhere else."""

    @property
    def place(self) -> str:  # type: ignore[override]
        return "http://models.example/v1"


def choosing(goal: str, confidence: float = 0.9) -> Callable[[ChatRequest], ModelAnswer]:
    """A model that names the task that began with this; 'new' for ''."""

    def script(request: ChatRequest) -> ModelAnswer:
        shown = from_json(from_json(request.messages[1])["content"])
        named = next((task["task"] for task in shown["tasks"] if goal and goal in task["began_with"]), "new")
        return answer('{"task":"%s","confidence":%s,"reason":"I know"}' % (named, confidence))  # noqa: UP031

    return script


async def three_tasks(store: Store, folder: Path, model: NamedModel) -> Flow:
    flow = await Flow(store, folder, lambda _: answer("Which time suits you?"), confirming=pool_of(model)).prepare()
    before, model.script = model.script, choosing("")
    for opening in OPENINGS:
        await flow.say(opening)
        await flow.drive()
    model.script, model.asked = before, 0
    return flow


async def last_routed(store: Store) -> dict[str, Any]:
    *_, last = await routed(store)
    return last


async def test_the_model_decides_what_words_leave_open(store: Store, tmp_path: Path) -> None:
    model = NamedModel(choosing("flight"))
    flow = await three_tasks(store, tmp_path, model)
    await flow.say(UNCLEAR)
    await flow.drive()
    flights, *_, last = await routed(store)
    assert (last["task_id"], last["stage"], last["confidence"]) == (flights["task_id"], "model", 0.9)
    assert "I know" in last["reason"]
    assert len(last["candidates"]) == 3
    assert model.asked == 1


async def test_what_is_sure_asks_no_model(store: Store, tmp_path: Path) -> None:
    model = NamedModel(choosing("flight"))
    flow = await three_tasks(store, tmp_path, model)
    await flow.say("Which airline has the flight to Lisbon?", task_id=(await routed(store))[0]["task_id"])
    await flow.drive()
    assert model.asked == 0


@pytest.mark.parametrize(
    ("script", "told"),
    [
        (choosing("flight", 0.3), "is not sure"),
        (lambda _: answer("the flight, I think"), "cannot be used"),
        (lambda _: answer('{"task":"9","confidence":1,"reason":""}'), "cannot be used"),
        (lambda _: answer('{"task":"1"}'), "cannot be used"),
    ],
)
async def test_an_unsure_or_unusable_answer_leaves_it_to_the_words(
    store: Store, tmp_path: Path, script: Callable[[ChatRequest], ModelAnswer], told: str
) -> None:
    model = NamedModel(script)
    flow = await three_tasks(store, tmp_path, model)
    await flow.say(UNCLEAR)
    await flow.drive()
    last = await last_routed(store)
    assert (last["stage"], told in last["reason"]) == ("similarity", True)
    assert model.asked in (1, 4)  # prose is asked for again three times


@pytest.mark.parametrize(
    "text", ["[1]", "null", '"1"', '{"task":"1"}', '{"task":"1","confidence":%s}' % ("9" * 400), "x" * 500_000]
)
async def test_an_instruction_of_ones_own_cannot_stop_a_session(store: Store, tmp_path: Path, text: str) -> None:
    """It may have no schema at all: what the model says then is checked all the same, and little of it sent back."""
    sent: list[int] = []

    def script(request: ChatRequest) -> ModelAnswer:
        sent.append(sum(map(len, request.messages)))
        return answer(text)

    model = NamedModel(script)
    flow = await three_tasks(store, tmp_path, model)
    flow.instructions["router"] = Instruction(name="router", system_prompt="Where does it belong?")
    await flow.say(UNCLEAR)
    await flow.drive()
    last = await last_routed(store)
    assert (last["stage"], "cannot be used" in last["reason"], model.asked) == ("similarity", True, 4)
    assert max(sent) < 30_000


async def test_an_invalid_answer_is_repaired_by_asking_again(store: Store, tmp_path: Path) -> None:
    said = ["the flight", '{"task":1}', '{"task":"7","confidence":1,"reason":""}']
    model = NamedModel(lambda request: answer(said.pop(0)) if said else choosing("flight")(request))
    flow = await three_tasks(store, tmp_path, model)
    await flow.say(UNCLEAR)
    await flow.drive()
    assert ((await last_routed(store))["stage"], model.asked) == ("model", 4)


async def test_a_model_that_is_away_or_slow_leaves_it_to_the_words(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: ChatRequest) -> ModelAnswer:
        raise ModelUnavailable("no connection")

    model = NamedModel(away)
    flow = await three_tasks(store, tmp_path, model)
    await flow.say(UNCLEAR)
    await flow.drive()
    last = await last_routed(store)
    assert (last["stage"], "no connection" in last["reason"]) == ("similarity", True)
    monkeypatch.setattr(model_confirmation, "_PATIENCE_S", 0.05)
    model.script, model.pause_s = choosing("flight"), 5.0
    await flow.say(UNCLEAR + " Or on Friday.")
    await flow.drive()
    last = await last_routed(store)
    assert (last["stage"], "not answered within" in last["reason"]) == ("similarity", True)


async def test_a_session_that_waits_for_the_model_holds_no_other(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = NamedModel(choosing("flight"))
    flow = await three_tasks(store, tmp_path, model)
    model.pause_s = 60.0
    await flow.say(UNCLEAR)
    waits = asyncio.create_task(flow.once(SESSION_WAKE))
    await wait_until("the model to be asked", lambda: model.asked == 1)
    other = SessionKeys(0, "default", "s2")
    await flow.say(OPENINGS[0], other)
    assert await flow.once(SESSION_WAKE) == 1
    assert len(await routed(store, other)) == 1
    assert not waits.done()
    monkeypatch.setattr(model_confirmation, "_MAX_WAITING", 1)
    for opening in OPENINGS[1:]:
        model.pause_s, model.script = 0.0, choosing("")
        await flow.say(opening, other)
        await flow.drive()
    await flow.say(UNCLEAR, other)
    await flow.once(SESSION_WAKE)
    *_, last = await routed(store, other)
    assert (last["stage"], "1 messages wait for it already" in last["reason"]) == ("similarity", True)
    waits.cancel()
    await asyncio.gather(waits, return_exceptions=True)


async def test_what_the_model_has_said_is_kept_and_a_crash_does_not_ask_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = NamedModel(choosing("flight"))
    flow = await three_tasks(store, tmp_path, model)
    commit, crashed = flow.actors.commit, asyncio.Event()

    async def crash(made: Commit, *more: Any) -> Any:
        if not crashed.is_set():
            crashed.set()
            model.script = choosing("table")
            raise RuntimeError("the router is gone")
        return await commit(made, *more)

    monkeypatch.setattr(flow.actors, "commit", crash)
    await flow.say(UNCLEAR)
    await flow.drive()
    flights, *_, last = await routed(store)
    assert crashed.is_set()
    assert (last["task_id"], model.asked) == (flights["task_id"], 1)


@pytest.mark.parametrize(
    ("said", "offline", "real"),
    [
        ("what time is it in Tokyo", "new", "reopen"),
        ("time in Tokyo", "new", "reopen"),
        ("现在东京几点？", "new", "reopen"),
        ("and times 2?", "reopen", "reopen"),
    ],
)
async def test_where_the_offline_model_answers_what_stands_alone_reopens_no_other_task(
    store: Store, tmp_path: Path, said: str, offline: str, real: str
) -> None:
    for number, (pool, decision) in enumerate([(None, offline), (pool_of(NamedModel(choosing("what is 6*7?"))), real)]):
        flow = await Flow(store, tmp_path / str(number), lambda _: answer("6*7 = 42"), confirming=pool).prepare()
        await flow.say("what is 6*7?")
        await flow.drive()
        await flow.say(said)
        await flow.drive()
        assert (await last_routed(store))["decision"] == decision
        await store.call("FLUSHALL")
