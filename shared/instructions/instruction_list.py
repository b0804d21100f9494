"""The list of all instructions and graphs, from four sources, and the rule which of two with the same name counts.

A file's goes before one that was registered while the system runs, that before a plugin's, and that before a
built-in one: an operator may put another ``executor`` in the place of ours. Names are shared: a graph may stand in the
place of an instruction of a later source, and an instruction in that of a graph.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeVar

from pentad.contracts.graphs import GraphSpec, Runnable
from pentad.contracts.instructions import Instruction
from pentad.shared.agent_graphs.given import HasSpec
from pentad.shared.agent_graphs.references import recursion_of
from pentad.shared.entry_file import EntryFile
from pentad.shared.errors import SettingsError
from pentad.shared.immutable import immutable
from pentad.shared.instructions.builtin import BUILT_IN, BUILT_IN_GRAPHS
from pentad.shared.instructions.usable import prove_usable
from pentad.shared.settings import Settings

_VERSION_CHARS = 16
_GRAPH = "graph:"
R = TypeVar("R", bound=Runnable)


def version_of(runnable: Runnable) -> str:
    """Return the digest of an instruction or a graph in hex digits."""
    return hashlib.sha256(runnable.to_json()).hexdigest()[:_VERSION_CHARS]


def kept_under(version: str) -> str:
    """Return the name of a version of an instruction among a task's large values, and in its record."""
    return f"instruction:{version}"


def graph_kept_under(version: str) -> str:
    """Return the name of a version of a graph among a task's large values, and in its record."""
    return f"{_GRAPH}{version}"


def version_kept_under(name: str) -> str:
    """Return the version in a name that `graph_kept_under` has made; '' for any other name."""
    return name.removeprefix(_GRAPH) if name.startswith(_GRAPH) else ""


RunnableSource = Literal["file", "registered", "plugin", "built_in"]


@immutable
class KnownRunnable(Generic[R]):
    """An instruction or a graph, and its source."""

    runnable: R
    source: RunnableSource


def all_instructions(
    file: Iterable[Instruction], registered: Iterable[Instruction], published: Iterable[Instruction]
) -> Mapping[str, KnownRunnable[Instruction]]:
    """Return the instructions that count among instructions, by name."""
    return _counting(file, registered, published, BUILT_IN.values())


def all_runnables(
    file: Iterable[Runnable], registered: Iterable[Runnable], published: Iterable[Runnable]
) -> Mapping[str, KnownRunnable[Runnable]]:
    """Return the instructions and graphs that count, by name. Of two of one source the later one counts."""
    return _counting(file, registered, published, (*BUILT_IN.values(), *BUILT_IN_GRAPHS.values()))


def _counting(
    file: Iterable[R], registered: Iterable[R], published: Iterable[R], built_in: Iterable[R]
) -> Mapping[str, KnownRunnable[R]]:
    places: tuple[tuple[RunnableSource, Iterable[R]], ...] = (
        ("built_in", built_in),
        ("plugin", published),
        ("registered", registered),
        ("file", file),
    )
    known = {each.name: KnownRunnable(each, source) for source, entries in places for each in entries}
    return MappingProxyType(dict(sorted(known.items())))


_MAX_FILE_BYTES = 16 << 20


def configured_instructions(settings: Settings) -> tuple[Runnable, ...]:
    """Return the instructions and graphs that the program hands over, and those of the file that have other names.

    Raises ``SettingsError`` that names the place of each mistake.
    """
    given = settings.runnables_of_program
    file = () if settings.pentad_instructions is None else _read(settings.pentad_instructions)
    names = {entry.name for entry in given}
    configured = (*given, *(entry for entry in file if entry.name not in names))
    _check_recursion(configured)
    return configured


def given_runnables(instructions: Any, graphs: Any) -> tuple[Runnable, ...]:
    """Return the instructions and graphs that a program hands over.

    This may take seconds: do not call it in an event loop. Raises ``SettingsError`` that names the place of each
    mistake.
    """
    made = _given(_INSTRUCTIONS, instructions, "pentad.start(instructions=...)")
    if isinstance(graphs, Sequence) and not isinstance(graphs, str):
        graphs = [each.spec if isinstance(each, HasSpec) else each for each in graphs]
    argument = "pentad.start(graphs=...)"
    drawn = _given(_GRAPHS, graphs, argument)
    try:
        _check_names(made, drawn)
    except SettingsError as error:
        raise SettingsError(f"{argument} is wrong: {error}") from None
    return (*made, *drawn)


def _given(of: EntryFile[R], rows: Any, argument: str) -> tuple[R, ...]:
    entries = of.of_program(rows, argument)
    try:
        of.check(entries)
    except SettingsError as error:
        raise SettingsError(f"{argument} is wrong: {error}") from None
    return entries


def _read(path: Path) -> tuple[Runnable, ...]:
    parsed = _INSTRUCTIONS.parsed(path)
    instructions, graphs = _INSTRUCTIONS.read_beside(path, parsed), _GRAPHS.read_beside(path, parsed)
    try:
        _check_names(instructions, graphs)
    except SettingsError as error:
        raise SettingsError(f"{_INSTRUCTIONS.variable} is wrong: {path}: {error}") from None
    return (*instructions, *graphs)


def _check_names(instructions: Sequence[Instruction], graphs: Sequence[GraphSpec]) -> None:
    """Raise ``SettingsError`` for an instruction and a graph of one source with one name."""
    names = {entry.name for entry in instructions}
    for number, entry in enumerate(graphs):
        if entry.name in names:
            raise SettingsError(f"{_GRAPHS.place(number, entry.name)}.name: an instruction has it: names are shared")


def _check_recursion(configured: Iterable[Runnable]) -> None:
    graphs = {entry.name: entry for entry in configured if isinstance(entry, GraphSpec)}
    for graph in graphs.values():
        if (way := recursion_of(graph, graphs)) is not None:
            raise SettingsError(f"graphs ({graph.name!r}): the graph would run itself: {' -> '.join(way)}")


def _checking(listed: str) -> Any:
    """Return a check of the entries of one list: of their names, and whether each can be used."""

    def check(entries: Sequence[Runnable]) -> None:
        names: set[str] = set()
        for number, entry in enumerate(entries):
            place = f"{listed}[{number}] ({entry.name!r})"
            if entry.name in names:
                raise SettingsError(f"{place}.name: another {listed[:-1]} has it")
            names.add(entry.name)
            try:
                prove_usable(entry)
            except ValueError as error:
                raise SettingsError(f"{place}: {error}") from None

    return check


def _list_of(kind: type[R], listed: str, beside: str) -> EntryFile[R]:
    return EntryFile("PENTAD_INSTRUCTIONS", listed, kind, "name", _checking(listed), _MAX_FILE_BYTES, beside)


_INSTRUCTIONS = _list_of(Instruction, "instructions", beside="graphs")
_GRAPHS = _list_of(GraphSpec, "graphs", beside="instructions")
