"""The registry of models as an operator sees and changes it."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from pydantic import ValidationError

from pentad.contracts.models import ModelEntry, ModelHealth
from pentad.services.gateway.problems import ProblemError, busy, invalid, missing
from pentad.shared.entry_file import MOST_ENTRIES, complaints
from pentad.shared.models.configured import ConfiguredModels
from pentad.shared.models.model_list import ENVIRONMENT_IDS, KnownModel, ModelList, misplaced
from pentad.shared.presence.model_health import reported, worst
from pentad.shared.registries.registrations import REGISTERED_MODELS, Registered
from pentad.shared.store.store import Store

_TRIES = 5
_SAID = 1000
"""Characters of what is wrong with an entry."""
_HOMES = {"file": "the file of PENTAD_MODELS", "environment": "the environment's variables"}


class ModelUsers(Protocol):
    """Somebody whose work names models."""

    async def using(self, model_id: str) -> list[str]:
        """What of theirs needs this model, in words; empty: nothing."""


class ModelRegistry:
    """Raises ``ProblemError``, and ``OutageError`` when Redis is unavailable.

    A change is written only if the registry is still as it was when the change was found to fit.
    """

    def __init__(self, store: Store, configured: ConfiguredModels, users: Sequence[ModelUsers]) -> None:
        self._store, self._configured, self._users = store, configured, users

    async def listing(self) -> list[dict[str, Any]]:
        """Every model with where it comes from and how it does."""
        _, models = await self._read()
        health = await reported(self._store)
        return [_shown(models.known[name], health.get(name, ())) for name in sorted(models.known)]

    async def register(self, body: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        """Add an entry, or put it in the place of the registered one with its id. Says whether it is new."""
        entry = _entry(body)
        for _ in range(_TRIES):
            read, models = await self._read()
            known = models.known.get(entry.id)
            self._check(entry, known, read, models)
            if await REGISTERED_MODELS.write(self._store, read, entry.id, entry):
                health = await reported(self._store)
                shown = _shown(KnownModel(entry, "registered"), health.get(entry.id, ()))
                return shown, known is None
        raise busy("others change the registry at the same time: try again")

    async def delete(self, model_id: str) -> None:
        """Remove a registered entry that nobody uses."""
        for _ in range(_TRIES):
            read, models = await self._read()
            known = models.known.get(model_id)
            if known is None:
                raise missing("there is no such model")
            if known.source != "registered":
                raise ProblemError(409, f"model {model_id} is of {_HOMES[known.source]}: it is removed there")
            if used := await self._used(model_id, models):
                raise ProblemError(409, f"model {model_id} is in use: {'; '.join(used)}")
            if await REGISTERED_MODELS.write(self._store, read, model_id, None):
                return
        raise busy("others change the registry at the same time: try again")

    async def chat_models(self) -> set[str]:
        """The ids of those that an instruction may name."""
        _, models = await self._read()
        return {name for name, each in models.known.items() if each.entry.kind == "llm"}

    async def _read(self) -> tuple[Registered[ModelEntry], ModelList]:
        read = await REGISTERED_MODELS.read(self._store)
        return read, self._configured.and_registered(read.entries)

    async def _used(self, model_id: str, models: ModelList) -> list[str]:
        used = models.using(model_id)
        for users in self._users:
            used += await users.using(model_id)
        return used

    def _check(
        self, entry: ModelEntry, known: KnownModel | None, read: Registered[ModelEntry], models: ModelList
    ) -> None:
        if entry.id in ENVIRONMENT_IDS.values() or (known is not None and known.source != "registered"):
            home = _HOMES["file" if known is not None and known.source == "file" else "environment"]
            raise ProblemError(409, f"model {entry.id} is of {home}, which goes before: choose another id")
        if known is None and len(read.entries) >= MOST_ENTRIES:
            raise ProblemError(409, f"there are {MOST_ENTRIES} registered models already: delete one")
        if known is not None and known.entry.kind != entry.kind and (used := models.using(entry.id)):
            raise ProblemError(409, f"model {entry.id} is in use as {known.entry.kind}: {'; '.join(used)}")
        if why := self._configured.keys.refusal(entry):
            raise invalid(f"api_key_env: {why}")
        others = [each for each in (*self._configured.file, *read.entries) if each.id != entry.id]
        if problem := misplaced(entry, others, others):
            raise invalid(problem) if problem.startswith("fallbacks") else ProblemError(409, problem)


def _entry(body: Mapping[str, Any]) -> ModelEntry:
    try:
        return ModelEntry.model_validate(body)
    except ValidationError as error:
        raise invalid("; ".join(complaints(error))[:_SAID]) from None


def _shown(known: KnownModel, health: Sequence[ModelHealth]) -> dict[str, Any]:
    shown = known.entry.model_dump(mode="json") | {"source": known.source, "health": _worst(health)}
    if known.source == "environment" and health:  # it is theirs, and ours may be another
        shown |= {"model": health[0].model, "endpoint": health[0].place}
    return shown


def _worst(health: Sequence[ModelHealth]) -> dict[str, Any]:
    """How a model does where it does worst; ``unknown`` when no process tells."""
    if not health:
        return {"state": "unknown", "since": None, "error": None, "refused": False, "learned": [], "processes": 0}
    found = worst(health)
    learned = list(dict.fromkeys(line for each in health for line in each.learned))
    told = {"since": found.since, "error": found.error, "refused": found.refused, "learned": learned}
    return {"state": found.state, "processes": len(health), **told}
