"""A task asks its person, and says by a call that it is done: one turn each, well-formed at every moment."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import from_json

from pentad.contracts.instructions import Instruction
from pentad.contracts.streams import SESSION_WAKE, TASK_WAKE, TOOL_CALLS
from pentad.services.task_runner.domain.own_tools import ANSWERED, COMPLETED, GOES_ON
from pentad.shared.keys import timers
from pentad.shared.models.anthropic.prompt import anthropic_prompt
from pentad.shared.models.ports import ChatRequest, ModelAnswer
from pentad.shared.store.store import Store
from tests.integration.handlers.flow import SESSION, Flow, answer
from tests.support.waiting import PATIENCE_S

ECHO = ("echo", '{"text":"x"}')
ASK = ("ask_user", '{"question":"Which city?"}')
DONE = ("complete_task", '{"summary":"All done."}')


async def told(store: Store, *kinds: str) -> list[dict[str, Any]]:
    events = [from_json(fields[1]) for _, fields in await store.call("XRANGE", SESSION.events, "-", "+")]
    return [event for event in events if not kinds or event["type"] in kinds]


async def transcript(flow: Flow) -> list[dict[str, Any]]:
    log = await flow.store.call("LRANGE", (await flow.task()).log, 0, -1)
    return [from_json(raw.split(b"\n", 1)[1]) for raw in log]


def roles(messages: list[dict[str, Any]]) -> list[str]:
    return [message["role"] for message in messages]


def said(request: ChatRequest) -> str:
    return str(from_json(request.messages[-1])["content"])


def asking(*calls: tuple[str, str]) -> Any:
    """Makes these calls at the first message, and answers all others."""
    return lambda request: answer("", *calls) if said(request) == "plan a trip" else answer(f"so: {said(request)}")


async def test_a_question_ends_the_turn_and_the_next_message_goes_on(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, asking(ASK)).prepare()
    await flow.say("plan a trip")
    await flow.drive()
    assert await flow.status() == "waiting"
    kinds = [e["type"] for e in await told(store, "message", "task_status", "tool_call", "tool_result")]
    assert kinds == ["message", "tool_call", "task_status"]
    question, status = (await told(store, "message", "task_status"))[:2]
    assert (question["content"], status["status"], status["reason"]) == ("Which city?", "waiting", "question")
    await flow.say("Berlin, please")
    await flow.drive()
    assert await flow.status() == "completed"
    messages = await transcript(flow)
    assert roles(messages) == ["user", "assistant", "tool", "user", "assistant"]
    assert [m["content"] for m in messages[2:]] == [ANSWERED, "Berlin, please", "so: Berlin, please"]
    assert messages[1]["tool_calls"][0]["id"] == messages[2]["tool_call_id"]
    assert [e["result"] for e in await told(store, "tool_result")] == [ANSWERED]
    assert await store.call("ZSCORE", timers(0), f"wait {(await flow.task()).actor}") is None


async def test_an_answered_question_is_well_formed_in_both_protocols(store: Store, tmp_path: Path) -> None:
    """One user's turn there: the result first, then the message as the user wrote it."""
    prompts = []

    def script(request: ChatRequest) -> ModelAnswer:
        prompts.append(request.messages)
        return answer("", ASK, ECHO) if len(prompts) == 1 else answer("done")

    flow = await Flow(store, tmp_path, script).prepare()
    await flow.say("plan a trip")
    await flow.drive()
    await flow.say("Berlin")
    await flow.drive()
    turns = from_json(b"[%s]" % anthropic_prompt(prompts[-1], "m").messages)
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    assert [block["type"] for block in turns[2]["content"]] == ["tool_result", "tool_result", "text"]
    assert turns[2]["content"][2]["text"] == "Berlin"


async def test_other_calls_run_while_the_person_is_asked(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, asking(ASK, ECHO)).prepare()
    await flow.say("plan a trip")
    await flow.drive()
    assert await flow.status() == "waiting"
    assert [e["result"] for e in await told(store, "tool_result")] == ["x"]
    await flow.say("Berlin")
    await flow.drive()
    assert [m["content"] for m in await transcript(flow)][2:4] == [ANSWERED, "x"]
    assert await flow.status() == "completed"


