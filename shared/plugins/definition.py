"""The definition of a registered tool: its description for the model, and how its arguments become a call."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from pentad.contracts.tools import ToolSpec
from pentad.shared.plugins.arguments import ToolArguments
from pentad.shared.plugins.companions import CompanionDefinition
from pentad.shared.plugins.context import ToolContext

_TYPE_KEYWORDS = frozenset({"$ref", "allOf", "anyOf", "const", "enum", "oneOf", "type"})
"""Keywords of a JSON schema, each of which tells the type of a value."""


class ToolObject(Protocol):
    """The object to whose methods some tools of this process belong."""

    @property
    def source(self) -> str:
        """The place where its class is defined: ``module.Class``."""

    @property
    def held(self) -> Any:
        """The object; there is one once it is ready."""

    @property
    def is_ready(self) -> bool:
        """Whether calls may begin without waiting for ``ready``."""

    async def ready(self) -> None:
        """Make the object and set it up, once. Raises ``SetupFailed``; the next call tries again then."""

    async def close(self) -> None:
        """Give back what it has taken. Never raises."""


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool that this process can call."""

    word: ClassVar[str] = "tool"
    spec: ToolSpec
    function: Callable[..., Any]
    is_async: bool
    """Whether the tool runs on the event loop; else it needs a thread."""
    arguments: ToolArguments
    context_parameters: Sequence[str] = ()
    """Parameters that take the ``ToolContext``."""
    env: Sequence[str] = ()
    """Variables of the worker's environment that the tool may see."""
    belongs_to: ToolObject | None = None
    """The object whose method ``function`` is."""
    companions: Sequence[CompanionDefinition] = ()
    """Functions that decide about its calls."""

    @property
    def source(self) -> str:
        """The place where the tool is defined: ``module.function``."""
        if self.belongs_to is not None:
            return f"{self.belongs_to.source}.{self.function.__name__}"
        return f"{self.function.__module__}.{self.function.__qualname__}"

    def validate(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return the keyword arguments for ``function``, without its context. Raises ``InvalidArguments``."""
        return self.arguments.validate(args)

    def bind(self, args: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        """Validate the arguments as ``validate`` does, and add the context where it is asked for."""
        return self.validate(args) | dict.fromkeys(self.context_parameters, context)

    def call(self, args: dict[str, Any], context: ToolContext) -> Any:
        """Call the function, with arguments that are checked first; its object must be ready.

        Raises ``InvalidArguments`` and what the function raises.
        """
        kwargs = self.bind(args, context)
        return self.function(**kwargs) if self.belongs_to is None else self.function(self.belongs_to.held, **kwargs)


def companions_of(tools: Iterable[ToolDefinition]) -> dict[str, CompanionDefinition]:
    """Return the companions of these tools, by name."""
    return {each.spec.name: each for tool in tools for each in tool.companions}


def description_gaps(spec: ToolSpec) -> Iterator[str]:
    """Yield a line for each thing that the model is not told of a tool; its author sees them when the worker starts."""
    if not spec.description:
        yield f"tool {spec.name!r} has no docstring: the model is told no more of it than its name"
    parameters: dict[str, Any] = spec.parameters.get("properties", {})
    for name, schema in parameters.items():
        if isinstance(schema, dict) and _TYPE_KEYWORDS.isdisjoint(schema):
            yield f"tool {spec.name!r}: parameter {name!r} has no type: the model may send anything for it"
