"""The list of all models, from three sources, and the rules by which one of them is asked.

A file's entry goes before one that was registered while the system runs, and that before the environment's: the
environment gives the default of a kind that nobody else names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pentad.contracts.models import ModelEntry, ModelKind
from pentad.shared.entry_file import EntryFile
from pentad.shared.errors import SettingsError
from pentad.shared.immutable import immutable

PROGRAM_MODELS = "pentad.start(models=...)"
"""The name of the argument with models, as errors say it."""
ModelSource = Literal["file", "registered", "environment"]
ENVIRONMENT_IDS: Mapping[ModelKind, str] = {"llm": "default", "embedding": "default-embedding"}
"""The ids of the environment's models. No other model may use them."""


@immutable
class KnownModel:
    """A model of the registry, and the source of its entry."""

    entry: ModelEntry
    source: ModelSource


@immutable
class ModelList:
    """All models, by id."""

    known: Mapping[str, KnownModel]
    defaults: Mapping[ModelKind, str]
    """The id of each kind's default model."""

    @property
    def embedding(self) -> KnownModel:
        """The model that embeds texts."""
        return self.known[self.defaults["embedding"]]

    def chain(self, model_id: str | None) -> tuple[KnownModel, ...]:
        """Return the chat models that may answer for this one, itself first; for None those of the default. It is
        empty when there is none.

        A fallback that is missing, or embeds, is left out: it may have been lost with a Redis.
        """
        first = self.known.get(self.defaults["llm"] if model_id is None else model_id)
        if first is None:
            return ()
        rest = (self.known.get(name) for name in first.entry.fallbacks)
        return tuple(m for m in (first, *rest) if m is not None and m.entry.kind == "llm")

    def using(self, model_id: str) -> list[str]:
        """Return in words the places of the list that need a model."""
        kinds = [f"it is the default of kind {kind}" for kind, name in self.defaults.items() if name == model_id]
        names = (m.entry for m in self.known.values())
        return kinds + [f"model {e.id} falls back to it" for e in names if model_id in e.fallbacks]


def merged(
    environment: Iterable[ModelEntry], file: Iterable[ModelEntry], registered: Iterable[ModelEntry]
) -> ModelList:
    """Return one list of all models: of two with the same id, and of two defaults of a kind, the file's counts
    first."""
    known: dict[str, KnownModel] = {}
    defaults: dict[ModelKind, str] = {}
    places: tuple[tuple[ModelSource, Iterable[ModelEntry]], ...] = (("file", file), ("registered", registered))
    for source, entries in places:
        for entry in entries:
            if entry.id not in known:
                known[entry.id] = KnownModel(entry, source)
                if entry.default:
                    defaults.setdefault(entry.kind, entry.id)
    for entry in environment:
        if entry.kind not in defaults:
            known[entry.id] = KnownModel(entry, "environment")
            defaults[entry.kind] = entry.id
    return ModelList(known, defaults)


def check_file(entries: Iterable[ModelEntry]) -> None:
    """Refuse mistakes between entries: equal ids, two defaults, missing fallbacks. Raises ``SettingsError``."""
    every = list(entries)
    for number, entry in enumerate(every):
        if problem := misplaced(entry, every[:number], every):
            raise SettingsError(f"models[{number}] ({entry.id!r}).{problem}")


def misplaced(entry: ModelEntry, before: Iterable[ModelEntry], others: Iterable[ModelEntry]) -> str | None:
    """Return why an entry cannot stand in a list, behind those before it and among all others; None when it can."""
    for other in before:
        if other.id == entry.id:
            return "id: another model has it"
        if other.default and entry.default and other.kind == entry.kind:
            return f"default: model {other.id} is the default of kind {entry.kind}"
    if entry.id in ENVIRONMENT_IDS.values():
        return "id: this one is kept for the model of the environment's variables: choose another"
    every = [entry, *others]
    there = {each.id for each in every if each.kind == "llm"}
    if not any(each.default and each.kind == "llm" for each in every):
        there.add(ENVIRONMENT_IDS["llm"])
    missing = [name for name in entry.fallbacks if name not in there]
    return f"fallbacks: there is no chat model {missing[0]}" if missing else None


_FILE = EntryFile("PENTAD_MODELS", "models", ModelEntry, "id", check_file, 1 << 20)


def given_models(rows: Any) -> tuple[ModelEntry, ...]:
    """Return the models that a program hands over, in their order.

    Raises ``SettingsError`` that names the place of each mistake.
    """
    return _FILE.of_program(rows, PROGRAM_MODELS)


def beside(given: Sequence[ModelEntry], file: Sequence[ModelEntry]) -> tuple[ModelEntry, ...]:
    """Return the models that the program hands over, and those of the file that have other ids.

    A default that is handed over takes the place of the file's. Raises ``SettingsError``.
    """
    ids, kinds = {entry.id for entry in given}, {entry.kind for entry in given if entry.default}
    kept = [
        entry.model_copy(update={"default": False}) if entry.kind in kinds else entry
        for entry in file
        if entry.id not in ids
    ]
    for number, entry in enumerate(given):
        if problem := misplaced(entry, given[:number], (*given, *kept)):
            raise SettingsError(f"{PROGRAM_MODELS} is wrong: {_FILE.place(number, entry.id)}.{problem}")
    return (*given, *kept)


def read_model_file(path: Path) -> tuple[ModelEntry, ...]:
    """Return the models of a file, in its order. Raises ``SettingsError`` that names the place of each mistake."""
    return _FILE.read(path)
