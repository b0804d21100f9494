"""A model call outside a conversation, as a client asks for it. Pure."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from pentad.contracts.tools import ToolSpec
from pentad.services.gateway.domain.frames import UnreadableError, complaints
from pentad.shared.immutable import immutable

DEFAULT_TIMEOUT_S = 120.0
_FunctionName = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
_CallId = Annotated[str, StringConstraints(pattern=r"^[!#-\[\]-~]{1,256}$")]
"""An id of a tool call, as model servers make them: visible ASCII without quotes and backslashes."""


class _Given(BaseModel):
    """A part of a request. What is not known is refused: it may be misspelled."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)


class _GivenCallFunction(_Given):
    """The function of a tool call that a model has asked for."""

    name: _FunctionName
    arguments: str


class _GivenToolCall(_Given):
    """A tool call that a model has asked for."""

    id: _CallId
    type: Literal["function"] = "function"
    function: _GivenCallFunction


class _GivenMessage(_Given):
    """One message in OpenAI chat form."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    tool_calls: list[_GivenToolCall] | None = Field(default=None, max_length=128)
    tool_call_id: _CallId | None = None


class _GivenToolFunction(_Given):
    """The function of a tool that a model is told of."""

    name: _FunctionName
    description: str = Field(default="", max_length=16_384)
    parameters: dict[str, Any] = Field(default_factory=lambda: {"type": "object", "properties": {}})


class _GivenTool(_Given):
    """A tool in OpenAI form."""

    type: Literal["function"] = "function"
    function: _GivenToolFunction


class _GivenCompletion(_Given):
    """The body of a request."""

    messages: list[_GivenMessage] = Field(min_length=1, max_length=1_000)
    tools: list[_FunctionName | _GivenTool] = Field(default_factory=list, max_length=128)
    temperature: float | None = Field(default=None, ge=0, le=2)
    max_tokens: int | None = Field(default=None, ge=1, le=10_000_000)
    stream: bool = False
    timeout: float = Field(default=DEFAULT_TIMEOUT_S, gt=0, le=600)


@immutable
class CompletionAsked:
    """A client's request to ask a model once."""

    messages: list[dict[str, Any]]
    """Messages in OpenAI chat form, each with its fields in the order in which transcripts have them."""
    tools: tuple[str | dict[str, Any], ...]
    """Tools in OpenAI form, or names of tools that workers have."""
    temperature: float | None
    max_tokens: int | None
    stream: bool
    timeout_s: float

    @property
    def named_tools(self) -> list[str]:
        """Names of tools that workers have."""
        return [tool for tool in self.tools if isinstance(tool, str)]


def completion_schema() -> dict[str, Any]:
    """Return the JSON schema of the body, whole."""
    message = {
        "type": "object",
        "properties": {
            "role": {"enum": ["system", "user", "assistant", "tool"]},
            "content": {"type": ["string", "null"]},
            "tool_calls": {"type": "array", "items": {"type": "object"}},
            "tool_call_id": {"type": "string"},
        },
        "required": ["role"],
    }
    tool = {"anyOf": [{"type": "string", "description": "a tool of `GET /v1/tools`"}, {"type": "object"}]}
    return {
        "type": "object",
        "properties": {
            "messages": {"type": "array", "items": message, "minItems": 1, "maxItems": 1_000},
            "tools": {"type": "array", "items": tool, "maxItems": 128},
            "temperature": {"type": "number", "minimum": 0, "maximum": 2},
            "max_tokens": {"type": "integer", "minimum": 1},
            "stream": {"type": "boolean"},
            "timeout": {"type": "number", "exclusiveMinimum": 0, "maximum": 600, "description": "seconds; 120"},
        },
        "required": ["messages"],
        "additionalProperties": False,
    }


def read_completion(body: Mapping[str, Any]) -> CompletionAsked:
    """Read a client's request to ask a model once. Raises ``UnreadableError``."""
    try:
        given = _GivenCompletion.model_validate(body)
    except ValidationError as error:
        raise UnreadableError("; ".join(complaints(error))) from None
    _check_order(given.messages)
    tools = tuple([tool if isinstance(tool, str) else tool.model_dump() for tool in given.tools])
    names = [tool if isinstance(tool, str) else tool["function"]["name"] for tool in tools]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UnreadableError(f"tools: {twice[0]} is named twice")
    messages = [_in_order(message) for message in given.messages]
    try:
        to_json([messages, tools])
    except PydanticSerializationError:
        raise UnreadableError("a text has half of a surrogate pair, which cannot be sent") from None
    return CompletionAsked(messages, tools, given.temperature, given.max_tokens, given.stream, given.timeout)


def _in_order(message: _GivenMessage) -> dict[str, Any]:
    """Return a message with its fields in the order in which transcripts have them."""
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": message.content or ""}
    calls = [call.model_dump() for call in message.tool_calls or ()]
    return {"role": message.role, "content": message.content} | ({"tool_calls": calls} if calls else {})


def _check_order(messages: Sequence[_GivenMessage]) -> None:
    """Raise ``UnreadableError`` for a conversation that model servers refuse."""
    open_calls = set[str]()
    for number, message in enumerate(messages):
        where = f"messages.{number}"
        if message.role == "tool":
            if message.tool_call_id not in open_calls:
                raise UnreadableError(f"{where}.tool_call_id: it names no open tool call of the message before")
            open_calls.discard(message.tool_call_id)
        elif open_calls:
            raise UnreadableError(f"{where}: the tool calls before it need a message of the role tool each")
        elif message.tool_call_id is not None:
            raise UnreadableError(f"{where}.tool_call_id: only a message of the role tool has one")
        if message.role == "system" and number > 0:
            raise UnreadableError(f"{where}: the system message comes first, and there is one at most")
        if message.tool_calls:
            if message.role != "assistant":
                raise UnreadableError(f"{where}.tool_calls: only a message of the role assistant has them")
            open_calls = {call.id for call in message.tool_calls}
            if len(open_calls) < len(message.tool_calls):
                raise UnreadableError(f"{where}.tool_calls: two have the same id")
        elif message.content is None:
            raise UnreadableError(f"{where}.content: a text is expected")
    if open_calls:
        raise UnreadableError("messages: the last tool calls need a message of the role tool each")


def as_offered(tool: ToolSpec) -> dict[str, Any]:
    """Return a worker's tool in OpenAI form."""
    described = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": described}
