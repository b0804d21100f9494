"""Instructions: a system prompt with its tools, its model and the form of its answer, as data that a task runs."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, model_validator
from pydantic_core import to_json

from pentad.contracts.envelope import Contract
from pentad.contracts.ids import Identifier

OutputMode = Literal["stream", "json"]
MessagePolicy = Literal["steer", "queue", "interrupt"]
"""Effect of a message that comes during a turn. ``steer``: the next step sees it. ``queue``: it starts a turn of its
own when the current one has ended. ``interrupt``: the running model call is cut, and the next step sees the message."""
RecallMode = bool | Literal["turn"]
"""Whether a task begins with recalled memories. ``turn``: each of its turns does, with what is not quoted yet."""
CallForm = Literal["native", "text", "auto"]
"""Form in which a model calls tools. ``native``: that of its server's protocol. ``text``: Thought, Action and Action
Input as text, and results as Observation. ``auto``: native where the model can, else as text."""
PLACEHOLDERS = ("goal", "session_id", "started_at", "tenant_id", "user_id")
"""Names that a system prompt may contain as ``{{NAME}}``: their values never change during a task."""
TODAY, NOW = "today", "now"
"""Names of placeholders for the time: the day of the step, and the minute at which the turn's message came. They are
told in the time zone of the task."""
_VARIABLE = "metadata."
"""Begins a placeholder for a value of a message's metadata: ``{{metadata.NAME}}``."""
_STATE = "state."
"""Begins a placeholder for a value of the state of a graph's run: ``{{state.PATH}}``."""
_NAME = r"[a-z_]+|metadata\.[A-Za-z0-9_.-]{1,64}|state(?:\.[A-Za-z0-9_-]{1,64}){1,8}"
_PLACEHOLDER = re.compile(rf"\{{\{{(\{{\{{ *(?:{_NAME}) *\}}\}})\}}\}}|\{{\{{ *({_NAME}) *\}}\}}")
"""Pattern of a placeholder. The first group is one with doubled braces, which stands for itself; other braces are
text."""
DIRECT_CALL = "direct_call"
"""Name of the instruction whose tasks make one tool call and ask no model: calls outside a conversation."""
MAX_VARIABLES = 16
"""Values of metadata, and places of a state, that a system prompt may name."""
MAX_SCHEMA = 32_768
"""Bytes that the JSON schema of an output may have."""
MAX_ANSWER_TOKENS = 10_000_000
"""Tokens that an answer may be given at most."""
ToolName = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
AGENT = "agent:"
"""Begins the name of an instruction or graph that a model may call like a tool: ``agent:NAME``."""
OfferedName = Annotated[
    str, StringConstraints(pattern=r"^([a-zA-Z0-9_-]{1,64}|agent:[A-Za-z0-9][A-Za-z0-9._~@-]{0,127})$")
]


def placeholders_in(text: str) -> frozenset[str]:
    """Return the names of the placeholders in a text; those with doubled braces are text."""
    return frozenset(name for _, name in _PLACEHOLDER.findall(text) if name)


def state_paths_in(text: str) -> frozenset[str]:
    """Return the places of the state of a graph's run that a text names as placeholders, each as ``state.PATH``."""
    return frozenset(name for name in placeholders_in(text) if name.startswith(_STATE))


def agent_tool(name: str) -> str:
    """Return the name by which ``tools`` of an instruction or a node offers another one, or a graph, as a tool."""
    return f"{AGENT}{name}"


def is_agent(name: str) -> bool:
    """Return whether a name among ``tools`` is that of an instruction or a graph."""
    return name.startswith(AGENT)


