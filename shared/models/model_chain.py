"""Which model of a chain answers: the first that is not known to be down and has a place free.

What happens after a failure:

    unavailable     nothing was shown: the next model is asked at once
    misconfigured   likewise: a wrong key or an unknown model says nothing of the request
    refused         likewise: what one server refuses in each form that it is sent, another may take. After something
                    was shown the attempt ends
    cut off         something may have been shown: the attempt ends. The next one begins with the chain again, and
                    from the second on one model further each time
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import replace
from time import monotonic
from typing import Any, Literal

from pentad.shared.models.live_model import LiveModel
from pentad.shared.models.ports import (
    ChatRequest,
    DeltaSink,
    ModelAnswer,
    ModelBusy,
    ModelFailed,
    ModelGate,
    ModelMisconfigured,
    ModelRefused,
    ModelTooLong,
    ModelUnavailable,
)

_UNKNOWN_RETRY_S = 1.0
"""Seconds after which an unknown model is asked for again: one that was registered just now is known a moment later."""
Chain = Sequence[LiveModel]
AnswerOrFailure = ModelAnswer | ModelFailed


def ask(
    chain: Chain, request: ChatRequest, on_delta: DeltaSink, gate: ModelGate
) -> Coroutine[Any, Any, AnswerOrFailure]:
    """Return the answer of the first model that can give one, or the failure.

    One model alone that is well and has no limit is asked directly, without waiting for anything else.
    """
    if len(chain) == 1 and chain[0].at_hand:
        return chain[0].answer(request, on_delta)
    first = max(0, request.cut - 1) % len(chain)
    return _ChainCall([*chain[first:], *chain[:first]], request, on_delta, gate).answer()


class _ChainCall:
    """One call, on its way along a chain of models."""

    def __init__(self, chain: Chain, request: ChatRequest, on_delta: DeltaSink, gate: ModelGate) -> None:
        self._chain, self._request, self._show, self._gate = chain, request, on_delta, gate
        self._shown = False

    async def answer(self) -> AnswerOrFailure:
        failures: list[ModelFailed] = []
        asked, alone = False, len(self._chain) == 1
        for number, model in enumerate(self._chain):
            if not model.circuit.may_ask(monotonic()):
                failures.append(model.down())
                continue
            outcome = await self._ask(model, self._standby(number), wait=alone)
            if alone or self._shown or not isinstance(outcome, ModelUnavailable | ModelRefused):
                return outcome
            asked = asked or not isinstance(outcome, ModelBusy)
            failures.append(outcome)
        return await self._without_answer(failures, asked)

    async def _without_answer(self, failures: Sequence[ModelFailed], asked: bool) -> AnswerOrFailure:
        """Wait for a place when no model could answer, or return the failure with the time until which it lasts."""
        busy = next((m for m, f in zip(self._chain, failures, strict=True) if isinstance(f, ModelBusy)), None)
        if busy is not None:
            return await self._ask(busy, standby=False, wait=True)
        if not asked and all(isinstance(failure, ModelMisconfigured) for failure in failures):
            # Nobody else can answer, and a person may have mended it: the refusal is worth asking for.
            return await self._chain[0].answer(self._request, self._on_delta, probe=True)
        return self._together(failures)

    def _together(self, failures: Sequence[ModelFailed]) -> ModelFailed:
        """Return one failure for all: unavailable when any may answer later, until the earliest time that is known."""
        text = "; ".join(map(str, failures))
        later = [
            model.circuit.left(monotonic()) if not model.circuit.closed else failure.retry_after
            for model, failure in zip(self._chain, failures, strict=True)
            if isinstance(failure, ModelUnavailable)
        ]
        if not later:
            return failures[0] if len(failures) == 1 else _final(text, failures)
        stated = [failure.stated_s for failure in failures if isinstance(failure, ModelUnavailable)]
        return ModelUnavailable(text, _earliest(later), stated_s=_earliest(stated))

    def _on_delta(self, kind: Literal["content", "thinking"], text: str) -> None:
        self._shown = True
        self._show(kind, text)

    def _standby(self, number: int) -> bool:
        return any(model.circuit.closed for model in self._chain[number + 1 :])

    async def _ask(self, model: LiveModel, standby: bool, wait: bool) -> AnswerOrFailure:
        limit, place = model.entry.concurrency, ""
        if limit is not None:
            try:
                place = await self._gate.enter(model.entry.id, limit, self._request.caller, wait)
            except ModelBusy as busy:
                return busy.with_traceback(None)
        try:
            if model.circuit.closed:
                request = replace(self._request, begin_s=model.entry.begin_s) if standby else self._request
                return await model.answer(request, self._on_delta)
            return await self._probe(model)
        finally:
            if place:
                self._gate.leave(model.entry.id, place)

    async def _probe(self, model: LiveModel) -> AnswerOrFailure:
        """Find out whether a model is well again by one call in the whole system, which must begin in time."""
        if not model.circuit.may_ask(monotonic()):  # another was quicker while this one waited for its place
            return model.down()
        begin_s = model.entry.begin_s
        model.circuit.probe()
        granted = False
        try:
            granted = await self._gate.may_probe(model.entry.id, begin_s)
            if not granted:
                return model.down()
            return await model.answer(replace(self._request, begin_s=begin_s), self._closing(model), probe=True)
        finally:
            model.circuit.probe_given_up()
            if granted:
                self._gate.probed(model.entry.id)

    def _closing(self, model: LiveModel) -> DeltaSink:
        """Return a sink that closes the circuit when the answer begins: its end need not be waited for."""

        def shown(kind: Literal["content", "thinking"], text: str) -> None:
            if not model.circuit.closed:
                model.circuit.answered(monotonic(), probe=True)
                self._gate.probed(model.entry.id)
            self._on_delta(kind, text)

        return shown


def _earliest(later: Sequence[float | None]) -> float | None:
    """Return the least of these seconds, None when one is not known."""
    known = [seconds for seconds in later if seconds is not None]
    return min(known) if len(known) == len(later) else None


def _final(text: str, failures: Sequence[ModelFailed]) -> ModelRefused:
    """Return one refusal for those of several models. When one finds the request too long, a shorter one may be
    answered."""
    too_long = [failure for failure in failures if isinstance(failure, ModelTooLong)]
    if too_long:
        widest = max(too_long, key=lambda failure: failure.limit or 0)
        return ModelTooLong(text, widest.limit, widest.asked)
    return ModelMisconfigured(text) if all(isinstance(f, ModelMisconfigured) for f in failures) else ModelRefused(text)


def unknown(model_id: str | None) -> ModelUnavailable:
    """Return the failure of a call to an unknown model: it may be known in a moment."""
    return ModelUnavailable(f"there is no chat model {model_id!r}: register it, or name another", _UNKNOWN_RETRY_S)
