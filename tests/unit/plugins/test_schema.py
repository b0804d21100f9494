"""What the model is told follows from signature, type hints and docstring; what it sends becomes a call."""

import enum
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, Optional
from uuid import UUID

import pytest
from pydantic import BaseModel, Field, field_validator
from typing_extensions import TypedDict

from pentad.shared.plugins.context import ToolContext
from pentad.shared.plugins.definition import ToolDefinition
from pentad.shared.plugins.errors import InvalidArguments, PluginError
from pentad.shared.plugins.registry import define


class Place(BaseModel):
    city: str
    title: str = ""

    @field_validator("city")
    @classmethod
    def _known(cls, city: str) -> str:
        if city == "crash":
            raise RuntimeError("no such thing")
        return city


@dataclass
class Point:
    x: int


class Options(TypedDict, total=False):
    deep: bool


class Unit(enum.Enum):
    CELSIUS = "c"


def weather(
    city: Annotated[str, Field(description="told by Field")],
    days: int = 3,
    *,
    unit: Literal["c", "f"] = "c",
    ctx: ToolContext | None = None,
) -> str:
    """Weather.

    Args:
        city: told by the docstring
        days: how many
    """
    return f"{city} {days} {unit} {ctx}"


def awkward(schema: int, model_config: int = 1, copy: int = 2, _x: int = 3, self_: int = 4, title: str = "") -> int:
    return schema


def test_the_schema_says_names_types_defaults_and_descriptions() -> None:
    spec = define(weather, effect="pure").spec
    assert (spec.name, spec.description) == ("weather", "Weather.")
    assert spec.parameters == {
        "type": "object",
        "additionalProperties": False,
        "required": ["city"],
        "properties": {
            "city": {"type": "string", "description": "told by Field"},
            "days": {"type": "integer", "description": "how many", "default": 3},
            "unit": {"type": "string", "enum": ["c", "f"], "default": "c"},
        },
    }


def test_a_tool_without_arguments_takes_an_empty_object() -> None:
    def nothing() -> None: ...

    spec = define(nothing).spec
    assert spec.parameters == {"type": "object", "properties": {}, "additionalProperties": False}


def test_names_that_mean_something_to_pydantic_are_only_names() -> None:
    definition = define(awkward)
    args = {"schema": 1, "model_config": 2, "copy": 3, "_x": 4, "self_": 5, "title": "t"}
    assert definition.validate(args) == args
    assert list(definition.spec.parameters["properties"]) == list(args)


def _with(annotation: Any, default: Any = ...) -> ToolDefinition:
    """A tool whose one argument has this type."""

    def probe(value: Any) -> None: ...

    probe.__annotations__["value"] = annotation
    probe.__defaults__ = None if default is ... else (default,)
    return define(probe)


@pytest.mark.parametrize(
    ("annotation", "sent", "received"),
    [
        (int, "42", 42),
        (float, 1, 1.0),
        (bool, "true", True),
        (list[int], ["1", 2], [1, 2]),
        (tuple[int, ...], [1], (1,)),
        (set[str], ["a"], {"a"}),
        (dict[str, int], {"a": "1"}, {"a": 1}),
        (Optional[int], None, None),  # noqa: UP045 - people write it
        (date, "2030-01-31", date(2030, 1, 31)),
        (datetime, "2030-01-31T12:00:00", datetime(2030, 1, 31, 12)),
        (Decimal, "1.10", Decimal("1.10")),
        (UUID, "12345678-1234-5678-1234-567812345678", UUID("12345678-1234-5678-1234-567812345678")),
        (Path, "a/b", Path("a/b")),
        (Unit, "c", Unit.CELSIUS),
        (Place, {"city": "Rome"}, Place(city="Rome")),
        (Point, {"x": "1"}, Point(1)),
        (Options, {"deep": 1}, {"deep": True}),
        (list[Place], [{"city": "Rome"}], [Place(city="Rome")]),
        (int | str, "5", "5"),
        (Any, {"free": [1]}, {"free": [1]}),
        ("int", "7", 7),
    ],
)
def test_arguments_are_coerced(annotation: Any, sent: Any, received: Any) -> None:
    assert _with(annotation).validate({"value": sent}) == {"value": received}


@pytest.mark.parametrize(
    ("annotation", "sent", "received"),
    [
        (dict[str, Any], '{"a": 1}', {"a": 1}),
        (dict[str, Any], "```json\n{'a': 1}\n```".replace("'", '"'), {"a": 1}),
        (list[int], "[1,2]", [1, 2]),
        (list[int], "[1,2,]", [1, 2]),
        (list[list[int]], ["[1]", [2]], [[1], [2]]),
        (list[list[int]], '["[1]","[2]"]', [[1], [2]]),
        (tuple[int, ...], "[1]", (1,)),
        (set[int], "[1]", {1}),
        (frozenset[int], "[1]", {1}),
        (Sequence[int], "[1]", [1]),
        (Mapping[str, int], '{"a":1}', {"a": 1}),
        (Place, '{"city":"Rome"}', Place(city="Rome")),
        (Point, '{"x":1}', Point(1)),
        (Options, '{"deep":true}', {"deep": True}),
        (list[Place], [{"city": "Rome"}, '{"city":"Oslo"}'], [Place(city="Rome"), Place(city="Oslo")]),
        (list[int] | None, "[1]", [1]),
        (list[int] | dict[str, int], '{"a":1}', {"a": 1}),
        (int | list[int], "[1]", [1]),
        (str | dict[str, int], '{"a":1}', '{"a":1}'),
        (str, "[1]", "[1]"),
        (Any, "[1]", "[1]"),
    ],
)
def test_a_json_text_is_read_where_only_a_list_or_an_object_fits(annotation: Any, sent: Any, received: Any) -> None:
    """Promise: a model that writes a value as a JSON text need not send it again, and a text stays a text."""
    assert _with(annotation).validate({"value": sent}) == {"value": received}


