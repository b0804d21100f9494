"""The chat models of this process: those of the file and the environment, and those registered while it runs."""

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Sequence
from time import monotonic
from typing import Any

from pentad.contracts.ids import rfc3339
from pentad.contracts.models import MOST_LEARNED, ModelEntry, ModelHealth
from pentad.shared import metrics
from pentad.shared.models.configured_models import (
    ConfiguredModels,
    configured_models,
    environment_chat,
    environment_parameters,
)
from pentad.shared.models.live_model import LiveModel
from pentad.shared.models.model_list import KnownModel
from pentad.shared.models.model_makers import make_of_entry
from pentad.shared.models.model_pool import ModelPool
from pentad.shared.models.ports import ChatModel, KeyRefused, ModelFailed
from pentad.shared.presence.announcements import report_health
from pentad.shared.registries.model_places import ModelPlaces
from pentad.shared.registries.registrations import REGISTERED_MODELS
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store

log = logging.getLogger(__name__)

_KEY_S = 10.0
_STATES = {"ok": 0, "failing": 1, "probing": 2, "open": 3}
"""Values of the metric for each state of a model."""


class ProcessModels:
    """Keeps the pool as the registry says, and says how its models do. Raises ``SettingsError`` when it is made."""

    def __init__(self, settings: Settings, store: Store, service: str, consumer: str) -> None:
        self._settings, self._store, self._service, self._consumer = settings, store, service, consumer
        self._configured = configured_models(settings)
        self._of_environment = environment_chat(settings)
        self._places = ModelPlaces(store)
        self._registered: Sequence[ModelEntry] = ()
        self.pool = ModelPool(self._make, self._places, self._configured.and_registered(()))

    @property
    def uses_environment(self) -> bool:
        """Whether the environment's model answers where none is named."""
        return self.pool.default is self._of_environment

    def loops(self) -> Iterable[Coroutine[Any, Any, None]]:
        """Return the loops that run as long as the process does."""
        following = REGISTERED_MODELS.keep_following(self._store, self._use)
        reporting = report_health(self._store, self._consumer, self._look)
        return (following, reporting, self._places.keep(), self.pool.keep_closing())

    async def check_key(self) -> None:
        """Ask the environment's endpoint what models it has, which costs nothing: a key that it does not know is told
        at the start, not by the first task that fails. Whatever else goes wrong is left to the first call."""
        place = self._of_environment.place
        if place is None:
            return
        key = self._settings.llm_api_key
        from pentad.shared.models.endpoint import Endpoint

        endpoint = Endpoint(self._settings.llm_base_url, key.get_secret_value() if key else None)
        try:
            async with asyncio.timeout(_KEY_S):
                await endpoint.fetch("/models", None)
        except KeyRefused as error:
            log.warning("%s", error)
            for model in self.pool.live:
                if model.client is self._of_environment:
                    model.circuit.failed(monotonic(), str(error), hopeless=True)
        except (ModelFailed, TimeoutError) as error:
            log.debug("the models of %s were not listed: %s", place, error)
        finally:
            await endpoint.aclose()

    def _make(self, known: KnownModel) -> ChatModel:
        if known.source == "environment":
            return self._of_environment
        self._configured.check_key(known)
        return make_of_entry(known.entry, environment_parameters(self._settings))

    def use_configured(self, configured: ConfiguredModels) -> None:
        """Take other chat models of the file. A call under way is finished by the model that it has asked."""
        self._configured = self._configured.with_chat_models_of(configured)
        self._use(self._registered)

    def _use(self, registered: Sequence[ModelEntry]) -> None:
        self._registered = registered
        gone = {model.entry.id for model in self.pool.live}
        self.pool.use(self._configured.and_registered(registered))
        for name in gone - {model.entry.id for model in self.pool.live}:
            metrics.model_state.labels(self._service, name).set(0)

    async def close(self) -> None:
        """Close all connections."""
        await self.pool.aclose()
        await self._of_environment.aclose()

    def _look(self, now: int) -> list[ModelHealth]:
        """How each model does; told to the metrics too."""
        for model in self.pool.live:
            metrics.model_state.labels(self._service, model.entry.id).set(_STATES[model.circuit.state])
        return [_health(model, now) for model in self.pool.live]


def _health(model: LiveModel, now: int) -> ModelHealth:
    circuit = model.circuit
    return ModelHealth(
        id=model.entry.id,
        kind="llm",
        state=circuit.state,
        since=rfc3339(now - round((monotonic() - circuit.since) * 1000)),
        error=circuit.error,
        refused=circuit.hopeless and not circuit.closed,
        learned=model.learned[:MOST_LEARNED],
        model=model.client.name,
        place=model.client.place,
        context_tokens=model.window,
    )
