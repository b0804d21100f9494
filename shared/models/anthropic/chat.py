"""A chat model behind the Anthropic protocol: Anthropic's own, or a server that speaks as it does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any

from pydantic_core import from_json, to_json

from pentad.shared.errors import SettingsError
from pentad.shared.models.answer_limits import asked_of_answer
from pentad.shared.models.anthropic.assembly import MessageAssembly
from pentad.shared.models.anthropic.prompt import anthropic_prompt, anthropic_tools, bare_tools
from pentad.shared.models.call_ids import with_sent_ids
from pentad.shared.models.endpoint import CONNECT_S, Endpoint
from pentad.shared.models.learned_form import REQUIRED
from pentad.shared.models.model_keys import ANTHROPIC_URL
from pentad.shared.models.official_clients import anthropic_client
from pentad.shared.models.ports import STALL_S, ChatRequest, DeltaSink, ModelRefused
from pentad.shared.models.request_change import Change, call_id_form
from pentad.shared.models.streamed_chat import StreamedChat
from pentad.shared.models.thoughts import kind_of

_DEFAULTS = {"max_tokens": 16_384, "cache_control": {"type": "ephemeral"}}
"""Parameters of a request that sets none. The protocol wants a limit of tokens, in which thinking counts. A prompt
is cached, because the next step sends it again."""
_RESERVED_FIELDS = frozenset({"messages", "model", "stream", "system", "tool_choice", "tools"})
_SAMPLING_PARAMETERS = frozenset({"temperature", "top_k", "top_p"})
_VERSION_WITH_SAMPLING = "2023-06-01"
"""Version of the API that takes these parameters: later versions refuse them."""


class AnthropicChat(StreamedChat):
    """A chat model in the Anthropic protocol.

    `parameters` go into each request: `max_tokens` (16,384), `temperature`, `thinking`, `cache_control` (None: off).
    `base_url` may end in `/v1` or not. `stall_s` is the number of seconds of silence within an answer. `direct`: see
    `Endpoint`. Raises `SettingsError` without the extra `anthropic`, and for parameters that the caller may not set.
    """

    _protocol = MessageAssembly.protocol
    _required = REQUIRED | {"max_tokens"}

    def __init__(
        self,
        base_url: str | None,
        api_key: str | None,
        model: str,
        *,
        parameters: Mapping[str, Any] | None = None,
        stall_s: float = STALL_S,
        connect_s: float = CONNECT_S,
        direct: bool | None = None,
    ) -> None:
        if find_spec("anthropic") is None:
            raise SettingsError("this model needs the Anthropic client: pip install 'pentad[anthropic]'")
        given = {**_DEFAULTS, **(parameters or {})}
        version = None if _SAMPLING_PARAMETERS.isdisjoint(given) else _VERSION_WITH_SAMPLING
        url = (base_url or ANTHROPIC_URL).rstrip("/").removesuffix("/v1")
        make = partial(Endpoint, url, api_key, connect_s=connect_s, direct=direct)
        super().__init__(make(official=partial(anthropic_client, version)), "/v1/messages", stall_s)
        sampling = partial(anthropic_client, _VERSION_WITH_SAMPLING)
        self._with_sampling = self._endpoint if version else make(official=sampling)
        self._model = model
        self._parameters = _members(given)
        # Thinking that takes up what a call of tools interrupted must begin with the thoughts before it, signed. Where
        # another model has called them there are none: in this mode the rest of such an answer is given without.
        signed = _thinks_by_budget(given)
        self._midway = _members({k: v for k, v in given.items() if k != "thinking"}) if signed else self._parameters
        cached = given["cache_control"]
        self._mark = b"" if cached is None else b',"cache_control":%s' % to_json(cached)

    @property
    def name(self) -> str:
        """The model's id."""
        return self._model

    def _endpoint_for(self, request: ChatRequest) -> Endpoint:
        return self._endpoint if request.temperature is None else self._with_sampling

    async def aclose(self) -> None:
        """Close the connections."""
        await super().aclose()
        await self._with_sampling.aclose()

    def _assembly(self, on_delta: DeltaSink) -> MessageAssembly:
        return MessageAssembly(on_delta)

    def _fields(self, model: str, request: ChatRequest, changes: Sequence[Change]) -> dict[str, bytes]:
        fields = {"model": to_json(model), "stream": b"true"}
        try:
            messages = with_sent_ids(request.messages, kind_of(self._protocol, model), call_id_form(model, changes))
            prompt = anthropic_prompt(messages, model)
            tools = None if request.tools is None else anthropic_tools(request.tools)
        except ValueError as error:
            raise ModelRefused(f"the conversation cannot be sent: {error}") from None
        fields |= self._midway if prompt.unsigned else self._parameters
        fields |= asked_of_answer(request, self._parameters)
        # Tools and system are the same for many tasks, the messages for the steps of one: each has its mark.
        if prompt.system:
            mark = b"" if Change("omit", "cache_control") in changes else self._mark
            fields["system"] = b"[%s%s}]" % (prompt.system.removesuffix(b"}"), mark)
        if tools is None and prompt.called and Change("no_tools") not in changes:
            tools = bare_tools(prompt.called)
        if tools is not None:
            fields["tools"] = tools
            if request.tools is None or not request.may_call:
                fields["tool_choice"] = b'{"type":"none"}'
        fields["messages"] = b"[%s]" % prompt.messages
        return _as_text(fields) if Change("plain_text") in changes else fields


def _as_text(fields: dict[str, bytes]) -> dict[str, bytes]:
    """Return the fields with text in place of lists of text blocks: some servers know only the protocol's short
    form."""
    changed = dict(fields)
    if "system" in fields:
        changed["system"] = to_json(_text_of(from_json(fields["system"])))
    messages = from_json(fields["messages"])
    for message in messages:
        if all(block["type"] == "text" for block in message["content"]):
            message["content"] = _text_of(message["content"])
    return changed | {"messages": to_json(messages)}


def _text_of(blocks: Sequence[Mapping[str, Any]]) -> str:
    return "\n\n".join(block["text"] for block in blocks)


def _thinks_by_budget(parameters: Mapping[str, Any]) -> bool:
    thinking = parameters.get("thinking")
    return isinstance(thinking, Mapping) and thinking.get("type") == "enabled"


def _members(parameters: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the members of a JSON object, ready JSON by their names, without those that are None."""
    if reserved := sorted(_RESERVED_FIELDS.intersection(parameters)):
        raise SettingsError(f"a model's parameters may not set {', '.join(reserved)}: each request has its own")
    try:
        return {name: to_json(value) for name, value in parameters.items() if value is not None}
    except ValueError as error:
        raise SettingsError(f"a model's parameters must be JSON: {error}") from None
