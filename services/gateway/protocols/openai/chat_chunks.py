"""A turn as the chunks of a streamed completion of a chat, or as one completion. Pure."""

from collections.abc import Sequence
from typing import Any

from pentad.contracts.events import TaskUsage
from pentad.services.gateway.protocols.openai.turn_text import (
    Activity,
    ClientCall,
    GrowingText,
    Piece,
    TextPiece,
    ThoughtPiece,
)
from pentad.shared.immutable import immutable

Out = dict[str, Any]
"""A chunk, or another object of OpenAI's."""


def completion_id(message_id: str) -> str:
    """Return the id of the completion that answers a message."""
    return f"chatcmpl-{message_id}"


@immutable
class ChatForm:
    """The form of the answers to one request."""

    message_id: str
    session: str
    model: str
    """Model that the client has named."""
    created: int
    """Time of the answer, in seconds since the epoch."""

    @property
    def _head(self) -> Out:
        return {"id": completion_id(self.message_id), "created": self.created, "model": self.model}

    def begin(self) -> Out:
        """Return the first chunk, which says whose text follows."""
        about = {"session_id": self.session, "message_id": self.message_id}
        return self._chunk({"role": "assistant", "content": ""}) | {"pentad": about}

    def chunk(self, piece: Piece) -> Out:
        """Return the chunk of a piece. What is no text is in `pentad`, which clients that do not know it ignore."""
        match piece:
            case TextPiece():
                void = {"pentad": {"restarted": True}} if piece.restarts else {}
                return self._chunk({"content": piece.text}) | void
            case ThoughtPiece():
                return self._chunk({"reasoning_content": piece.text})
            case ClientCall():
                return self._chunk({"tool_calls": [{"index": piece.number} | _tool_call(piece)]})
            case Activity():
                status = {"description": piece.status, "done": piece.is_done}
                shown = {"event": {"type": "status", "data": status}} if piece.status else {}
                return self._chunk({}) | {"pentad": piece.shown} | shown

    def end(self, told: GrowingText) -> Out:
        """Return the chunk that says why the answer ends."""
        return self._chunk({}, finish_reason(told))

    def usage(self, used: TaskUsage) -> Out:
        """Return the chunk with the usage."""
        return self._head | {"object": "chat.completion.chunk", "choices": [], "usage": usage_of(used)}

    def whole(self, told: GrowingText, calls: Sequence[ClientCall], thoughts: str, used: TaskUsage) -> Out:
        """Return the answer as one completion. ``calls``: of the client's tools, for which the turn has stopped."""
        message: Out = {"role": "assistant", "content": told.text or (None if calls else ""), "refusal": None}
        if calls:
            message["tool_calls"] = [_tool_call(each) for each in calls]
        if thoughts:
            message["reasoning_content"] = thoughts
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason(told)}
        about: Out = {"session_id": self.session, "message_id": self.message_id, "task_id": told.turn.task_id}
        if told.end is not None and told.end.outcome == "waiting":
            about["waiting"] = told.end.reason
        made = {"object": "chat.completion", "choices": [choice], "usage": usage_of(used), "pentad": about}
        return self._head | made

    def _chunk(self, delta: Out, finish: str | None = None) -> Out:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return self._head | {"object": "chat.completion.chunk", "choices": [choice]}


def _tool_call(call: ClientCall) -> Out:
    return {"id": call.id, "type": "function", "function": {"name": call.tool, "arguments": call.arguments}}


def finish_reason(told: GrowingText) -> str:
    """Return why the answer ends, in OpenAI's words. Our own tool calls are no calls of the client."""
    if told.calls:
        return "tool_calls"
    return told.finish if told.finish in ("length", "content_filter") else "stop"


def usage_of(used: TaskUsage) -> Out:
    """Return tokens as OpenAI's clients count them."""
    given, made = used.input_tokens, used.output_tokens
    return {
        "prompt_tokens": given,
        "completion_tokens": made,
        "total_tokens": given + made,
        "prompt_tokens_details": {"cached_tokens": used.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }
