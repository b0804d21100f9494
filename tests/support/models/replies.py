"""Answers of a scripted model as data, and as bytes of the OpenAI protocol."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

MODEL = "scripted"


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of the scripted model. Times in seconds; `wait` holds back all that follows `wait_after` events."""

    text: str = ""
    thinking: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    chunks: int = 1
    delay: float = 0.0
    first_delay: float = 0.0
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    message: str = ""
    cut_after: int | None = None
    hang_up: bool = True
    usage: bool = True
    cached: int = 0
    """Tokens of the prompt that the server says it had cached; in OpenAI's protocol."""
    finish: str | None = None
    wait: asyncio.Event | None = None
    wait_after: int = 0
    raw: tuple[bytes, ...] | None = None
    error: bytes | None = None
    content_type: str = "text/event-stream"
    ids: tuple[str, ...] = ()
    """Of the calls; others than the usual ones, in OpenAI's protocol."""

    @property
    def immediate(self) -> bool:
        """Nothing to wait for: the whole answer may be written at once."""
        return not (self.delay or self.first_delay or self.wait)


def say(text: str, *, chunks: int = 1, delay: float = 0.0, thinking: str = "", **more: Any) -> Reply:
    """Answer `text` in `chunks` deltas, `delay` seconds apart (0: all in one write)."""
    return Reply(text=text, chunks=chunks, delay=delay, thinking=thinking, **more)


def call(*calls: tuple[str, Mapping[str, Any] | str], text: str = "", **more: Any) -> Reply:
    """Ask for tools: `call(("echo", {"text": "x"}), ...)`. Arguments given as text are sent as they are."""
    return Reply(text=text, calls=tuple((name, _arguments(args)) for name, args in calls), **more)


def fail(status: int, *, message: str = "scripted failure", retry_after: float | None = None, **more: Any) -> Reply:
    """Answer with an HTTP error in OpenAI form."""
    headers = () if retry_after is None else (("Retry-After", f"{retry_after:g}"),)
    return Reply(status=status, message=message, headers=headers, **more)


def refuse(status: int, body: Any, headers: Mapping[str, str] | None = None) -> Reply:
    """Answer with an HTTP error and this body, as JSON unless it is text."""
    packed = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return Reply(status=status, error=packed, headers=tuple((headers or {}).items()))


def cut(after_chunks: int, *, text: str = "cut off in the middle", hang_up: bool = True, **more: Any) -> Reply:
    """Break the stream after so many events; `hang_up=False` ends the body in good order, but without [DONE]."""
    return Reply(text=text, chunks=max(after_chunks, 1) + 1, cut_after=after_chunks, hang_up=hang_up, **more)


def raw(*parts: bytes, content_type: str = "text/event-stream", **more: Any) -> Reply:
    """Send these bytes as the body, one network write each when there is a delay."""
    return Reply(raw=parts, content_type=content_type, **more)


def _arguments(args: Mapping[str, Any] | str) -> str:
    return args if isinstance(args, str) else json.dumps(args, ensure_ascii=False, separators=(",", ":"))


def pieces(text: str, count: int) -> list[str]:
    """`text` in `count` parts as equal as can be (fewer when it is shorter than that)."""
    count = max(1, min(count, len(text)))
    size, rest = divmod(len(text), count)
    bounds = [index * size + min(index, rest) for index in range(count + 1)]
    return [text[start:end] for start, end in itertools.pairwise(bounds)]


@lru_cache(maxsize=512)
def events(reply: Reply) -> tuple[bytes, ...]:
    """The SSE events of a streamed answer, cut as the script says."""
    if reply.raw is not None:
        return reply.raw
    frames = [_frame({"content": "", "role": "assistant"})]
    if reply.thinking:
        frames += [_frame({"reasoning_content": piece}) for piece in pieces(reply.thinking, reply.chunks)]
    if reply.text:
        frames += [_frame({"content": piece}) for piece in pieces(reply.text, reply.chunks)]
    frames += [
        frame for index, (name, args) in enumerate(reply.calls) for frame in _call_frames(reply, index, name, args)
    ]
    if reply.cut_after is not None:
        return tuple(frames[: reply.cut_after])
    frames.append(_frame({}, finish=finish_of(reply)))
    if reply.usage:
        frames.append(_event({**_head(), "choices": [], "usage": _usage(reply)}))
    return (*frames, b"data: [DONE]\n\n")


@lru_cache(maxsize=512)
def document(reply: Reply) -> bytes:
    """The body of an answer that is not streamed."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if reply.thinking:
        message["reasoning_content"] = reply.thinking
    if reply.calls:
        message["tool_calls"] = [_call(reply, index, name, args) for index, (name, args) in enumerate(reply.calls)]
    choice = {"index": 0, "message": message, "finish_reason": finish_of(reply)}
    return json.dumps({**_head("chat.completion"), "choices": [choice], "usage": _usage(reply)}).encode()


def error_body(reply: Reply) -> bytes:
    """The body of an HTTP error."""
    if reply.error is not None:
        return reply.error
    return json.dumps({"error": {"message": reply.message, "type": "scripted", "code": reply.status}}).encode()


def _head(kind: str = "chat.completion.chunk") -> dict[str, Any]:
    return {"id": "chatcmpl-scripted", "object": kind, "created": 1_700_000_000, "model": MODEL}


def finish_of(reply: Reply) -> str:
    """Return the finish reason of an answer, in OpenAI's words."""
    return reply.finish or ("tool_calls" if reply.calls else "stop")


def output_tokens(reply: Reply) -> int:
    """Return the number of output tokens of an answer."""
    return len(reply.text.split()) + sum(len(args) // 4 + 1 for _, args in reply.calls)


def _usage(reply: Reply) -> dict[str, Any]:
    words = output_tokens(reply)
    usage: dict[str, Any] = {"prompt_tokens": 11, "completion_tokens": words, "total_tokens": 11 + words}
    return usage | ({"prompt_tokens_details": {"cached_tokens": reply.cached}} if reply.cached else {})


def _event(payload: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


def _frame(delta: Mapping[str, Any], finish: str | None = None) -> bytes:
    return _event({**_head(), "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def _call(reply: Reply, index: int, name: str, args: str) -> dict[str, Any]:
    # The same ids in every answer, as real servers do: nobody may rely on them being unique.
    call_id = reply.ids[index] if index < len(reply.ids) else f"call_{index}"
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": args}}


def _call_frames(reply: Reply, index: int, name: str, args: str) -> Iterable[bytes]:
    yield _frame({"tool_calls": [{"index": index, **_call(reply, index, name, "")}]})
    for piece in pieces(args, 2):
        yield _frame({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
