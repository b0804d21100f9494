"""Tools in the forms that model servers take."""

import json
import time
from typing import Any

import pytest

from pentad.shared.models.tool_forms import (
    BARE,
    CORE,
    WITHOUT_BOUNDS,
    ToolForm,
    formed,
    tool_names,
    unusual_tools,
    what_servers_refuse,
)

TEXT = {"type": "string", "minLength": 1, "maxLength": 2000, "pattern": "[a-z]+", "description": "What."}
FREE = {"type": "string", "description": "What."}


def tool(name: str, schema: Any, description: str = "maxLength") -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


def sent(tools: list[dict[str, Any]], form: ToolForm) -> list[Any]:
    found = formed(json.dumps(tools).encode(), form)
    return [] if found is None else [each["function"] for each in json.loads(found)]


def schema_at(level: int, schema: Any) -> Any:
    [function] = sent([tool("x", schema)], ToolForm(level))
    assert function | {"parameters": schema} == tool("x", schema)["function"]
    return function["parameters"]


@pytest.mark.parametrize(
    ("schema", "loose"),
    [
        ({}, {}),
        ({"properties": {"a": TEXT}, "required": ["a"]}, {"properties": {"a": FREE}, "required": ["a"]}),
        ({"items": TEXT, "minItems": 1, "maxItems": 9}, {"items": FREE}),
        ({"items": [TEXT, True]}, {"items": [FREE, True]}),
        ({"anyOf": [TEXT, {"type": "null"}]}, {"anyOf": [FREE, {"type": "null"}]}),
        ({"$defs": {"pattern": TEXT}}, {"$defs": {"pattern": FREE}}),
        ({"additionalProperties": TEXT}, {"additionalProperties": FREE}),
        ({"maximum": 20, "format": "date"}, {"maximum": 20, "format": "date"}),
    ],
)
def test_lengths_and_patterns_are_left_out_wherever_they_stand(schema: Any, loose: Any) -> None:
    """Promise: llama.cpp's server can make a grammar of every schema."""
    assert schema_at(WITHOUT_BOUNDS, schema) == loose


def test_an_argument_or_a_value_may_have_their_names() -> None:
    """Promise: what is no keyword stays."""
    schema = {"properties": {"pattern": FREE, "maxLength": {"default": {"pattern": "x"}}}, "enum": [{"minItems": 1}]}
    assert schema_at(WITHOUT_BOUNDS, schema) == schema


@pytest.mark.parametrize(
    ("argument", "core"),
    [
        (TEXT, FREE),
        ({"type": "integer", "exclusiveMinimum": 0, "multipleOf": 5}, {"type": "integer"}),
        ({"type": ["string", "null"]}, {"type": "string"}),
        ({"type": ["string", "integer"]}, {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}, {"type": "integer"}),
        ({"oneOf": [FREE, {"type": "number"}]}, {"anyOf": [FREE, {"type": "number"}]}),
        ({"allOf": [{"$ref": "#/$defs/Unit"}], "description": "Of what."},
         {"description": "Of what.", "type": "string", "enum": ["C", "F"]}),
        ({"const": "x"}, {"type": "string", "enum": ["x"]}),
        ({"enum": [1, 2]}, {"description": "One of 1, 2."}),
        ({"$ref": "#/$defs/Unit"}, {"type": "string", "enum": ["C", "F"]}),
        ({"$ref": "#/$defs/Unit", "description": "Of it."},
         {"type": "string", "enum": ["C", "F"], "description": "Of it."}),
        ({"$ref": "#/$defs/Point"},
         {"type": "object", "properties": {"x": {"type": "number"}, "unit": {"type": "string", "enum": ["C", "F"]}},
          "required": ["x"]}),
        ({"$ref": "#/$defs/Tree"},
         {"type": "object", "properties": {"children": {"type": "array", "items": {"type": "object"}}}}),
        ({"$ref": "https://elsewhere/schema"}, {}),
        ({"type": "array", "prefixItems": [{"type": "number"}, {"type": "number"}], "items": False},
         {"type": "array", "items": {"type": "number"}}),
        ({"type": "array", "prefixItems": [{"type": "number"}, {"type": "string"}]},
         {"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "string"}]}}),
        ({"type": "array"}, {"type": "array", "items": {"type": "string"}}),
        ({"type": "object", "additionalProperties": {"type": "string"}, "patternProperties": {}}, {"type": "object"}),
        (True, {}),
    ],
)  # fmt: skip
def test_references_are_resolved_and_what_some_server_refuses_is_left_out(argument: Any, core: Any) -> None:
    """Promise: what is left of a schema is what every server takes, and says as much as that can."""
    defs = {
        "Unit": {"enum": ["C", "F"], "type": "string", "title": "Unit"},
        "Point": {
            "type": "object",
            "properties": {"x": {"type": "number"}, "unit": {"$ref": "#/$defs/Unit"}},
            "required": ["x"],
            "additionalProperties": False,
        },
        "Tree": {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}}},
    }
    schema = {"$defs": defs, "$schema": "x", "properties": {"a": argument}, "required": ["a", "b"]}
    assert schema_at(CORE, schema) == {"type": "object", "properties": {"a": core}, "required": ["a"]}


