"""The file of models, `PENTAD_MODELS`: JSON or TOML, read once at start. What is wrong is told with its place."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pentad.contracts.models import ModelEntry
from pentad.contracts.plain_json import read_json
from pentad.shared.errors import SettingsError
from pentad.shared.models.model_list import check_file

MOST_ENTRIES = 200
"""Models in a file, and as many registered while the system runs."""
_MOST_BYTES = 1 << 20
_SHOWN = 64
"""Characters of a field's name that are repeated."""
_FORM = 'a list `models`: `{"models": [...]}` in JSON, `[[models]]` in TOML'


def read_model_file(path: Path) -> tuple[ModelEntry, ...]:
    """The models of a file, in its order. Raises ``SettingsError`` that names the place of each mistake."""
    try:
        found = _parsed(path)
        rows = found.get("models") if isinstance(found, dict) else None
        if not isinstance(rows, list) or set(found) != {"models"}:
            raise SettingsError(f"it must hold {_FORM}, and nothing else")
        if len(rows) > MOST_ENTRIES:
            raise SettingsError(f"it has {len(rows)} models: at most {MOST_ENTRIES}")
        entries = _entries(rows)
        check_file(entries)
    except SettingsError as error:
        raise SettingsError(f"PENTAD_MODELS is wrong: {path}: {error}") from None
    return entries


def _parsed(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            raw = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise SettingsError(error.strerror or str(error)) from None
    if len(raw) > _MOST_BYTES:
        raise SettingsError(f"it is longer than {_MOST_BYTES} bytes")
    try:
        if path.suffix == ".toml":
            return tomllib.loads(raw.decode())
        if path.suffix == ".json":
            return read_json(raw)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"it is no {path.suffix[1:].upper()}: {error}") from None
    raise SettingsError("its name must end in .json or .toml")


def _entries(rows: list[Any]) -> tuple[ModelEntry, ...]:
    made: list[ModelEntry] = []
    wrong: list[str] = []
    for number, row in enumerate(rows):
        try:
            made.append(ModelEntry.model_validate(row))
        except ValidationError as error:
            wrong += complaints(error, _named(number, row))
    if wrong:
        raise SettingsError("; ".join(wrong))
    return tuple(made)


def _named(number: int, row: Any) -> str:
    name = row.get("id") if isinstance(row, dict) else None
    return f"models[{number}]" + (f" ({name[:_SHOWN]!r})" if isinstance(name, str) else "")


def complaints(error: ValidationError, place: str = "") -> Iterable[str]:
    """What is wrong with an entry, a line for each mistake, without the values: one of them may be a secret."""
    for each in error.errors(include_input=False, include_url=False):
        where = ".".join(part for part in (place, *(str(part)[:_SHOWN] for part in each["loc"])) if part)
        text = each["msg"].removeprefix("Value error, ")
        yield f"{where}: {text}" if where else text
