"""The list of all instructions, from four sources, and the rule which of two with the same name counts.

A file's goes before one that was registered while the system runs, that before a plugin's, and that before a
built-in one: an operator may put another ``executor`` in the place of ours.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

from pentad.contracts.graphs import GraphSpec
from pentad.contracts.instructions import Instruction
from pentad.shared.entry_file import EntryFile
from pentad.shared.errors import SettingsError
from pentad.shared.immutable import immutable
from pentad.shared.instructions.builtin import BUILT_IN
from pentad.shared.settings import Settings


def check_schema(instruction: Instruction) -> None:
    """Raise ``WrongSchema``, a ``ValueError``, for a wrong schema. The checker is loaded only for an instruction
    that has a schema.

    This returns at once: a schema whose check may take long is left to `prove_schema`.
    """
    if instruction.output_schema is not None:
        from pentad.shared.instructions.output import Output

        Output(instruction.output_schema)


def prove_schema(instruction: Instruction) -> None:
    """Check as `check_schema` does, for every schema. This may take seconds: do not call it in an event loop."""
    if instruction.output_schema is not None:
        from pentad.shared.instructions.output import Output

        Output(instruction.output_schema).prove()


_VERSION_CHARS = 16


def version_of(runnable: Instruction | GraphSpec) -> str:
    """Return the digest of an instruction or a graph in hex digits."""
    return hashlib.sha256(runnable.to_json()).hexdigest()[:_VERSION_CHARS]


def kept_under(version: str) -> str:
    """Return the name of a version among a task's large values, and in its record."""
    return f"instruction:{version}"


def graph_kept_under(version: str) -> str:
    """Return the name of a version of a graph among a task's large values, and in its record."""
    return f"graph:{version}"


InstructionSource = Literal["file", "registered", "plugin", "built_in"]


@immutable
class KnownInstruction:
    """An instruction, and its source."""

    instruction: Instruction
    source: InstructionSource


def all_instructions(
    file: Iterable[Instruction], registered: Iterable[Instruction], published: Iterable[Instruction]
) -> Mapping[str, KnownInstruction]:
    """Return the instructions that count, by name."""
    places: tuple[tuple[InstructionSource, Iterable[Instruction]], ...] = (
        ("built_in", BUILT_IN.values()),
        ("plugin", published),
        ("registered", registered),
        ("file", file),
    )
    known = {each.name: KnownInstruction(each, source) for source, entries in places for each in entries}
    return MappingProxyType(dict(sorted(known.items())))


_MAX_FILE_BYTES = 16 << 20


def configured_instructions(settings: Settings) -> tuple[Instruction, ...]:
    """Return the instructions that the program hands over, and those of the file that have other names.

    Raises ``SettingsError`` that names the place of each mistake.
    """
    given = settings.instructions_of_program
    file = () if settings.pentad_instructions is None else _FILE.read(settings.pentad_instructions)
    names = {entry.name for entry in given}
    return (*given, *(entry for entry in file if entry.name not in names))


def given_instructions(rows: Any) -> tuple[Instruction, ...]:
    """Return the instructions that a program hands over. This may take seconds: do not call it in an event loop.

    Raises ``SettingsError`` that names the place of each mistake.
    """
    argument = "pentad.start(instructions=...)"
    entries = _FILE.of_program(rows, argument)
    try:
        _check(entries)
    except SettingsError as error:
        raise SettingsError(f"{argument} is wrong: {error}") from None
    return entries


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


_FILE = EntryFile("PENTAD_INSTRUCTIONS", "instructions", Instruction, "name", _check, _MAX_FILE_BYTES)
