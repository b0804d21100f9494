"""A chat model behind any OpenAI-compatible endpoint: ready bytes out, raw events in."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import to_json

from pentad.contracts.models import ThinkTagsHabit
from pentad.shared.models.answer_limits import asked_of_answer
from pentad.shared.models.assembly import Assembly
from pentad.shared.models.call_ids import with_sent_ids
from pentad.shared.models.endpoint import CONNECT_S, Endpoint
from pentad.shared.models.ports import STALL_S, UNNAMED, ChatRequest, DeltaSink, ModelMisconfigured
from pentad.shared.models.request_change import Change, call_id_form
from pentad.shared.models.streamed_chat import StreamedChat
from pentad.shared.models.think_tags import ThinkTags
from pentad.shared.models.thoughts import kind_of, openai_messages

_FORMAT = b'{"type":"json_schema","json_schema":{"name":"answer","schema":%s}}'


class OpenAIChat(StreamedChat):
    """A chat model in OpenAI's protocol.

    With `model` None the server is asked for its first model, once. `stall_s` is the number of seconds of silence
    within an answer. `direct`: see `Endpoint`. `parameters` are sent with each request. `think_tags`: see `ModelEntry`.
    """

    _protocol = Assembly.protocol

    def __init__(
        self,
        base_url: str | None,
        api_key: str | None,
        model: str | None,
        *,
        stall_s: float = STALL_S,
        connect_s: float = CONNECT_S,
        direct: bool | None = None,
        parameters: Mapping[str, Any] | None = None,
        think_tags: ThinkTagsHabit | None = None,
    ) -> None:
        super().__init__(Endpoint(base_url, api_key, connect_s=connect_s, direct=direct), "/chat/completions", stall_s)
        self._model = model
        self._parameters = {name: to_json(value) for name, value in (parameters or {}).items()}
        self._tags = think_tags
        self._asking = asyncio.Lock()

    @property
    def name(self) -> str:
        """The model's id; `default` until the server was asked for its first model."""
        return self._model or UNNAMED

    async def _chosen(self) -> str:
        if self._model is not None:
            return self._model
        async with self._asking:
            if self._model is None:
                self._model = _first_id(await self._endpoint.fetch("/models", None), self.place)
        return self._model

    def _assembly(self, on_delta: DeltaSink) -> Assembly:
        return Assembly(on_delta, None if self._tags is None else ThinkTags(begun=self._tags == "begun"))

    def _fields(self, model: str, request: ChatRequest, changes: Sequence[Change]) -> dict[str, bytes]:
        fields = {"model": to_json(model), "stream": b"true", "stream_options": b'{"include_usage":true}'}
        if request.answer_schema is not None:
            fields["response_format"] = _FORMAT % request.answer_schema
        fields |= self._parameters | asked_of_answer(request, self._parameters)
        if request.tools is not None:
            fields["tools"] = request.tools
            if not request.may_call:
                fields["tool_choice"] = b'"none"'
        filled = any(change.kind == "fill_reasoning" for change in changes)
        messages = with_sent_ids(request.messages, kind_of(self._protocol, model), call_id_form(model, changes))
        fields["messages"] = b"[%s]" % openai_messages(messages, model, filled=filled)
        return fields


def _first_id(listing: dict[str, object], place: str) -> str:
    data = listing.get("data")
    for entry in data if isinstance(data, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("id"), str) and entry["id"]:
            return str(entry["id"])
    raise ModelMisconfigured(f"{place}/models names no model; set LLM_MODEL_ID, or `model` in the model's entry")
