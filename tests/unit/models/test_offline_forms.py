"""The offline model answers in the form that it is asked for: JSON of a schema, judgements, tool calls as text."""

from typing import Any

import pytest
from pydantic_core import from_json, to_json

from pentad.shared.instructions.builtin import BUILT_IN, PLAN_SOLVE
from pentad.shared.instructions.output import Output, with_schema
from pentad.shared.models.offline.forms import fitting, form_of
from pentad.shared.models.offline.model import OfflineModel
from pentad.shared.models.ports import ChatRequest, ModelAnswer
from pentad.shared.text_protocol.answer import read_answer
from pentad.shared.text_protocol.request import with_protocol

TOOL = {
    "name": "calculator",
    "description": "Counts.",
    "parameters": {"type": "object", "properties": {"expression": {"type": "string"}}},
}
TOOLS = to_json([{"type": "function", "function": TOOL}])


async def asked(system: str, *messages: dict[str, Any], tools: bytes | None = None) -> ModelAnswer:
    """What the offline model says."""
    lines = [to_json({"role": "system", "content": system}), *map(to_json, messages)]
    return await OfflineModel().stream(ChatRequest(lines, tools, 1.0), lambda kind, text: None)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


@pytest.mark.parametrize("schema", [i.output_schema for i in BUILT_IN.values() if i.output_schema])
async def test_it_answers_with_json_that_fits(schema: dict[str, Any]) -> None:
    said = await asked(with_schema("You count.", schema) + "\n\nToday is Friday.", user("hello"))
    assert await Output(schema).read(said.text)


async def test_a_value_in_a_form_holds_what_it_would_say() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "maxLength": 3}, "n": {"type": "integer", "minimum": 2}},
        "required": ["a", "n", "b"],
    }
    assert fitting(schema, "hello") == {"a": "hel", "n": 2, "b": "hello"}
    assert form_of("no schema") is None
    assert form_of("x that fits this JSON schema:\nnot json") is None


async def test_nothing_holds_of_what_it_judges() -> None:
    system = BUILT_IN["graph_judge"].system_prompt
    said = await asked(system, user("Which of these conditions hold now?\n1. a\n2. b"))
    assert from_json(said.text) == {"holds": [False, False]}


async def test_it_calls_tools_as_text() -> None:
    system = from_json(with_protocol(to_json({"role": "system", "content": "You help."}), TOOLS))["content"]
    first = await asked(system, user("what is 6*7?"))
    call = read_answer(first.text)
    assert (call.tool, from_json(call.arguments)) == ("calculator", {"expression": "6*7"})
    then = [user("what is 6*7?"), {"role": "assistant", "content": first.text}, user("Observation: 42")]
    assert read_answer((await asked(system, *then)).text).final == "42"


def test_the_plan_of_plan_solve_comes_to_an_end_with_it() -> None:
    act = PLAN_SOLVE.by_key["act"]
    assert fitting(act.output_schema, "x")["ok"] is True  # type: ignore[union-attr, arg-type]
    assert fitting(act.output_schema, "x")["left"] == 0  # type: ignore[union-attr, arg-type]
