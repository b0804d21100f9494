"""A chat model behind a streaming endpoint, whatever its protocol: time limits, and the way from request to answer.

The official client carries the request; its typed layer is left out on both ways, because it costs 9 ms of CPU a
turn where this costs under 1.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

from pentad.shared.attached_files import with_files
from pentad.shared.models.answer_reader import AnswerReader
from pentad.shared.models.assembly import AnswerAssembly
from pentad.shared.models.call_ids import has_made_ids
from pentad.shared.models.endpoint import Endpoint
from pentad.shared.models.learned_form import REQUIRED, Composed, LearnedForms, composed
from pentad.shared.models.learned_window import LearnedWindows
from pentad.shared.models.ports import (
    ChatRequest,
    DeltaSink,
    ModelAnswer,
    ModelCutOff,
    ModelFailed,
    ModelTooLong,
    ModelUnavailable,
)
from pentad.shared.models.refusal import MAX_WORDS, ServerRefusal
from pentad.shared.models.request_change import Change, refielded, reshaped
from pentad.shared.models.sse_decoder import PIECE
from pentad.shared.models.thoughts import kind_of

if TYPE_CHECKING:
    import httpx2

log = logging.getLogger(__name__)
_BYTES_PER_TOKEN = 4
"""Bytes of UTF-8 in a token of English text or JSON, roughly. In other languages a token has fewer bytes, and too few
tokens are estimated."""
_FAILED_WITHIN = 500
"""Status of a server that failed for a reason that it does not know."""
_TOKENS_ESTIMATED = "does not count tokens: they are estimated from the length of the texts"


class StreamedChat(ABC):
    """The part that chat models of all protocols share. `stall_s`: seconds of silence within an answer."""

    _protocol: ClassVar[str]
    """The protocol's name, as in `AnswerAssembly.protocol`."""
    _required: frozenset[str] = REQUIRED
    """Fields that no request is sent without."""

    def __init__(self, endpoint: Endpoint, path: str, stall_s: float) -> None:
        self._endpoint = endpoint
        self._path = path
        self._stall_s = stall_s
        self._forms = LearnedForms(endpoint.place)
        self._windows = LearnedWindows(endpoint.place)
        self._uncounted = False
        """Whether the server's last answer came without a count of its tokens."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The model's id."""

    @property
    def place(self) -> str:
        """The address of the endpoint."""
        return self._endpoint.place

    @property
    def learned(self) -> tuple[str, ...]:
        """The changes that the server's refusals have taught for requests to this model, in words."""
        return (*self._forms.told, *self._windows.told, *((_TOKENS_ESTIMATED,) if self._uncounted else ()))

    @property
    def window(self) -> int | None:
        """The tokens that the model takes, as a refusal of its server has named them."""
        return self._windows.of(self.name)

    def warm(self) -> None:
        """Import and make the client. It blocks for 0.6 s of CPU and more: call it in a thread before work comes."""
        self._endpoint.warm()

    async def stream(self, request: ChatRequest, on_delta: DeltaSink) -> ModelAnswer:
        """Ask as `ChatModel.stream` says. A request is not sent again once the answer has begun."""
        endpoint = self._endpoint_for(request)
        reader = AnswerReader(endpoint, self._assembly(on_delta))
        model = request.model
        once = request.begin_s is not None
        deadline = asyncio.get_running_loop().time() + request.timeout_s

        async def send(sent: Composed) -> None:
            nonlocal reader
            reader = AnswerReader(endpoint, self._assembly(on_delta))
            try:
                response = await endpoint.open(self._path, sent.body, once)
                try:
                    await self._read(response, reader, limit, deadline, hurried=once)
                finally:
                    await response.aclose()
            except ModelFailed as failure:
                if isinstance(failure, ModelTooLong) and request.teaches:
                    self._windows.learn(model or self.name, failure)
                failure.refusal = None if reader.said else failure.refusal or self._guessed(failure, request, model)
                raise

        try:
            async with asyncio.timeout(_begin_limit_s(request)) as limit:
                model = model or await self._chosen()
                form = self._forms.of(model)
                await (form if request.teaches else form.apart()).ask(partial(self._composed, model, request), send)
        except TimeoutError:
            if not limit.expired():
                raise
            self._out_of_time(reader)
        except asyncio.CancelledError:
            if request.on_cut is not None and reader.began:
                request.on_cut(_estimated(request, reader.answer(model or self.name)))
            raise
        answer = reader.answer(model or self.name)
        self._note_counting(answer)
        return _estimated(request, answer)

    def _guessed(self, failure: ModelFailed, request: ChatRequest, model: str | None) -> ServerRefusal | None:
        """Return what a server refuses that says only that it failed: one whose template cannot read the ids of calls
        that another server made fails within, and says so in no word."""
        if not isinstance(failure, ModelUnavailable) or failure.status != _FAILED_WITHIN:
            return None
        if not has_made_ids(request.messages, kind_of(self._protocol, model or self.name)):
            return None
        return ServerRefusal(_FAILED_WITHIN, str(failure)[:MAX_WORDS], (("messages", "tool_call_id"),))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._endpoint.aclose()

    def _note_counting(self, answer: ModelAnswer) -> None:
        """Note whether the server counts tokens, by its last whole answer: one that was cut ends before its count."""
        before, self._uncounted = self._uncounted, not _is_counted(answer)
        if self._uncounted and not before:
            log.warning("the model server at %s %s (model %s)", self.place, _TOKENS_ESTIMATED, answer.model)

    async def _chosen(self) -> str:
        """Return the id of the model for a request that names none."""
        return self.name

    def _composed(self, model: str, request: ChatRequest, changes: Sequence[Change]) -> Composed:
        if (messages := with_files(request.messages, request.images)) is not request.messages:
            request = replace(request, messages=messages)
        if changes:
            request = reshaped(request, changes)
        fields = self._fields(model, request, changes)
        fields = refielded(fields, changes) if changes else fields
        return composed(fields, tools=request.tools, required=self._required)

    def _endpoint_for(self, request: ChatRequest) -> Endpoint:
        """Return the endpoint that is sent a request."""
        return self._endpoint

    @abstractmethod
    def _fields(self, model: str, request: ChatRequest, changes: Sequence[Change]) -> dict[str, bytes]:
        """Return the fields of the request in the protocol, ready JSON. ``changes`` are those that are made to the
        request."""

    @abstractmethod
    def _assembly(self, on_delta: DeltaSink) -> AnswerAssembly:
        """Make the assembly that puts one answer together."""

    async def _read(
        self, response: httpx2.Response, reader: AnswerReader, limit: asyncio.Timeout, deadline: float, *, hurried: bool
    ) -> None:
        """Read the body of one answer. When ``hurried``, nothing that comes before the answer itself has begun gives it
        more time."""
        import httpx2

        reader.check_kind(response.headers.get("content-type", ""))
        now = asyncio.get_running_loop().time
        try:
            async with aclosing(_parts(response, self._endpoint.place)) as parts:
                async for part in parts:
                    if len(part) <= PIECE:
                        reader.feed(part)
                    else:
                        await _feed_in_pieces(reader, part)
                    if hurried and not reader.said:
                        continue
                    limit.reschedule(min(deadline, now() + reader.patience(self._stall_s)))
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            reader.broke(error)
        else:
            reader.end()

    def _out_of_time(self, reader: AnswerReader) -> None:
        place = self._endpoint.place
        if reader.finished:
            return
        if not reader.said:
            raise ModelUnavailable(f"the model server at {place} did not answer in time; try again later") from None
        raise ModelCutOff(f"the model server at {place} stalled in the middle of its answer; try again") from None


