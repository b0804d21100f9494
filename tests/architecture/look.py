"""The rooms of the house and who imports whom, as text and as a Graphviz graph.

``python -m tests.architecture.look [ROOM]``: without a room all folders with code, with one the modules of that folder
(``shared/memory``). Tools that read imports by file path do not see that `pentad/shared` and the like are links to the
top level (docs/decisions/0011); this reads each module by the one name that it is imported by. ``--dot`` prints a graph
for ``dot -Tsvg``.
"""

import argparse
import ast
import sys
from collections import Counter
from collections.abc import Iterator, Mapping

from tests.architecture.source import Module, modules

Graph = Mapping[str, Counter[str]]
"""From each room to the rooms that it imports from, with the number of imports."""


def graph_of(room: str | None = None) -> dict[str, Counter[str]]:
    """Return the imports between rooms, or between the modules of one room."""
    names = {module.name: module.path.removesuffix(".py") for module in modules()}
    graph: dict[str, Counter[str]] = {}
    for module in modules():
        begin = _node(module.path.removesuffix(".py"), room)
        if begin is None:
            continue
        graph.setdefault(begin, Counter())
        for imported in _imports(module):
            path = names.get(imported)
            end = None if path is None else _node(path, room)
            if end is not None and end != begin:
                graph[begin][end] += 1
    return graph


def _imports(module: Module) -> Iterator[str]:
    """The modules that a module imports, also those that are named as members of their package."""
    for node, name in module.imports():
        yield name
        if isinstance(node, ast.ImportFrom):
            yield from (f"{name}.{alias.name}" for alias in node.names)


def _node(path: str, room: str | None) -> str | None:
    """The room of a module; with ``room`` the module itself, where it lies there."""
    folder, _, name = path.rpartition("/")
    if room is None:
        return folder or path
    return (name if folder == room else path) if path.startswith(f"{room}/") else None


def floors(graph: Graph) -> list[list[str]]:
    """Return the rooms from the ground up: each stands above all that it imports. A cycle stands on one floor."""
    left, found = set(graph), list[list[str]]()
    while left:
        free = sorted(room for room in left if not any(end in left for end in graph[room]))
        found.append(free or sorted(left))
        left -= set(found[-1])
    return found


def as_text(graph: Graph) -> str:
    """Return the floors, the highest first, with what each room imports."""
    lines = []
    stairs = floors(graph)
    for number in range(len(stairs), 0, -1):
        lines.append(f"floor {number}")
        for room in stairs[number - 1]:
            imports = ", ".join(f"{end} ({count})" for end, count in sorted(graph[room].items()))
            lines.append(f"  {room}{': ' + imports if imports else ''}")
    return "\n".join(lines)


def as_dot(graph: Graph) -> str:
    """Return the graph as Graphviz reads it."""
    edges = [f'  "{begin}" -> "{end}" [label={count}];' for begin in graph for end, count in graph[begin].items()]
    rooms = [f'  "{room}";' for room in graph]
    return "\n".join(["digraph imports {", "  rankdir=TB; node [shape=box];", *rooms, *edges, "}"])


def main() -> int:
    """Print the graph; returns the exit code."""
    parser = argparse.ArgumentParser(prog="make look", description="Draw who imports whom.")
    parser.add_argument("room", nargs="?", help="a folder, e.g. shared/memory: draw its modules")
    parser.add_argument("--dot", action="store_true", help="for Graphviz: dot -Tsvg")
    args = parser.parse_args()
    graph = graph_of(args.room.rstrip("/") if args.room else None)
    if not graph:
        sys.stderr.write(f"{args.room} has no modules: name a folder of the repository, e.g. shared/memory\n")
        return 2
    sys.stdout.write((as_dot(graph) if args.dot else as_text(graph)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
