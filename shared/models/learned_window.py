"""The windows of a server's models, as its refusals of prompts that were too long have named them. They are kept for an
hour, in this process."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from time import monotonic

from pentad.contracts.models import MAX_CONTEXT_TOKENS, MIN_CONTEXT_TOKENS
from pentad.shared.immutable import immutable
from pentad.shared.models.learned_form import LEARNED_S, shown_words
from pentad.shared.models.ports import ModelTooLong

log = logging.getLogger(__name__)

_MAX_MODELS = 64
"""Models of one endpoint whose windows are remembered."""


@immutable
class _Window:
    """One window, and the server's words that named it."""

    tokens: int
    words: str
    until: float

    def __str__(self) -> str:
        return f"it takes {self.tokens:,} tokens in all: it says {self.words!r}"


class LearnedWindows:
    """The windows of the models of one endpoint. ``place`` is its address."""

    def __init__(self, place: str, clock: Callable[[], float] = monotonic) -> None:
        self._place, self._clock = place, clock
        self._windows: OrderedDict[str, _Window] = OrderedDict()

    def learn(self, model: str, failure: ModelTooLong) -> None:
        """Keep the limit that a refusal names; the newest counts. One that is no window is ignored."""
        tokens = failure.limit
        if tokens is None or not MIN_CONTEXT_TOKENS <= tokens <= MAX_CONTEXT_TOKENS:
            return
        known = self.of(model)
        words = failure.refusal.words if failure.refusal is not None else str(failure)
        window = _Window(tokens, shown_words(words), self._clock() + LEARNED_S)
        self._windows[model] = window
        self._windows.move_to_end(model)
        if len(self._windows) > _MAX_MODELS:
            self._windows.popitem(last=False)
        if known != tokens:
            log.warning("model %s at %s has refused a prompt: %s", model, self._place, window)

    def of(self, model: str) -> int | None:
        """Return the tokens that a model takes; None when no refusal of the last hour has named them."""
        window = self._windows.get(model)
        if window is None or window.until <= self._clock():
            return None
        return window.tokens

    @property
    def told(self) -> tuple[str, ...]:
        """The windows of all models, in words, each with the words of the server that taught it."""
        now = self._clock()
        return tuple(str(window) for window in self._windows.values() if window.until > now)
