"""A chat model behind any OpenAI-compatible endpoint: ready bytes out, raw events in."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from pydantic_core import to_json

from pentad.contracts.models import ThinkTagsHabit
from pentad.shared.models.alternation import alternating, wants_alternation
from pentad.shared.models.assembly import Assembly, TaggedAssembly
from pentad.shared.models.endpoint import CONNECT_S, Endpoint
from pentad.shared.models.ports import ChatRequest, DeltaSink, ModelMisconfigured, ModelRefused
from pentad.shared.models.streamed_chat import STALL_S, StreamedChat
from pentad.shared.models.thoughts import REASONING, openai_messages

UNNAMED = "default"


class OpenAIChat(StreamedChat):
    """`model` None asks the server for its first one, once. `stall_s`: seconds of silence within an answer.

    `plain`: see `Endpoint`. `parameters` are sent with each request. `think_tags`: see `ModelEntry`.
    """

    def __init__(
        self,
        base_url: str | None,
        api_key: str | None,
        model: str | None,
        *,
        stall_s: float = STALL_S,
        connect_s: float = CONNECT_S,
        plain: bool | None = None,
        parameters: Mapping[str, Any] | None = None,
        think_tags: ThinkTagsHabit | None = None,
    ) -> None:
        super().__init__(Endpoint(base_url, api_key, connect_s=connect_s, plain=plain), "/chat/completions", stall_s)
        self._model = model
        self._parameters = b"" if not parameters else to_json(parameters)[1:-1] + b","
        self._tags = think_tags
        self._asking = asyncio.Lock()
        self._filled = False
        """Each call of tools gets reasoning, if a blank one."""
        self._alternating = False
        """User messages in a row are sent as one."""

    @property
    def name(self) -> str:
        """The model's id; `default` until the server was asked for its first."""
        return self._model or UNNAMED

    async def _chosen(self) -> str:
        if self._model is not None:
            return self._model
        async with self._asking:
            if self._model is None:
                self._model = _first_id(await self._endpoint.fetch("/models", None), self.place)
        return self._model

    def _assembly(self, on_delta: DeltaSink) -> Assembly:
        return Assembly(on_delta) if self._tags is None else TaggedAssembly(on_delta, begun=self._tags == "begun")

    def _learn(self, refusal: ModelRefused) -> None:
        """Servers that think miss reasoning where another model has called tools; others want turns."""
        super()._learn(refusal)
        said = str(refusal)
        self._filled = self._filled or REASONING in said
        self._alternating = self._alternating or wants_alternation(said)

    def _body(self, model: str, request: ChatRequest) -> bytes:
        tools = b"" if request.tools is None else b'"tools":' + request.tools + b","
        messages = alternating(request.messages) if self._alternating else request.messages
        if tools and not request.may_call:
            tools += b'"tool_choice":"none",'
        return b'{"model":%s,"stream":true,"stream_options":{"include_usage":true},%s%s"messages":[%s]}' % (
            to_json(model),
            self._parameters,
            tools,
            openai_messages(messages, model, filled=self._filled),
        )


def _first_id(listing: dict[str, object], place: str) -> str:
    data = listing.get("data")
    for entry in data if isinstance(data, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("id"), str) and entry["id"]:
            return str(entry["id"])
    raise ModelMisconfigured(f"{place}/models names no model; set LLM_MODEL_ID, or `model` in the model's entry")
