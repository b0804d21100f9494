"""The passages of a transcript: the texts that may be remembered, in order, with who said each.

Files in what a model said are described, so that no base64 is remembered. Left out are system prompts, messages that a
person moved to another task, every message with an ``origin`` (repeats of the session, requests to answer again, quotes
from memory), and calls of Pentad's tools that quote memory. Messages that cannot be read are left out too; they keep
their position.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pentad.contracts.ids import milliseconds
from pentad.contracts.records import SegmentType
from pentad.contracts.tools import RECALLING_TOOLS
from pentad.shared.actors.transcript import left_out
from pentad.shared.data_urls import without_bytes
from pentad.shared.immutable import immutable
from pentad.shared.owners import session_holder

Message = Mapping[str, Any]
_MAX_READ = 1 << 19
"""Characters of a model's text that are read for files in it; what stands behind them is not remembered."""


def owned(messages: Sequence[Message], user: str) -> Sequence[Message]:
    """Return the messages with the user who said each; ``user`` began the task.

    Transcripts without any user id are taken to be their beginner's.
    """
    said = [message for message in messages if message.get("role") == "user"]
    if not user or any(message.get("user_id") or message.get("memory_session") for message in said):
        return messages
    return [{**message, "user_id": user} if message.get("role") == "user" else message for message in messages]


@immutable
class Passage:
    """One text of a message: its content, or one of its tool calls."""

    position: int
    """Index of the message in the transcript."""
    part: int
    """Number of the text: 0 for the message's content, n for its n-th tool call."""
    type: SegmentType
    text: str
    at: str
    """Time in RFC 3339; empty where it is not known."""
    step: int
    """Number of the step that said it, else of the last step before it; 0 for none."""
    speaker: str
    """The message's ``name``, else its user id, else its role."""
    holder: str | None
    """Holder of the turn (`Owner.holder`)."""


def passages_of(messages: Sequence[Mapping[str, Any]], begin: int = 0) -> Iterator[Passage]:
    """Yield the passages in order, from the message at ``begin`` on. ``messages``: the transcript as records have it.

    A passage depends on no later message, except one that says that it was moved away.
    """
    gone = left_out(messages)
    step, holder = 0, None
    for position, message in enumerate(messages):
        step = message.get("step") or step
        if position in gone or message.get("origin") or message.get("forked") or "role" not in message:
            continue
        if message["role"] == "user":
            holder = holder_of(message)
        if position < begin:
            continue
        speaker = message.get("name") or message.get("user_id") or message["role"]
        for part, kind, text in _texts(message):
            yield Passage(position, part, kind, text, _time(message.get("at")), step, speaker, holder)


def holder_of(message: Mapping[str, Any]) -> str | None:
    """Return the holder of a user's message and of what is done about it: the user who is named, else the session.

    None: all users of the tenant share it.
    """
    if user := message.get("user_id"):
        return str(user)
    session = message.get("memory_session")
    return session_holder(session) if session else None


def _time(at: str | None) -> str:
    try:
        return at if at and milliseconds(at) else ""
    except ValueError:
        return ""


def _texts(message: Mapping[str, Any]) -> Iterator[tuple[int, SegmentType, str]]:
    role, calls, of_client = message["role"], message.get("tool_calls") or (), message.get("client_calls") or ()
    if content := message.get("content"):
        if role == "user":
            yield 0, SegmentType.USER_MESSAGE, content
        elif role == "tool":
            yield 0, SegmentType.TOOL_RESULT, content
        elif role == "assistant":
            yield 0, SegmentType.REASONING if calls else SegmentType.RESPONSE, without_bytes(content[:_MAX_READ])
    for number, call in enumerate(calls, start=1):
        function = call["function"]
        if function["name"] in RECALLING_TOOLS and call.get("id") not in of_client:
            continue
        yield number, SegmentType.TOOL_CALL, f"{function['name']} {without_bytes(function['arguments'][:_MAX_READ])}"
