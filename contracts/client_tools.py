"""Tools that the sender of a message has itself: a model may call them, and the sender answers the calls."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field, StringConstraints, field_validator
from pydantic_core import to_json

from pentad.contracts.envelope import Contract
from pentad.contracts.tools import RESERVED_NAMES, Effect, ToolSpec

MAX_CLIENT_TOOLS, MAX_CLIENT_TOOLS_BYTES = 128, 131_072
"""Tools that a message may bring along, and bytes that all of them may have as JSON."""
MAX_CLIENT_RESULT = 524_288
"""Bytes that the result of a client's tool may have."""


class ClientTool(Contract):
    """A tool of the client that has sent the message. Pentad offers it to the model, and never runs it."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
    """Name of the tool. A tool of Pentad with the same name is not offered meanwhile."""
    description: str = Field(default="", max_length=16_384)
    parameters: dict[str, Any] = Field(default_factory=lambda: {"type": "object", "properties": {}})
    """JSON schema of the arguments, an object's. Nobody but the client checks arguments by it."""

    @field_validator("name")
    @classmethod
    def _is_free(cls, name: str) -> str:
        if name in RESERVED_NAMES:
            raise ValueError(f"{name} is a name of Pentad's own: give the tool another")
        return name

    @field_validator("parameters")
    @classmethod
    def _is_of_an_object(cls, parameters: dict[str, Any]) -> dict[str, Any]:
        if parameters.get("type", "object") != "object":
            raise ValueError('the JSON schema of an object is expected: its type is "object"')
        return parameters

    @property
    def spec(self) -> ToolSpec:
        """The tool as a model is offered it. Calls of it may have any effect."""
        named: dict[str, Any] = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return ToolSpec(**named, effect=Effect.UNSAFE, client=True)


def check_client_tools(tools: Sequence[ClientTool]) -> None:
    """Check the tools of one message together. Raises ``ValueError`` that says what is wrong."""
    names = {tool.name for tool in tools}
    if len(names) < len(tools):
        raise ValueError("two tools have the same name: give each another")
    if len(to_json(tools)) > MAX_CLIENT_TOOLS_BYTES:
        raise ValueError(f"they have more than {MAX_CLIENT_TOOLS_BYTES:,} bytes as JSON: send fewer, or shorter ones")
