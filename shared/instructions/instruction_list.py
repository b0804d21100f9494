"""The instructions that there are, from four places, and which of two with the same name counts. Pure.

A file's goes before one that was registered while the system runs, that before a plugin's, and that before what is
built in: an operator may put another ``executor`` in the place of ours.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Literal

from pentad.contracts.instructions import Instruction
from pentad.shared.immutable import immutable
from pentad.shared.instructions.builtin import BUILT_IN

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
