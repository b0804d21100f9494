"""What of a tool's schema is left out for a server that cannot make a grammar of it."""

import json
from typing import Any

import pytest

from pentad.shared.models.loose_schemas import loosened, made_no_grammar

TEXT = {"type": "string", "minLength": 1, "maxLength": 2000, "pattern": "[a-z]+", "description": "What."}
FREE = {"type": "string", "description": "What."}


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
    assert _loosened(schema) == loose


def test_an_argument_or_a_value_may_have_their_names() -> None:
    schema = {
        "properties": {"pattern": FREE, "maxLength": {"default": {"pattern": "x"}}},
        "enum": [{"minItems": 1}],
    }
    assert _loosened(schema) == schema


@pytest.mark.parametrize(
    ("said", "none"),
    [
        ("Failed to initialize samplers: failed to parse grammar", True),
        ("Automatic parser generation failed: JSON schema conversion failed:\nPattern must start with '^'", True),
        ("the request exceeds the available context size", False),
    ],
)
def test_a_refusal_says_that_there_is_no_grammar(said: str, none: bool) -> None:
    assert made_no_grammar(said) is none


def _loosened(schema: Any) -> Any:
    function = {"name": "x", "description": "maxLength", "parameters": schema}
    [tool] = json.loads(loosened(json.dumps([{"type": "function", "function": function}]).encode()))
    assert tool["function"] | {"parameters": schema} == function
    return tool["function"]["parameters"]
