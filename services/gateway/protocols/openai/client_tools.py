"""Tools that OpenAI's clients run themselves: which they name, and the results that they send. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from pentad.contracts.client_tools import MAX_CLIENT_TOOLS, ClientTool, check_client_tools
from pentad.contracts.ids import is_identifier
from pentad.services.gateway.domain.client_result import SentResult, client_result
from pentad.services.gateway.domain.frames import UnreadableError, complaints
from pentad.shared.immutable import immutable

_MAX_PARTS = 64
_NOT_OURS = (
    "tools are of the type function, and the client runs them; what Pentad is to run is registered as a tool of its "
    "own (`POST /v1/tools`, a plug-in or an MCP server)"
)


@immutable
class CallResult:
    """The result that a client sends of one call of its tools."""

    call: str
    sent: SentResult


def read_client_tools(body: Mapping[str, Any], *, nested: bool) -> tuple[ClientTool, ...]:
    """Return the tools that a request names. ``nested``: whether each has its description in ``function``.

    Raises ``UnreadableError``.
    """
    if body.get("functions"):
        raise UnreadableError("functions: send them as `tools`, which have taken their place")
    given, choice = body.get("tools"), body.get("tool_choice")
    if choice not in (None, "auto", "none"):
        raise UnreadableError("tool_choice: auto or none is expected: the model chooses among these tools and Pentad's")
    if given is None or choice == "none":
        return ()
    if not isinstance(given, list) or len(given) > MAX_CLIENT_TOOLS:
        raise UnreadableError(f"tools: a list of at most {MAX_CLIENT_TOOLS} tools is expected")
    tools = tuple(_tool(each, f"tools.{number}", nested=nested) for number, each in enumerate(given))
    try:
        check_client_tools(tools)
    except ValueError as error:
        raise UnreadableError(f"tools: {error}") from None
    return tools


def _tool(given: Any, where: str, *, nested: bool) -> ClientTool:
    if not isinstance(given, dict) or given.get("type") != "function":
        raise UnreadableError(f"{where}: {_NOT_OURS}")
    function = given.get("function") if nested else given
    if not isinstance(function, dict):
        raise UnreadableError(f"{where}.function: an object is expected")
    named = {name: function[name] for name in ("name", "description", "parameters") if function.get(name) is not None}
    try:
        return ClientTool.model_validate(named)
    except ValidationError as error:
        raise UnreadableError(f"{where}.{complaints(error)[0]}") from None


def read_call_result(call: Any, content: Any, where: str) -> CallResult:
    """Return the result of a call that is a text, or a list of parts with texts. Raises ``UnreadableError``."""
    if not isinstance(call, str) or not is_identifier(call):
        raise UnreadableError(f"{where}: the id of a tool call is expected")
    if isinstance(content, list):
        texts = [part.get("text") for part in content[:_MAX_PARTS] if isinstance(part, dict)]
        content = "\n".join(text for text in texts if isinstance(text, str))
    if not isinstance(content, str):
        raise UnreadableError(f"{where}: its result is a text, or a list of parts")
    return CallResult(call, client_result(content, where))


def check_answered(calls: Iterable[Any], results: Sequence[CallResult]) -> None:
    """Check that each of these calls has a result. Raises ``UnreadableError``."""
    answered = {each.call for each in results}
    missing = next((each for each in calls if each not in answered), None)
    if missing is not None:
        raise UnreadableError(f"messages: the tool call {str(missing)[:128]} has no result; send those of all calls")
