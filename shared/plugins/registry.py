"""The ``tool`` decorator and the tools of this process."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, MappingProxyType
from typing import Any, Literal, TypeVar, overload

from pydantic import ValidationError

from pentad.contracts.tools import (
    DEFAULT_BREAKER,
    MAX_LIMIT,
    RESERVED_NAMES,
    TIMEOUT_S,
    Approval,
    Effect,
    OnUnknown,
    ToolSpec,
)
from pentad.shared.plugins.arguments import ToolArguments
from pentad.shared.plugins.companions import CompanionDefinition, CompanionKind, define_companion
from pentad.shared.plugins.definition import ToolDefinition, ToolObject
from pentad.shared.plugins.docstrings import parse_docstring
from pentad.shared.plugins.errors import PluginError
from pentad.shared.plugins.signature import read_arguments
from pentad.shared.settings import check_tool_variable

F = TypeVar("F", bound=Callable[..., Any])
EffectName = Literal["pure", "idempotent", "unsafe"]

_RULES = {
    "name": "must be 1 to 64 of letters, digits, '_' and '-'; give it one with name=",
    "effect": "must be 'pure', 'idempotent' or 'unsafe'",
    "timeout": "must be a number of seconds greater than 0",
    "queue": "must be 1 to 32 of lower case letters, digits and '-'",
    "isolated": "must be True or False",
    "approval": "must be 'never', 'always' or 'ask_if'",
    "on_unknown": "must be 'tell' or 'ask'",
    "after": "must be a list of names of tools",
    "concurrency": f"must be a whole number from 1 to {MAX_LIMIT}: calls at once, over all tool-workers",
    "rate": f"must be calls within a time, like '2/s', '10/min' or '100/h', of 1 to {MAX_LIMIT} calls",
    "breaker": f"must be failures within a time, like {DEFAULT_BREAKER!r}, of 1 to {MAX_LIMIT}; or None for no breaker",
}
_DEFINITION = "__pentad_tool__"
"""Attribute of a decorated function: its definition."""
_tools: dict[str, ToolDefinition] = {}


@overload
def tool(function: F, /) -> F: ...


@overload
def tool(
    name: str | None = None,
    effect: EffectName | Effect = "unsafe",
    timeout: float = TIMEOUT_S,
    queue: str = "default",
    isolated: bool = False,
    env: Sequence[str] = (),
    parameters: Mapping[str, Any] | None = None,
    approval: Approval = "never",
    ask_if: Callable[..., Any] | None = None,
    on_unknown: OnUnknown = "tell",
    reconcile: Callable[..., Any] | None = None,
    after: Sequence[str] = (),
    concurrency: int | None = None,
    rate: str | None = None,
    breaker: str | None = DEFAULT_BREAKER,
) -> Callable[[F], F]: ...


def tool(
    name: Any = None,
    effect: EffectName | Effect = "unsafe",
    timeout: float = TIMEOUT_S,
    queue: str = "default",
    isolated: bool = False,
    env: Sequence[str] = (),
    parameters: Mapping[str, Any] | None = None,
    approval: Approval = "never",
    ask_if: Callable[..., Any] | None = None,
    on_unknown: OnUnknown = "tell",
    reconcile: Callable[..., Any] | None = None,
    after: Sequence[str] = (),
    concurrency: int | None = None,
    rate: str | None = None,
    breaker: str | None = DEFAULT_BREAKER,
) -> Any:
    """Makes a function a tool that models can call; the function itself stays as it is.

    ``name`` is the function's when missing. ``effect`` says what running it twice would mean: ``pure``, ``idempotent``
    or ``unsafe`` (never run twice). ``timeout`` is in seconds from the start of a call. ``queue`` names the
    tool-workers that run it. ``isolated`` gives each call a process of its own. ``env`` names variables of the
    tool-worker's environment that it reads when it is called. ``parameters`` is a JSON schema of the arguments, in
    place of the one that is made of the signature: the function gets them by their names, as JSON values. With
    ``approval="always"`` each call waits until a person allows it, with ``approval="ask_if"`` one for which
    ``ask_if(...)`` returns True or a reason. ``reconcile(...)`` looks up what has become of an unsafe call whose worker
    was lost, by its ``ToolContext.idempotency_key``: it returns ``pentad.Made(result)``, ``pentad.NOT_MADE``, or None.
    Both take arguments of the tool by their names. With ``on_unknown="ask"`` a person is asked about a call whose
    outcome is unknown, before the model is told. ``after`` names tools whose calls in the same answer come first.
    ``concurrency`` is how many calls run at once, and ``rate`` (``"10/min"``) how many begin within a time, over all
    tool-workers. ``breaker`` is after how many failures in a row within a time calls are refused for a while.
    Also without parentheses. Raises ``PluginError`` when the function cannot be a tool.
    """
    if name is not None and not isinstance(name, str):
        return _decorated(name, define(name, breaker=DEFAULT_BREAKER))
    options: dict[str, Any] = {"effect": effect, "timeout": timeout, "queue": queue, "isolated": isolated}
    options |= {"name": name, "env": env, "parameters": parameters, "approval": approval, "ask_if": ask_if}
    options |= {"on_unknown": on_unknown, "reconcile": reconcile, "after": after}
    options |= {"concurrency": concurrency, "rate": rate, "breaker": breaker}
    return lambda function: _decorated(function, define(function, **options))


def registered_tools() -> Mapping[str, ToolDefinition]:
    """Return the tools that the modules imported so far have defined, by name."""
    return MappingProxyType(_tools)


def define(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    effect: str = "unsafe",
    timeout: float = TIMEOUT_S,
    queue: str = "default",
    isolated: bool = False,
    env: Sequence[str] = (),
    parameters: Mapping[str, Any] | None = None,
    approval: Approval = "never",
    ask_if: Callable[..., Any] | None = None,
    on_unknown: OnUnknown = "tell",
    reconcile: Callable[..., Any] | None = None,
    after: Sequence[str] = (),
    concurrency: int | None = None,
    rate: str | None = None,
    breaker: str | None = None,
    belongs_to: ToolObject | None = None,
) -> ToolDefinition:
    """Return the definition of a function as a tool, without registering it. Raises ``PluginError``.

    ``belongs_to``: the object whose method the function is.
    """
    _check_function(function, is_method=belongs_to is not None)
    name = function.__name__ if name is None else name
    options = {"name": name, "effect": effect, "timeout": timeout, "queue": queue, "isolated": isolated}
    options |= {"approval": approval, "on_unknown": on_unknown, "after": after, "reconciles": reconcile is not None}
    options |= {"concurrency": concurrency, "rate": rate, "breaker": breaker}
    if (ask_if is not None) != (approval == "ask_if"):
        raise PluginError(f'tool {name!r}: approval="ask_if" and ask_if=FUNCTION belong together')
    variables = _variables(name, env)
    _spec(options)  # a wrong option is told before a wrong signature
    doc = parse_docstring(function.__doc__)
    skipped = 0 if belongs_to is None else 1
    arguments, context = read_arguments(name, function, doc.parameters, parameters, skipped)
    return ToolDefinition(
        spec=_spec(options | {"description": doc.description, "parameters": arguments.schema}),
        function=function,
        is_async=inspect.iscoroutinefunction(function),
        arguments=arguments,
        context_parameters=context,
        env=variables,
        belongs_to=belongs_to,
        companions=_companions(name, arguments, ask_if, reconcile),
    )


def _companions(
    tool: str, arguments: ToolArguments, ask_if: Callable[..., Any] | None, reconcile: Callable[..., Any] | None
) -> list[CompanionDefinition]:
    """Return the definitions of the companions that a tool has."""
    given: list[tuple[CompanionKind, Callable[..., Any] | None]] = [("ask_if", ask_if), ("reconcile", reconcile)]
    return [define_companion(tool, kind, each, arguments) for kind, each in given if each is not None]


def _others(name: str) -> str:
    return " and ".join(repr(each) for each in sorted(RESERVED_NAMES - {name}))


def definition_of(function: Any) -> ToolDefinition | None:
    """Return the definition that the decorator has made of a function; None for one that is not decorated."""
    found = getattr(function, _DEFINITION, None)
    return found if isinstance(found, ToolDefinition) and found.function is function else None


def _decorated(function: F, definition: ToolDefinition) -> F:
    register(definition)
    setattr(function, _DEFINITION, definition)
    return function


def check_name(definition: ToolDefinition) -> None:
    """Raise ``PluginError`` for a tool with a name that no tool of a user may have."""
    if definition.spec.name in RESERVED_NAMES:
        raise PluginError(
            f"every task has a tool {definition.spec.name!r} of its own, as it has {_others(definition.spec.name)}: "
            "give this one another name with @tool(name=...)"
        )


def register(definition: ToolDefinition) -> None:
    """Add a tool to those of this process. Raises ``PluginError`` when another has its name."""
    check_name(definition)
    earlier = _tools.get(definition.spec.name)
    if earlier is not None and earlier.source != definition.source:
        raise PluginError(
            f"tool {definition.spec.name!r} is defined twice, as {earlier.source} and as {definition.source}: "
            "give one of them another name with @tool(name=...)"
        )
    _tools[definition.spec.name] = definition


def _variables(tool: str, env: Any) -> tuple[str, ...]:
    if isinstance(env, str) or not isinstance(env, Sequence) or not all(isinstance(name, str) for name in env):
        raise PluginError(f"tool {tool!r}: env={env!r} must be a list of names of variables")
    for name in env:
        try:
            check_tool_variable(name)
        except ValueError as error:
            raise PluginError(f"tool {tool!r}: env: {error}") from None
    return tuple(env)


def _spec(options: dict[str, Any]) -> ToolSpec:
    try:
        return ToolSpec(**options)
    except ValidationError as error:
        wrong = str(error.errors()[0]["loc"][0])
        raise PluginError(f"tool {options['name']!r}: {wrong}={options[wrong]!r} {_RULES[wrong]}") from None


def _check_function(function: Any, *, is_method: bool) -> None:
    name = getattr(function, "__qualname__", repr(function))
    if not isinstance(function, FunctionType):
        raise PluginError(f"@tool takes a function, not {name}: put it under staticmethod, or wrap it in a function")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise PluginError(f"tool {name!r} yields: return one value, and tell progress with ToolContext.progress")
    if not is_method and _is_method(function):
        raise PluginError(
            f"tool {name!r} is a method: define the tool as a function outside of the class, or make the class a "
            "pentad.ExpandableTool and its methods @pentad.action"
        )


def _is_method(function: FunctionType) -> bool:
    """Whether the first parameter of a function would have to be bound first."""
    owner = function.__qualname__.rpartition(".")[0]
    first = function.__code__.co_varnames[:1]
    return bool(owner) and not owner.endswith("<locals>") and first in (("self",), ("cls",))
