"""A turn as a response of OpenAI's newer interface: items of thoughts, texts and tool calls, and their events. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import to_json

from pentad.contracts.events import SessionEvent, TaskUsage, ToolCallEvent, ToolResultEvent
from pentad.services.gateway.protocols.openai.chat_chunks import Out
from pentad.services.gateway.protocols.openai.kept_calls import KeptCall
from pentad.services.gateway.protocols.openai.responses_request import RESPONSE
from pentad.services.gateway.protocols.openai.turn_text import (
    Activity,
    ClientCall,
    GrowingText,
    Piece,
    TextPiece,
    ThoughtPiece,
)
from pentad.shared.immutable import immutable

_LABEL = "pentad"
"""Name of the server of our tools, as which clients see them."""


def response_id(message_id: str) -> str:
    """Return the id of the response that answers a message."""
    return f"{RESPONSE}{message_id}"


@immutable
class ResponseForm:
    """The form of one response."""

    message_id: str
    session: str
    model: str
    created: int
    previous: str | None = None
    metadata: Mapping[str, str] | None = None
    store: bool = True
    background: bool = False
    is_json: bool = False
    """Whether only the last answer is told."""
    goes_on: KeptCall | None = None
    """Call of the client's tool with whose result the turn goes on; None: a message begins it."""

    def shown(self, status: str, output: Sequence[Out], **more: Any) -> Out:
        """Return the response. ``more``: fields with other values."""
        made: Out = {
            "id": response_id(self.message_id),
            "object": "response",
            "created_at": self.created,
            "status": status,
            "model": self.model,
            "output": list(output),
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": dict(self.metadata or {}),
            "parallel_tool_calls": True,
            "temperature": None,
            "top_p": None,
            "tool_choice": "auto",
            "tools": [],
            "usage": None,
            "previous_response_id": self.previous,
            "conversation": {"id": self.session},
            "store": self.store,
            "background": self.background,
        }
        return made | more


