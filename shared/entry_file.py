"""Files with lists of entries, JSON or TOML, read once at start. Errors name the place of each mistake."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from pentad.contracts.envelope import Contract
from pentad.contracts.plain_json import read_json
from pentad.shared.errors import SettingsError
from pentad.shared.immutable import immutable

MOST_ENTRIES = 200
"""Entries of a file, and as many of a kind registered while the system runs."""
_SHOWN = 64
"""Characters of a field's name that are repeated."""

T = TypeVar("T", bound=Contract)


@immutable
class EntryFile(Generic[T]):
    """A list of entries in a kind of file. A field that entries do not have is refused: it may be misspelt."""

    variable: str
    """The setting that names the file."""
    listed: str
    """The name of the list."""
    kind: type[T]
    name: str
    """The field that names an entry."""
    check: Callable[[Sequence[T]], None]
    """Raises ``SettingsError`` for mistakes that no entry shows by itself, like a name used twice."""
    most_bytes: int
    beside: str | None = None
    """The name of another list that the file may hold, beside this one or in its place."""
    most: int = MOST_ENTRIES
    """Entries that the list may have."""

    def read(self, path: Path) -> tuple[T, ...]:
        """Return the entries, in their order. Raises ``SettingsError``, which names the place of each mistake."""
        return self.read_beside(path, self.parsed(path))

    def parsed(self, path: Path) -> Any:
        """Return what the file holds, for `read_beside`. Raises ``SettingsError``."""
        try:
            return _parsed(path, self.most_bytes)
        except SettingsError as error:
            raise self._wrong(path, error) from None

    def read_beside(self, path: Path, parsed: Any) -> tuple[T, ...]:
        """Return the entries of a file that was parsed, as `read` does."""
        try:
            entries = self._entries(self._rows(parsed))
            self.check(entries)
        except SettingsError as error:
            raise self._wrong(path, error) from None
        return entries

    def _wrong(self, path: Path, error: SettingsError) -> SettingsError:
        return SettingsError(f"{self.variable} is wrong: {path}: {error}")

    def of_program(self, rows: Any, argument: str) -> tuple[T, ...]:
        """Return the entries that a program hands over, as dicts or as models, in their order.

        Raises ``SettingsError``, which names the argument and the place of each mistake. ``check`` is the caller's.
        """
        try:
            if isinstance(rows, str | Mapping) or not isinstance(rows, Sequence):
                raise SettingsError(f"it must be a list of dicts, not {type(rows).__name__}")
            return self._entries([row if isinstance(row, self.kind) else _plain(row) for row in self._counted(rows)])
        except SettingsError as error:
            raise SettingsError(f"{argument} is wrong: {error}") from None

    def place(self, number: int, name: Any) -> str:
        """Return the place of an entry in its list, with its name when it has one."""
        return f"{self.listed}[{number}]" + (f" ({name[:_SHOWN]!r})" if isinstance(name, str) else "")

    def _rows(self, found: Any) -> list[Any]:
        fields = set(found) if isinstance(found, dict) else set()
        absent: list[Any] | None = [] if self.beside in fields else None
        rows = found.get(self.listed, absent) if isinstance(found, dict) else None
        if not isinstance(rows, list) or fields - {self.listed, self.beside}:
            form = f'`{{"{self.listed}": [...]}}` in JSON, `[[{self.listed}]]` in TOML'
            more = "" if self.beside is None else f", or a list `{self.beside}`, or both"
            raise SettingsError(f"it must hold a list `{self.listed}`: {form}{more}, and nothing else")
        return self._counted(rows)

    def _counted(self, rows: Sequence[Any]) -> list[Any]:
        if len(rows) > self.most:
            raise SettingsError(f"it has {len(rows)} {self.listed}: at most {self.most}")
        return list(rows)

    def _entries(self, rows: list[Any]) -> tuple[T, ...]:
        made: list[T] = []
        wrong: list[str] = []
        for number, row in enumerate(rows):
            try:
                made.append(self.kind.model_validate(row, extra="forbid"))
            except ValidationError as error:
                wrong += complaints(error, self.place(number, row.get(self.name) if isinstance(row, dict) else None))
        if wrong:
            raise SettingsError("; ".join(wrong))
        return tuple(made)


def _plain(row: Any) -> Any:
    """Return an entry as plain data; a model of the program's own is what its fields say."""
    if isinstance(row, BaseModel):
        return row.model_dump(mode="json")
    return dict(row) if isinstance(row, Mapping) else row


def _parsed(path: Path, most_bytes: int) -> Any:
    try:
        with path.open("rb") as file:
            raw = file.read(most_bytes + 1)
    except OSError as error:
        hint = f"; let user {os.geteuid()} read it: chmod a+r" if isinstance(error, PermissionError) else ""
        raise SettingsError(f"{error.strerror or error}{hint}") from None
    if len(raw) > most_bytes:
        raise SettingsError(f"it is longer than {most_bytes} bytes")
    try:
        if path.suffix == ".toml":
            return tomllib.loads(raw.decode())
        if path.suffix == ".json":
            return read_json(raw)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"it is no {path.suffix[1:].upper()}: {error}") from None
    raise SettingsError("its name must end in .json or .toml")


def complaints(error: ValidationError, place: str = "") -> Iterable[str]:
    """Describe the mistakes of an entry, a line for each, without the values: one of them may be a secret."""
    for each in error.errors(include_input=False, include_url=False):
        where = ".".join(part for part in (place, *(str(part)[:_SHOWN] for part in each["loc"])) if part)
        text = each["msg"].removeprefix("Value error, ")
        yield f"{where}: {text}" if where else text
