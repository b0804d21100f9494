"""The registry of models that an operator reads and changes."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from pydantic import ValidationError

from pentad.contracts.models import ModelEntry, ModelHealth, ModelKind
from pentad.services.gateway.edge.problems import ProblemError, busy, invalid, missing
from pentad.shared.entry_file import MOST_ENTRIES, complaints
from pentad.shared.models.configured_models import ConfiguredModels
from pentad.shared.models.model_list import ENVIRONMENT_IDS, KnownModel, ModelList, misplaced
from pentad.shared.presence.announcements import reported, worst
from pentad.shared.registries.registrations import REGISTERED_MODELS, Registered
from pentad.shared.store.store import Store

_MAX_ATTEMPTS = 5
"""How often a change is tried when others change the registry at the same time."""
_MAX_ERROR_CHARS = 1000
"""Characters of an error about an entry."""
_MOST_NAMED = 20
"""Models that are named to a client that asks for an unknown one."""
DEFAULT_MODEL = "default"
"""The word for the default model where a model's id is expected, unless a model has this id."""
_HOMES = {
    "file": "the file of PENTAD_MODELS, or of the program that has started this",
    "environment": "the environment's variables",
}


class ModelUsers(Protocol):
    """A registry whose entries name models."""

    async def uses_of(self, model_id: str) -> list[str] | None:
        """Return the entries that use this model, in words.

        Empty: no entry does, and an entry that is about to use it is not written without another look at the model.
        None: the entries change at this moment, so the caller must look again.
        """


class ModelRegistry:
    """Changes the registry of models. Raises ``ProblemError``, and ``OutageError`` if Redis is unavailable.

    A change is written only if the registry has not changed since the check. Models, instructions and graphs are
    registries of their own, which no script can see together: in a cluster they lie in several slots. So a request that
    deletes a model and one that names it each renew the version of the other registry, and then write only if the
    version of their own is the same as before. In whichever order their commands come, one of the two fails.
    """

    def __init__(self, store: Store, configured: ConfiguredModels, users: Sequence[ModelUsers]) -> None:
        self._store, self._configured, self._users = store, configured, users

    def use_configured(self, configured: ConfiguredModels) -> None:
        """Take other chat models of the file."""
        self._configured = self._configured.with_chat_models_of(configured)

    async def listing(self) -> list[dict[str, Any]]:
        """Return all models, each with its source and its health."""
        _, models = await self._read()
        health = await reported(self._store)
        return [_shown(models.known[name], health.get(name, ())) for name in sorted(models.known)]

    async def one(self, model_id: str) -> dict[str, Any]:
        """Return one model with its source and its health. Raises ``ProblemError``."""
        _, models = await self._read()
        known = models.known.get(model_id)
        if known is None:
            raise missing("there is no such model")
        health = await reported(self._store)
        return _shown(known, health.get(model_id, ()))

    async def register(self, body: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        """Add an entry, or replace the registered one with its id; return it, and whether it is new."""
        entry = _entry(body)
        for _ in range(_MAX_ATTEMPTS):
            read, models = await self._read()
            known = models.known.get(entry.id)
            self._check(entry, known, read)
            if known is not None and known.entry.kind != entry.kind:
                used = await self._uses_of(entry.id, models)
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
        for _ in range(_MAX_ATTEMPTS):
            read, models = await self._read()
            known = models.known.get(model_id)
            if known is None:
                raise missing("there is no such model")
            if known.source != "registered":
                raise ProblemError(409, f"model {model_id} is of {_HOMES[known.source]}: it is removed there")
            used = await self._uses_of(model_id, models)
            if used is None:
                continue
            if used:
                raise ProblemError(409, f"model {model_id} is in use: {'; '.join(used)}")
            if await REGISTERED_MODELS.write(self._store, read, model_id, None):
                return
        raise busy("others change the registry at the same time: try again")

    async def hold(self, model_ids: Collection[str]) -> Collection[str] | None:
        """Return which of these chat models exist, for a caller that is about to write an entry that uses them.

        A request that is about to delete one of them must then look again. None: the models change at this moment, so
        the caller must look again.
        """
        if not model_ids:
            return ()
        read, models = await self._read()
        found = [models.known[each] for each in model_ids if each in models.known]
        held = [each for each in found if each.entry.kind == "llm"]
        if any(each.source == "registered" for each in held) and not await REGISTERED_MODELS.renew(self._store, read):
            return None
        return [each.entry.id for each in held]

    async def of_kind(self, kind: ModelKind, model_id: str) -> str | None:
        """Return the id of this model, None for the default one, which ``default`` names.

        Raises ``ProblemError`` (404) that says which there are.
        """
        _, models = await self._read()
        found = models.known.get(model_id)
        if found is not None and found.entry.kind == kind:
            return model_id
        if model_id == DEFAULT_MODEL:
            return None
        there = sorted(name for name, each in models.known.items() if each.entry.kind == kind)
        listed = ", ".join([*there[:_MOST_NAMED], *([] if len(there) <= _MOST_NAMED else ["..."])])
        raise missing(f"there is no such model; there are: {listed or DEFAULT_MODEL}")

    async def _read(self) -> tuple[Registered[ModelEntry], ModelList]:
        read = await REGISTERED_MODELS.read(self._store)
        return read, self._configured.and_registered(read.entries)

    async def _uses_of(self, model_id: str, models: ModelList) -> list[str] | None:
        """Return the entries of all registries that use this model, in the form of `ModelUsers.uses_of`."""
        used = models.using(model_id)
        for users in self._users:
            theirs = await users.uses_of(model_id)
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
        raise invalid("; ".join(complaints(error))[:_MAX_ERROR_CHARS]) from None


def _shown(known: KnownModel, health: Sequence[ModelHealth]) -> dict[str, Any]:
    shown = known.entry.model_dump(mode="json") | {"source": known.source, "health": _worst(health)}
    if known.source == "environment" and health:  # it is theirs, and ours may be another
        shown |= {"model": health[0].model, "endpoint": health[0].place}
    return shown


def _worst(health: Sequence[ModelHealth]) -> dict[str, Any]:
    """Return a model's health in the process where it is worst; ``unknown`` if no process reports it."""
    if not health:
        nothing: dict[str, Any] = {
            "since": None,
            "error": None,
            "refused": False,
            "learned": [],
            "context_tokens": None,
        }
        return {"state": "unknown", "processes": 0, **nothing}
    found = worst(health)
    told = {"since": found.since, "error": found.error, "refused": found.refused, "learned": list(found.learned)}
    return {"state": found.state, "processes": len(health), **told, "context_tokens": found.context_tokens}
