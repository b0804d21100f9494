"""The form in which one model takes requests, as its server's refusals have taught. It is kept for an hour, in this
process."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from time import monotonic
from typing import TypeVar

from pydantic_core import to_json

from pentad.shared.immutable import immutable
from pentad.shared.models.model_failures import shortened
from pentad.shared.models.ports import ModelFailed, ModelRefused, ModelTooLong
from pentad.shared.models.refusal import ServerRefusal
from pentad.shared.models.refusal_table import RefusedRequest, changes_for
from pentad.shared.models.request_change import Change
from pentad.shared.models.tool_forms import tool_names, unusual_tools

log = logging.getLogger(__name__)

LEARNED_S = 3_600.0
"""Seconds after which a server is asked in the full form again: it may have been started anew, or mended."""
MAX_REPEATS = 16
"""Number of times that one request is sent again in another form."""
REQUIRED = frozenset({"input", "messages", "model", "system"})
"""Fields that no request is sent without."""
_MAX_MODELS = 64
"""Models of one endpoint whose forms are remembered."""
_MAX_WORDS_SHOWN = 200
"""Characters of a server's words that are shown with the change that they taught."""
Answer = TypeVar("Answer")


@immutable
class Composed:
    """A request as it is sent: make it with `composed`. ``tools`` are those that are offered, in OpenAI form."""

    fields: Mapping[str, bytes]
    body: bytes
    """The JSON object that is sent."""
    tools: bytes | None
    required: frozenset[str]
    texts: int
    """Number of texts for which vectors are wanted."""

    def refused(self, once: Iterable[str]) -> RefusedRequest:
        """Return the parts of the request that the table of refusals reads."""
        tools = () if self.tools is None else tool_names(self.tools)
        unusual = () if self.tools is None else unusual_tools(self.tools)
        return RefusedRequest(self.fields, self.required, tools, unusual, frozenset(once), self.texts)


def composed(
    fields: Mapping[str, bytes], *, tools: bytes | None = None, required: frozenset[str] = REQUIRED, texts: int = 0
) -> Composed:
    """Return the request that has these fields."""
    body = b"{%s}" % b",".join([b"%s:%s" % (to_json(name), value) for name, value in fields.items()])
    return Composed(fields, body, tools, required, texts)


class LearnedForm:
    """The changes that are made to each request to one model. ``model`` is its name in the log."""

    def __init__(self, model: str, clock: Callable[[], float] = monotonic) -> None:
        self._model, self._clock = model, clock
        self._until: dict[Change, float] = {}
        self._words: dict[Change, str] = {}
        self._told: set[Change] = set()

    def apart(self) -> LearnedForm:
        """Return a copy for one request: what that one teaches is not kept."""
        copied = LearnedForm(self._model, self._clock)
        copied._until, copied._words, copied._told = dict(self._until), dict(self._words), self._told
        return copied

    @property
    def changes(self) -> Sequence[Change]:
        """The changes that are made now, in the order in which they were learned."""
        if not self._until:
            return ()
        now = self._clock()
        for change in [change for change, until in self._until.items() if until <= now]:
            self._forget(change)
        return tuple(self._until)

    @property
    def told(self) -> tuple[str, ...]:
        """The changes in words, each with the words of the server that taught it."""
        return tuple(f"{change}: it says {self._words[change]!r}" for change in self.changes)

    async def ask(
        self, compose: Callable[[Sequence[Change]], Composed], send: Callable[[Composed], Awaitable[Answer]]
    ) -> Answer:
        """Return the answer to a request, which is sent again in other forms as refusals teach.

        The last refusal of the request is raised, and the changes that it has taught are forgotten, because they did
        not help.
        """
        taught: list[Change] = []
        once: list[Change] = []
        sent: list[int] = []
        while True:
            request = compose((*self.changes, *once))
            try:
                answer = await send(request)
            except ModelFailed as failure:
                sent.append(hash(request.body))
                changes = self._next(failure, compose, request, once, sent)
                if changes is None:
                    if failure.refusal is not None or isinstance(failure, ModelRefused):
                        for change in taught:
                            self._forget(change)
                    raise
                (once if _only_once(failure, changes) else taught).extend(changes)
                continue
            self._log_changes(taught)
            return answer

    def _next(
        self,
        failure: ModelFailed,
        compose: Callable[[Sequence[Change]], Composed],
        request: Composed,
        once: Sequence[Change],
        sent: Sequence[int],
    ) -> Sequence[Change] | None:
        """Return the changes for the next try, which are learned; None when nothing helps. They are empty when
        another request has learned."""
        refusal = failure.refusal
        if refusal is None or len(sent) > MAX_REPEATS:
            return None
        now = (*self.changes, *once)
        if hash(compose(now).body) not in sent:
            return ()
        for found in changes_for(refusal, request.refused(change.name for change in once)):
            changes = found if isinstance(found, tuple) else (found,)
            if hash(compose((*now, *changes)).body) not in sent:
                if not _only_once(failure, changes):
                    self._learn(changes, refusal)
                return changes
        return None

    def _learn(self, changes: Iterable[Change], refusal: ServerRefusal) -> None:
        for change in changes:
            self._until[change] = self._clock() + LEARNED_S
            self._words[change] = shown_words(refusal.words)

    def _forget(self, change: Change) -> None:
        self._until.pop(change, None)
        self._words.pop(change, None)

    def _log_changes(self, taught: Iterable[Change]) -> None:
        """Log each change once, however often it is learned anew."""
        for change in taught:
            if change in self._words and change not in self._told:
                self._told.add(change)
                log.warning(
                    "model %s has refused a request, so %s: it says %r", self._model, change, self._words[change]
                )


def shown_words(words: str) -> str:
    """Return the beginning of a server's words, as they are shown with what they taught."""
    return shortened(words)[:_MAX_WORDS_SHOWN]


def _only_once(failure: ModelFailed, changes: Sequence[Change]) -> bool:
    """Whether the server refuses this conversation's length: the next conversation may be shorter.

    A list of texts that is too long is refused with the same status, and the next one would be again.
    """
    return isinstance(failure, ModelTooLong) and all(change.kind != "fewer_texts" for change in changes)


class LearnedForms:
    """The forms of the models of one endpoint. ``place`` is its address."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._forms: dict[str, LearnedForm] = {}

    def of(self, model: str) -> LearnedForm:
        """Return the form of one model."""
        form = self._forms.get(model)
        if form is None:
            if len(self._forms) >= _MAX_MODELS:
                self._forms.clear()
            form = self._forms[model] = LearnedForm(f"{model} at {self._place}")
        return form

    @property
    def told(self) -> tuple[str, ...]:
        """The changes of all models, in words."""
        return tuple(line for form in self._forms.values() for line in form.told)
