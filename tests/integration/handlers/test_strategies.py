"""A way of working is a strategy and nothing else: the runner writes down what another one wants, as it is."""

from pathlib import Path

import pytest
from pydantic_core import from_json

from pentad.contracts.records import StepRecord
from pentad.services.task_runner import questions
from pentad.services.task_runner.domain.after_answer import CallTools, Complete, Rules
from pentad.services.task_runner.domain.planned_call import PlannedCall
from pentad.services.task_runner.domain.strategy import AskTheModel, Effect, Event, Executor, TurnReady
from pentad.shared.models.ports import ChatRequest, ModelAnswer
from pentad.shared.store.store import Store
from tests.integration.handlers.flow import SESSION, Flow, answer


class ToolFirst:
    """Calls a tool, then asks the model, then completes with words of its own: there is no such strategy elsewhere."""

    asks_models = True

    def next(self, turn: Rules, event: Event) -> Effect:
        if not isinstance(event, TurnReady):
            return Executor().next(turn, event)
        if turn.steps == 0:
            args = '{"text":"planned"}'
            return CallTools((PlannedCall("echo", turn.tools["echo"], args, {"text": "planned"}, args),))
        return AskTheModel() if turn.steps == 1 else Complete("as the strategy says")


async def test_a_strategy_calls_tools_asks_and_completes_as_it_decides(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[ChatRequest] = []

    def script(request: ChatRequest) -> ModelAnswer:
        asked.append(request)
        return answer("", ("echo", '{"text":"more"}'))

    monkeypatch.setattr(questions, "strategy_of", lambda _: ToolFirst())
    flow = await Flow(store, tmp_path, script).prepare()
    await flow.say("go")
    await flow.drive()
    keys = await flow.task()
    log = [from_json(raw.split(b"\n", 1)[1]) for raw in await store.call("LRANGE", keys.log, 0, -1)]
    said = [message["content"] or message["tool_calls"][0]["function"]["name"] for message in log]
    assert said == ["go", "echo", "planned", "echo", "more", "as the strategy says"]
    assert len(asked) == 1, "two of the three steps ask nobody"
    assert await flow.status() == "completed"
    steps = [StepRecord.model_validate_json(raw) for raw in await store.call("LRANGE", keys.steps, 0, -1)]
    assert [step.manifest.model for step in steps] == ["nobody", "scripted", "nobody"]
    told = [from_json(fields[1]) for _, fields in await store.call("XRANGE", SESSION.events, "-", "+")]
    assert [event["content"] for event in told if event["type"] == "message"] == ["as the strategy says"]
