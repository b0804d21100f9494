"""The form in which one model takes requests, as its server's refusals have taught: for an hour, in this process."""

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
"""How often one request is sent again in another form."""
REQUIRED = frozenset({"input", "messages", "model", "system"})
"""Fields that no request is sent without."""
_MAX_MODELS = 64
"""Models of one endpoint whose forms are remembered."""
_SAID = 200
"""Characters of a server's words that are told with what was learned."""
Answer = TypeVar("Answer")


@immutable
class Composed:
    """A request as it is sent: make it with `composed`. ``tools``: as they are offered, in OpenAI form."""

    fields: Mapping[str, bytes]
    body: bytes
    """The JSON object that is sent."""
    tools: bytes | None
    required: frozenset[str]
    texts: int
    """How many texts it wants vectors of."""

    def refused(self, once: Iterable[str]) -> RefusedRequest:
        """What the table of refusals must know of it."""
        tools = () if self.tools is None else tool_names(self.tools)
        unusual = () if self.tools is None else unusual_tools(self.tools)
        return RefusedRequest(self.fields, self.required, tools, unusual, frozenset(once), self.texts)


def composed(
    fields: Mapping[str, bytes], *, tools: bytes | None = None, required: frozenset[str] = REQUIRED, texts: int = 0
) -> Composed:
    """The request that has these fields."""
    body = b"{%s}" % b",".join([b"%s:%s" % (to_json(name), value) for name, value in fields.items()])
    return Composed(fields, body, tools, required, texts)


class LearnedForm:
    """What is done to each request to one model. ``model``: what the log calls it."""

    def __init__(self, model: str, clock: Callable[[], float] = monotonic) -> None:
        self._model, self._clock = model, clock
        self._until: dict[Change, float] = {}
        self._words: dict[Change, str] = {}
        self._told: set[Change] = set()

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
        """The changes in words, each with what the server has said."""
        return tuple(f"{change}: it says {self._words[change]!r}" for change in self.changes)

    async def ask(
        self, compose: Callable[[Sequence[Change]], Composed], send: Callable[[Composed], Awaitable[Answer]]
    ) -> Answer:
        """The answer to a request, which is sent again in other forms as refusals teach.

        What the request is in the end refused with is raised, and what it has taught is forgotten: it did not help.
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
                    if isinstance(failure, ModelRefused):
                        for change in taught:
                            self._forget(change)
                    raise
                (once if _only_once(failure, changes) else taught).extend(changes)
                continue
            self._tell(taught)
            return answer

    def _next(
        self,
        failure: ModelFailed,
        compose: Callable[[Sequence[Change]], Composed],
        request: Composed,
        once: Sequence[Change],
        sent: Sequence[int],
    ) -> Sequence[Change] | None:
        """What is changed for the next try, which is learned; None: nothing helps. Nothing, if others have learned."""
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
            self._words[change] = shortened(refusal.words)[:_SAID]

    def _forget(self, change: Change) -> None:
        self._until.pop(change, None)
        self._words.pop(change, None)

    def _tell(self, taught: Iterable[Change]) -> None:
        """Once for each change, however often it is learned anew."""
        for change in taught:
            if change in self._words and change not in self._told:
                self._told.add(change)
                log.warning(
                    "model %s has refused a request, so %s: it says %r", self._model, change, self._words[change]
                )


def _only_once(failure: ModelFailed, changes: Sequence[Change]) -> bool:
    """Whether the refusal is of this conversation's length: the next conversation may be shorter.

    A list of texts that is too long is refused with the same status, and would be again.
    """
    return isinstance(failure, ModelTooLong) and all(change.kind != "fewer_texts" for change in changes)


class LearnedForms:
    """The forms of the models of one endpoint. ``place``: its address."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._forms: dict[str, LearnedForm] = {}

    def of(self, model: str) -> LearnedForm:
        """The form of one model."""
        form = self._forms.get(model)
        if form is None:
            if len(self._forms) >= _MAX_MODELS:
                self._forms.clear()
            form = self._forms[model] = LearnedForm(f"{model} at {self._place}")
        return form

    @property
    def told(self) -> tuple[str, ...]:
        """What was learned of all of them, in words."""
        return tuple(line for form in self._forms.values() for line in form.told)
