"""A chat model behind any OpenAI-compatible endpoint: ready bytes out, raw events in.

The official client carries the request; its typed layer is left out on both ways, because it costs 9 ms of CPU a
turn where this costs under 1.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import to_json

from pentad.shared.models.assembly import Assembly, parse_object
from pentad.shared.models.endpoint import Endpoint
from pentad.shared.models.failures import from_stream_error, shortened
from pentad.shared.models.ports import ChatRequest, DeltaSink, ModelAnswer, ModelCutOff, ModelRefused, ModelUnavailable
from pentad.shared.models.sse_decoder import SseDecoder

if TYPE_CHECKING:
    import httpx2

UNNAMED = "default"
_TAIL_S = 5.0  # how long to wait for the token count once the answer itself is complete
_DRAIN_S = 0.05  # how long for the end of the body after [DONE]: a body read to its end keeps its connection
_MAX_ANSWER = 64 * 1024 * 1024


class OpenAIChat:
    """`model` None asks the server for its first one, once. `stall_s`: seconds of silence within an answer.

    `plain`: see `Endpoint`.
    """

    def __init__(
        self,
        base_url: str | None,
        api_key: str | None,
        model: str | None,
        *,
        stall_s: float = 60.0,
        connect_s: float = 5.0,
        plain: bool | None = None,
    ) -> None:
        self._endpoint = Endpoint(base_url, api_key, connect_s=connect_s, plain=plain)
        self._model = model
        self._stall_s = stall_s
        self._asking = asyncio.Lock()

    @property
    def name(self) -> str:
        """The model's id; `default` until the server was asked for its first."""
        return self._model or UNNAMED

    @property
    def place(self) -> str:
        """The endpoint."""
        return self._endpoint.place

    def warm(self) -> None:
        """Import and make the client now (0.6 s of CPU, blocks): call it in a thread before work comes."""
        self._endpoint.warm()

    async def stream(self, request: ChatRequest, on_delta: DeltaSink) -> ModelAnswer:
        """See `ChatModel.stream`. Nothing is asked twice once the answer has begun."""
        reader = _Reader(self._endpoint, on_delta)
        model = request.model or self._model
        try:
            async with asyncio.timeout(request.timeout_s) as limit:
                model = model or await self._first_model()
                response = await self._endpoint.open("/chat/completions", _body(model, request))
                try:
                    await self._read(response, reader, limit)
                finally:
                    await response.aclose()
        except TimeoutError:
            if not limit.expired():
                raise
            self._out_of_time(reader)
        return reader.answer(model or self.name)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._endpoint.aclose()

    async def _read(self, response: httpx2.Response, reader: _Reader, limit: asyncio.Timeout) -> None:
        import httpx2

        reader.check_kind(response.headers.get("content-type", ""))
        now = asyncio.get_running_loop().time
        deadline = limit.when() or now()
        try:
            async with aclosing(_parts(response)) as parts:
                async for part in parts:
                    reader.feed(part)
                    limit.reschedule(min(deadline, now() + reader.patience(self._stall_s)))
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            reader.broke(error)
        else:
            reader.end()

    def _out_of_time(self, reader: _Reader) -> None:
        place = self._endpoint.place
        if not reader.began:
            raise ModelUnavailable(f"the model server at {place} did not answer in time; try again later") from None
        if not reader.finished:
            raise ModelCutOff(f"the model server at {place} stalled in the middle of its answer; try again") from None

    async def _first_model(self) -> str:
        async with self._asking:
            if self._model is None:
                self._model = _first_id(await self._endpoint.fetch("/models", None), self._endpoint.place)
        return self._model


