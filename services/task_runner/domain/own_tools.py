"""The tools that the task-runner has itself: to ask the person, and to say that the task is done. Pure."""

import re
from collections.abc import Collection, Container, Mapping, Sequence
from types import MappingProxyType

from pydantic_core import from_json

from pentad.contracts.graphs import Runnable
from pentad.contracts.instructions import Instruction
from pentad.contracts.tools import FORMER_NAMES, MEMORY_EXPAND, RESULT_READ, Effect, ToolSpec
from pentad.shared.actors.targets import Target

QUESTION, SUMMARY = "question", "summary"
_NOT_IN_TOOL_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_TOOL_NAME_CHARS = 64


def _spec(name: str, description: str, argument: str, meaning: str) -> ToolSpec:
    properties = {argument: {"type": "string", "minLength": 1, "description": meaning}}
    parameters = {"type": "object", "properties": properties, "required": [argument], "additionalProperties": False}
    return ToolSpec(name=name, description=description, parameters=parameters, effect=Effect.PURE)


ASK_USER = _spec(
    "ask_user",
    "Ask the user a question and wait for the answer, which may take long. Ask only for what you cannot find out "
    "otherwise, and for leave before what cannot be undone.",
    QUESTION,
    "The question, in the user's language",
)
COMPLETE_TASK = _spec(
    "complete_task",
    "End this task: everything that was asked for is done. An answer without a tool call ends it too.",
    SUMMARY,
    "The final answer to the user, in the user's language",
)
OWN: Mapping[str, ToolSpec] = MappingProxyType({spec.name: spec for spec in (ASK_USER, COMPLETE_TASK)})

ERRAND = "task"
"""Argument of a call to another agent: what it is to do."""
_MAX_CHARS = 65_536
"""Characters of a question or a summary: as many as a user's message has."""
ANSWERED = "The user's answer follows."
"""The result of a question: the message itself stays the user's, word for word."""
COMPLETED = "The task is complete, unless the user has said more meanwhile."
GOES_ON = "The user has said more: the task goes on."


def agent_tool_name(name: str) -> str:
    """Return the name under which a model is offered an instruction or a graph as a tool."""
    return f"agent_{_NOT_IN_TOOL_NAMES.sub('_', name)}"[:_TOOL_NAME_CHARS]


def agent_spec(agent: Runnable) -> ToolSpec:
    """Return an instruction or a graph as the tool that a model is offered."""
    spec = _spec(
        agent_tool_name(agent.name),
        f"Give a task to the agent {agent.name}, which works on it alone and answers. {agent.description}".strip(),
        ERRAND,
        "The task with everything that the agent has to know: it does not see this conversation",
    )
    return spec.model_copy(update={"effect": Effect.IDEMPOTENT})


def offered(
    instruction: Instruction,
    published: Mapping[str, ToolSpec],
    reads_results: bool = False,
    in_graph: bool = False,
    opens_messages: bool = False,
) -> dict[str, ToolSpec]:
    """Return the tools that an instruction allows, published ones and our own; a published tool with the name of one of
    ours is left out.

    A JSON answer is checked against its schema: no summary takes its place. ``reads_results``: prompts hold a part of
    a result, and the tool that reads it on is offered, too. ``in_graph``: a node of a graph runs the instruction, which
    ends with an answer: the task goes on. ``opens_messages``: prompts have a summary instead of earlier messages, and
    the tool that opens these is offered, too, to a model that has tools.
    """
    allowed: Collection[str] | None = instruction.tools
    if allowed is not None:
        allowed = {FORMER_NAMES.get(name, name) if name not in published else name for name in allowed}
    if allowed is not None and reads_results:
        allowed = {*allowed, RESULT_READ}
    if allowed and opens_messages:
        allowed = {*allowed, MEMORY_EXPAND}
    completes = instruction.output != "json" and not in_graph
    own = {name: spec for name, spec in OWN.items() if completes or spec is not COMPLETE_TASK}
    every = {name: spec for name, spec in published.items() if name not in OWN} | own
    return every if allowed is None else {name: spec for name, spec in every.items() if name in allowed}


def target_of(spec: ToolSpec | None, agents: Container[str] = ()) -> Target:
    """The target that ends a call of this tool. ``agents``: names of the tools that stand for agents."""
    if spec is ASK_USER:
        return "person"
    if spec is not None and spec.client:
        return "client"
    if spec is not None and spec.name in agents:
        return "task"
    return "runner" if spec is COMPLETE_TASK else "worker"


def answer_of(messages: Sequence[bytes], call_id: str) -> str:
    """Find the final answer: the text of the step that calls `complete_task`, followed by the summary.

    Raises ``LookupError`` when the call is not in the transcript.
    """
    for raw in reversed(messages):
        message = from_json(raw)
        for call in message.get("tool_calls") or ():
            if call["id"] == call_id:
                summary = text_of(COMPLETE_TASK, from_json(call["function"]["arguments"]))
                return joined(message.get("content"), summary)
    raise LookupError(f"no call {call_id} is in the transcript")


def joined(*parts: str | None) -> str:
    """Texts of one step as one, which a person reads."""
    return "\n\n".join(part for part in parts if part)


def text_of(spec: ToolSpec, args: Mapping[str, object]) -> str:
    """The one text that a tool of ours is called with. Raises ``ValueError`` that says what is wrong."""
    name = QUESTION if spec is ASK_USER else SUMMARY if spec is COMPLETE_TASK else ERRAND
    text = args.get(name)
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"the argument {name!r} must be a text that says something")
    if len(text) > _MAX_CHARS:
        raise ValueError(
            f"the argument {name!r} has {len(text)} characters, and {_MAX_CHARS} at most: answer with a text"
        )
    return text
