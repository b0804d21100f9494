"""The instructions that there are, from four places, and which of two with the same name counts. Pure.

A file's goes before one that was registered while the system runs, that before a plugin's, and that before what is
built in: an operator may put another ``executor`` in the place of ours.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from pentad.contracts.instructions import Instruction
from pentad.shared.entry_file import EntryFile
from pentad.shared.errors import SettingsError
from pentad.shared.immutable import immutable
from pentad.shared.instructions.builtin import BUILT_IN
from pentad.shared.settings import Settings


def check_schema(instruction: Instruction) -> None:
    """Raises ``WrongSchema``, a ``ValueError``. The checker is only loaded for an instruction that has a schema.

    It returns at once: a schema whose check may take long is left to `prove_schema`.
    """
    if instruction.output_schema is not None:
        from pentad.shared.instructions.output import Output

        Output(instruction.output_schema)


def prove_schema(instruction: Instruction) -> None:
    """As `check_schema`, for every schema. It may take seconds: not for an event loop."""
    if instruction.output_schema is not None:
        from pentad.shared.instructions.output import Output

        Output(instruction.output_schema).prove()


_LENGTH = 16


def version_of(instruction: Instruction) -> str:
    """The digest of what it says, in hex digits."""
    return hashlib.sha256(instruction.to_json()).hexdigest()[:_LENGTH]


def kept_under(version: str) -> str:
    """The name of a version among a task's large values, and in its record."""
    return f"instruction:{version}"


InstructionSource = Literal["file", "registered", "plugin", "built_in"]


@immutable
class KnownInstruction:
    """An instruction, and where it comes from."""

    instruction: Instruction
    source: InstructionSource


def all_instructions(
    file: Iterable[Instruction], registered: Iterable[Instruction], published: Iterable[Instruction]
) -> Mapping[str, KnownInstruction]:
    """Those that count, by name."""
    places: tuple[tuple[InstructionSource, Iterable[Instruction]], ...] = (
        ("built_in", BUILT_IN.values()),
        ("plugin", published),
        ("registered", registered),
        ("file", file),
    )
    known = {each.name: KnownInstruction(each, source) for source, entries in places for each in entries}
    return MappingProxyType(dict(sorted(known.items())))


_MOST_BYTES = 16 << 20


def configured_instructions(settings: Settings) -> tuple[Instruction, ...]:
    """The instructions of the file, in its order; none without one.

    Raises ``SettingsError`` that names the place of each mistake.
    """
    return () if settings.pentad_instructions is None else _FILE.read(settings.pentad_instructions)


def _check(entries: Sequence[Instruction]) -> None:
    names: set[str] = set()
    for number, entry in enumerate(entries):
        if entry.name in names:
            raise SettingsError(f"{_FILE.place(number, entry.name)}.name: another instruction has it")
        names.add(entry.name)
        try:
            prove_schema(entry)
        except ValueError as error:
            raise SettingsError(f"{_FILE.place(number, entry.name)}: {error}") from None


_FILE = EntryFile("PENTAD_INSTRUCTIONS", "instructions", Instruction, "name", _check, _MOST_BYTES)
