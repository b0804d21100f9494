"""What comes next when the model has answered. Pure: whoever writes it down decides nothing."""

from collections.abc import Mapping
from dataclasses import field

from pentad.contracts.plain_json import read_json
from pentad.contracts.tools import ToolSpec
from pentad.shared.immutable import immutable
from pentad.shared.models.ports import ModelAnswer, ToolCallDraft

REDRIVEN = "redriven"
"""Stands for the model's name where a person has redriven tool calls."""


@immutable
class PlannedCall:
    """A tool call that the answer asks for, and whether it can be made."""

    tool: str
    spec: ToolSpec | None
    """None: no worker knows this tool."""
    arguments: str
    """For the prompt: always JSON, whatever the model wrote."""
    args: dict[str, object] | None
    """The arguments; None when they are no JSON object."""
    raw: str
    """As the model wrote them."""
    problem: str = ""
    """Why it cannot be made: its result is this error. '' for a call to be made."""


@immutable
class CallTools:
    """The turn goes on when these calls have their results."""

    calls: tuple[PlannedCall, ...] = field(default_factory=tuple)


@immutable
class Complete:
    """The answer is the turn's last: the task completes, unless a message has come meanwhile."""

    reason: str = "answered"


Next = CallTools | Complete


def what_comes_next(answer: ModelAnswer, tools: Mapping[str, ToolSpec]) -> Next:
    """What a task does after this answer. ``tools``: those that the model was offered."""
    if answer.tool_calls:
        return CallTools(tuple(_planned(draft, tools) for draft in answer.tool_calls))
    return Complete()


def _planned(draft: ToolCallDraft, tools: Mapping[str, ToolSpec]) -> PlannedCall:
    spec = tools.get(draft.name)
    parsed = parse_arguments(draft.arguments)
    problem = parsed.problem
    if spec is None:
        known = f"the tools are: {', '.join(tools)}" if tools else "no worker has any yet"
        problem = f"there is no tool {draft.name!r}; {known}"
    arguments = draft.arguments if parsed.args is not None and draft.arguments else "{}"
    return PlannedCall(draft.name, spec, arguments, parsed.args, parsed.raw, problem)


@immutable
class ParsedArguments:
    """A call's arguments as the model wrote them: an object, or the raw text and what is wrong with it."""

    args: dict[str, object] | None
    raw: str
    problem: str = ""


def parse_arguments(raw: str) -> ParsedArguments:
    """Read a call's arguments; an empty text is an empty object."""
    try:
        parsed = read_json(raw or "{}")
    except ValueError as error:
        return ParsedArguments(None, raw, f"the arguments are not JSON ({error})")
    if not isinstance(parsed, dict):
        return ParsedArguments(None, raw, "the arguments are not a JSON object")
    return ParsedArguments(parsed, raw)
