"""The registry of models as an operator sees and changes it."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from pydantic import ValidationError

from pentad.contracts.models import ModelEntry, ModelHealth
from pentad.services.gateway.edge.problems import ProblemError, busy, invalid, missing
from pentad.shared.entry_file import MOST_ENTRIES, complaints
from pentad.shared.models.configured import ConfiguredModels
from pentad.shared.models.model_list import ENVIRONMENT_IDS, KnownModel, ModelList, misplaced
from pentad.shared.presence.announcements import reported, worst
from pentad.shared.registries.registrations import REGISTERED_MODELS, Registered
from pentad.shared.store.store import Store

_TRIES = 5
_SAID = 1000
"""Characters of what is wrong with an entry."""
_HOMES = {"file": "the file of PENTAD_MODELS", "environment": "the environment's variables"}


class ModelUsers(Protocol):
    """Somebody whose work names models."""

    async def let_go(self, model_id: str) -> list[str] | None:
        """What of theirs needs this model, in words.

        Empty: nothing does, and what is about to is not written without looking for the model again. None: that changes
        at this very time, so the model is to be looked at anew.
        """


class ModelRegistry:
    """Raises ``ProblemError``, and ``OutageError`` when Redis is unavailable.

    A change is written only if the registry is still as it was when the change was found to fit. Models, instructions
    are two registries, which no script sees both of: in a cluster they lie in two slots. So who deletes a model and who
    names it each renews the other registry's version, and then writes only if his own is as it was before that. Of the
    two one is overtaken, in whichever order their commands come.
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
            self._check(entry, known, read)
            if known is not None and known.entry.kind != entry.kind:
                used = await self._let_go(entry.id, models)
                if used is None:
                    continue
                if used:
                    raise ProblemError(409, f"model {entry.id} is in use as {known.entry.kind}: {'; '.join(used)}")
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
            used = await self._let_go(model_id, models)
            if used is None:
                continue
            if used:
                raise ProblemError(409, f"model {model_id} is in use: {'; '.join(used)}")
            if await REGISTERED_MODELS.write(self._store, read, model_id, None):
                return
        raise busy("others change the registry at the same time: try again")

    async def hold(self, model_id: str) -> bool | None:
        """Whether there is this chat model, for whoever is about to write that he needs it: who is about to delete it
        looks again. None: the models change at this very time, so ask anew."""
        read, models = await self._read()
        found = models.known.get(model_id)
        if found is None or found.entry.kind != "llm":
            return False
        return found.source != "registered" or await REGISTERED_MODELS.renew(self._store, read) or None

    async def _read(self) -> tuple[Registered[ModelEntry], ModelList]:
        read = await REGISTERED_MODELS.read(self._store)
        return read, self._configured.and_registered(read.entries)

    async def _let_go(self, model_id: str, models: ModelList) -> list[str] | None:
        """What needs this model, in words, as `ModelUsers.let_go` says it."""
        used = models.using(model_id)
        for users in self._users:
            theirs = await users.let_go(model_id)
            if theirs is None:
                return None
            used += theirs
        return used

    def _check(self, entry: ModelEntry, known: KnownModel | None, read: Registered[ModelEntry]) -> None:
        if entry.id in ENVIRONMENT_IDS.values() or (known is not None and known.source != "registered"):
            home = _HOMES["file" if known is not None and known.source == "file" else "environment"]
            raise ProblemError(409, f"model {entry.id} is of {home}, which goes before: choose another id")
        if known is None and len(read.entries) >= MOST_ENTRIES:
            raise ProblemError(409, f"there are {MOST_ENTRIES} registered models already: delete one")
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
    told = {"since": found.since, "error": found.error, "refused": found.refused, "learned": list(found.learned)}
    return {"state": found.state, "processes": len(health), **told}
