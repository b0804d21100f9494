"""The chat models of one process: made from the list of models, kept while their entries stay, closed after use."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

from pentad.contracts.models import ModelEntry
from pentad.shared.errors import SettingsError
from pentad.shared.models.live_model import LiveModel
from pentad.shared.models.model_chain import ask, unknown
from pentad.shared.models.model_list import ENVIRONMENT_IDS, KnownModel, ModelList
from pentad.shared.models.ports import (
    ChatModel,
    ChatRequest,
    DeltaSink,
    ModelAnswer,
    ModelFailed,
    ModelGate,
    ModelMisconfigured,
)
from pentad.shared.models.token_counter import TokenCounter

_CLOSE_EVERY_S = 1.0
log = logging.getLogger(__name__)


class ModelPool:
    """Asks models by their ids. ``make`` makes the client of an entry; it may raise ``SettingsError``."""

    def __init__(self, make: Callable[[KnownModel], ChatModel], gate: ModelGate, models: ModelList) -> None:
        self._make, self._gate = make, gate
        self._models: dict[str, LiveModel] = {}
        self._retired: list[LiveModel] = []
        self._chains: dict[str | None, Sequence[LiveModel]] = {}
        self.use(models)

    def use(self, models: ModelList) -> None:
        """Ask these models from now on. A model whose entry has not changed keeps its connections and its circuit."""
        before, self._models = self._models, {}
        for name, known in models.known.items():
            if known.entry.kind == "llm":
                kept = before.get(name)
                same = kept is not None and kept.entry == known.entry
                self._models[name] = before.pop(name) if same else self._made(known)
        self._retired += before.values()
        chains = {name: tuple(self._models[m.entry.id] for m in models.chain(name)) for name in (*self._models, None)}
        self._chains = {name: chain for name, chain in chains.items() if chain}

    def _made(self, known: KnownModel) -> LiveModel:
        return LiveModel(known.entry, self._client(known), "" if known.source == "environment" else known.entry.id)

    def _client(self, known: KnownModel) -> ChatModel:
        try:
            return self._make(known)
        except SettingsError as error:
            log.warning("%s", error)
            return _UnusableModel(known.entry, str(error))

    @property
    def live(self) -> Iterable[LiveModel]:
        """The chat models of the list."""
        return self._models.values()

    @property
    def default(self) -> ChatModel:
        """The client of the default model."""
        return self._chains[None][0].client

    def knows(self, model_id: str | None) -> bool:
        """Whether there is such a chat model; None means the default."""
        return model_id in self._chains

    def is_real(self, model_id: str | None) -> bool:
        """Whether a real model would answer, and not only the offline one; None means the default."""
        return any(model.client.place is not None for model in self._chains.get(model_id, ()))

    def window(self, model_id: str | None) -> int | None:
        """The tokens that a model takes, not its fallbacks; None: not known. ``model_id`` None: the default model."""
        chain = self._chains.get(model_id)
        return chain[0].window if chain else None

    def calls_as_text(self, model_id: str | None) -> bool:
        """Whether a model takes no tools, as far as is known. ``model_id`` None: the default model."""
        chain = self._chains.get(model_id)
        return chain[0].calls_as_text if chain else False

    def sees_images(self, model_id: str | None) -> bool:
        """Whether a model, or one of its fallbacks, sees images. ``model_id`` None: the default model."""
        return any(model.entry.vision for model in self._chains.get(model_id, ()))

    def counter(self, model_id: str | None) -> TokenCounter:
        """The counter of a model's prompts, not calibrated for an unknown one. ``model_id`` None: the default model."""
        chain = self._chains.get(model_id)
        return chain[0].counter if chain else TokenCounter()

    def ask(
        self, model_id: str | None, request: ChatRequest, on_delta: DeltaSink
    ) -> Coroutine[Any, Any, ModelAnswer | ModelFailed]:
        """Return the answer of a model or of its fallbacks; None asks the default. A failure is returned."""
        chain = self._chains.get(model_id)
        if chain is None:
            return _fail(unknown(model_id))
        return ask(chain, request, on_delta, self._gate)

    def warm(self) -> None:
        """Import and make everything that the first calls need. This blocks: call it in a thread."""
        for model in list(self._models.values()):
            model.client.warm()

    async def keep_closing(self) -> None:
        """Close the clients of removed entries, once no call waits for their answers."""
        while True:
            await asyncio.sleep(_CLOSE_EVERY_S)
            await self._close_retired()

    async def _close_retired(self) -> None:
        done = [model for model in self._retired if not model.asked]
        self._retired = [model for model in self._retired if model.asked]
        for model in done:
            await model.client.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        for model in (*self._models.values(), *self._retired):
            await model.client.aclose()


async def _fail(failure: ModelFailed) -> ModelFailed:
    return failure


class _UnusableModel:
    """A model that cannot be asked from this process: it refuses each request with the reason."""

    def __init__(self, entry: ModelEntry, why: str) -> None:
        self.name, self.place, self._why = entry.model or entry.id, entry.endpoint, why
        self.learned: tuple[str, ...] = ()
        self.window: int | None = None

    def warm(self) -> None:
        """Do nothing: there is nothing to prepare."""

    async def stream(self, request: ChatRequest, on_delta: DeltaSink) -> ModelAnswer:
        raise ModelMisconfigured(self._why)

    async def aclose(self) -> None:
        """Do nothing: there is no connection to close."""


class OpenGate:
    """A gate for models without limits and processes without others: every call may pass."""

    async def enter(self, model_id: str, limit: int, caller: str, wait: bool) -> str:
        return caller or "one"

    def leave(self, model_id: str, place: str) -> None:
        """Do nothing: no call was counted."""

    async def may_probe(self, model_id: str, for_s: float) -> bool:
        return True

    def probed(self, model_id: str) -> None:
        """Do nothing: no other process waits for the probe."""


def pool_of(model: ChatModel) -> ModelPool:
    """Return a pool of one model that is made already, without limits."""
    entry = ModelEntry(id=ENVIRONMENT_IDS["llm"], default=True)
    known = KnownModel(entry, "environment")
    return ModelPool(lambda _: model, OpenGate(), ModelList({entry.id: known}, {"llm": entry.id}))
