"""Metadata is carried along, with the trace context: to events, tool calls, transcript and record, and with a move."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from pydantic_core import from_json

from pentad.contracts.commands import MAX_METADATA, InboundMessage
from pentad.contracts.instructions import Instruction
from pentad.contracts.streams import TOOL_CALLS
from pentad.services.gateway.domain.move import MoveRequest
from pentad.services.gateway.tasks.message_moves import MessageMoves
from pentad.services.gateway.tasks.queries import Queries
from pentad.shared.models.ports import ChatRequest, ModelAnswer
from pentad.shared.store.store import Store
from tests.integration.handlers.flow import SESSION, Flow, answer

WARD = {"ward": "3b", "Ünit": "ä"}
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def script(request: ChatRequest) -> ModelAnswer:
    last = from_json(request.messages[-1])
    return answer("", ("echo", '{"text":"x"}')) if last["role"] == "user" else answer("done")


async def told(store: Store, kind: str) -> list[dict[str, Any]]:
    found = [from_json(fields[1]) for _, fields in await store.call("XRANGE", SESSION.events, "-", "+")]
    return [event for event in found if event["type"] == kind]


async def commands(store: Store) -> list[dict[str, Any]]:
    entries = await store.call("XRANGE", TOOL_CALLS.key(0, queue="default"), "-", "+")
    return [from_json(fields[1]) for _, fields in entries]


async def test_it_reaches_events_calls_and_the_transcript_and_each_turn_has_its_own(
    store: Store, tmp_path: Path
) -> None:
    flow = await Flow(store, tmp_path, script).prepare()
    await flow.say("one", metadata=WARD, traceparent=TRACE)
    await flow.drive()
    task = (await flow.task()).task
    await flow.say("two", task_id=task)
    await flow.drive()
    for kind in ("message_routed", "task_start"):
        assert [event.get("metadata") for event in await told(store, kind)] == [WARD, None], kind
    assert [command.get("metadata") for command in await commands(store)] == [WARD, None]
    messages = await Queries(store, flow.records, 1).transcript("default", task) or []
    said = [message for message in messages if message["role"] == "user"]
    assert [(each.get("metadata"), each.get("traceparent")) for each in said] == [(WARD, TRACE), (None, None)]


async def test_it_goes_with_a_message_that_is_moved(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, script).prepare()
    await flow.say("one")
    await flow.drive()
    first = (await flow.task()).task
    await flow.say("two", metadata=WARD, traceparent=TRACE, task_id=first)
    await flow.drive()
    await MessageMoves(store, Queries(store, flow.records, 1)).move("default", first, MoveRequest("u2", "new"))
    await flow.drive()
    start = (await told(store, "task_start"))[-1]
    assert (start["task_id"] != first, start["metadata"]) == (True, WARD)
    last = (await commands(store))[-1]
    assert (last["task_id"], last["metadata"], last["traceparent"]) == (start["task_id"], WARD, TRACE)


def test_it_is_bounded() -> None:
    most = {f"{n:03}": "x" * 4_093 for n in range(4)}
    assert InboundMessage(content="hi", metadata=most).metadata == most
    with pytest.raises(ValidationError, match=f"at most {MAX_METADATA:,} characters in all"):
        InboundMessage(content="hi", metadata=most | {"y": ""})


SPEAKS = Instruction(name="speaks", system_prompt="Speak {{metadata.language}} at {{metadata.ward}}.")


async def test_a_prompt_names_values_of_the_newest_message_that_gives_them_and_is_proved(
    store: Store, tmp_path: Path
) -> None:
    asked: list[str] = []

    def keeps(request: ChatRequest) -> ModelAnswer:
        asked.append(from_json(request.messages[0])["content"].partition(".")[0])
        return script(request)

    flow = await Flow(store, tmp_path, keeps, instructions=[SPEAKS]).prepare()
    queries = Queries(store, flow.records, 1)
    await flow.say("one", instruction="speaks", metadata={"language": "German", "unused": "x"})
    await flow.drive()
    keys = await flow.task()
    await flow.say("two", task_id=keys.task)
    await flow.drive()
    await flow.say("three", task_id=keys.task, metadata={"ward": "3b", "language": "French"})
    await flow.drive()
    german, french = 'Speak "German" at (not given)', 'Speak "French" at "3b"'
    assert asked == [german] * 4 + [french] * 2, "it stays for later messages, and a newer one replaces it"
    assert from_json(await store.call("HGET", keys.header, "variables")) == {"language": "French", "ward": "3b"}
    await MessageMoves(store, queries).move("default", keys.task, MoveRequest("u3", "new"))
    await flow.drive()
    assert asked[6:] == [french] * 2, "the new task has them from the message that was moved"
    await flow.say("four", task_id=keys.task)
    await flow.drive()
    assert asked[8:] == [german] * 2, "what left with its message is gone"
    for step in range(1, 9):
        prompt = await queries.prompt("default", keys.task, step)
        assert prompt is not None
        assert prompt.proved, step