class Instruction(Contract):
    """The instruction of a task: the system prompt, the tools and model to use, and the form of the answer."""

    name: Identifier
    description: str = Field(default="", max_length=1_000)
    """Purpose of the instruction, for people and for programs that choose among several."""
    system_prompt: str = Field(min_length=1, max_length=65_536)
    """The system prompt. ``{{goal}}``, ``{{user_id}}`` and the other placeholders stand for the task's values;
    ``{{metadata.NAME}}`` stands for a value of the message's metadata, quoted, and ``{{state.PATH}}`` in a node of a
    graph for a value of the run's state, quoted; ``{{{{item}}}}`` stands for the text ``{{item}}``."""
    tools: list[OfferedName] | None = Field(default=None, max_length=256)
    """Names of the tools that the model may call; absent: all tools; empty: none. ``agent:NAME`` is an instruction or a
    graph: a call starts a task that runs it, and its answer is the result."""
    model: Identifier | None = None
    """Id of the model that answers; absent: the default model."""
    output: OutputMode = "stream"
    """Form of the answer. ``json``: one JSON value that fits ``output_schema``, and nothing else."""
    output_schema: dict[str, Any] | None = None
    """JSON Schema of the answer. Required for ``json``."""
    repairs: int = Field(default=3, ge=0, le=10)
    """How often the model is asked to repair a ``json`` answer that does not fit the schema; it is told the
    mistakes."""
    tool_rounds: int | None = Field(default=5, ge=0, le=1_000)
    """Steps of a turn that may call tools; then the model must answer. Absent: up to the step limit."""
    on_message: MessagePolicy = "steer"
    recall: RecallMode | None = None
    """Whether a task begins with memories about its goal, or, with ``turn``, each of its turns with memories about what
    was said; absent: it does if ``output`` is ``stream``."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """Temperature with which the model answers; absent: that of the model's entry, else of ``LLM_TEMPERATURE``, else
    the server's."""
    max_tokens: int | None = Field(default=None, ge=1, le=MAX_ANSWER_TOKENS)
    """Tokens that one answer may have; absent: as for ``temperature``, with ``LLM_MAX_TOKENS``."""
    retry: int | None = Field(default=None, ge=1, le=100)
    """How often the model is asked for one step, if its answers break off or are empty; absent:
    ``PENTAD_MAX_ATTEMPTS``, and twice for empty answers."""
    calls: CallForm = "native"
    max_messages: int | None = Field(default=None, ge=4, le=10_000)
    """Messages of a conversation that prompts have at most, without the system prompt: beyond it the older half is left
    out, without a summary. Absent: as many as the model's window takes, the older ones as a summary."""
    tool_schema_tokens: int | None = Field(default=None, ge=0, le=10_000_000)
    """Tokens that the schemas of its tools may cost in a prompt; beyond it tools are offered by name and found by
    `tool_search`. Absent: a quarter of the model's window; without limit if that is not known."""
    share: bool = False
    """Whether memories of messages without a user are shared by the whole tenant; else only their session has them."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if len(self.variables) > MAX_VARIABLES:
            raise ValueError(f"system_prompt names more than {MAX_VARIABLES} values of metadata")
        if len(self.state_paths) > MAX_VARIABLES:
            raise ValueError(f"system_prompt names more than {MAX_VARIABLES} places of the state")
        named = self.placeholders.difference(PLACEHOLDERS, (TODAY, NOW))
        unknown = sorted(name for name in named if not name.startswith((_VARIABLE, _STATE)))
        if unknown:
            name = f"{{{{{unknown[0]}}}}}"
            raise ValueError(
                f"system_prompt names {name}; there are only: {', '.join((*PLACEHOLDERS, TODAY, NOW))}, metadata.NAME, "
                "state.PATH; "
                f"where the model is to read {name} as text, write {{{{{name}}}}}"
            )
        if (self.output == "json") != (self.output_schema is not None):
            raise ValueError('output "json" needs an output_schema, and only "json" has one')
        if self.output_schema is not None and len(to_json(self.output_schema)) > MAX_SCHEMA:
            raise ValueError(f"output_schema has more than {MAX_SCHEMA} bytes")
        return self

    def with_output(self, schema: dict[str, Any] | None) -> Self:
        """Return the instruction with an answer of this form; None: as it is. It recalls as it does without."""
        if schema is None:
            return self
        return self.model_copy(update={"output": "json", "output_schema": schema, "recall": self.recall_mode})

    @property
    def agents(self) -> Sequence[str]:
        """Names of the instructions and graphs that the model may call like tools."""
        return [name.removeprefix(AGENT) for name in self.tools or () if is_agent(name)]

    @property
    def placeholders(self) -> frozenset[str]:
        """Names of the placeholders in the system prompt."""
        return placeholders_in(self.system_prompt)

    @property
    def variables(self) -> frozenset[str]:
        """Names of the values of metadata in the system prompt, as the metadata has them."""
        return frozenset(name.removeprefix(_VARIABLE) for name in self.placeholders if name.startswith(_VARIABLE))

    @property
    def state_paths(self) -> frozenset[str]:
        """Places of the state of a graph's run in the system prompt, each as ``state.PATH``."""
        return state_paths_in(self.system_prompt)

    def filled(self, values: Mapping[str, str]) -> str:
        """Return the system prompt with the placeholders replaced by ``values``; doubled braces become single ones."""
        return _PLACEHOLDER.sub(lambda found: found[1] or values[found[2]], self.system_prompt)

    @property
    def recall_mode(self) -> RecallMode:
        """Whether tasks of this instruction, or all their turns, begin with recalled memories."""
        return self.output == "stream" if self.recall is None else self.recall

    def to_json(self) -> bytes:
        """Return the wire form. Defaults of newer fields are left out, so that older instructions keep their digest."""
        defaults = {"on_message": self.on_message == "steer", "share": not self.share}
        defaults |= {"calls": self.calls == "native"}
        absent = {name for name, is_default in defaults.items() if is_default}
        made: bytes = self.__pydantic_serializer__.to_json(self, exclude_none=True, exclude=absent)
        # An absent `tool_rounds` would be read as its default.
        return made if self.tool_rounds is not None else b'%s,"tool_rounds":null}' % made[:-1]
