"""The instructions that a process knows, by name."""

from collections.abc import Mapping

from pentad.contracts.instructions import Instruction
from pentad.shared.instructions.builtin import BUILT_IN


class InstructionBook:
    """Hands out instructions as they are now; a task keeps the version that it began with."""

    def __init__(self, instructions: Mapping[str, Instruction] = BUILT_IN) -> None:
        self._instructions = instructions

    async def known(self) -> Mapping[str, Instruction]:
        """All of them, by name: the same mapping until one has changed."""
        return self._instructions
