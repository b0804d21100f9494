"""The instructions that there are, read anew."""

from collections.abc import Iterable, Mapping

from pentad.contracts.instructions import Instruction
from pentad.shared.instructions.instruction_list import KnownInstruction, all_instructions
from pentad.shared.presence.published import INSTRUCTIONS
from pentad.shared.registries.registrations import REGISTERED_INSTRUCTIONS, Registered
from pentad.shared.store.store import Store


class KnownInstructions:
    """Raises ``OutageError`` when Redis is unavailable. ``file``: the instructions of the file."""

    def __init__(self, store: Store, file: Iterable[Instruction]) -> None:
        self._store, self._file = store, tuple(file)

    async def read(self) -> tuple[Registered[Instruction], Mapping[str, KnownInstruction]]:
        """Those that were registered, and of all together those that count, by name."""
        published = await INSTRUCTIONS.read(self._store)
        registered = await REGISTERED_INSTRUCTIONS.read(self._store)
        return registered, all_instructions(self._file, registered.entries, published.values())

    async def let_go(self, model_id: str) -> list[str] | None:
        """Which of them ask this model, as `ModelUsers` says it. One that another stands before counts too: it may come
        back."""
        registered, known = await self.read()
        asking = {each.instruction.name for each in known.values() if each.instruction.model == model_id}
        asking |= {each.name for each in registered.entries if each.model == model_id}
        if not asking and not await REGISTERED_INSTRUCTIONS.renew(self._store, registered):
            return None
        return [f"instruction {name} asks it" for name in sorted(asking)]
