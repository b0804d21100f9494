"""The registry of instructions as an operator sees and changes it, and the instructions that there are, read anew."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from pentad.contracts.instructions import Instruction
from pentad.services.gateway.edge.problems import ProblemError, busy, invalid, missing
from pentad.services.gateway.operator.models import ModelRegistry
from pentad.shared.entry_file import MOST_ENTRIES, complaints
from pentad.shared.instructions.instruction_list import KnownInstruction, all_instructions, prove_schema, version_of
from pentad.shared.presence.published import INSTRUCTIONS
from pentad.shared.registries.registrations import REGISTERED_INSTRUCTIONS, Registered
from pentad.shared.store.store import Store

_TRIES = 5
_SAID = 1000
"""Characters of what is wrong with an entry."""
_HOMES = {
    "file": "is of the file of PENTAD_INSTRUCTIONS: it is changed there",
    "plugin": "is a plugin's: take it out of the module of PENTAD_PLUGINS",
    "built_in": "is built in: it stays",
}
ToolNames = Callable[[], Awaitable[Collection[str]]]
"""The names of the tools that workers have."""


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


class InstructionRegistry:
    """Raises ``ProblemError``, and ``OutageError`` when Redis is unavailable.

    A change is written only if the registry is still as it was when the change was found to fit, and the model that it
    names is still there (`ModelRegistry`).
    """

    def __init__(self, store: Store, known: KnownInstructions, models: ModelRegistry, tools: ToolNames) -> None:
        self._store, self._known, self._models, self._tools = store, known, models, tools

    async def listing(self) -> list[dict[str, Any]]:
        """Every instruction that counts, with its version and where it comes from."""
        _, known = await self._known.read()
        return [_shown(each) for each in known.values()]

    async def register(self, body: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        """Add an instruction, or put it in the place of the registered one with its name. Says whether it is new."""
        made = await _entry(body)
        for _ in range(_TRIES):
            read, known = await self._known.read()
            new = made.name not in {each.name for each in read.entries}
            self._check(made, known.get(made.name), new, read)
            held = made.model is None or await self._models.hold(made.model)
            if held is None:
                continue
            if not held:
                raise invalid(f"model: there is no chat model {made.model}: register it first")
            if await REGISTERED_INSTRUCTIONS.write(self._store, read, made.name, made):
                return _shown(KnownInstruction(made, "registered")) | {"warning": await self._warning(made)}, new
        raise busy("others change the registry at the same time: try again")

    async def delete(self, name: str) -> None:
        """Remove a registered instruction. Tasks that began with it keep it; what it stood before comes back."""
        for _ in range(_TRIES):
            read, known = await self._known.read()
            found = known.get(name)
            if found is None:
                raise missing("there is no such instruction")
            if found.source != "registered":
                raise ProblemError(409, f"instruction {name} {_HOMES[found.source]}")
            if await REGISTERED_INSTRUCTIONS.write(self._store, read, name, None):
                return
        raise busy("others change the registry at the same time: try again")

    def _check(
        self, made: Instruction, known: KnownInstruction | None, new: bool, read: Registered[Instruction]
    ) -> None:
        if known is not None and known.source == "file":
            raise ProblemError(409, f"instruction {made.name} {_HOMES['file']}")
        if new and len(read.entries) >= MOST_ENTRIES:
            raise ProblemError(409, f"there are {MOST_ENTRIES} registered instructions already: delete one")

    async def _warning(self, made: Instruction) -> str | None:
        """Of the tools that it may call, those that are not there: their worker may come later."""
        gone = sorted(set(made.tools or ()) - set(await self._tools()))
        return f"no worker has these tools now: {', '.join(gone)}"[:_SAID] if gone else None


async def _entry(body: Mapping[str, Any]) -> Instruction:
    try:
        made = Instruction.model_validate(body, extra="forbid")
        await asyncio.to_thread(prove_schema, made)
    except ValidationError as error:
        raise invalid("; ".join(complaints(error))[:_SAID]) from None
    except ValueError as error:
        raise invalid(str(error)) from None
    return made


def _shown(known: KnownInstruction) -> dict[str, Any]:
    found = known.instruction
    return found.model_dump(mode="json") | {"source": known.source, "version": version_of(found)}
