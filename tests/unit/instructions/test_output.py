"""An answer that must be JSON is used only when it fits its schema, and no answer or schema holds the event loop."""

import asyncio
import json
from contextlib import suppress
from time import thread_time
from typing import Any

import pytest
from pydantic_core import to_json

from pentad.shared.instructions.output import Output
from pentad.shared.instructions.schema_check import MAX_ANSWER, WrongOutput
from pentad.shared.json_schema import WrongSchema, schema_weight

SCHEMA = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}},
    "required": ["title", "tags"],
    "additionalProperties": False,
}
GOOD = '{"title":"t","tags":["a"]}'
EXAMPLE = '{"title": "the title", "tags": [...]}'
WAYS = 24
ALTERNATIVES: dict[str, Any] = {
    "$ref": "#/$defs/a0",
    "$defs": {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(WAYS)}
    | {f"a{WAYS}": {"type": "object"}},
}
"""A schema that holds one value against 2**24 alternatives."""


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f" {GOOD}\n",
        f"```json\n{GOOD}\n```",
        f"```\n{GOOD}\n```",
        f"```json {GOOD}```",
        f"`{GOOD}`",
        f"Here you are:\n\n```json\n{GOOD}\n```\n\nIs there anything else?",
        f"Here you are: {GOOD}. It has [all] that you asked {{for}}.",
        f'For example\n```json\n{{"title": "x"}}\n```\nso in your case\n```json\n{GOOD}\n```',
        f"In the form {EXAMPLE}, that is:\n{GOOD}",
        f"{GOOD}\n\n{GOOD}",
        f"```json\n{GOOD}",
        f"Sources: [1], [2].\n{GOOD}",
        f"(see [the list)\n{GOOD}",
        '{"title":"t","tags":["a",],}',
        'So:\n```json\n{"title":"t","tags":["a"],}\n```\nIs that it?',
        'It is {"title":"t","tags":["a"],}, I think.',
        f"\ufeff{GOOD}",
        json.dumps(GOOD),
        json.dumps(json.dumps(GOOD)),
        json.dumps(f"```json\n{GOOD}\n```"),
        f"```json\n{json.dumps(GOOD)}\n```",
        f'{{"title":"t"}} or\n{GOOD[:-1]},}}',
    ],
)
async def test_the_one_value_that_fits_is_read_out_of_fences_and_prose(text: str) -> None:
    assert json.loads(await Output(SCHEMA).read(text)) == {"title": "t", "tags": ["a"]}


@pytest.mark.parametrize("text", ["42", "```json\n42\n```", "```42```", "The answer:\n```JSON\n42\n```\n"])
async def test_a_number_is_read_where_it_stands_alone(text: str) -> None:
    assert await Output({"type": "integer"}).read(text) == "42"


@pytest.mark.parametrize(("text", "value"), [("True", "true"), ('{"a": None, "b": "None"}', '{"a":null,"b":"None"}')])
async def test_pythons_words_are_read_outside_strings(text: str, value: str) -> None:
    assert await Output({"type": ["object", "boolean"]}).read(text) == value


async def test_a_line_end_within_a_string_is_read() -> None:
    assert await Output({"properties": {"a": {}}}).read('Here: {"a": "one\ntwo"}') == '{"a":"one\\ntwo"}'


async def test_a_text_that_fits_stays_a_text() -> None:
    """Promise: what the schema takes as it is, is not made anything else."""
    assert await Output({"type": ["string", "object"]}).read(json.dumps(GOOD)) == json.dumps(GOOD)


async def test_what_looks_like_a_fence_in_a_string_belongs_to_the_string() -> None:
    value = {"title": 'write ```json\n{"title":"x","tags":[]}\n``` so', "tags": []}
    assert json.loads(await Output(SCHEMA).read(f"This is it: {json.dumps(value)}")) == value


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Here you are.", "not JSON"),
        ("The answer is 42.", "not JSON"),
        (GOOD[:-3], "not JSON"),
        ('{"title":"t","tags":["a"],"more":{"title":"t","tags":["a"]},', "not JSON"),
        ("", "not JSON"),
        ('{"title":"t","tags":[NaN]}', "not JSON"),
        ('{"title":1,"tags":[]}', "title: 1 is not of type"),
        ('{"title":"t","tags":["a",2]}', "tags/1: 2 is not of type"),
        ('{"title":"t"}', "the value: "),
        ('{"title":"t","tags":[],"more":1}', "more"),
        ("[" * 5_000, "not JSON"),
        (GOOD + ' or {"title":"t","tags":["b"]}', "2 JSON values in it fit"),
        ('[1] {"title":"t"}', "none of the 2 JSON values in it fits; of the last one, the value: "),
        (GOOD + ' or {"title":"t","tags":["b"],}', "2 JSON values in it fit"),
        (json.dumps('{"title":1,"tags":[]}'), "title: 1 is not of type"),
        (json.dumps("some text"), "is not of type"),
        (json.dumps(GOOD[:-3]), "is not of type"),
        ('{"outer":' + GOOD + "}", "outer"),
    ],
)
async def test_what_does_not_fit_is_told_with_its_place(text: str, told: str) -> None:
    with pytest.raises(WrongOutput, match=told):
        await Output(SCHEMA).read(text)


