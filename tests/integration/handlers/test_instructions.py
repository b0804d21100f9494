"""A task runs its instruction, in the version that it began with: prompt, tools, rounds, the form of its answer."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from pydantic_core import from_json, to_json

from pentad.contracts.commands import InboundMessage
from pentad.contracts.instructions import Instruction
from pentad.contracts.streams import SESSION_WAKE
from pentad.services.gateway.tasks.queries import Queries
from pentad.shared.instructions.instruction_list import kept_under
from pentad.shared.models.ports import ChatRequest, ModelAnswer
from pentad.shared.store.store import Store
from tests.integration.handlers.flow import Flow, answer
from tests.integration.handlers.test_flow import ECHO, events, log_of

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
COUNTER = Instruction(
    name="counter", system_prompt="Count for {{user_id}}.", tools=["echo"], output="json", output_schema=SCHEMA
)
GOOD = '{"n":3}'


def saying(*texts: str) -> Callable[[ChatRequest], ModelAnswer]:
    """A model that says these, one after the other."""
    rest = list(texts)
    return lambda _: answer(rest.pop(0))


async def flow_of(store: Store, folder: Path, script: Callable[[ChatRequest], ModelAnswer], **more: Any) -> Flow:
    return await Flow(store, folder, script, instructions=more.pop("instructions", [COUNTER]), **more).prepare()


def told(found: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in found if event["type"] == kind]


async def test_the_prompt_is_the_instructions_with_what_the_task_is_about(store: Store, tmp_path: Path) -> None:
    asked: list[ChatRequest] = []

    def script(request: ChatRequest) -> ModelAnswer:
        asked.append(request)
        return answer(GOOD)

    flow = await flow_of(store, tmp_path, script)
    await flow.say("go", instruction="counter", user_id="ada")
    await flow.drive()
    system = from_json(asked[0].messages[0])["content"]
    assert system.startswith("Count for ada.")
    assert '"required":["n"]' in system
    assert [tool["function"]["name"] for tool in from_json(asked[0].tools or b"[]")] == ["echo"]


async def test_an_answer_of_the_right_form_is_the_data_and_nothing_else(store: Store, tmp_path: Path) -> None:
    flow = await flow_of(store, tmp_path, saying(f"```json\n{GOOD}\n```"))
    await flow.say("go", instruction="counter")
    await flow.drive()
    found = await events(store)
    assert [event["content"] for event in told(found, "message")] == [GOOD]
    assert told(found, "content") == []
    assert (await log_of(flow))[-1] == {"role": "assistant", "content": GOOD}


@pytest.mark.parametrize(
    "text",
    [
        f"```json {GOOD}```",
        f"Here it is: {GOOD} Anything else?",
        f'For example\n```json\n{{"n": "three"}}\n```\nand so:\n```json\n{GOOD}\n```',
    ],
)
async def test_prose_around_the_one_value_that_fits_costs_no_second_call(
    store: Store, tmp_path: Path, text: str
) -> None:
    flow = await flow_of(store, tmp_path, saying(text))
    await flow.say("go", instruction="counter")
    await flow.drive()
    assert [event["content"] for event in told(await events(store), "message")] == [GOOD]


async def test_a_schema_that_takes_for_ever_fails_its_task_and_no_second_call_is_paid(
    store: Store, tmp_path: Path
) -> None:
    ways = {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(40)} | {"a40": {"type": "object"}}
    instruction = COUNTER.model_copy(update={"output_schema": {"$ref": "#/$defs/a0", "$defs": ways}})
    flow = await flow_of(store, tmp_path, saying("1"), instructions=[instruction])
    await flow.say("go", instruction="counter")
    await flow.drive()
    found = await events(store)
    assert told(found, "task_end")[0]["status"] == "failed"
    assert "make the schema simpler" in told(found, "error")[0]["message"]


async def test_prose_cut_json_and_wrong_types_are_repaired_by_asking_again(store: Store, tmp_path: Path) -> None:
    flow = await flow_of(store, tmp_path, saying("three, I think", '{"n":', '{"n":"3"}', GOOD))
    await flow.say("go", instruction="counter")
    await flow.drive()
    found = await events(store)
    assert [event["content"] for event in told(found, "message")] == [GOOD]
    assert told(found, "task_end")[0]["status"] == "completed"
    asked_again = [m["content"] for m in await log_of(flow) if m["role"] == "user"][1:]
    assert len(asked_again) == 3
    assert "n: " in asked_again[-1]
    assert [event["step"] for event in told(found, "message")] == [4]


async def test_the_fourth_wrong_answer_fails_clearly_and_no_data_is_told(store: Store, tmp_path: Path) -> None:
    flow = await flow_of(store, tmp_path, saying("one", "two", "three", "four"))
    await flow.say("go", instruction="counter")
    await flow.drive()
    found = await events(store)
    assert told(found, "message") == []
    (error,) = told(found, "error")
    assert error["code"] == "model_error"
    assert "is not JSON" in error["message"]
    (end,) = told(found, "task_end")
    assert (end["status"], end["reason"], end["steps"]) == ("failed", "model_error", 4)


async def test_repairs_begin_again_with_the_next_message(store: Store, tmp_path: Path) -> None:
    flow = await flow_of(store, tmp_path, saying("one", "two", "three", GOOD, "one", "two", "three", GOOD))
    for _ in range(2):
        await flow.say("go", instruction="counter")
        await flow.drive()
    assert [end["status"] for end in told(await events(store), "task_end")] == ["completed", "completed"]


async def test_after_its_last_round_of_tools_the_model_answers_with_what_it_has(store: Store, tmp_path: Path) -> None:
    may_call: list[bool] = []

    def script(request: ChatRequest) -> ModelAnswer:
        may_call.append(request.may_call)
        return answer("", ECHO) if request.may_call else answer("that is all")

    brief = Instruction(name="brief", system_prompt="Be brief.", tool_rounds=2)
    flow = await flow_of(store, tmp_path, script, instructions=[brief])
    await flow.say("go", instruction="brief")
    await flow.drive()
    assert may_call == [True, True, False]
    assert await flow.status() == "completed"


async def test_a_running_task_keeps_the_version_that_it_began_with(store: Store, tmp_path: Path) -> None:
    first = Instruction(name="poet", system_prompt="Rhyme.")
    prompts: list[str] = []

    def script(request: ChatRequest) -> ModelAnswer:
        prompts.append(from_json(request.messages[0])["content"])
        return answer("a poem")

    old = await flow_of(store, tmp_path, script, instructions=[first])
    await old.say("go", instruction="poet")
    await old.drive()
    new = await flow_of(store, tmp_path, script, instructions=[Instruction(name="poet", system_prompt="Do not rhyme.")])
    new._entries = old._entries
    await new.say("another one")
    await new.drive()
    gone = await flow_of(store, tmp_path, script, instructions=[])
    gone._entries = new._entries
    await gone.say("and a last one")
    await gone.drive()
    assert [prompt.partition("\n")[0] for prompt in prompts] == ["Rhyme."] * 3
    steps = [from_json(raw) for raw in await store.call("LRANGE", (await gone.task()).steps, 0, -1)]
    assert len({step["manifest"]["instruction_version"] for step in steps}) == 1


async def test_a_task_runs_the_version_that_it_was_opened_with_although_its_instruction_goes_before_its_first_step(
    store: Store, tmp_path: Path
) -> None:
    flow = await flow_of(store, tmp_path, saying(GOOD))
    await flow.say("go", instruction="counter")
    await flow.once(SESSION_WAKE)
    del flow.instructions["counter"]
    await flow.drive()
    assert [event["content"] for event in told(await events(store), "message")] == [GOOD]
    assert await flow.status() == "completed"


async def test_messages_in_the_queue_of_a_turn_outlive_their_instruction(store: Store, tmp_path: Path) -> None:
    one_by_one = COUNTER.model_copy(update={"on_message": "queue"})
    flow = await flow_of(store, tmp_path, saying(GOOD, '{"n":4}'), instructions=[one_by_one])
    for text in ("first", "second"):
        await flow.say(text, instruction="counter")
        await flow.once(SESSION_WAKE)
    del flow.instructions["counter"]
    await flow.drive()
    assert [event["content"] for event in told(await events(store), "message")] == [GOOD, '{"n":4}']
    assert told(await events(store), "error") == []


async def test_of_messages_that_wait_to_be_routed_the_one_that_asks_for_a_deleted_instruction_alone_is_refused(
    store: Store, tmp_path: Path
) -> None:
    flow = await flow_of(store, tmp_path, lambda _: answer("done"))
    await flow.say("count", instruction="counter")
    await flow.say("something else")
    del flow.instructions["counter"]
    await flow.drive()
    found = await events(store)
    (error,) = told(found, "error")
    assert (error["code"], error["message_id"]) == ("bad_message", "u1")
    assert "there is no instruction 'counter'" in error["message"]
    assert [event["decision"] for event in told(found, "message_routed")] == ["rejected", "new"]
    assert await flow.status() == "completed"


async def test_a_task_of_an_earlier_version_whose_instruction_has_gone_fails_and_says_so(
    store: Store, tmp_path: Path
) -> None:
    flow = await flow_of(store, tmp_path, lambda _: answer("never asked"))
    await flow.say("go", instruction="counter")
    await flow.once(SESSION_WAKE)
    await store.call("HDEL", (await flow.task()).header, "instruction_version")
    del flow.instructions["counter"]
    await flow.drive()
    (error,) = told(await events(store), "error")
    assert "no instruction 'counter' any more" in error["message"]
    assert await flow.status() == "failed"


async def test_a_task_of_an_earlier_version_keeps_its_instruction_with_its_first_step(
    store: Store, tmp_path: Path
) -> None:
    flow = await flow_of(store, tmp_path, saying(GOOD))
    await flow.say("go", instruction="counter")
    await flow.once(SESSION_WAKE)
    keys = await flow.task()
    kept: bytes = await store.call("HGET", keys.header, "instruction_version")
    await store.call("HDEL", keys.header, "instruction_version")
    await store.call("DEL", keys.big)
    await flow.drive()
    assert await store.call("HGET", keys.header, "instruction_version") == kept
    assert Instruction.model_validate_json(await store.call("HGET", keys.big, kept_under(kept.decode()))) == COUNTER


async def test_a_message_that_names_another_instruction_begins_another_task(store: Store, tmp_path: Path) -> None:
    flow = await flow_of(store, tmp_path, lambda request: answer(GOOD))
    await flow.say("go")
    await flow.drive()
    await flow.say("count", instruction="counter")
    await flow.drive()
    routed = told(await events(store), "message_routed")
    assert [event["decision"] for event in routed] == ["new", "new"]
    await flow.say("and this", task_id=routed[0]["task_id"], instruction="counter")
    await flow.drive()
    last = told(await events(store), "message_routed")[-1]
    assert (last["decision"], "runs the instruction 'executor'" in last["reason"]) == ("rejected", True)


async def asked_for(store: Store, folder: Path, *texts: str, **fields: Any) -> list[bytes | None]:
    """The schemas that the model's server was told, call by call."""
    told: list[bytes | None] = []
    rest = list(texts)

    def script(request: ChatRequest) -> ModelAnswer:
        told.append(request.answer_schema)
        text = rest.pop(0)
        return answer("", ECHO) if text == "call" else answer(text)

    flow = await flow_of(store, folder, script, instructions=[COUNTER.model_copy(update=fields)])
    await flow.say("go", instruction="counter")
    await flow.drive()
    assert await flow.status() == "completed"
    return told


