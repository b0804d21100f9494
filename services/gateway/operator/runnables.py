"""The registries of instructions and of graphs that an operator reads and changes, and all of both in use."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from pydantic import ValidationError
from pydantic_core import from_json

from pentad.contracts.graphs import GraphSpec, Runnable
from pentad.contracts.instructions import Instruction, is_agent
from pentad.services.gateway.edge.problems import ProblemError, busy, invalid, missing
from pentad.services.gateway.operator.models import ModelRegistry
from pentad.shared.agent_graphs.mermaid import mermaid
from pentad.shared.agent_graphs.references import KnownNames, models_of, reference_problems, tools_of
from pentad.shared.entry_file import MOST_ENTRIES, complaints
from pentad.shared.immutable import immutable
from pentad.shared.instructions.instruction_list import KnownRunnable, RunnableSource, all_runnables, version_of
from pentad.shared.instructions.usable import prove_usable
from pentad.shared.presence.published import GRAPHS, INSTRUCTIONS
from pentad.shared.registries.registrations import REGISTERED_GRAPHS, REGISTERED_INSTRUCTIONS, Registered, Registrations
from pentad.shared.store.store import Store

_MAX_ATTEMPTS = 5
"""How often a change is tried when others change the registry at the same time."""
_MAX_ERROR_CHARS = 1000
"""Characters of an error about an entry."""
_HOMES: Mapping[RunnableSource, str] = {
    "file": "is of the file of PENTAD_INSTRUCTIONS, or of the program that has started this: it is changed there",
    "plugin": "is a plugin's: take it out of the module of PENTAD_PLUGINS",
    "built_in": "is built in: it stays",
}
ToolNames = Callable[[], Awaitable[Collection[str]]]
"""Function that returns the names of the tools that workers have."""
T = TypeVar("T", Instruction, GraphSpec)
_WORDS: Mapping[type[Runnable], str] = {Instruction: "instruction", GraphSpec: "graph"}


@immutable
class ReadRunnables:
    """All instructions and graphs, as they were read."""

    instructions: Registered[Instruction]
    graphs: Registered[GraphSpec]
    known: Mapping[str, KnownRunnable[Runnable]]
    """The instructions and graphs in use, by name."""


class KnownRunnables:
    """Reads all instructions and graphs, those of the file (``file``) too. Raises ``OutageError``."""

    def __init__(self, store: Store, file: Iterable[Runnable]) -> None:
        self._store, self._file = store, tuple(file)

    def use_file(self, file: Iterable[Runnable]) -> None:
        """Take other instructions and graphs of the file."""
        self._file = tuple(file)

    async def read(self) -> ReadRunnables:
        """Return what is registered, and all that is in use by name."""
        published: list[Runnable] = [*(await INSTRUCTIONS.read(self._store)).values()]
        published += (await GRAPHS.read(self._store)).values()
        instructions = await REGISTERED_INSTRUCTIONS.read(self._store)
        graphs = await REGISTERED_GRAPHS.read(self._store)
        registered: list[Runnable] = [*instructions.entries, *graphs.entries]
        return ReadRunnables(instructions, graphs, all_runnables(self._file, registered, published))

    async def uses_of(self, model_id: str) -> list[str] | None:
        """Return the instructions and graphs that use this model, in the form of `ModelUsers`.

        A registered one that the file's overrides counts, too: it may come into use again.
        """
        read = await self.read()
        used = [each.runnable for each in read.known.values()] + [*read.instructions.entries, *read.graphs.entries]
        asking = {_named(each) for each in used if model_id in _models_of(each)}
        if asking:
            return [f"{name} asks it" for name in sorted(asking)]
        renewed = await REGISTERED_INSTRUCTIONS.renew(self._store, read.instructions)
        return [] if renewed and await REGISTERED_GRAPHS.renew(self._store, read.graphs) else None


def _models_of(runnable: Runnable) -> Sequence[str]:
    if isinstance(runnable, GraphSpec):
        return models_of(runnable)
    return () if runnable.model is None else (runnable.model,)


def _named(runnable: Runnable) -> str:
    return f"{_WORDS[type(runnable)]} {runnable.name}"


def _tools_of(runnable: Runnable) -> Sequence[str]:
    if isinstance(runnable, GraphSpec):
        return tools_of(runnable)
    return [name for name in runnable.tools or () if not is_agent(name)]


def _article(runnable: Runnable) -> str:
    return "a graph" if isinstance(runnable, GraphSpec) else "an instruction"


class RunnableRegistry(Generic[T]):
    """Changes the registry of instructions or that of graphs. Raises ``ProblemError``, and ``OutageError``.

    A change is written only if the registry has not changed since the check, and the models that the entry names still
    exist (`ModelRegistry`). Names are shared by both registries: so each change first renews the version of the other
    one, as a request that deletes a model does, and of two that give one name to an instruction and a graph one fails.
    """

    def __init__(
        self,
        kind: type[T],
        registry: Registrations[T],
        own: Callable[[ReadRunnables], Registered[T]],
        renew_others: Callable[[Store, ReadRunnables], Awaitable[bool]],
        parts: "RegistryParts",
    ) -> None:
        """``own``: returns what is registered of this kind. ``renew_others``: renews the version of the other kind."""
        self._kind: type[T] = kind
        self._registry: Registrations[T] = registry
        self._own: Callable[[ReadRunnables], Registered[T]] = own
        self._renew_others = renew_others
        self._parts, self._word = parts, _WORDS[kind]

    async def listing(self) -> list[dict[str, Any]]:
        """Return all entries of this kind that are in use, each with its version and its source."""
        read = await self._parts.known.read()
        return [_shown(each) for each in read.known.values() if isinstance(each.runnable, self._kind)]

    async def one(self, name: str) -> dict[str, Any]:
        """Return the entry of a name that is in use, with its version and its source. Raises ``ProblemError``."""
        return _shown(await self._in_use(name))

    async def _in_use(self, name: str) -> KnownRunnable[Runnable]:
        known = (await self._parts.known.read()).known.get(name)
        if known is None or not isinstance(known.runnable, self._kind):
            raise self._missing(known)
        return known

    async def drawn(self, name: str) -> str:
        """Return the graph of a name that is in use as a flowchart. Raises ``ProblemError``."""
        runnable = (await self._in_use(name)).runnable
        if not isinstance(runnable, GraphSpec):
            raise self._missing(None)
        return mermaid(runnable)

    def _missing(self, known: KnownRunnable[Runnable] | None) -> ProblemError:
        other = "" if known is None else f"; there is {_article(known.runnable)} of this name"
        return missing(f"there is no such {self._word}{other}")

    async def register(self, body: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        """Add an entry, or replace the registered one with its name; return it, and whether it is new."""
        made = await _entry(self._kind, body)
        for _ in range(_MAX_ATTEMPTS):
            read = await self._parts.known.read()
            own = self._own(read)
            new = made.name not in {each.name for each in own.entries}
            self._check(made, read, new and len(own.entries) >= MOST_ENTRIES)
            models = await self._parts.models.hold(_models_of(made))
            if models is None:
                continue
            if problems := _problems(made, read, models):
                raise invalid("; ".join(problems)[:_MAX_ERROR_CHARS])
            store = self._parts.store
            if await self._renew_others(store, read) and await self._registry.write(store, own, made.name, made):
                return _shown(KnownRunnable(made, "registered")) | {"warning": await self._warning(made)}, new
        raise busy("others change the registry at the same time: try again")

    async def delete(self, name: str) -> None:
        """Remove a registered entry. Tasks that began with it keep it; one that it overrode is used again."""
        for _ in range(_MAX_ATTEMPTS):
            read = await self._parts.known.read()
            found = read.known.get(name)
            if found is None or not isinstance(found.runnable, self._kind):
                raise self._missing(found)
            if found.source != "registered":
                raise ProblemError(409, f"{_named(found.runnable)} {_HOMES[found.source]}")
            if await self._registry.write(self._parts.store, self._own(read), name, None):
                return
        raise busy("others change the registry at the same time: try again")

    def _check(self, made: T, read: ReadRunnables, full: bool) -> None:
        known = read.known.get(made.name)
        if known is not None and known.source == "file":
            raise ProblemError(409, f"{_named(known.runnable)} {_HOMES['file']}")
        if known is not None and known.source == "registered" and not isinstance(known.runnable, self._kind):
            other = _named(known.runnable)
            raise ProblemError(409, f"{other} is registered, and names are shared: delete it, or choose another name")
        if full:
            raise ProblemError(409, f"there are {MOST_ENTRIES} registered {self._word}s already: delete one")

    async def _warning(self, made: T) -> str | None:
        """Return a warning about tools of the entry that no worker has now; a worker may come later."""
        gone = sorted({*_tools_of(made)} - {*await self._parts.tools()})
        return f"no worker has these tools now: {', '.join(gone)}"[:_MAX_ERROR_CHARS] if gone else None


@immutable
class RegistryParts:
    """The parts on which the registries of instructions and of graphs stand."""

    store: Store
    known: KnownRunnables
    models: ModelRegistry
    tools: ToolNames


def instruction_registry(parts: RegistryParts) -> RunnableRegistry[Instruction]:
    """Return the registry of instructions."""
    return RunnableRegistry(
        Instruction,
        REGISTERED_INSTRUCTIONS,
        lambda read: read.instructions,
        lambda store, read: REGISTERED_GRAPHS.renew(store, read.graphs),
        parts,
    )


def graph_registry(parts: RegistryParts) -> RunnableRegistry[GraphSpec]:
    """Return the registry of graphs."""
    return RunnableRegistry(
        GraphSpec,
        REGISTERED_GRAPHS,
        lambda read: read.graphs,
        lambda store, read: REGISTERED_INSTRUCTIONS.renew(store, read.instructions),
        parts,
    )


def _problems(made: Runnable, read: ReadRunnables, models: Collection[str]) -> list[str]:
    """Return the names that an entry uses and nobody knows, each with its place. ``models``: those that there are."""
    if not isinstance(made, GraphSpec):
        gone = made.model is not None and made.model not in models
        return [f"model: there is no chat model {made.model}: register it first"] if gone else []
    found = [each.runnable for each in read.known.values()]
    instructions = {each.name for each in found if isinstance(each, Instruction)}
    graphs = {each.name: each for each in found if isinstance(each, GraphSpec)}
    return reference_problems(made, KnownNames(instructions, models, graphs))


async def _entry(kind: type[T], body: Mapping[str, Any]) -> T:
    try:
        made = kind.model_validate(body, extra="forbid")
        await asyncio.to_thread(prove_usable, made)
    except ValidationError as error:
        raise invalid("; ".join(complaints(error))[:_MAX_ERROR_CHARS]) from None
    except ValueError as error:
        raise invalid(str(error)[:_MAX_ERROR_CHARS]) from None
    return made


def _shown(known: KnownRunnable[Any]) -> dict[str, Any]:
    found = known.runnable
    fields = from_json(found.to_json()) if isinstance(found, GraphSpec) else found.model_dump(mode="json")
    return {**fields, "source": known.source, "version": version_of(found)}
