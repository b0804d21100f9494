"""A function that cannot be a tool is refused at import, with what to do about it."""

import functools
import inspect
import math
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import Field

from pentad.contracts.tools import RESERVED_NAMES, TOOL_SEARCH, CallLimit, Effect, Rate
from pentad.services.task_runner.domain.own_tools import OWN
from pentad.shared.plugins import registry
from pentad.shared.plugins.context import ToolContext
from pentad.shared.plugins.errors import PluginError, UnusableResult
from pentad.shared.plugins.loading import load_plugins, script_plugin
from pentad.shared.plugins.registry import define, registered_tools, tool
from pentad.shared.plugins.results import result_text

if TYPE_CHECKING:
    from decimal import Decimal


class Opaque:
    """Nothing that a schema could describe."""


def starred(*values: int) -> None: ...
def keywords(**values: int) -> None: ...
def positional(value: int, /) -> None: ...
def typed_elsewhere(value: "Decimal") -> None: ...
def misspelled(value: "Strnig") -> None: ...  # type: ignore[name-defined]  # noqa: F821
def opaque(good: int, bad: Opaque) -> None: ...
def callback(value: Callable[[], int]) -> None: ...
def field_default(value: int = Field(5)) -> None: ...
def generates() -> Iterator[int]:
    yield 1


async def generates_async() -> AsyncIterator[int]:
    yield 1


class Holder:
    def method(self) -> None: ...


def fine() -> None: ...


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (starred, "parameter '*values: int' takes any number of values: use a list parameter"),
        (keywords, "parameter '**values: int' takes any names: use a dict parameter"),
        (positional, "is positional-only: remove the '/'"),
        (typed_elsewhere, "annotation of parameter 'value' cannot be resolved (name 'Decimal' is not defined): import"),
        (misspelled, "annotation of parameter 'value' cannot be resolved"),
        (opaque, "type of parameter 'bad' cannot be described to a model"),
        (callback, "type of parameter 'value' cannot be described to a model"),
        (field_default, "write it as Annotated[TYPE, Field(...)] = DEFAULT"),
        (generates, "yields: return one value"),
        (generates_async, "yields: return one value"),
        (Holder.method, "is a method: define the tool as a function"),
        (Holder, "takes a function, not Holder"),
        (staticmethod(fine), "takes a function"),
        (functools.partial(fine), "takes a function"),
        (len, "takes a function, not len"),
        (lambda: None, "name='<lambda>' must be 1 to 64"),
    ],
)
def test_what_cannot_be_a_tool_is_refused(function: Any, told: str) -> None:
    with pytest.raises(PluginError) as caught:
        tool(function)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"name": "no spaces"}, "name='no spaces' must be 1 to 64 of letters"),
        ({"name": ""}, "name='' must be"),
        ({"effect": "harmless"}, "effect='harmless' must be 'pure', 'idempotent' or 'unsafe'"),
        ({"timeout": 0}, "timeout=0 must be a number of seconds greater than 0"),
        ({"timeout": math.nan}, "timeout=nan must be"),
        ({"timeout": "soon"}, "timeout='soon' must be"),
        ({"queue": "Big"}, "queue='Big' must be 1 to 32"),
        ({"isolated": "maybe"}, "isolated='maybe' must be True or False"),
        ({"concurrency": 0}, "concurrency=0 must be a whole number from 1 to 10000"),
        ({"concurrency": True}, "concurrency=True must be a whole number"),
        ({"concurrency": 1.5}, "concurrency=1.5 must be a whole number"),
        ({"concurrency": 10**30}, "must be a whole number from 1 to 10000"),
        ({"rate": "10"}, "rate='10' must be calls within a time, like '2/s', '10/min' or '100/h'"),
        ({"rate": "0/s"}, "rate='0/s' must be"),
        ({"rate": "10001/h"}, "rate='10001/h' must be"),
        ({"rate": "10/day"}, "rate='10/day' must be"),
        ({"rate": "1/s\n"}, "must be calls within a time"),
        ({"rate": 10}, "rate=10 must be"),
        ({"breaker": "often"}, "breaker='often' must be failures within a time, like '5/min'"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(PluginError) as caught:
        tool(**options)(fine)
    assert told in str(caught.value)


def test_the_decorator_registers_and_leaves_the_function_as_it_is() -> None:
    @tool
    def bare_one() -> str:
        return "x"

    @tool("named_one", effect="pure", timeout=5, queue="gpu", isolated=True)
    async def other() -> str:
        return "y"

    assert bare_one() == "x"
    assert inspect.iscoroutinefunction(other)
    spec = registered_tools()["named_one"].spec
    assert (spec.effect, spec.timeout, spec.queue, spec.isolated) == (Effect.PURE, 5, "gpu", True)
    bare = registered_tools()["bare_one"]
    assert (bare.is_async, bare.spec.effect, bare.spec.timeout) == (False, Effect.UNSAFE, 60)
    assert (bare.spec.limit, bare.spec.breaker) == (None, "5/min")
    assert registered_tools()["named_one"].is_async


def test_a_tool_has_the_limits_that_it_declares() -> None:
    @tool("limited_one", concurrency=2, rate="10/min", breaker=None)
    def limited() -> str:
        return "x"

    spec = registered_tools()["limited_one"].spec
    assert (spec.limit, spec.breaker, spec.guarded) == (CallLimit("limited_one", 2, "10/min"), None, True)
    assert Rate.parse("10/min") == (10, 60_000)
    assert spec.limit is not None
    assert spec.limit.told == "2 at once, 10/min"


def test_two_tools_of_one_name_are_refused_but_a_reload_is_not() -> None:
    def make() -> Callable[[], None]:
        @tool(name="taken")
        def first() -> None: ...

        return first

    make()
    make()
    with pytest.raises(PluginError, match=r"'taken' is defined twice, as .*first and as .*second"):

        @tool(name="taken")
        def second() -> None: ...


def test_a_wrapped_function_keeps_its_own_signature() -> None:
    def inner(city: str) -> None: ...

    @functools.wraps(inner)
    def outer(*args: Any, **kwargs: Any) -> None: ...

    assert define(outer).spec.parameters["required"] == ["city"]


@pytest.mark.parametrize("value", ["text", "", "ünïcode"])
def test_text_is_returned_as_it_is(value: str) -> None:
    assert result_text("probe", value) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (1.5, "1.5"),
        ({"a": [1, "ä"]}, '{"a":[1,"ä"]}'),
        (Path("a/b"), '"a/b"'),
        (Effect.PURE, "pure"),
        ({1}, "[1]"),
        (math.inf, '"Infinity"'),
        (define(fine).spec.effect, "unsafe"),
    ],
)
def test_anything_else_is_returned_as_json(value: Any, text: str) -> None:
    assert result_text("probe", value) == text


