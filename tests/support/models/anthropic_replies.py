"""A scripted model's answers as bytes of the Anthropic protocol.

An answer has as many parts as in the OpenAI protocol, so that a script counts the same in both: the events that open
and close a block come with the block's first and last piece.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from tests.support.models.replies import MODEL, Reply, finish_of, output_tokens, pieces

_STOP = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}
_INPUT = {"input_tokens": 4, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 5}
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}


@lru_cache(maxsize=512)
def message_events(reply: Reply) -> tuple[bytes, ...]:
    """The parts of a streamed answer, cut as the script says."""
    if reply.raw is not None:
        return reply.raw
    start: dict[str, Any] = {"message": {**_message([]), "usage": {**_INPUT, "output_tokens": 1}}}
    if not reply.usage:
        del start["message"]["usage"]
    parts = [_event("message_start", start) + _event("ping", {})]
    index = 0
    if reply.thinking:
        signed = _delta(index, {"type": "signature_delta", "signature": "c2lnbmVk"})
        spoken = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(reply.thinking, reply.chunks)]
        parts += _block(index, {"type": "thinking", "thinking": "", "signature": ""}, spoken, signed)
        index += 1
    if reply.text:
        spoken = [{"type": "text_delta", "text": piece} for piece in pieces(reply.text, reply.chunks)]
        parts += _block(index, {"type": "text", "text": ""}, spoken)
        index += 1
    for number, (name, args) in enumerate(reply.calls):
        head = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {}}
        written = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *pieces(args, 2))]
        parts += _block(index + number, head, written)
    if reply.cut_after is not None:
        return tuple(parts[: reply.cut_after])
    end: dict[str, Any] = {"delta": {"stop_reason": _stop(reply), "stop_sequence": None}}
    if reply.usage:
        end["usage"] = {"output_tokens": output_tokens(reply)}
    return (*parts, _event("message_delta", end), _event("message_stop", {}))


@lru_cache(maxsize=512)
def message_document(reply: Reply) -> bytes:
    """The body of an answer that is not streamed."""
    content: list[dict[str, Any]] = []
    if reply.thinking:
        content.append({"type": "thinking", "thinking": reply.thinking, "signature": "c2lnbmVk"})
    if reply.text:
        content.append({"type": "text", "text": reply.text})
    for number, (name, args) in enumerate(reply.calls):
        content.append({"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": json.loads(args)})
    usage = {**_INPUT, "output_tokens": output_tokens(reply)}
    return json.dumps({**_message(content), "stop_reason": _stop(reply), "usage": usage}).encode()


def message_error(reply: Reply) -> bytes:
    """The body of an HTTP error."""
    if reply.error is not None:
        return reply.error
    kind = _TYPES.get(reply.status, "api_error")
    error = {"type": kind, "message": reply.message}
    return json.dumps({"type": "error", "error": error, "request_id": "req_scripted"}).encode()


def _message(content: list[dict[str, Any]]) -> dict[str, Any]:
    return {"id": "msg_scripted", "type": "message", "role": "assistant", "model": MODEL, "content": content}


def _stop(reply: Reply) -> str:
    return _STOP.get(finish_of(reply), finish_of(reply))


def _event(kind: str, fields: Mapping[str, Any]) -> bytes:
    data = json.dumps({"type": kind, **fields}, ensure_ascii=False, separators=(",", ":"))
    return f"event: {kind}\ndata: {data}\n\n".encode()


def _delta(index: int, delta: Mapping[str, Any]) -> bytes:
    return _event("content_block_delta", {"index": index, "delta": delta})


def _block(index: int, head: Mapping[str, Any], deltas: Iterable[Mapping[str, Any]], last: bytes = b"") -> list[bytes]:
    parts = [_delta(index, delta) for delta in deltas]
    parts[0] = _event("content_block_start", {"index": index, "content_block": head}) + parts[0]
    parts[-1] += last + _event("content_block_stop", {"index": index})
    return parts