async def test_an_answer_that_comes_before_a_tools_result_waits_for_it(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, asking(ECHO, ASK)).prepare()
    tools = flow._served.pop()
    await flow.say("plan a trip")
    await flow.drive()
    await flow.say("Berlin")
    await flow.drive()
    assert (await flow.status(), flow.model.asked) == ("active", 1)
    flow._served.append(tools)
    await flow.drive()
    assert roles(await transcript(flow)) == ["user", "assistant", "tool", "tool", "user", "assistant"]
    assert await flow.status() == "completed"


async def test_no_step_limit_of_time_ends_a_question(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, asking(ASK), pentad_step_timeout_s=0.001).prepare()
    await flow.say("plan a trip")
    await flow.drive()
    await flow.actors.post(await flow.task(), "timeout", b"{}", ("waiting",))
    await flow.drive()
    assert await flow.status() == "waiting"


@pytest.mark.parametrize(
    ("kind", "end"), [("cancel", ("cancelled", "cancelled")), ("wait", ("failed", "wait_expired"))]
)
async def test_a_question_ends_with_its_task(store: Store, tmp_path: Path, kind: Any, end: tuple[str, str]) -> None:
    flow = await Flow(store, tmp_path, asking(ASK)).prepare()
    await flow.say("plan a trip")
    await flow.drive()
    task = await flow.task()
    await store.call("HSET", task.header, "waiting_at", 1)
    await flow.actors.post(task, kind, b"{}", ("waiting",))
    await flow.drive()
    assert [(e["status"], e["reason"]) for e in await told(store, "task_end")] == [end]
    assert roles(await transcript(flow)) == ["user", "assistant", "tool"]
    assert len(await told(store, "tool_result")) == 1


async def test_a_call_completes_the_task_with_its_summary(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, asking(DONE)).prepare()
    await flow.say("plan a trip")
    await flow.drive()
    assert (await flow.status(), flow.model.asked) == ("completed", 1)
    (message,) = await told(store, "message")
    assert (message["content"], message["model"]) == ("All done.", "scripted")
    assert [e["steps"] for e in await told(store, "task_end")] == [1]
    assert [m.get("content") for m in await transcript(flow)] == ["plan a trip", None, COMPLETED]
    turns = [from_json(raw)["content"] for raw in await store.call("LRANGE", SESSION.turns, 0, -1)]
    assert turns == ["plan a trip", "All done."]
    await flow.say("and now?")
    await flow.drive()
    assert roles(await transcript(flow)) == ["user", "assistant", "tool", "user", "assistant"]


async def test_the_task_completes_after_the_other_calls(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, asking(DONE, ECHO)).prepare()
    tools = flow._served.pop()
    await flow.say("plan a trip")
    await flow.drive()
    assert (await flow.status(), await told(store, "message")) == ("active", [])
    flow._served.append(tools)
    await flow.drive()
    kinds = [e["type"] for e in await told(store, "tool_call", "tool_result", "message", "task_end")]
    assert kinds == ["tool_call", "tool_call", "tool_result", "tool_result", "message", "task_end"]
    assert [m["content"] for m in (await transcript(flow))[2:]] == [COMPLETED, "x"]


async def test_a_message_that_has_come_keeps_the_task_open(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, asking(DONE, ECHO)).prepare()
    tools = flow._served.pop()
    await flow.say("plan a trip")
    await flow.drive()
    await flow.say("wait, not yet")
    flow._served.append(tools)
    await flow.drive()
    messages = await transcript(flow)
    assert [m["content"] for m in messages[2:]] == [GOES_ON, "x", "wait, not yet", "so: wait, not yet"]
    assert [e["content"] for e in await told(store, "message")] == ["so: wait, not yet"]
    assert len(await told(store, "task_end")) == 1


