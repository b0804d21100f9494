"""Values of a state are checked one by one, by what the schema of the state says of each."""

from time import thread_time
from typing import Any

import pytest

from pentad.shared.instructions.state_check import StateCheck, values_schema
from pentad.shared.instructions.usable import prove_usable
from tests.integration.handlers.graph_flow import graph, llm

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["items", "owner"],
    "additionalProperties": False,
    "minProperties": 2,
    "properties": {
        "items": {"type": "array", "items": {"$ref": "#/$defs/item"}, "reducer": "append"},
        "owner": {"$ref": "#/properties/items/items"},
        "free": {"reducer": "append", "description": "Anything."},
        "never": False,
    },
    "$defs": {"item": {"type": "string", "maxLength": 3}},
}


@pytest.mark.parametrize(
    "state",
    [{}, {"items": []}, {"items": ["abc"], "owner": "me"}, {"free": 1}, {"other": [1]}, {"item": 1, "index": 0}],
)
async def test_a_state_may_lack_what_is_written_later_and_have_keys_of_which_nothing_is_said(
    state: dict[str, Any],
) -> None:
    assert await StateCheck(SCHEMA).problem(state) == ""


@pytest.mark.parametrize(
    ("state", "wrong"),
    [
        ({"items": ["a", 2]}, 'items/1: 2 is not of type "string"'),
        ({"items": "a"}, 'items: "a" is not of type "array"'),
        ({"free": 1, "owner": "long"}, 'owner: "long" is longer than 3 characters'),
        ({"items": [], "never": 1}, "never: False schema does not allow 1"),
        ({"owner": 1, "items": 1}, 'owner: 1 is not of type "string"'),
    ],
)
async def test_a_wrong_value_is_told_with_its_place(state: dict[str, Any], wrong: str) -> None:
    problem = await StateCheck(SCHEMA).problem(state)
    assert problem.startswith("the state does not fit the graph's state_schema: ")
    assert wrong in problem


async def test_a_value_without_bound_is_told_in_few_words() -> None:
    assert len(await StateCheck(SCHEMA).problem({"items": [["x" * 200_000] for _ in range(20)]})) < 2_000


async def test_a_large_value_is_checked_outside_the_event_loop() -> None:
    check = StateCheck(SCHEMA)
    state = {"items": ["abc"] * 20_000 + ["wrong"]}
    begun = thread_time()
    assert "items/20000" in await check.problem(state)
    assert thread_time() - begun < 0.2


async def test_a_schema_whose_properties_refer_to_what_they_are_not_told_with_says_so() -> None:
    schema = {"type": "object", "not": {"type": "string"}, "properties": {"a": {"$ref": "#/not"}}}
    assert (await StateCheck(schema).problem({"a": 1})).startswith("state_schema is no JSON schema: ")
    with pytest.raises(ValueError, match="state_schema is no JSON schema"):
        prove_usable(graph("odd", [llm("a")], state_schema=schema))


@pytest.mark.parametrize(
    "schema",
    [None, {"type": "object"}, {"type": "object", "properties": {"a": {}, "b": {"reducer": "sum"}, "c": True}}],
)
def test_a_schema_that_says_nothing_of_values_leaves_nothing_to_check(schema: dict[str, Any] | None) -> None:
    assert values_schema(schema) is None
    assert not StateCheck(schema).keys
