"""A chat model of the registry as one process uses it: its client, its circuit, and the metrics of its calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from time import monotonic, perf_counter

from pentad.contracts.models import ModelEntry
from pentad.shared import metrics
from pentad.shared.models.circuit import Circuit
from pentad.shared.models.ports import (
    ChatModel,
    ChatRequest,
    DeltaSink,
    ModelAnswer,
    ModelCutOff,
    ModelFailed,
    ModelMisconfigured,
    ModelRefused,
    ModelUnavailable,
)
from pentad.shared.models.request_change import NO_TOOLS_TOLD
from pentad.shared.models.token_counter import TokenCounter

_OUTCOMES = ((ModelRefused, "refused"), (ModelUnavailable, "unavailable"), (ModelCutOff, "cut_off"))
"""Outcomes of model calls that have no answer, for the metrics."""
_TOO_MANY = 429


class LiveModel:
    """One model. ``entry`` is that of the registry, ``shown_id`` the id that its answers bear."""

    def __init__(self, entry: ModelEntry, client: ChatModel, shown_id: str) -> None:
        self.entry, self.client, self._shown_id = entry, client, shown_id
        self.circuit = Circuit(monotonic())
        self.counter = TokenCounter()
        self.asked = 0
        """Number of calls under way."""

    @property
    def at_hand(self) -> bool:
        """Whether the model can be asked without asking the gate before."""
        return self.circuit.closed and self.entry.concurrency is None

    @property
    def learned(self) -> tuple[str, ...]:
        """The changes that the server's refusals have taught for requests to this model, in words."""
        return self.client.learned

    @property
    def window(self) -> int | None:
        """The tokens that the model takes: the least of what its entry says and its server has named; None: unknown."""
        return min((w for w in (self.entry.context_tokens, self.client.window) if w is not None), default=None)

    @property
    def calls_as_text(self) -> bool:
        """Whether the model takes no tools, by its entry or by a refusal of its server: calls are written as text."""
        if self.entry.tools is not None:
            return self.entry.tools == "text"
        return any(NO_TOOLS_TOLD in line for line in self.learned)

    async def answer(self, request: ChatRequest, on_delta: DeltaSink, probe: bool = False) -> ModelAnswer | ModelFailed:
        """Return the answer of the model. A failure is returned without its frames: they would keep the task alive
        that asks.

        ``probe``: this call decides whether the circuit closes.
        """
        begun, outcome = perf_counter(), "cancelled"
        if request.images and not self.entry.vision:
            request = replace(request, images={})
        if request.on_cut is not None:
            request = replace(request, on_cut=partial(self._cut, request.on_cut))
        self.asked += 1
        try:
            answer = await self.client.stream(request, on_delta)
            outcome = "ok"
        except ModelFailed as error:
            outcome = next(word for kind, word in _OUTCOMES if isinstance(error, kind))
            self._failed(error, probe)
            return error.with_traceback(None)
        finally:
            self.asked -= 1
            metrics.model_seconds.labels(self.client.name, outcome).observe(perf_counter() - begun)
        self.circuit.answered(monotonic(), probe)
        if request.images:
            return replace(self._counted(answer), saw_images=True)
        if request.teaches and not answer.usage.estimated:
            self.counter.learn(request.messages, request.tools, answer.usage.input_tokens)
        return self._counted(answer)

    def down(self) -> ModelFailed:
        """Return the failure of a call that is not made, because the model is left alone."""
        why = f"model {self.entry.id} is left alone for a while: {self.circuit.error or 'it keeps failing'}"
        if self.circuit.hopeless:
            return ModelMisconfigured(why)
        now = monotonic()
        return ModelUnavailable(why, self.circuit.left(now), stated_s=self.circuit.stated_left(now))

    def _failed(self, error: ModelFailed, probe: bool) -> None:
        now = monotonic()
        if isinstance(error, ModelRefused) and not isinstance(error, ModelMisconfigured):
            self.circuit.answered(now, probe)  # it is well: this request alone is refused
            return
        hopeless = isinstance(error, ModelMisconfigured)
        limited = isinstance(error, ModelUnavailable) and error.status == _TOO_MANY
        asked_s = error.retry_after
        self.circuit.failed(now, str(error), asked_s=asked_s, limited=limited, hopeless=hopeless, probe=probe)

    def _cut(self, told: Callable[[ModelAnswer], None], said: ModelAnswer) -> None:
        told(self._counted(said))

    def _counted(self, answer: ModelAnswer) -> ModelAnswer:
        usage, prices, name = answer.usage, self.entry.prices, self.client.name
        metrics.model_tokens.labels(name, "input").inc(usage.input_tokens)
        metrics.model_tokens.labels(name, "output").inc(usage.output_tokens)
        metrics.model_tokens.labels(name, "cached").inc(usage.cached_tokens)
        if prices is not None:
            usage = replace(usage, usd=prices.usd(usage.input_tokens, usage.output_tokens, usage.cached_tokens))
            metrics.model_usd.labels(name).inc(usage.usd)
        elif not self._shown_id:
            return answer
        return replace(answer, usage=usage, model_id=self._shown_id)