async def test_a_message_that_comes_while_the_end_is_written_keeps_the_task_open(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, asking(DONE)).prepare()
    await flow.say("plan a trip")
    await flow.once(SESSION_WAKE)
    await flow.once(TASK_WAKE)
    commit = flow.actors.commit

    async def late(*args: Any) -> Any:
        flow.actors.commit = commit  # type: ignore[method-assign]
        await flow.say("one more thing")
        await flow.once(SESSION_WAKE)
        return await commit(*args)

    flow.actors.commit = late  # type: ignore[assignment,method-assign]
    await flow.drive()
    assert [m["content"] for m in (await transcript(flow))[2:]] == [COMPLETED, "one more thing", "so: one more thing"]
    assert [e["type"] for e in await told(store, "message", "task_end")] == ["message", "message", "task_end"]


async def test_a_question_goes_before_an_end(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, asking(DONE, ASK)).prepare()
    await flow.say("plan a trip")
    await flow.drive()
    assert await flow.status() == "waiting"
    await flow.say("Berlin")
    await flow.drive()
    assert [m["content"] for m in (await transcript(flow))[2:]] == [GOES_ON, ANSWERED, "Berlin", "so: Berlin"]


@pytest.mark.parametrize("calls", [(ASK,), (DONE,), (ASK, ECHO), (ECHO, DONE), (ASK, DONE)])
async def test_runners_that_die_after_every_step_change_nothing(store: Store, tmp_path: Path, calls: Any) -> None:
    """Each handling is made by a process that knows nothing of those before."""
    flow = await Flow(store, tmp_path, asking(*calls)).prepare()
    await flow.say("plan a trip")
    spoken = False
    while True:
        served = 0
        for stream in (SESSION_WAKE, TASK_WAKE, TOOL_CALLS):
            served += await (await Flow(store, tmp_path, asking(*calls)).prepare()).once(stream)
        if served:
            continue
        if spoken or await flow.status() != "waiting":
            break
        spoken = True
        await flow.say("Berlin")
    assert await flow.status() == "completed"
    messages = await transcript(flow)
    open_calls = [call["id"] for m in messages for call in m.get("tool_calls", ())]
    assert open_calls == [m["tool_call_id"] for m in messages if m["role"] == "tool"]
    assert len(await told(store, "tool_result")) == len(calls)
    assert len(await told(store, "task_end")) == 1


@pytest.mark.parametrize("given", ["{}", '{"question":""}', '{"question":7}', "[]", "what?"])
async def test_a_question_that_asks_nothing_is_an_error_of_that_call(store: Store, tmp_path: Path, given: str) -> None:
    flow = await Flow(store, tmp_path, asking(("ask_user", given))).prepare()
    await flow.say("plan a trip")
    await flow.drive()
    (result,) = await told(store, "tool_result")
    assert result["error"].startswith("ask_user: ")
    assert await flow.status() == "completed"


@pytest.mark.parametrize(
    ("fields", "offered"),
    [
        ({}, {"ask_user", "complete_task", "echo"}),
        ({"tools": []}, set()),
        ({"tools": ["echo", "ask_user"]}, {"echo", "ask_user"}),
        ({"tools": ["complete_task"], "output": "json", "output_schema": {}}, set()),
    ],
)
async def test_an_instruction_allows_them_like_any_other(
    store: Store, tmp_path: Path, fields: dict[str, Any], offered: set[str]
) -> None:
    seen: set[str] = set()

    def script(request: ChatRequest) -> ModelAnswer:
        seen.update(tool["function"]["name"] for tool in from_json(request.tools or b"[]"))
        return answer("1")

    own = Instruction(name="own", system_prompt="Be brief.", **fields)
    flow = await Flow(store, tmp_path, script, instructions=[own]).prepare()
    await flow.say("hello", instruction="own")
    await flow.drive()
    assert seen & {"ask_user", "complete_task", "echo"} == offered