def test_what_is_not_json_is_an_error_that_says_so() -> None:
    circle: list[Any] = []
    circle.append(circle)
    for value in (Opaque(), circle, {"deep": Opaque()}, [b"\xff", Opaque()]):
        with pytest.raises(UnusableResult, match=r"tool 'probe' returned a .* cannot become JSON"):
            result_text("probe", value)


@pytest.mark.parametrize(("told", "heard"), [(0.5, 0.5), (7, 1.0), (-1, 0.0), (math.nan, None), (None, None)])
async def test_progress_is_reported_within_bounds(told: float | None, heard: float | None) -> None:
    reports: list[tuple[str, float | None]] = []
    context = ToolContext(report=lambda text, fraction: reports.append((text, fraction)))
    await context.progress("a", told)
    context.progress_sync("b", told)
    assert reports == [("a", heard), ("b", heard)]


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("import not_there_at_all", "does not import: ModuleNotFoundError: No module named 'not_there_at_all'"),
        ("1/0", "does not import: ZeroDivisionError: division by zero ("),
        ("def broken(:", "does not import: SyntaxError"),
        ("raise SystemExit('bye')", "does not import: SystemExit: bye"),
        ("raise PermissionError(13, 'Permission denied')", f"; let user {os.geteuid()} read it: chmod a+r"),
        (
            "from pentad.shared.plugins.registry import tool\n@tool\ndef f(*a): ...",
            "tool 'f': parameter '*a' takes any number",
        ),
    ],
)
def test_a_plugin_that_does_not_import_says_why(
    source: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    module = f"plugin_{abs(hash(source))}"
    (tmp_path / f"{module}.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(PluginError) as caught:
        load_plugins([module])
    assert told in str(caught.value)
    assert str(caught.value).startswith(f"plugin '{module}'")


@pytest.mark.parametrize(
    ("module", "told"),
    [
        ("nobody_has_this", "was not found in"),
        ("nobody_has_this.inside", "was not found in"),
        ("./my_tools.py", "is not the name of a module"),
        ("my-tools", "is not the name of a module"),
    ],
)
def test_a_plugin_that_is_not_there_says_where_it_was_looked_for(module: str, told: str) -> None:
    with pytest.raises(PluginError) as caught:
        load_plugins([module])
    assert told in str(caught.value)


@pytest.mark.parametrize("name", sorted(RESERVED_NAMES))
def test_the_names_of_the_tools_that_every_task_has_are_taken(name: str) -> None:
    with pytest.raises(PluginError, match="every task has a tool"):
        tool(name=name)(lambda: None)


def test_every_tool_of_a_task_has_a_reserved_name() -> None:
    assert {*OWN, TOOL_SEARCH} == RESERVED_NAMES


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (["LLM_API_KEY"], "LLM_API_KEY is Pentad's own"),
        (["pentad_admin_key"], "Pentad's own"),
        (["REDIS_URL"], "Pentad's own"),
        (["A=B"], "not the name of a variable"),
        (["x" * 5_000], "not the name of a variable"),
        ("TOKEN", "must be a list of names"),
        ([1], "must be a list of names"),
    ],
)
def test_a_variable_that_no_tool_may_see_is_refused(env: Any, words: str) -> None:
    with pytest.raises(PluginError, match=words) as refused:
        define(lambda: None, name="t", env=env)
    assert len(str(refused.value)) < 400


def test_the_variables_that_a_tool_names_are_kept() -> None:
    assert define(lambda: None, name="t", env=["TOKEN", "OTHER"]).env == ("TOKEN", "OTHER")


def test_what_a_script_hands_over_need_not_be_imported_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, a decorated closure of the running program is refused: no other process can import it."""

    def closure() -> None: ...

    closure.__module__ = "__main__"
    found = define(closure, name="a_closure")
    monkeypatch.setattr(registry, "_tools", {"a_closure": found})
    with pytest.raises(PluginError, match="'closure' is defined in a function"):
        script_plugin()
    assert script_plugin([found]) is None