@dataclass
class ResponseItems:
    """The items of a response, and the events that tell of them."""

    form: ResponseForm
    output: list[Out] = field(default_factory=list)
    _open: int | None = None
    """Place of the text or thought that is being written."""
    _calls: dict[str, int] = field(default_factory=dict)
    """Places of calls that go on, by their id."""
    _number: int = -1

    def begin(self) -> list[Out]:
        """Return the events with which a response begins."""
        shown = self.form.shown("in_progress", [])
        kinds = ("response.created", "response.in_progress")
        return [self._event(kind, response=shown) for kind in kinds]

    def after(self, piece: Piece) -> list[Out]:
        """Return the events of a piece."""
        match piece:
            case TextPiece():
                return list(self._text(piece.text))
            case ThoughtPiece():
                return list(self._thought(piece.text))
            case ClientCall():
                return list(self._client_call(piece))
            case Activity():
                return list(self._activity(piece.event))

    def end(self, told: GrowingText, used: TaskUsage, failure: str = "") -> list[Out]:
        """Return the events with which a response ends. ``failure``: reason why there is no answer; '' for none."""
        made = [*self._closed()]
        for place in list(self._calls.values()):
            made += self._call_ends(place, "incomplete")
        shown = self.shown(told, used, failure)
        return [*made, self._event(f"response.{shown['status']}", response=shown)]

    def shown(self, told: GrowingText, used: TaskUsage, failure: str = "") -> Out:
        """Return the response as it is now."""
        usage = {
            "input_tokens": used.input_tokens,
            "input_tokens_details": {"cached_tokens": used.cached_tokens, "cache_write_tokens": 0},
            "output_tokens": used.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": used.input_tokens + used.output_tokens,
        }
        end = told.end
        if end is None:
            return self.form.shown("in_progress", self.output)
        if end.outcome == "cancelled":
            return self.form.shown("cancelled", self.output, usage=usage)
        if failure:
            error = {"code": "server_error", "message": failure}
            return self.form.shown("failed", self.output, error=error, usage=usage)
        if told.finish in ("length", "content_filter"):
            why = {"length": "max_output_tokens"}.get(told.finish, told.finish)
            return self.form.shown("incomplete", self.output, incomplete_details={"reason": why}, usage=usage)
        return self.form.shown("completed", self.output, usage=usage)

    def _event(self, kind: str, **fields: Any) -> Out:
        self._number += 1
        return {"type": kind, "sequence_number": self._number, **fields}

    def _of(self, place: int, kind: str, **fields: Any) -> Out:
        return self._event(kind, item_id=self.output[place]["id"], output_index=place, **fields)

    def _begun(self, item: Out) -> Iterator[Out]:
        yield from self._closed()
        self.output.append({"id": f"{_PREFIXES[item['type']]}{self.form.message_id}-{len(self.output)}", **item})
        place = len(self.output) - 1
        yield self._event("response.output_item.added", output_index=place, item=_copy(self.output[place]))
        if item["type"] == "message":
            part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
            self.output[place]["content"].append(part)
            yield self._of(place, "response.content_part.added", content_index=0, part=dict(part))

    def _is_open(self, kind: str) -> bool:
        return self._open is not None and self.output[self._open]["type"] == kind

    def _text(self, text: str) -> Iterator[Out]:
        if not self._is_open("message"):
            text = text.lstrip("\n")
            yield from self._begun({"type": "message", "role": "assistant", "status": "in_progress", "content": []})
            self._open = len(self.output) - 1
        place = self._open or 0
        self.output[place]["content"][0]["text"] += text
        yield self._of(place, "response.output_text.delta", content_index=0, delta=text, logprobs=[])

    def _thought(self, text: str) -> Iterator[Out]:
        if not self._is_open("reasoning"):
            content = {"type": "reasoning_text", "text": ""}
            yield from self._begun({"type": "reasoning", "summary": [], "content": [content], "status": "in_progress"})
            self._open = len(self.output) - 1
        place = self._open or 0
        self.output[place]["content"][0]["text"] += text
        yield self._of(place, "response.reasoning_text.delta", content_index=0, delta=text)

    def _closed(self) -> Iterator[Out]:
        """End the text or the thought that is being written."""
        if self._open is None:
            return
        place, self._open = self._open, None
        item = self.output[place]
        item["status"], part = "completed", item["content"][0]
        if item["type"] == "message":
            yield self._of(place, "response.output_text.done", content_index=0, text=part["text"], logprobs=[])
            yield self._of(place, "response.content_part.done", content_index=0, part=dict(part))
        else:
            yield self._of(place, "response.reasoning_text.done", content_index=0, text=part["text"])
        yield self._event("response.output_item.done", output_index=place, item=_copy(item))

    def _activity(self, event: SessionEvent) -> Iterator[Out]:
        """Tell of our tools as of those of a server, which no client tries to run."""
        if isinstance(event, ToolCallEvent):
            if event.client:  # it is told when the turn stops for it
                return
            args = event.args if isinstance(event.args, str) else to_json(event.args).decode()
            call = {"name": event.tool, "arguments": args, "server_label": _LABEL, "output": None, "error": None}
            yield from self._begun({"type": "mcp_call", "status": "in_progress", **call})
            self._calls[event.tool_call_id] = len(self.output) - 1
        elif isinstance(event, ToolResultEvent):
            place = self._calls.pop(event.tool_call_id, None)
            if place is not None:
                yield from self._result(place, event)

    def _client_call(self, call: ClientCall) -> Iterator[Out]:
        """Tell of a call that the client makes."""
        named = {"call_id": call.id, "name": call.tool}
        yield from self._begun({"type": "function_call", "status": "in_progress", **named, "arguments": ""})
        place = len(self.output) - 1
        yield self._of(place, "response.function_call_arguments.delta", delta=call.arguments)
        self.output[place]["arguments"] = call.arguments
        told = {"name": call.tool, "arguments": call.arguments}
        yield self._of(place, "response.function_call_arguments.done", **told)
        yield from self._call_ends(place, "completed")

    def _result(self, place: int, event: ToolResultEvent) -> Iterator[Out]:
        item = self.output[place]
        if event.error is None:
            item["output"] = event.result or ""
        else:
            content = [{"type": "text", "text": event.error}]
            item["error"] = {"type": "mcp_tool_execution_error", "content": content}
        yield from self._call_ends(place, "completed" if event.error is None else "failed")

    def _call_ends(self, place: int, status: str) -> Iterator[Out]:
        self.output[place]["status"] = status
        yield self._event("response.output_item.done", output_index=place, item=_copy(self.output[place]))


_PREFIXES = {"message": "msg_", "reasoning": "rs_", "mcp_call": "mcp_", "function_call": "fc_"}


def _copy(item: Out) -> Out:
    """Return an item as it is now: it goes on to change."""
    content = {"content": [dict(part) for part in item["content"]]} if "content" in item else {}
    return item | content
