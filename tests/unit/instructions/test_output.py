"""An answer that must be JSON is used only when it fits its schema."""

from typing import Any

import pytest
from pydantic_core import to_json

from pentad.shared.instructions.output import Output, WrongOutput, WrongSchema

SCHEMA = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}},
    "required": ["title", "tags"],
    "additionalProperties": False,
}
GOOD = '{"title":"t","tags":["a"]}'


@pytest.mark.parametrize("text", [GOOD, f" {GOOD}\n", f"```json\n{GOOD}\n```", f"```\n{GOOD}\n```"])
def test_a_fitting_value_is_read_also_out_of_a_fence(text: str) -> None:
    assert Output(SCHEMA).read(text) == {"title": "t", "tags": ["a"]}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Here you are: " + GOOD, "not JSON"),
        (GOOD[:-3], "not JSON"),
        ("", "not JSON"),
        ('{"title":"t","tags":[NaN]}', "not JSON"),
        ('{"title":1,"tags":[]}', "title: 1 is not of type"),
        ('{"title":"t","tags":["a",2]}', "tags/1: 2 is not of type"),
        ('{"title":"t"}', "the value: "),
        ('{"title":"t","tags":[],"more":1}', "more"),
        ("[" * 5_000, "not JSON"),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(text: str, told: str) -> None:
    with pytest.raises(WrongOutput, match=told):
        Output(SCHEMA).read(text)


def test_what_is_told_is_short_however_much_is_wrong() -> None:
    text = to_json({"title": "t", "tags": [{"x": "y" * 5_000}] * 500}).decode()
    with pytest.raises(WrongOutput) as told:
        Output(SCHEMA).read(text)
    assert len(str(told.value)) < 2_000


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "objekt"},
        {"properties": []},
        {"pattern": "("},
        {"$ref": "https://example.org/schema.json"},
        {"$ref": "file:///etc/passwd"},
        {"$ref": "#/nowhere"},
        {"$schema": "https://example.org/unheard-of"},
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_and_nothing_is_fetched(schema: dict[str, Any]) -> None:
    with pytest.raises(WrongSchema, match="output_schema is no JSON schema"):
        Output(schema)


def test_a_pattern_cannot_be_made_to_run_for_ever() -> None:
    output = Output({"type": "string", "pattern": "^(a+)+$"})
    with pytest.raises(WrongOutput):
        output.read(f'"{"a" * 50_000}!"')


def test_a_schema_that_refers_to_itself_is_followed_as_far_as_the_value_goes() -> None:
    tree = {"type": "object", "properties": {"child": {"$ref": "#"}}, "additionalProperties": False}
    assert Output(tree).read('{"child":{"child":{}}}') == {"child": {"child": {}}}
    with pytest.raises(WrongOutput):
        Output(tree).read('{"child":{"child":{"x":1}}}')
