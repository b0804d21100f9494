"""Instructions whose models call tools as text: the same calls, the same transcript, proved prompts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from pentad.contracts.instructions import Instruction
from pentad.services.gateway.tasks.queries import Queries
from pentad.shared.instructions.builtin import REACT, UNIFIED
from pentad.shared.models.model_pool import pool_of
from pentad.shared.models.ports import ChatRequest, DeltaSink, ModelAnswer
from pentad.shared.models.request_change import NO_TOOLS_TOLD
from pentad.shared.store.store import Store
from tests.integration.handlers.flow import SESSION, Flow, ScriptedPort, answer

ACT = 'Thought: I echo it.\nAction: echo\nAction Input: {"text": "hello"}'
END = "Thought: That is it.\nFinal Answer: It said hello."


class TextModel:
    """A model that says these texts, one after the other."""

    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)
        self.requests: list[ChatRequest] = []

    def __call__(self, request: ChatRequest) -> ModelAnswer:
        self.requests.append(request)
        return answer(self.texts.pop(0))


async def flow_of(store: Store, folder: Path, script: Callable[[ChatRequest], ModelAnswer]) -> Flow:
    """A flow that is ready."""
    return await Flow(store, folder, script).prepare()


async def lines_of(flow: Flow) -> list[dict[str, Any]]:
    """The transcript, as models would be sent it."""
    log = await flow.store.call("LRANGE", (await flow.task()).log, 0, -1)
    return [from_json(raw.split(b"\n", 1)[1]) for raw in log]


async def told(flow: Flow, *kinds: str) -> list[dict[str, Any]]:
    """Events of these types."""
    events = [from_json(fields[1]) for _, fields in await flow.store.call("XRANGE", SESSION.events, "-", "+")]
    return [event for event in events if event["type"] in kinds]


async def test_calls_in_text_are_calls_like_others_and_every_prompt_is_proved(store: Store, tmp_path: Path) -> None:
    model = TextModel(ACT, END)
    flow = await flow_of(store, tmp_path, model)
    await flow.say("echo hello", instruction="react")
    await flow.drive()
    said = await lines_of(flow)
    assert [line["role"] for line in said] == ["user", "assistant", "tool", "assistant"]
    assert said[1]["content"] == "I echo it."
    assert (said[2]["content"], said[3]["content"]) == ("hello", "It said hello.")
    assert all(request.tools is None for request in model.requests)
    assert "- echo:" in from_json(model.requests[0].messages[0])["content"]
    assert [from_json(line)["content"] for line in model.requests[1].messages[1:]] == [
        "echo hello",
        'Thought: I echo it.\nAction: echo\nAction Input: {"text": "hello"}',
        "Observation: hello",
    ]
    assert [event["content"] for event in await told(flow, "message")] == ["It said hello."]
    queries, task = Queries(store, flow.records, 1), await flow.task()
    for step, request in enumerate(model.requests, 1):
        prompt = await queries.prompt("default", task.task, step)
        assert prompt is not None
        assert prompt.proved
        assert prompt.messages == [from_json(line) for line in request.messages]


async def test_a_malformed_answer_is_answered_with_what_is_wrong_and_runs_nothing(store: Store, tmp_path: Path) -> None:
    model = TextModel('Action: echo\nAction Input: {"text": "hel', "hello", ACT, END)
    flow = await flow_of(store, tmp_path, model)
    await flow.say("echo hello", instruction="react")
    await flow.drive()
    assert await flow.status() == "completed"
    assert len(await told(flow, "tool_call")) == 1
    asked = from_json(model.requests[1].messages[-1])["content"]
    assert "`Action Input:` is no JSON object" in asked
    assert "it has no label" in from_json(model.requests[2].messages[-1])["content"]
    assert [event["content"] for event in await told(flow, "message")] == ["It said hello."]


async def test_a_model_that_keeps_writing_something_else_fails_the_task(store: Store, tmp_path: Path) -> None:
    flow = await flow_of(store, tmp_path, TextModel(*["no"] * 4))
    await flow.say("echo hello", instruction="react")
    await flow.drive()
    assert await flow.status() == "failed"
    (end,) = await told(flow, "task_end")
    assert end["reason"] == "model_error"
    assert "it has no label" in end["detail"]


async def test_the_same_conversation_by_native_calls_makes_the_same_calls(store: Store, tmp_path: Path) -> None:
    def native(request: ChatRequest) -> ModelAnswer:
        last = from_json(request.messages[-1])
        return (
            answer("I echo it.", ("echo", '{"text": "hello"}')) if last["role"] == "user" else answer("It said hello.")
        )

    flow = await flow_of(store, tmp_path, native)
    await flow.say("echo hello", instruction="unified")
    await flow.drive()
    said = await lines_of(flow)
    calls = said[1]["tool_calls"][0]["function"]
    assert (said[1]["content"], calls) == ("I echo it.", {"name": "echo", "arguments": '{"text": "hello"}'})
    assert (said[2]["content"], said[3]["content"]) == ("hello", "It said hello.")


class WithoutTools(ScriptedPort):
    """A model whose server takes no tools, which its client learns from the first refusal."""

    refused = False

    @property
    def learned(self) -> tuple[str, ...]:
        return (f"m at s: {NO_TOOLS_TOLD}",) if self.refused else ()

    async def stream(self, request: ChatRequest, on_delta: DeltaSink) -> ModelAnswer:
        if request.tools is not None:  # refused, and asked again without them
            self.refused = True
            return answer("I have no tools.")
        return await super().stream(request, on_delta)


async def test_a_model_that_takes_no_tools_calls_them_in_text_from_then_on(store: Store, tmp_path: Path) -> None:
    model = TextModel(ACT, END, "Final Answer: two")
    port = WithoutTools(model)
    flow = await Flow(store, tmp_path, model, models=pool_of(port)).prepare()
    await flow.say("echo hello", instruction="unified")
    await flow.drive()
    await flow.say("again", task_id=(await flow.task()).task)
    await flow.drive()
    assert (await flow.status(), port.refused) == ("completed", True)
    said = [line["content"] for line in await lines_of(flow) if line["role"] == "assistant"]
    assert said == ["I echo it.", "It said hello.", "two"], "the answer without tools is not kept"
    spent = await store.call("HGET", (await flow.task()).header, "output_tokens")
    assert spent == b"8", "its cost is"


def test_the_built_in_ways_of_working_say_how_they_call_tools_and_older_instructions_keep_their_digest() -> None:
    assert (REACT.calls, UNIFIED.calls) == ("text", "auto")
    assert b"calls" not in Instruction(name="a", system_prompt="b").to_json()
