"""A task that makes one tool call and asks no model: what `direct_call` promises."""

import json
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from pentad.contracts.instructions import DIRECT_CALL
from pentad.shared.keys import timers
from pentad.shared.memory.points import cut_task
from pentad.shared.models.ports import ChatRequest, ModelAnswer
from pentad.shared.segments.passages import owned
from pentad.shared.store.store import Store
from tests.integration.handlers.flow import SESSION, Flow, answer


def nobody(request: ChatRequest) -> ModelAnswer:
    raise AssertionError("no model is asked")


def call_of(tool: str, **args: Any) -> str:
    return json.dumps({"tool": tool, "args": args})


async def called(store: Store, folder: Path, content: str, **settings: Any) -> Flow:
    """A flow in which this message was handled to its end."""
    flow = await Flow(store, folder, nobody, **settings).prepare()
    await flow.say(content, instruction=DIRECT_CALL, task_id="new")
    await flow.drive()
    assert flow.model.asked == 0
    return flow


async def transcript(flow: Flow) -> list[dict[str, Any]]:
    keys = await flow.task()
    lines = [raw.split(b"\n", 1) for raw in await flow.store.call("LRANGE", keys.log, 0, -1)]
    return [from_json(message) | {"origin": from_json(meta).get("origin")} for meta, message in lines]


async def told(store: Store, kind: str) -> list[dict[str, Any]]:
    entries = await store.call("XRANGE", SESSION.events, "-", "+")
    return [event for _, fields in entries if (event := from_json(fields[1]))["type"] == kind]


async def test_the_call_is_made_and_its_result_ends_the_task(store: Store, tmp_path: Path) -> None:
    flow = await called(store, tmp_path, call_of("echo", text="hello"))
    assert await flow.status() == "completed"
    lines = await transcript(flow)
    assert [line["role"] for line in lines] == ["user", "assistant", "tool", "assistant"]
    assert (lines[2]["content"], lines[3]["content"]) == ("hello", "hello")
    [result] = await told(store, "tool_result")
    assert (result["tool"], result["result"]) == ("echo", "hello")


async def test_nothing_of_it_is_remembered(store: Store, tmp_path: Path) -> None:
    flow = await called(store, tmp_path, call_of("echo", text="I live in Lisbon. I prefer tea."))
    lines = await transcript(flow)
    assert {line["origin"] for line in lines} == {"call"}
    assert cut_task("default", "task-0-a", "s1", owned(lines, "ada")).segments == []
    assert not [each for each in await store.call("ZRANGE", timers(0), 0, -1) if each.startswith(b"remember ")]


async def test_a_failed_tool_fails_the_task_with_its_words(store: Store, tmp_path: Path) -> None:
    flow = await called(store, tmp_path, call_of("calculator", expression="1/0"))
    assert await flow.status() == "failed"
    [end] = await told(store, "task_end")
    assert (end["reason"], end["detail"]) == ("tool_error", "calculator: division by zero")
    assert [event["code"] for event in await told(store, "error")] == ["tool_error"]
    assert await told(store, "message") == []


async def test_arguments_that_do_not_fit_and_unknown_tools_say_what_there_is(store: Store, tmp_path: Path) -> None:
    await called(store, tmp_path, call_of("echo", words="hello"))
    [end] = await told(store, "task_end")
    assert "argument 'text' is missing" in end["detail"]


async def test_a_tool_that_nobody_has_is_named_with_those_that_there_are(store: Store, tmp_path: Path) -> None:
    await called(store, tmp_path, call_of("ask_user", question="who?"))
    [end] = await told(store, "task_end")
    assert "there is no tool 'ask_user'; the tools are: calculator" in end["detail"]


async def test_what_names_no_call_is_refused_in_words(store: Store, tmp_path: Path) -> None:
    for content in ("hello", "[]", '{"tool":7,"args":{}}', '{"tool":"echo"}', '{"tool":"echo","args":[]}'):
        await store.call("FLUSHALL")
        flow = await called(store, tmp_path, content)
        [end] = await told(store, "task_end")
        assert (end["status"], end["reason"]) == ("failed", "tool_error")
        assert "is JSON that names one call" in end["detail"]
        assert await told(store, "tool_call") == []
        assert await flow.status() == "failed"


async def test_each_message_to_it_is_a_call_of_its_own(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, nobody).prepare()
    await flow.say(call_of("echo", text="one"), instruction=DIRECT_CALL, task_id="new")
    await flow.once()  # routed, not yet made
    await flow.say(call_of("echo", text="two"), task_id=(await flow.task()).task)
    await flow.drive()
    assert [event["result"] for event in await told(store, "tool_result")] == ["one", "two"]
    assert [event["status"] for event in await told(store, "task_end")] == ["completed", "completed"]


async def test_a_long_result_is_whole_beside_the_task(store: Store, tmp_path: Path) -> None:
    text = "long " * 8_000
    flow = await called(store, tmp_path, call_of("echo", text=text), pentad_result_bytes=4_096)
    keys = await flow.task()
    [result] = await told(store, "tool_result")
    assert (await store.call("HGET", keys.big, result["tool_call_id"])).decode() == text
    assert len((await transcript(flow))[3]["content"]) < len(text)


async def test_other_tasks_are_worked_on_and_remembered_as_ever(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, lambda _: answer("hello")).prepare()
    await flow.say(call_of("echo", text="not a call"))
    await flow.drive()
    assert (flow.model.asked, await flow.status()) == (1, "completed")
    assert [each for each in await store.call("ZRANGE", timers(0), 0, -1) if each.startswith(b"remember ")]
