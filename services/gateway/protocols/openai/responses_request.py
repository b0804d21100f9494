"""The request for a response, as clients of OpenAI's newer interface send it. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from pentad.contracts.ids import EXTERNAL_ID_RULE, is_external_id
from pentad.services.gateway.domain.frames import UnreadableError
from pentad.services.gateway.protocols.openai.chat_request import (
    ChatAsked,
    EarlierText,
    earlier_text,
    flag_of,
    instruction_of,
    metadata_of,
    read_parts,
    read_said,
    schema_of,
    user_of,
)
from pentad.services.gateway.protocols.openai.client_tools import CallResult, read_call_result, read_client_tools
from pentad.shared.immutable import immutable

_MAX_ITEMS = 4_000
_OUTPUT = "function_call_output"
RESPONSE = "resp_"
"""Begins the id of every response."""


@immutable
class ResponseAsked:
    """A client's request for a response."""

    chat: ChatAsked
    previous: str | None = None
    """Response behind which the conversation goes on."""
    conversation: str | None = None
    """Session that the client names."""
    store: bool = True
    """Whether the response can be read again, and gone on from by its id."""
    background: bool = False
    """Whether the response is not waited for."""


def read_response(body: Mapping[str, Any], data: Sequence[bytes] = ()) -> ResponseAsked:
    """Read the request for a response. Raises ``UnreadableError``. ``data``: as `read_chat` takes it."""
    tools = read_client_tools(body, nested=False)
    system, past, results, last = _conversation(body.get("input"), data)
    text, files = ("", ()) if last is None else read_parts(last.get("content"), "input", data)
    instructions = body.get("instructions")
    if instructions is not None and not isinstance(instructions, str):
        raise UnreadableError("instructions: a text is expected")
    form = body.get("text")
    metadata, session = metadata_of(body.get("metadata"))
    chat = ChatAsked(
        instruction_of(body.get("model")),
        "\n\n".join([*filter(None, [instructions]), *system]),
        past,
        text,
        files,
        flag_of(body, "stream"),
        schema=schema_of(form.get("format") if isinstance(form, dict) else None),
        user=user_of(body.get("user")),
        session=session,
        metadata=metadata,
        tools=tools,
        results=results,
    )
    asked = ResponseAsked(
        chat, _previous(body), _conversation_id(body), body.get("store") is not False, flag_of(body, "background")
    )
    if asked.previous and asked.conversation:
        raise UnreadableError("conversation: it is given without previous_response_id, or that without it")
    if asked.background and not asked.store:
        raise UnreadableError("background: nobody could read the response without `store`")
    return asked


def _conversation(
    given: Any, data: Sequence[bytes]
) -> tuple[list[str], tuple[EarlierText, ...], tuple[CallResult, ...], Mapping[str, Any] | None]:
    """Return the system messages, the earlier ones, the results of tools behind the last answer, and the last message,
    if the conversation ends with one. Other items are left out.
    """
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if not isinstance(items, list) or not 1 <= len(items) <= _MAX_ITEMS:
        raise UnreadableError(f"input: a text, or a list of 1 to {_MAX_ITEMS:,} items is expected")
    last = items[-1]
    speaks = not isinstance(last, dict) or last.get("type", "message") != _OUTPUT
    system, past, results = list[str](), list[EarlierText](), list[CallResult]()
    for number, item in enumerate(items[:-1] if speaks else items):
        where = f"input.{number}"
        if not isinstance(item, dict):
            raise UnreadableError(f"{where}: an object is expected")
        kind = item.get("type", "message")
        if kind == _OUTPUT:
            results.append(read_call_result(item.get("call_id"), item.get("output"), f"{where}.call_id"))
        if kind != "message":
            continue
        role, text = read_said(item, where)
        if role in ("user", "assistant"):
            results = []
            past += earlier_text(item, role, text, data)
        elif role == "system" and text:
            system.append(text)
    if not speaks:
        return system, tuple(past), tuple(results), None
    if not isinstance(last, dict) or last.get("role") != "user" or last.get("type", "message") != "message":
        raise UnreadableError("input: the last item must be a message with the role user, or a function_call_output")
    return system, tuple(past), tuple(results), last


def _previous(body: Mapping[str, Any]) -> str | None:
    given = body.get("previous_response_id")
    if given is not None and not is_response_id(given):
        raise UnreadableError("previous_response_id: the id of a response is expected")
    return given


def is_response_id(given: Any) -> bool:
    """Return whether this may be the id of a response."""
    return isinstance(given, str) and given.startswith(RESPONSE) and is_external_id(given)


def _conversation_id(body: Mapping[str, Any]) -> str | None:
    given = body.get("conversation")
    name = given.get("id") if isinstance(given, dict) else given
    if name is not None and not (isinstance(name, str) and is_external_id(name)):
        raise UnreadableError(f"conversation: {EXTERNAL_ID_RULE} are expected")
    return name
