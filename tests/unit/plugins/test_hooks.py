"""A function that cannot be a hook is refused at import, with what to do about it."""

import functools
import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

import pytest

from pentad.shared.plugins import hooks
from pentad.shared.plugins.errors import PluginError
from pentad.shared.plugins.hooks import HookCall, HookContext, HookDefinition, hook, registered_hooks


def fine(call: HookCall) -> bool:
    return call.tool != "forbidden"


def generates(call: HookCall) -> Iterator[int]:
    yield 1


def starred(*calls: HookCall) -> None: ...
def keywords(**calls: HookCall) -> None: ...
def positional(call: HookCall, /) -> None: ...
def wants_two(call: HookCall, other: int) -> None: ...
def misspelled(call: "HokCall") -> None: ...  # type: ignore[name-defined]  # noqa: F821
def with_context(call: HookCall, ctx: Annotated[HookContext, "whose"], other: int = 1) -> None: ...
def with_context_alone(ctx: HookContext) -> None: ...


class Holder:
    def method(self, call: HookCall) -> None: ...


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> Mapping[str, HookDefinition]:
    """Hooks that a test defines, which end with it."""
    monkeypatch.setattr(hooks, "_hooks", {})
    return registered_hooks()


@pytest.mark.parametrize("kind", ["before_lunch", "", None, ["before_tool"], fine])
def test_a_kind_that_there_is_not_is_refused_with_those_that_there_are(kind: Any) -> None:
    with pytest.raises(PluginError, match=r"is of no kind that there is: write one of before_model, .*, task_end"):
        hook(kind)


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (Holder, "@hook takes a function at the top of its module, not Holder"),
        (Holder.method, "at the top of its module, not Holder.method"),
        (Holder().method, "at the top of its module, not Holder.method"),
        (functools.partial(fine), "@hook takes a function at the top of its module"),
        (staticmethod(fine), "@hook takes a function at the top of its module"),
        (len, "at the top of its module, not len"),
        (lambda call: True, "name="),
        (generates, "hook 'generates' yields: return one value"),
        (starred, "hook 'starred': parameter '*calls: "),
        (keywords, "hook 'keywords': parameter '**calls: "),
        (positional, "hook 'positional': parameter 'call: "),
        (wants_two, "hook 'wants_two' has more parameters than a hook is given: it takes one, and another that is"),
        (misspelled, "hook 'misspelled': its annotations cannot be resolved (name 'HokCall' is not defined)"),
    ],
)
def test_what_cannot_be_a_hook_is_refused(function: Any, told: str, known: Mapping[str, HookDefinition]) -> None:
    with pytest.raises(PluginError) as caught:
        hook("before_tool")(function)
    assert told in str(caught.value)
    assert not known


def test_a_function_in_a_function_is_refused() -> None:
    def inner(call: HookCall) -> None: ...

    with pytest.raises(PluginError, match="at the top of its module, not test_a_function_in_a_function_is_refused"):
        hook("before_tool")(inner)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"order": "first"}, "order='first' must be a whole number"),
        ({"order": 1.5}, "order=1.5 must be a whole number"),
        ({"order": 1_000_001}, "order=1000001 must be a whole number from -1,000,000 to 1,000,000"),
        ({"timeout": 0}, "timeout=0 must be a number of seconds greater than 0 and at most 60"),
        ({"timeout": 61}, "timeout=61 must be"),
        ({"timeout": math.nan}, "timeout=nan must be"),
        ({"timeout": math.inf}, "timeout=inf must be"),
        ({"timeout": "soon"}, "timeout='soon' must be"),
        ({"timeout": None}, "timeout=None must be"),
        ({"instructions": "writer"}, "instructions='writer' must be a list of names of instructions and graphs"),
        ({"instructions": 5}, "instructions=5 must be a list"),
        ({"instructions": [5]}, "instructions=[5] must be a list"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], told: str, known: Mapping[str, HookDefinition]) -> None:
    with pytest.raises(PluginError) as caught:
        hook("before_tool", **options)(fine)
    assert f"hook 'fine': {told}" in str(caught.value)
    assert not known


def test_the_decorator_registers_and_leaves_the_function_as_it_is(known: Mapping[str, HookDefinition]) -> None:
    assert hook("before_tool", instructions=["writer"], order=-3, timeout=0.5)(fine) is fine
    (made,) = known.values()
    assert (made.spec.name, made.spec.kind, made.subject, made.context) == (
        f"{__name__}.fine",
        "before_tool",
        "call",
        None,
    )
    assert (made.spec.instructions, made.spec.order, made.spec.timeout) == (("writer",), -3, 0.5)
    hook("after_tool")(with_context)
    assert (known[f"{__name__}.with_context"].subject, known[f"{__name__}.with_context"].context) == ("call", "ctx")
    hook("task_start")(with_context_alone)
    assert known[f"{__name__}.with_context_alone"].subject is None


def made_again(text: str) -> Callable[..., Any]:
    """Return the function ``twin`` of a module, as each import of its text makes it."""
    names: dict[str, Any] = {"__name__": "twins"}
    exec(compile(text, "twins.py", "exec"), names)  # as an import does
    function: Callable[..., Any] = names["twin"]
    return function


def test_two_hooks_of_one_name_are_refused_but_a_reload_is_not(known: Mapping[str, HookDefinition]) -> None:
    text = "def twin(call):\n    return True\n"
    hook("before_tool")(made_again(text))
    hook("before_tool")(made_again(text))
    for other, order in ((text.replace("True", "False"), 0), (text, 1)):
        with pytest.raises(PluginError, match=r"hook 'twins\.twin' is defined twice: give each hook a function of its"):
            hook("before_tool", order=order)(made_again(other))
    assert inspect.isfunction(known["twins.twin"].function)
    assert known["twins.twin"].spec.order == 0