def test_at_the_barest_each_argument_has_a_plain_type() -> None:
    """Promise: the last form that a server is sent has nothing in it that could be refused."""
    schema = {
        "properties": {
            "a": {"anyOf": [{"type": "integer"}, {"type": "string"}], "description": "What."},
            "b": {"type": "array", "items": {"type": "object", "properties": {"x": TEXT}}},
            "c": {"type": "object", "properties": {"x": TEXT}},
            "d": {"enum": ["x", "y"]},
            "e": {},
        },
        "required": ["a"],
    }
    assert schema_at(BARE, schema) == {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "description": "What."},
            "b": {"type": "array", "items": {"type": "object"}},
            "c": {"type": "object"},
            "d": {"type": "string"},
            "e": {"type": "string"},
        },
        "required": ["a"],
    }


def test_references_that_multiply_are_resolved_within_bounds() -> None:
    """Promise: a schema that stands for a billion parts holds nobody up."""
    defs: dict[str, Any] = {
        f"n{n}": {"properties": {x: {"$ref": f"#/$defs/n{n + 1}"} for x in "abcd"}} for n in range(30)
    }
    begun = time.thread_time()
    schema_at(CORE, {"$defs": defs, "properties": {"a": {"$ref": "#/$defs/n0"}}})
    assert time.thread_time() - begun < 1.0


def test_tools_are_left_out_by_name_and_number_and_descriptions_are_cut() -> None:
    """Promise: one tool that is refused takes no other with it."""
    tools = [tool("a", {}, "x" * 2000), tool("b", {}), tool("c", {})]
    packed = json.dumps(tools).encode()
    assert tool_names(packed) == ("a", "b", "c")
    assert [each["name"] for each in sent(tools, ToolForm(without=frozenset({"b"})))] == ["a", "c"]
    assert [each["name"] for each in sent(tools, ToolForm(most_tools=2))] == ["a", "b"]
    assert sent(tools, ToolForm(without=frozenset("abc"))) == []
    assert [len(each["description"]) for each in sent(tools, ToolForm(most_description=100))] == [100, 9, 9]


def test_the_tools_that_say_more_than_names_and_types_are_known() -> None:
    """Promise: where a server names no tool, those that are unusual are left out before all are."""
    plain = {"type": "object", "properties": {"a": FREE}, "required": ["a"]}
    tools = [tool("plain", plain), tool("bounded", {"properties": {"a": TEXT}}), tool("long", plain, "x" * 2000)]
    assert unusual_tools(json.dumps(tools).encode()) == ("bounded", "long")


def test_what_a_server_is_known_to_refuse_is_found_in_a_tool() -> None:
    """Promise: a start says which tools some servers will refuse."""
    schema = {"properties": {"not": {"$ref": "#/$defs/X"}, "b": {"exclusiveMinimum": 0, "default": {"oneOf": 1}}}}
    assert list(what_servers_refuse("x" * 1025, schema)) == [
        "a description of 1,025 characters",
        "$ref",
        "exclusiveMinimum",
    ]