@pytest.mark.parametrize(
    ("annotation", "sent", "told"),
    [
        (list[int], "one, two", "input should be a valid list, got 'one, two'"),
        (list[int], "[1", "input should be a valid list, got '[1'"),
        (list[int], "5", "input should be a valid list, got '5'"),
        (list[int], '["x"]', "argument 'value.0': input should be a valid integer"),
        (dict[str, int], "[1]", "input should be a valid dictionary, got [1]"),
        (Annotated[str, Field(min_length=9)] | dict[str, int], '{"a":1}', "should have at least 9 characters"),
    ],
)
def test_a_text_that_is_no_such_value_is_told(annotation: Any, sent: Any, told: str) -> None:
    with pytest.raises(InvalidArguments, match=re.escape(told)):
        _with(annotation).validate({"value": sent})


def test_null_is_the_default_where_null_does_not_fit() -> None:
    """Promise: a model that fills in what it does not need gets what it would have got without it."""
    assert define(weather).validate({"city": "Rome", "days": None, "unit": None}) == {"city": "Rome"}
    assert _with(int | None, 5).validate({"value": None}) == {"value": None}
    with pytest.raises(InvalidArguments, match="argument 'city': input should be a valid string, got None"):
        define(weather).validate({"city": None, "days": None})
    with pytest.raises(InvalidArguments, match="argument 'town' is unknown"):
        define(weather).validate({"city": "Rome", "town": None})


def test_what_was_sent_stays_as_it_was() -> None:
    sent = {"value": ["[1]"]}
    _with(list[list[int]]).validate(sent)
    assert sent == {"value": ["[1]"]}


@pytest.mark.parametrize("default", [None, [1], object(), float("nan"), Unit.CELSIUS])
def test_a_default_is_the_functions_own(default: Any) -> None:
    assert _with(Any, default).validate({}) == {}


def test_the_context_is_filled_in_and_not_shown() -> None:
    def told(ctx: "ToolContext", text: str) -> None: ...

    definition, context = define(told), ToolContext("call-0-a")
    assert list(definition.spec.parameters["properties"]) == ["text"]
    assert definition.bind({"text": "x"}, context) == {"text": "x", "ctx": context}
    with pytest.raises(InvalidArguments, match="argument 'ctx' is unknown"):
        definition.validate({"text": "x", "ctx": {}})


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ({}, "tool 'weather': argument 'city' is missing: expected string"),
        ({"city": 5}, "tool 'weather': argument 'city': input should be a valid string, got 5"),
        ({"city": "x", "days": "many"}, "argument 'days': input should be a valid integer"),
        ({"city": "x", "unit": "k"}, "argument 'unit': input should be 'c' or 'f', got 'k'"),
        ({"town": "x", "city": "x"}, "argument 'town' is unknown: it takes city, days, unit"),
        ({"city": 1, "days": "x"}, "'city': input should be a valid string, got 1; argument 'days'"),
        ([1], "the arguments must be a JSON object, got [1]"),
        ({"city": ["x" * 1000]}, "x..."),
        ({f"a{number}": 1 for number in range(9)} | {"city": "x"}, "; and 4 more"),
    ],
)
def test_wrong_arguments_are_named_with_what_was_expected(args: Any, told: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        define(weather).validate(args)
    assert told in str(caught.value)


def test_nested_arguments_are_named_by_their_path() -> None:
    with pytest.raises(InvalidArguments, match=r"argument 'value\.1\.city' is missing"):
        _with(list[Place]).validate({"value": [{"city": "Rome"}, {}]})


def test_a_validator_that_breaks_is_an_error_of_the_call() -> None:
    with pytest.raises(InvalidArguments, match="could not be checked: no such thing"):
        _with(Place).validate({"value": {"city": "crash"}})


@dataclass
class Spread:
    width: float = math.inf


def test_a_default_that_json_has_not_is_not_shown() -> None:
    def tool(x: float = math.nan, y: float = 1.5) -> str:
        """D."""
        return ""

    assert define(tool).spec.parameters["properties"] == {
        "x": {"type": "number"},
        "y": {"type": "number", "default": 1.5},
    }


def test_a_schema_that_cannot_be_json_is_refused() -> None:
    def tool(spread: Spread) -> str:
        """D."""
        return ""

    with pytest.raises(PluginError, match="NaN or Infinity"):
        define(tool)


@pytest.mark.parametrize("timeout", [math.nan, math.inf])
def test_a_time_limit_is_a_number(timeout: float) -> None:
    def tool() -> str:
        """D."""
        return ""

    with pytest.raises(PluginError, match="timeout"):
        define(tool, timeout=timeout)


def test_thousands_of_arguments_are_refused_without_looking_at_each() -> None:
    """Promise: what is wrong with a call costs no more to say, however much of it is wrong."""

    def place(city: str) -> str:
        """Where it is."""
        return city

    with pytest.raises(InvalidArguments, match=r"^tool 'place': 1001 arguments: it takes city$"):
        define(place).validate({f"a{n}": n for n in range(1_001)})