async def test_messages_that_wait_for_a_tool_do_not_keep_the_runner_busy(store: Store, tmp_path: Path) -> None:
    """However many there are: only a result, or one message more, is a reason to look again."""
    flow = await Flow(store, tmp_path, asking(ECHO)).prepare()
    flow._served.pop()
    await flow.say("plan a trip")
    await flow.drive()
    task = await flow.task()
    mail = json.dumps({"message": {"content": "more", "session_id": "s1"}, "entry_id": "1-1", "at": "now"}).encode()
    for _ in range(600):
        await flow.actors.post(task, "user", mail, ("active",))
    await asyncio.wait_for(flow.drive(), PATIENCE_S)
    assert await store.call("ZCARD", task.messages) == 600


async def test_a_question_is_told_after_what_was_said_with_it(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, lambda _: answer("I have two.", ASK)).prepare()
    await flow.say("plan a trip")
    await flow.drive()
    assert [e["content"] for e in await told(store, "message")] == ["I have two.\n\nWhich city?"]


async def complete(flow: Flow) -> None:
    """A client's request, as the gateway posts it."""
    await flow.actors.post(await flow.task(), "complete", b"{}", ("waiting", "stale"))


async def test_a_waiting_task_that_a_client_says_is_done_ends_without_a_model(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, asking(ASK, ECHO)).prepare()
    await flow.say("plan a trip")
    await flow.once(SESSION_WAKE)
    await flow.once(TASK_WAKE)
    await complete(flow)
    await flow.drive()
    (end,) = await told(store, "task_end")
    assert (end["status"], end["reason"], flow.model.asked) == ("completed", "closed", 1)
    assert len(await told(store, "tool_result")) == 2, "each call has its one result"
    assert roles(await transcript(flow)) == ["user", "assistant", "tool", "tool"]
    await complete(flow)
    await flow.drive()
    assert len(await told(store, "task_end")) == 1
    await flow.say("and back?", task_id=(await flow.task()).task)
    await flow.drive()
    assert (await flow.status(), flow.model.asked) == ("completed", 2), "it may be opened again"


async def test_a_message_that_comes_in_time_goes_before_the_end(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, asking(ASK)).prepare()
    await flow.say("plan a trip")
    await flow.drive()
    task = await flow.task()
    commit = flow.actors.commit

    async def overtaken(made: Any, taken: Any, *more: Any) -> Any:
        """A message comes between the plan and its commit."""
        if not flow_said:
            flow_said.append(True)
            await flow.say("Berlin", task_id=task.task)
            await flow.once(SESSION_WAKE)
        return await commit(made, taken, *more)

    flow_said: list[bool] = []
    flow.actors.commit = overtaken  # type: ignore[assignment, method-assign]
    await complete(flow)
    await flow.once(TASK_WAKE)
    await flow.drive()
    (end,) = await told(store, "task_end")
    assert end["reason"] == "answered"
    assert roles(await transcript(flow)) == ["user", "assistant", "tool", "user", "assistant"]


async def test_the_log_tells_each_iteration_and_why_the_model_stopped_and_nothing_that_was_said(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    flow = await Flow(store, tmp_path, asking(("echo", '{"text":"secret"}'))).prepare()
    with caplog.at_level("DEBUG", "pentad.services.task_runner.model_step"):
        await flow.say("plan a trip")
        await flow.drive()
    one, two = [line for line in caplog.messages if "iteration" in line]
    assert "step 1, attempt 1, iteration 1 of the turn: scripted stopped with 'stop'" in one
    assert "tokens: 5 in, 2 out; calls: echo" in one
    assert "iteration 2 of the turn" in two
    assert two.endswith("calls: none")
    assert not {"secret", "trip"} & {word for line in caplog.messages for word in ("secret", "trip") if word in line}


async def test_a_tool_is_still_called_by_its_former_name(store: Store, tmp_path: Path) -> None:
    calls = ("current_time", '{"timezone":"UTC"}')
    flow = await Flow(store, tmp_path, lambda r: answer("", calls) if said(r) == "go" else answer(said(r))).prepare()
    await flow.say("go")
    await flow.drive()
    assert [e["tool"] for e in await told(store, "tool_call")] == ["get_time"]
    assert (await told(store, "tool_result"))[0]["result"].endswith("+00:00")