async def test_a_server_is_told_the_schema_where_there_are_no_tools(store: Store, tmp_path: Path) -> None:
    assert await asked_for(store, tmp_path, GOOD, tools=[]) == [to_json(SCHEMA)]


async def test_a_server_is_told_the_schema_when_no_more_tools_may_be_called(store: Store, tmp_path: Path) -> None:
    assert await asked_for(store, tmp_path, "call", GOOD, tool_rounds=1) == [None, to_json(SCHEMA)]


async def test_a_repair_is_asked_for_with_the_schema(store: Store, tmp_path: Path) -> None:
    assert await asked_for(store, tmp_path, "three", GOOD) == [None, to_json(SCHEMA)]


async def test_a_schema_of_something_else_than_an_object_stands_in_the_prompt_alone(
    store: Store, tmp_path: Path
) -> None:
    assert await asked_for(store, tmp_path, "[1]", tools=[], output_schema={"type": "array"}) == [None]


async def test_a_message_asks_for_an_answer_of_a_form_of_its_own_and_its_task_keeps_that(
    store: Store, tmp_path: Path
) -> None:
    asked: list[ChatRequest] = []

    def counts(request: ChatRequest) -> ModelAnswer:
        asked.append(request)
        return answer('{"n": 1}')

    flow = await Flow(store, tmp_path, counts).prepare()
    await flow.say("count", task_id="new", output_schema=SCHEMA)
    await flow.drive()
    keys = await flow.task()
    assert b'"n"' in from_json(asked[0].messages[0])["content"].encode()
    (event,) = [e for e in await events(store) if e["type"] == "message"]
    assert event["content"] == '{"n":1}'
    assert await flow.status() == "completed"
    prompt = await Queries(store, flow.records, 1).prompt("default", keys.task, 1)
    assert prompt is not None
    assert (prompt.instruction, prompt.proved) == ("executor", True)


async def test_a_form_that_is_no_schema_is_refused_before_a_task_begins(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, lambda _: answer("never")).prepare()
    await flow.say("count", task_id="new", output_schema={"type": "object", "properties": {"a": {"type": "nothing"}}})
    await flow.drive()
    routed, error = await events(store)
    assert (routed["decision"], error["code"]) == ("rejected", "bad_message")
    assert "output_schema" in error["message"]
    assert not flow.model.asked
    too_long = {"description": "x" * 40_000}
    wrongs: list[dict[str, Any]] = [{"output_schema": SCHEMA}, {"output_schema": too_long, "task_id": "new"}]
    for wrong in wrongs:
        with pytest.raises(ValidationError, match="output_schema"):
            InboundMessage(content="x", **wrong)
