"""Companions of a tool: functions of its author that decide about a call, beside the one that makes it.

``ask_if`` says whether a person must allow a call; ``reconcile`` looks up what has become of a call whose outcome is
unknown. Both get the arguments of the call that they name as parameters, and its ``ToolContext`` where they ask for it.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any, ClassVar, Literal, get_type_hints

from pentad.shared.plugins.arguments import ToolArguments
from pentad.shared.plugins.context import ToolContext
from pentad.shared.plugins.errors import InvalidArguments, PluginError, UnusableResult
from pentad.shared.plugins.results import clean, result_text

CompanionKind = Literal["ask_if", "reconcile"]
MAX_REASON = 1_000
"""Characters of the reason that ``ask_if`` gives."""
ASKED = "the tool asks for an approval of this call"
"""Reason of an approval for which ``ask_if`` gives none."""
WAS_MADE, WAS_NOT_MADE = "made", "not made"
"""First lines of what ``reconcile`` leads to; the result follows the first of them. Other texts: it does not know."""


@dataclass(frozen=True, slots=True)
class Made:
    """Says of a call whose outcome was unknown that it was made, and what it has returned."""

    result: Any = None


class NotMade:
    """Says of a call whose outcome was unknown that it was not made, so that it may be made now."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "pentad.NOT_MADE"


NOT_MADE = NotMade()
"""Says of a call whose outcome was unknown that it was not made, so that it may be made now."""


@dataclass(frozen=True, slots=True)
class CompanionSpec:
    """A companion as its process names it."""

    name: str
    """Name of the tool and of the companion; no tool has such a name."""


def companion_name(tool: str, kind: CompanionKind) -> str:
    """Return the name of a tool's companion in its process."""
    return f"{tool}?{kind}"


@dataclass(frozen=True, slots=True)
class CompanionDefinition:
    """A companion that this process can call. It is called like a tool, with the arguments of the tool's call."""

    word: ClassVar[str] = "tool"
    belongs_to: ClassVar[None] = None
    spec: CompanionSpec
    kind: CompanionKind
    function: Callable[..., Any]
    is_async: bool
    arguments: ToolArguments
    """Arguments of the tool."""
    named: Sequence[str]
    """Arguments that the function takes."""
    contexts: Sequence[str]
    """Parameters that take the ``ToolContext``."""

    def call(self, args: dict[str, Any], context: ToolContext) -> Any:
        """Run the companion. Return its outcome as text, or a coroutine that does.

        Raises ``UnusableResult`` for an outcome that is none, and what the function raises.
        """
        try:
            checked = self.arguments.validate(args)
        except InvalidArguments:
            return ""  # the tool itself says what is wrong with them
        kwargs = {name: checked[name] for name in self.named if name in checked}
        value = self.function(**kwargs, **dict.fromkeys(self.contexts, context))
        return self._later(value) if isawaitable(value) else self._said(value)

    async def _later(self, value: Any) -> str:
        return self._said(await value)

    def _said(self, value: Any) -> str:
        """Return the outcome as text: of ``ask_if`` the reason why a person is asked, '' for none."""
        if self.kind == "ask_if":
            if not isinstance(value, str | bool) and value is not None:
                raise UnusableResult(
                    f"{self.spec.name} returned {value!r:.200}: it must return True, False or a reason"
                )
            return clean(value[:MAX_REASON]) if isinstance(value, str) else ASKED if value else ""
        if isinstance(value, Made):
            return f"{WAS_MADE}\n{'' if value.result is None else result_text(self.spec.name, value.result)}"
        if value is NOT_MADE:
            return WAS_NOT_MADE
        if value is None:
            return ""
        raise UnusableResult(
            f"{self.spec.name} returned {value!r:.200}: return pentad.Made(result), pentad.NOT_MADE, or None "
            "when it does not know"
        )


def define_companion(tool: str, kind: CompanionKind, function: Any, arguments: ToolArguments) -> CompanionDefinition:
    """Return the definition of a tool's companion. Raises ``PluginError`` when the function cannot be one."""
    if not callable(function) or inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise PluginError(f"tool {tool!r}: {kind}={function!r} must be a function that returns one value")
    named, contexts = _parameters(tool, kind, function, [*arguments.schema.get("properties", {})])
    return CompanionDefinition(
        spec=CompanionSpec(companion_name(tool, kind)),
        kind=kind,
        function=function,
        is_async=inspect.iscoroutinefunction(function),
        arguments=arguments,
        named=named,
        contexts=contexts,
    )


def _parameters(
    tool: str, kind: CompanionKind, function: Callable[..., Any], known: Sequence[str]
) -> tuple[Sequence[str], Sequence[str]]:
    """Return the parameters that take arguments of the call, and those that take its context."""
    named, contexts = list[str](), list[str]()
    try:
        hints, parameters = get_type_hints(function), inspect.signature(function).parameters
    except (NameError, TypeError, ValueError) as error:
        raise PluginError(f"tool {tool!r}: {kind}: its parameters cannot be read: {error}") from None
    for name, each in parameters.items():
        if hints.get(name) is ToolContext:
            contexts.append(name)
        elif each.kind is inspect.Parameter.VAR_KEYWORD:
            named += [other for other in known if other not in named]
        elif name in known and each.kind is not inspect.Parameter.POSITIONAL_ONLY:
            named.append(name)
        elif each.default is inspect.Parameter.empty and each.kind is not inspect.Parameter.VAR_POSITIONAL:
            raise PluginError(
                f"tool {tool!r}: {kind} has a parameter {name!r}: its parameters are arguments of the tool, by their "
                f"names ({', '.join(known) or 'it has none'}), and one that is annotated with pentad.ToolContext"
            )
    return tuple(named), tuple(contexts)