async def test_what_is_told_is_short_however_much_is_wrong() -> None:
    text = to_json({"title": "t", "tags": [{"x": "y" * 50}] * 150}).decode()
    with pytest.raises(WrongOutput) as told:
        await Output(SCHEMA).read(text)
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
        Output(schema).prove()


async def test_a_schema_that_refers_to_itself_is_followed_as_far_as_the_value_goes() -> None:
    tree = {"type": "object", "properties": {"child": {"$ref": "#"}}, "additionalProperties": False}
    assert json.loads(await Output(tree).read('{"child":{"child":{}}}')) == {"child": {"child": {}}}
    with pytest.raises(WrongOutput):
        await Output(tree).read('{"child":{"child":{"x":1}}}')


@pytest.mark.parametrize(
    ("schema", "weight"),
    [
        ({}, 1),
        ({"type": "integer"}, 2),
        ({"type": "string", "pattern": "^(a+)+$"}, None),
        ({"properties": {"child": {"$ref": "#"}}}, None),
        ({"$defs": {"n": {"items": {"$ref": "#/$defs/n"}}}, "$ref": "#/$defs/n"}, None),
        ({"$ref": "other"}, None),
        (ALTERNATIVES, None),
    ],
)
def test_a_schema_whose_cost_nobody_can_tell_has_no_weight(schema: dict[str, Any], weight: int | None) -> None:
    assert schema_weight(schema) == weight


def test_a_schema_that_takes_for_ever_is_refused_where_it_is_registered() -> None:
    with pytest.raises(WrongSchema, match="ended after 2 s"):
        Output(ALTERNATIVES).prove()


async def test_a_schema_that_takes_for_ever_for_an_answer_is_ended() -> None:
    either = [{"properties": {"a": {"$ref": "#"}}, "required": [name], "type": "object"} for name in ("x", "y")]
    output = Output({"anyOf": [*either, {"type": "integer"}]})
    output.prove()
    with pytest.raises(WrongSchema, match="ended after 2 s"):
        await output.read('{"a":' * 60 + "null" + "}" * 60)


HOSTILE = {
    "line ends in a fence": "```json\n" + "\n" * 400_000 + "x",
    "blanks": " " * 500_000 + "x",
    "fences": "```\n" * 120_000 + "x",
    "brackets": "[" * 500_000,
    "braces": "{" * 500_000,
    "pairs": "[x]" * 160_000,
    "unclosed words": "[x" * 250_000,
    "unclosed with blanks": ("[" + " " * 1_000) * 500,
    "escapes": '{"' + "\\" * 500_000,
    "quotes": '{x"' * 160_000,
    "values": "{}" * 250_000,
    "values with mistakes": "{1,}" * 125_000,
    "mistakes in brackets": "[" * 900 + "True, " * 80_000 + "]" * 900,
    "texts of a text": '"' + '\\"{},' * 120_000 + '"',
    "numbers": "[" + "1," * 250_000,
    "digits": "[" + "1" * 500_000,
    "small values": "[" + "[]," * 160_000 + "[]]",
    "depth": "[" * 150 + "]" * 150 + "x",
    "too large": "x" * 4_000_000,
}


SCHEMAS: list[dict[str, Any]] = [SCHEMA, {"type": "object"}, {}, {"type": "string", "pattern": "a{100}"}]


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize(("length", "schema"), [(MAX_ANSWER + 1, SCHEMA), *((16_384, schema) for schema in SCHEMAS)])
async def test_no_answer_holds_the_loop(name: str, schema: dict[str, Any], length: int) -> None:
    """The fault was 29 s for 2,009 characters."""
    output, longest = Output(schema), Longest()
    watching = asyncio.create_task(longest.watch())
    await asyncio.sleep(0)
    with suppress(ValueError):
        await asyncio.wait_for(output.read(HOSTILE[name][:length]), 30)
    watching.cancel()
    assert longest.gap_s < 0.5, "a slow machine included"


class Longest:
    """The longest time that the loop's thread has worked between two turns of a task: a busy neighbour adds nothing."""

    gap_s = 0.0

    async def watch(self) -> None:
        last = thread_time()
        try:
            while True:
                await asyncio.sleep(0.002)
                last, gap = thread_time(), thread_time() - last
                self.gap_s = max(self.gap_s, gap)
        finally:
            self.gap_s = max(self.gap_s, thread_time() - last)
