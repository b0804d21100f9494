"""What can be run: an instruction is a system prompt with its tools, its model and the form of its answer, as data."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, model_validator
from pydantic_core import to_json

from pentad.contracts.envelope import Contract
from pentad.contracts.ids import Identifier

OutputMode = Literal["stream", "json"]
MessagePolicy = Literal["steer", "queue", "interrupt"]
"""What a message does that comes during a turn: the next step sees it; it starts a turn of its own when this one has
ended; the model call under way is cut, and the next step sees it."""
PLACEHOLDERS = ("goal", "session_id", "started_at", "tenant_id", "user_id")
"""What a system prompt may name as ``{{NAME}}``: all of it stays the same as long as the task lives."""
_PLACEHOLDER = re.compile(r"\{\{(\{\{ *[a-z_]+ *\}\})\}\}|\{\{ *([a-z_]+) *\}\}")
"""With its braces doubled it stands for itself: the first group. All other braces are text."""
MAX_SCHEMA = 32_768
"""Bytes of an output's JSON schema."""
ToolName = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]


class Instruction(Contract):
    """What a task runs: how the model is addressed, what it may use, and what its answer must look like."""

    name: Identifier
    description: str = Field(default="", max_length=1_000)
    """What it does, for people and for who chooses among several."""
    system_prompt: str = Field(min_length=1, max_length=65_536)
    """What the model is told first. ``{{goal}}``, ``{{user_id}}`` and the like stand for the task's own;
    ``{{{{item}}}}`` is the text ``{{item}}``."""
    tools: list[ToolName] | None = Field(default=None, max_length=256)
    """Names of the tools that it may call; absent: every tool that there is; empty: none."""
    model: Identifier | None = None
    """The id of the model that answers; absent: the default one."""
    output: OutputMode = "stream"
    """``json``: the answer is one JSON value that fits ``output_schema``, never anything else."""
    output_schema: dict[str, Any] | None = None
    """JSON Schema of the answer. Required for ``json``."""
    repairs: int = Field(default=3, ge=0, le=10)
    """How often a ``json`` answer that does not fit is asked for again, with what is wrong with it."""
    tool_rounds: int | None = Field(default=5, ge=0, le=1_000)
    """How often a turn may call tools; then the model answers with what it has. Absent: up to the step limit."""
    on_message: MessagePolicy = "steer"
    recall: bool | None = None
    """Whether a task begins with what long-term memory has about it; absent: that of output ``stream`` does."""
    share: bool = False
    """Whether what is said to its tasks without a user is remembered for the whole tenant, not its session alone."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        unknown = sorted(self.placeholders.difference(PLACEHOLDERS))
        if unknown:
            name = f"{{{{{unknown[0]}}}}}"
            raise ValueError(
                f"system_prompt names {name}; there are only: {', '.join(PLACEHOLDERS)}; "
                f"where the model is to read {name} as text, write {{{{{name}}}}}"
            )
        if (self.output == "json") != (self.output_schema is not None):
            raise ValueError('output "json" needs an output_schema, and only "json" has one')
        if self.output_schema is not None and len(to_json(self.output_schema)) > MAX_SCHEMA:
            raise ValueError(f"output_schema has more than {MAX_SCHEMA} bytes")
        return self

    @property
    def placeholders(self) -> frozenset[str]:
        """The names that stand for something in the system prompt."""
        return frozenset(name for _, name in _PLACEHOLDER.findall(self.system_prompt) if name)

    def filled(self, values: Mapping[str, str]) -> str:
        """The system prompt with these values, by name; doubled braces are single ones in it."""
        return _PLACEHOLDER.sub(lambda found: found[1] or values[found[2]], self.system_prompt)

    @property
    def recalls(self) -> bool:
        """Whether its tasks begin with what is recalled."""
        return self.output == "stream" if self.recall is None else self.recall

    def to_json(self) -> bytes:
        """The wire form. Defaults that came later are absent: instructions from before keep their digest."""
        defaults = {"on_message": self.on_message == "steer", "share": not self.share}
        absent = {name for name, is_default in defaults.items() if is_default}
        return self.__pydantic_serializer__.to_json(self, exclude_none=True, exclude=absent)