class _Reader:
    """Reads one body: a stream of events, or a JSON document from a server that does not stream."""

    def __init__(self, endpoint: Endpoint, on_delta: DeltaSink) -> None:
        self._endpoint = endpoint
        self._decoder = SseDecoder()
        self._assembly = Assembly(on_delta)
        self._document: list[bytes] | None = None
        self._size = 0
        self._done = False
        self.began = False

    @property
    def finished(self) -> bool:
        """The answer is whole, whatever happens to the rest of the body."""
        return bool(self._assembly.finish_reason) or (self._done and not self._assembly.empty)

    def check_kind(self, content_type: str) -> None:
        """Refuse a web page: an address that shows one is not a model server's."""
        if content_type.startswith("text/html"):
            raise ModelRefused(f"{self._endpoint.place} answered with a web page; check LLM_BASE_URL")

    def patience(self, stall_s: float) -> float:
        """Seconds to wait for the next part of the body."""
        return _DRAIN_S if self._done else min(_TAIL_S, stall_s) if self._assembly.finish_reason else stall_s

    def feed(self, part: bytes) -> None:
        """Take the next part of the body, pass its text on. Raises `ModelFailed`."""
        if not self.began and part.strip():
            self.began = True
            self._document = [] if part.lstrip().startswith(b"{") else None
        self._size += len(part)
        if self._size > _MAX_ANSWER:
            raise ModelCutOff(f"the answer of {self._endpoint.place} is larger than {_MAX_ANSWER} bytes")
        if self._document is not None:
            self._document.append(part)
        elif not self._done:
            try:
                self._read_events(self._decoder.feed(part))
            except ValueError as error:
                raise self._cut_off(str(error)) from None

    def end(self) -> None:
        """The body ended in good order. Raises `ModelCutOff` when the answer had not."""
        try:
            if self._document is None:
                self._read_events(self._decoder.flush())
            else:
                self._read_events([b"".join(self._document)])
                self._done = True
        except ValueError as error:
            if not self.finished:
                raise self._cut_off(str(error)) from None
        if not self.finished:
            raise self._cut_off("its stream ended before the answer did")

    def broke(self, error: Exception) -> None:
        """The connection broke. Raises `ModelCutOff` unless the answer was whole by then."""
        if not self.finished:
            raise self._cut_off(self._endpoint.redacted(str(error)) or "the connection broke") from None

    def answer(self, model: str) -> ModelAnswer:
        """The answer, once it is finished."""
        return self._assembly.answer(model)

    def _read_events(self, events: list[bytes]) -> None:
        add = self._assembly.add
        for data in events:
            if data[:6] == b"[DONE]":
                self._done = True
                return
            chunk = parse_object(data)
            if "error" in chunk or "choices" not in chunk:
                self._check_error(chunk)
            add(chunk)

    def _check_error(self, chunk: dict[str, object]) -> None:
        failure = from_stream_error(chunk, not self._assembly.empty, self._endpoint.place)
        if failure is not None:
            failure.args = (self._endpoint.redacted(str(failure)),)
            raise failure

    def _cut_off(self, why: str) -> ModelCutOff:
        return ModelCutOff(f"the answer of the model server at {self._endpoint.place} was cut off: {shortened(why)}")


def _parts(response: httpx2.Response) -> AsyncGenerator[bytes, None]:
    """The body as it comes; a server was told not to encode it, but may."""
    if "content-encoding" in response.headers:
        return response.aiter_bytes()
    parts: AsyncGenerator[bytes, None] = cast(Any, response.stream).__aiter__()
    return parts


def _body(model: str, request: ChatRequest) -> bytes:
    tools = b"" if request.tools is None else b'"tools":' + request.tools + b","
    if tools and not request.may_call:
        tools += b'"tool_choice":"none",'
    return b'{"model":%s,"stream":true,"stream_options":{"include_usage":true},%s"messages":[%s]}' % (
        to_json(model),
        tools,
        b",".join(request.messages),
    )


def _first_id(listing: dict[str, object], place: str) -> str:
    data = listing.get("data")
    for entry in data if isinstance(data, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("id"), str) and entry["id"]:
            return str(entry["id"])
    raise ModelRefused(f"{place}/models names no model; set LLM_MODEL_ID")
