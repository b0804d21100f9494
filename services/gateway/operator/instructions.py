"""The registry of instructions that an operator reads and changes, and all instructions in use."""

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

_MAX_ATTEMPTS = 5
"""How often a change is tried when others change the registry at the same time."""
_MAX_ERROR_CHARS = 1000
"""Characters of an error about an entry."""
_HOMES = {
    "file": "is of the file of PENTAD_INSTRUCTIONS, or of the program that has started this: it is changed there",
    "plugin": "is a plugin's: take it out of the module of PENTAD_PLUGINS",
    "built_in": "is built in: it stays",
}
ToolNames = Callable[[], Awaitable[Collection[str]]]
"""Function that returns the names of the tools that workers have."""


class KnownInstructions:
    """Reads all instructions. Raises ``OutageError`` if Redis is unavailable. ``file``: instructions of the file."""

    def __init__(self, store: Store, file: Iterable[Instruction]) -> None:
        self._store, self._file = store, tuple(file)

    def use_file(self, file: Iterable[Instruction]) -> None:
        """Take other instructions of the file."""
        self._file = tuple(file)

    async def read(self) -> tuple[Registered[Instruction], Mapping[str, KnownInstruction]]:
        """Return the registered instructions, and all instructions in use by name."""
        published = await INSTRUCTIONS.read(self._store)
        registered = await REGISTERED_INSTRUCTIONS.read(self._store)
        return registered, all_instructions(self._file, registered.entries, published.values())

    async def uses_of(self, model_id: str) -> list[str] | None:
        """Return the instructions that use this model, in the form of `ModelUsers`.

        A registered instruction that the file's overrides counts, too: it may come into use again.
        """
        registered, known = await self.read()
        asking = {each.instruction.name for each in known.values() if each.instruction.model == model_id}
        asking |= {each.name for each in registered.entries if each.model == model_id}
        if not asking and not await REGISTERED_INSTRUCTIONS.renew(self._store, registered):
            return None
        return [f"instruction {name} asks it" for name in sorted(asking)]


class InstructionRegistry:
    """Changes the registry of instructions. Raises ``ProblemError``, and ``OutageError`` if Redis is unavailable.

    A change is written only if the registry has not changed since the check, and the model that the instruction names
    still exists (`ModelRegistry`).
    """

    def __init__(self, store: Store, known: KnownInstructions, models: ModelRegistry, tools: ToolNames) -> None:
        self._store, self._known, self._models, self._tools = store, known, models, tools

    async def listing(self) -> list[dict[str, Any]]:
        """Return all instructions in use, each with its version and its source."""
        _, known = await self._known.read()
        return [_shown(each) for each in known.values()]

    async def one(self, name: str) -> dict[str, Any]:
        """Return the instruction of a name that is in use, with its version and its source. Raises ``ProblemError``."""
        _, known = await self._known.read()
        if name not in known:
            raise missing("there is no such instruction")
        return _shown(known[name])

    async def register(self, body: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        """Add an instruction, or replace the registered one with its name; return it, and whether it is new."""
        made = await _entry(body)
        for _ in range(_MAX_ATTEMPTS):
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
        """Remove a registered instruction. Tasks that began with it keep it; one that it overrode is used again."""
        for _ in range(_MAX_ATTEMPTS):
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
        """Return a warning about tools of the instruction that no worker has now; a worker may come later."""
        gone = sorted(set(made.tools or ()) - set(await self._tools()))
        return f"no worker has these tools now: {', '.join(gone)}"[:_MAX_ERROR_CHARS] if gone else None


async def _entry(body: Mapping[str, Any]) -> Instruction:
    try:
        made = Instruction.model_validate(body, extra="forbid")
        await asyncio.to_thread(prove_schema, made)
    except ValidationError as error:
        raise invalid("; ".join(complaints(error))[:_MAX_ERROR_CHARS]) from None
    except ValueError as error:
        raise invalid(str(error)) from None
    return made


def _shown(known: KnownInstruction) -> dict[str, Any]:
    found = known.instruction
    return found.model_dump(mode="json") | {"source": known.source, "version": version_of(found)}
