"""A tool whose author gives the JSON schema: it is checked where it is defined, and each call against it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import thread_time
from typing import Any

import pytest

from pentad.shared.plugins.context import ToolContext
from pentad.shared.plugins.errors import InvalidArguments, PluginError
from pentad.shared.plugins.explicit_schema import MAX_SCHEMA_BYTES
from pentad.shared.plugins.registry import define, registered_tools, tool
from tests.support.slowness import slowness

ORDER = {
    "type": "object",
    "properties": {
        "room": {"type": "string", "pattern": "^[0-9]+$"},
        "nights": {"type": "integer", "minimum": 1},
        "guests": {"type": "array", "items": {"type": "string"}},
        "notes": {"type": ["object", "null"]},
    },
    "required": ["room"],
    "additionalProperties": False,
}


@contextmanager
def took_no_longer_than(seconds: float) -> Iterator[None]:
    begun = thread_time()
    yield
    assert thread_time() - begun < seconds * slowness()


def booked(room: Any, nights: Any = 1, guests: Any = (), notes: Any = None) -> str:
    """Books a room."""
    return f"{room} {nights} {guests} {notes}"


def whatever(**arguments: Any) -> dict[str, Any]:
    """Takes what the schema says."""
    return arguments


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def doubled(levels: int) -> dict[str, Any]:
    """A schema with two alternatives, each of which has two alternatives, and so on."""
    parts: dict[str, Any] = {f"d{levels}": {"type": "string"}}
    for level in range(levels):
        deeper = {"$ref": f"#/$defs/d{level + 1}"}
        parts[f"d{level}"] = {"anyOf": [deeper, deeper]}
    return {"type": "object", "$defs": parts, "properties": {"a": {"$ref": "#/$defs/d0"}}}


def test_the_model_is_told_the_schema_and_the_function_gets_json_values() -> None:
    found = define(booked, parameters=ORDER)
    assert found.spec.parameters == ORDER
    assert found.spec.parameters is not ORDER
    assert found.spec.description == "Books a room."
    assert found.call({"room": "12", "nights": 2}, ToolContext()) == "12 2 () None"


def test_the_decorator_takes_it_and_registers() -> None:
    tool("booked_explicitly", parameters=ORDER)(booked)
    assert registered_tools()["booked_explicitly"].spec.parameters == ORDER


def test_the_context_is_filled_in_and_hidden_though_it_is_in_no_schema() -> None:
    def shown(room: str, ctx: ToolContext) -> str:
        return f"{room} of {ctx.session_id}"

    schema = {"type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]}
    assert define(shown, parameters=schema).call({"room": "1"}, ToolContext(session_id="s")) == "1 of s"


def test_names_that_are_no_words_of_python_arrive_in_arguments() -> None:
    schema = {"type": "object", "properties": {"check-in": {"type": "string"}, "class": {"type": "string"}}}
    found = define(whatever, parameters=schema)
    args = {"check-in": "today", "class": "first"}
    assert found.call(args, ToolContext()) == args


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ({}, "tool 'booked': argument 'room' is missing: expected string"),
        ({"room": "12", "beds": 2}, "argument 'beds' is unknown: it takes room, nights, guests, notes"),
        ({"room": "a"}, "argument 'room': \"a\" does not match"),
        ({"room": "1", "nights": 0}, "argument 'nights': 0 is less than the minimum of 1"),
        ({"room": "1", "guests": ["Ann", 5]}, "argument 'guests.1': 5 is not of type"),
        ({"room": 1}, "argument 'room': 1 is not of type"),
        ({"room": "1", "nights": "x"}, "argument 'nights': \"x\" is not of type"),
        ({"room": "1", "nights": "1.5"}, "argument 'nights': \"1.5\" is not of type"),
        ({"room": "1", "nights": "true"}, "argument 'nights': \"true\" is not of type"),
        ({"room": "1", "nights": "9" * 101}, "argument 'nights': \"9"),
    ],
)
def test_what_does_not_fit_is_told_with_the_arguments_name(args: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        define(booked, parameters=ORDER).validate(args)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("args", "mended"),
    [
        ({"room": "1", "guests": '["Ann", "Bob"]'}, {"room": "1", "guests": ["Ann", "Bob"]}),
        ({"room": "1", "notes": '{"late": true}'}, {"room": "1", "notes": {"late": True}}),
        ({"room": "1", "nights": None}, {"room": "1"}),
        ({"room": "1", "notes": None}, {"room": "1", "notes": None}),
        ({"room": "1", "nights": "3"}, {"room": "1", "nights": 3}),
        ({"room": "1", "nights": " 3 "}, {"room": "1", "nights": 3}),
    ],
)
def test_three_mistakes_of_models_are_corrected(args: dict[str, Any], mended: dict[str, Any]) -> None:
    given = dict(args)
    assert define(booked, parameters=ORDER).validate(args) == mended
    assert args == given


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("number", "2.5", 2.5),
        ("number", "-7", -7),
        ("boolean", "true", True),
        (["integer", "null"], "7", 7),
        ("number", "1e999", None),
        ("number", "NaN", None),
        ("boolean", "1", None),
        (["integer", "string"], "7", "7"),
    ],
)
def test_a_text_is_the_number_or_the_truth_that_alone_fits(kind: Any, text: str, value: Any) -> None:
    schema = {"type": "object", "properties": {"l": {"type": "array", "items": {"type": kind}}}}
    found = define(whatever, parameters=schema)
    if value is None:
        with pytest.raises(InvalidArguments, match="is not of type"):
            found.validate({"l": [text]})
    else:
        assert found.validate({"l": [text]}) == {"l": [value]}


def test_a_flood_of_numbers_as_text_ends() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "array", "items": {"type": "integer"}}}}
    with took_no_longer_than(2), pytest.raises(InvalidArguments):
        define(whatever, parameters=schema).validate({"n": ["1"] * 20_000})


def test_a_flood_of_mistakes_is_told_in_a_few_words() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "array", "items": {"type": "integer"}}}}
    found = define(whatever, parameters=schema)
    with took_no_longer_than(2), pytest.raises(InvalidArguments) as caught:
        found.validate({"n": ["x" * 100] * 20_000})
    assert len(str(caught.value)) < 2_000
    with pytest.raises(InvalidArguments, match="2000 arguments: it takes n"):
        found.validate({str(n): n for n in range(2_000)})
    with pytest.raises(InvalidArguments) as caught:
        define(booked, parameters=ORDER).validate({"x" * 1_000_000: 1})
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ("object", "it must be a JSON schema as a dict, not str"),
        ({}, 'its "type" must be "object"'),
        ({"type": "array"}, 'its "type" must be "object"'),
        ({"type": "object", "properties": []}, '"properties" must be an object'),
        ({"type": "object", "properties": {"room": {"type": "strnig"}}}, "it is no JSON schema: "),
        ({"type": "object", "properties": {"room": {"pattern": "("}}}, "it is no JSON schema: "),
        ({"type": "object", "$schema": "http://example.com/mine"}, "it is no JSON schema: Unknown meta-schema"),
        ({"type": "object", "properties": {"room": {"$ref": "http://127.0.0.1:1/x"}}}, "take for ever"),
        ({"type": "object", "properties": {"room": {"$ref": "file:///etc/passwd"}}}, "take for ever"),
        ({"type": "object", "properties": {"room": {"$ref": "#"}}}, "take for ever"),
        (nested(70), "take for ever"),
        (doubled(60), "take for ever"),
        ({"type": "object", "properties": {"room": {"default": float("nan")}}}, "it is not JSON"),
        ({"type": "object", "properties": {"room": {"default": object()}}}, "it is not JSON"),
        ({"type": "object", "description": "x" * MAX_SCHEMA_BYTES}, f"bytes: at most {MAX_SCHEMA_BYTES}"),
        ({"type": "object", "properties": {"beds": {}}}, "the function has no parameter 'beds' for a property"),
        ({"type": "object", "properties": {"room": {}}}, "parameter 'room' has no default and is not in its"),
    ],
)
def test_a_wrong_or_hostile_schema_is_refused_where_it_is_defined(schema: Any, told: str) -> None:
    with took_no_longer_than(5), pytest.raises(PluginError) as caught:
        define(booked, parameters=schema)
    assert str(caught.value).startswith("tool 'booked': parameters=: ")
    assert told in str(caught.value)
    assert len(str(caught.value)) < 600


def test_one_that_contains_itself_is_refused() -> None:
    schema: dict[str, Any] = {"type": "object"}
    schema["properties"] = {"room": schema}
    with pytest.raises(PluginError, match="it is not JSON"):
        define(booked, parameters=schema)


def positional(room: str, /) -> None: ...
def starred(*rooms: str) -> None: ...


@pytest.mark.parametrize("function", [positional, starred])
def test_a_function_that_takes_no_names_is_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(PluginError, match="takes no argument by name"):
        define(function, parameters={"type": "object"})


def test_drafts_are_told_apart_by_what_the_schema_says() -> None:
    old = "http://json-schema.org/draft-04/schema#"
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1, "exclusiveMinimum": True}}}
    with pytest.raises(PluginError, match="no JSON schema"):
        define(whatever, parameters=schema)
    found = define(whatever, parameters=schema | {"$schema": old})
    with pytest.raises(InvalidArguments, match="argument 'n'"):
        found.validate({"n": 1})