def _is_counted(answer: ModelAnswer) -> bool:
    return bool(answer.usage.input_tokens or answer.usage.output_tokens)


def _estimated(request: ChatRequest, answer: ModelAnswer) -> ModelAnswer:
    """Return the answer with its tokens estimated where the server counted none: a budget must have an end."""
    if _is_counted(answer):
        return answer
    read = sum(map(len, request.messages)) + len(request.tools or b"")
    texts = (answer.text, answer.thinking, *(f"{call.name}{call.arguments}" for call in answer.tool_calls))
    written = sum(len(text.encode(errors="replace")) for text in texts)
    tokens = {"input_tokens": -(-read // _BYTES_PER_TOKEN), "output_tokens": -(-written // _BYTES_PER_TOKEN)}
    return replace(answer, usage=replace(answer.usage, estimated=True, **tokens))


def _begin_limit_s(request: ChatRequest) -> float:
    """Return the seconds within which the answer must have begun."""
    return request.timeout_s if request.begin_s is None else min(request.timeout_s, request.begin_s)


async def _feed_in_pieces(reader: AnswerReader, part: bytes) -> None:
    """Feed a part in pieces, with a turn for other tasks after each: a part can hold 30,000 of the smallest events."""
    for at in range(0, len(part), PIECE):
        reader.feed(part[at : at + PIECE])
        await asyncio.sleep(0)


def _parts(response: httpx2.Response, place: str) -> AsyncGenerator[bytes, None]:
    """Return the body in the parts in which it comes. A server was told not to encode it, but may. Raises
    `ModelMisconfigured`."""
    if "content-encoding" in response.headers:
        from pentad.shared.models.response_body import check_encoding, unpack

        check_encoding(response, place)
        unpack(response)
    parts: AsyncGenerator[bytes, None] = cast(Any, response.stream).__aiter__()
    return parts
