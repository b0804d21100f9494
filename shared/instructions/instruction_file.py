"""The file of instructions, `PENTAD_INSTRUCTIONS`."""

from collections.abc import Sequence

from pentad.contracts.instructions import Instruction
from pentad.shared.entry_file import EntryFile
from pentad.shared.errors import SettingsError
from pentad.shared.instructions.instruction_list import prove_schema
from pentad.shared.settings import Settings

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
