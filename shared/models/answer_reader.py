"""Reads the body of one answer: joins its pieces, finds its end, and tells what a broken connection means."""

from __future__ import annotations

from pentad.shared.models.assembly import AnswerAssembly
from pentad.shared.models.endpoint import MAX_ANSWER_BYTES, Endpoint
from pentad.shared.models.loose_values import parse_object
from pentad.shared.models.model_failures import from_stream_error, shortened
from pentad.shared.models.ports import (
    ModelAnswer,
    ModelCutOff,
    ModelMisconfigured,
    ModelRefused,
    ModelUnavailable,
)
from pentad.shared.models.sse_decoder import SseDecoder

MAX_DOCUMENT_BYTES = 8 * 1024 * 1024
"""Bytes that an answer may have that is not streamed: reading it takes a multiple of its size."""
_TAIL_S = 5.0
"""Seconds to wait for the token count once the answer itself is complete."""
_DRAIN_S = 0.05
"""Seconds to wait for the end of the body after its last event: a body that is read to its end keeps its connection."""


class AnswerReader:
    """Reads one body: a stream of events, or a JSON document from a server that does not stream."""

    def __init__(self, endpoint: Endpoint, assembly: AnswerAssembly) -> None:
        self._endpoint = endpoint
        self._decoder = SseDecoder()
        self._assembly = assembly
        self._document: list[bytes] | None = None
        self._size = 0
        self._done = False
        self.began = False

    @property
    def said(self) -> bool:
        """Whether something of the answer has come: until then it is an outage when nothing more comes."""
        return not self._assembly.empty

    @property
    def finished(self) -> bool:
        """Whether the answer is whole, whatever happens to the rest of the body."""
        return bool(self._assembly.finish_reason) or (self._done and not self._assembly.empty)

    def check_kind(self, content_type: str) -> None:
        """Refuse a web page: an address that shows one is not that of a model server."""
        if content_type.startswith("text/html"):
            raise ModelMisconfigured(f"{self._endpoint.place} answered with a web page; check the base URL")

    def patience(self, stall_s: float) -> float:
        """Return the seconds to wait for the next part of the body."""
        return _DRAIN_S if self._done else min(_TAIL_S, stall_s) if self._assembly.finish_reason else stall_s

    def feed(self, part: bytes) -> None:
        """Take the next part of the body and pass its text on. Raises `ModelFailed`."""
        if not self.began and part.strip():
            self.began = True
            self._document = [] if part.lstrip().startswith(b"{") else None
        self._size += len(part)
        if self._size > MAX_ANSWER_BYTES:
            raise ModelCutOff(f"the answer of {self._endpoint.place} is larger than {MAX_ANSWER_BYTES} bytes")
        if self._document is not None:
            if self._size > MAX_DOCUMENT_BYTES:
                raise ModelRefused(
                    f"{self._endpoint.place} answers with one document of more than {MAX_DOCUMENT_BYTES} bytes: "
                    "ask for less, or use a server that streams"
                )
            self._document.append(part)
        elif not self._done:
            try:
                self._read_events(self._decoder.feed(part))
            except ValueError as error:
                raise self._cut_off(str(error)) from None

    def end(self) -> None:
        """Take the end of the body. Raises `ModelCutOff` or `ModelUnavailable` when the answer had not ended."""
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
        """Take the break of the connection. Raises `ModelCutOff` or `ModelUnavailable` unless the answer was whole by
        then."""
        if not self.finished:
            raise self._cut_off(self._endpoint.redacted(str(error)) or "the connection broke") from None

    def answer(self, model: str) -> ModelAnswer:
        """Return the answer, once it is finished."""
        return self._assembly.answer(model)

    def _read_events(self, events: list[bytes]) -> None:
        add = self._assembly.add
        for data in events:
            if data[:6] == b"[DONE]":
                self._done = True
                return
            chunk = parse_object(data, with_halves=True)
            if "error" in chunk or "choices" not in chunk:
                self._check_error(chunk)
            add(chunk)
            if self._assembly.ended:
                self._done = True
                return

    def _check_error(self, chunk: dict[str, object]) -> None:
        failure = from_stream_error(chunk, self.said, self._endpoint.place)
        if failure is not None:
            raise self._endpoint.cleaned(failure)

    def _cut_off(self, why: str) -> ModelCutOff | ModelUnavailable:
        server = f"the model server at {self._endpoint.place}"
        if self.said:
            return ModelCutOff(f"the answer of {server} was cut off: {shortened(why)}")
        return ModelUnavailable(f"{server} answered 200 and then nothing: {shortened(why)}; try again later")
