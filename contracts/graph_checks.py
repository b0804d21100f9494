"""Finds mistakes in a graph that no node or edge shows by itself. Pure."""

import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, get_args

from pentad.contracts.graph_nodes import (
    FAIL,
    STATE_PATH,
    Edge,
    LlmNode,
    MapNode,
    Node,
    ParallelNode,
    Reducer,
    ToolNode,
)
from pentad.contracts.instructions import state_paths_in

_REDUCERS: Mapping[Any, Reducer] = {name: name for name in get_args(Reducer)}
_OF_ITEMS = frozenset(("item", "index"))
"""Keys that the state of a map's item has beside those of its parent."""
_SHOWN = 64
"""Characters of a key of the schema that are repeated."""
_MAX_BRANCHES = 1_000
"""Branches that all nodes of a graph together may start."""
_MAX_CYCLE_NODES = 8
"""Nodes of a cycle that are named."""
_PATH = re.compile(STATE_PATH)


def declared_reducers(state_schema: Mapping[str, Any] | None) -> Mapping[str, Reducer]:
    """Return the reducers that the schema of a state declares, by the keys of the state."""
    named = {key: each["reducer"] for key, each in _properties(state_schema).items() if _has_reducer(each)}
    return {key: _REDUCERS[name] for key, name in named.items() if isinstance(name, str) and name in _REDUCERS}


def problems_of(
    nodes: Sequence[Node],
    edges: Sequence[Edge],
    entry: str,
    ends: Sequence[str],
    state_schema: Mapping[str, Any] | None,
) -> list[str]:
    """Return the mistakes of a graph in words, each with its place; an empty list for a sound graph."""
    branches = sum(len(node.branches) for node in nodes if isinstance(node, ParallelNode))
    if branches > _MAX_BRANCHES:
        return [f"nodes: they have {branches} branches together: at most {_MAX_BRANCHES}"]
    graph = _Graph(nodes, edges, entry, ends)
    return [
        *_keys(graph),
        *_unknown(graph),
        *_endings(graph),
        *_defaults(graph),
        *_parallels(graph),
        *_ways(graph),
        *_certain_cycles(graph),
        *_schema(state_schema),
        *_reducers_missing(graph, declared_reducers(state_schema)),
        *([] if state_schema is None else _unknown_places(graph, _properties(state_schema))),
    ]


class _Graph:
    """The nodes of a graph by key, and the ways between them. Ways to nodes that are not there are left out."""

    def __init__(self, nodes: Sequence[Node], edges: Sequence[Edge], entry: str, ends: Sequence[str]) -> None:
        self.nodes, self.edges, self.entry, self.ends = nodes, edges, entry, ends
        self.by_key: dict[str, Node] = {}
        """The nodes by their keys: of two with one key the first."""
        self.places: dict[str, str] = {}
        for number, node in enumerate(nodes):
            self.by_key.setdefault(node.key, node)
            self.places.setdefault(node.key, f"nodes[{number}] ({node.key})")
        self.leaving: dict[str, list[Edge]] = {key: [] for key in self.by_key}
        for edge in edges:
            if edge.source in self.leaving:
                self.leaving[edge.source].append(edge)

        self.onward = {key: self._onward(key) for key in self.by_key}
        """Keys of the nodes that may follow each node when it has succeeded."""
        self.started = {key: self._started(key) for key in self.by_key}
        """Keys of the nodes with which the tasks of each node's branches or items begin."""
        self.following = {key: self._present([*after, self.by_key[key].on_error]) for key, after in self.onward.items()}
        """Keys of the nodes that may follow each node in its task, also when it has failed."""

    def _present(self, keys: Iterable[str | None]) -> list[str]:
        return [key for key in dict.fromkeys(keys) if key is not None and key in self.by_key]

    def _onward(self, key: str) -> list[str]:
        return self._present([self.by_key[key].following, *(edge.target for edge in self.leaving[key])])

    def _started(self, key: str) -> list[str]:
        node = self.by_key[key]
        starts = node.branches if isinstance(node, ParallelNode) else [node.node] if isinstance(node, MapNode) else []
        return self._present(starts)

    def within(self, then: str | None, key: str) -> list[str]:
        """Return the keys of the nodes that follow a node of a branch, or begin in it, before its end."""
        return [each for each in (*self.following[key], *self.started[key]) if each != then]

    def certain(self, key: str) -> list[str]:
        """Return the keys of the nodes that are certain to come after a node, or to begin in it."""
        decides = any(not edge.is_default for edge in self.leaving[key])
        return [*self.started[key], *([] if decides else self.onward[key])]


def _reached(starts: Iterable[str], ways: Callable[[str], Iterable[str]]) -> set[str]:
    """Return the keys of all nodes that these ways lead to, the first ones included."""
    found = set(starts)
    waiting = [*found]
    while waiting:
        for key in ways(waiting.pop()):
            if key not in found:
                found.add(key)
                waiting.append(key)
    return found


def _keys(graph: _Graph) -> Iterator[str]:
    seen: set[str] = set()
    for number, node in enumerate(graph.nodes):
        place = f"nodes[{number}] ({node.key}).key"
        if node.key in seen:
            yield f"{place}: {graph.places[node.key]} has this key already"
        elif node.key == FAIL:
            yield f"{place}: {FAIL!r} is a word of on_error: give the node another key"
        seen.add(node.key)


def _unknown(graph: _Graph) -> Iterator[str]:
    """Name each place that names a node which is not there."""
    named: list[tuple[str, str | None]] = [("entry", graph.entry)]
    named += [(f"ends[{number}]", key) for number, key in enumerate(graph.ends)]
    for number, node in enumerate(graph.nodes):
        place = f"nodes[{number}] ({node.key})"
        if isinstance(node, ParallelNode):
            named += [(f"{place}.branches[{at}]", key) for at, key in enumerate(node.branches)]
        if isinstance(node, MapNode):
            named.append((f"{place}.node", node.node))
        named.append((f"{place}.then", node.following))
        named.append((f"{place}.on_error", None if node.on_error == FAIL else node.on_error))
    for number, edge in enumerate(graph.edges):
        named += [(f"edges[{number}].from", edge.source), (f"edges[{number}].to", edge.target)]
    for place, key in named:
        if key is not None and key not in graph.by_key:
            yield f"{place}: there is no node {key!r}"


def _endings(graph: _Graph) -> Iterator[str]:
    """Name what would follow where the run ends."""
    ends = {*graph.ends}
    for number, edge in enumerate(graph.edges):
        if edge.is_default and edge.source in ends:
            yield f"edges[{number}]: {edge.source!r} is among ends: give the edge a condition, or take one of both out"
    for node in graph.nodes:
        if node.following is None:
            continue
        if node.key in ends:
            yield f"{graph.places[node.key]}.then: the node is among ends: take one of both out"
        if graph.leaving[node.key]:
            yield f"{graph.places[node.key]}.then: edges leave the node, too: say by one of both what follows"


def _defaults(graph: _Graph) -> Iterator[str]:
    first: dict[str, int] = {}
    for number, edge in enumerate(graph.edges):
        if not edge.is_default:
            for path, comparisons in (edge.where or {}).items():
                if not comparisons:
                    yield f"edges[{number}].where.{path}: it compares the value with nothing"
        elif edge.source in first:
            yield (
                f"edges[{number}]: edges[{first[edge.source]}] is the default of {edge.source!r} already: give one of "
                "them a condition"
            )
        else:
            first[edge.source] = number


def _parallels(graph: _Graph) -> Iterator[str]:
    for number, node in enumerate(graph.nodes):
        if not isinstance(node, ParallelNode):
            continue
        place = f"nodes[{number}] ({node.key})"
        if node.needed > len(node.branches):
            yield f"{place}.join: {node.join} branches must succeed, and there are {len(node.branches)}"
        seen: set[str] = set()
        for at, key in enumerate(node.branches):
            if key in seen:
                yield f"{place}.branches[{at}]: {key!r} is named twice"
            seen.add(key)


def _ways(graph: _Graph) -> Iterator[str]:
    """Name nodes that no run comes to, and nodes of the main way from which it comes to no end."""
    if graph.entry not in graph.by_key:
        return
    reachable = _reached([graph.entry], lambda key: [*graph.following[key], *graph.started[key]])
    for key, place in graph.places.items():
        if key not in reachable:
            yield f"{place}: nothing leads to it: add an edge to it, or take it out"
    before: dict[str, list[str]] = {}
    for key in graph.by_key:
        for target in graph.onward[key]:
            before.setdefault(target, []).append(key)
    ending = _reached((key for key in graph.ends if key in graph.by_key), lambda key: before.get(key, ()))
    main = _reached([graph.entry], graph.following.__getitem__)
    for key, place in graph.places.items():
        if key in main and key not in ending:
            yield f"{place}: node {key!r} leads nowhere: add an edge, or name it among ends"


def _certain_cycles(graph: _Graph) -> Iterator[str]:
    """Name cycles that nothing ends."""
    left = _on_cycles({key: graph.certain(key) for key in graph.by_key})
    named: set[str] = set()
    for start in left:
        way: list[str] = []
        key = start
        while key not in named and key not in way:
            way.append(key)
            key = left[key][0]
        if key in way:
            cycle = way[way.index(key) :]
            shown = [*cycle[:_MAX_CYCLE_NODES], *(["..."] if len(cycle) > _MAX_CYCLE_NODES else []), key]
            yield f"{graph.places[key]}: {' -> '.join(shown)} has no condition and would never end: give an edge one"
        named.update(way)


def _on_cycles(ways: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
    """Return the nodes from which a cycle is certain to be come to, each with those that follow it among them."""
    before: dict[str, list[str]] = {}
    for key, targets in ways.items():
        for target in targets:
            before.setdefault(target, []).append(key)
    count = {key: len(targets) for key, targets in ways.items()}
    gone: set[str] = set()
    waiting = deque(key for key, number in count.items() if number == 0)
    while waiting:
        gone.add(key := waiting.popleft())
        for source in before.get(key, ()):
            count[source] -= 1
            if count[source] == 0:
                waiting.append(source)
    return {key: [each for each in targets if each not in gone] for key, targets in ways.items() if key not in gone}


def _properties(state_schema: Mapping[str, Any] | None) -> Mapping[str, Any]:
    found = (state_schema or {}).get("properties")
    return found if isinstance(found, Mapping) else {}


def _has_reducer(declared: Any) -> bool:
    return isinstance(declared, Mapping) and "reducer" in declared


def _schema(state_schema: Mapping[str, Any] | None) -> Iterator[str]:
    if state_schema is None:
        return
    if state_schema.get("type") != "object":
        yield 'state_schema.type: a state is an object: write "type": "object"'
    if not isinstance(state_schema.get("properties", {}), Mapping):
        yield "state_schema.properties: it must be an object"
    for key, declared in _properties(state_schema).items():
        if _has_reducer(declared):
            reducer = declared["reducer"]
            if not isinstance(reducer, str) or reducer not in _REDUCERS:
                place = f"state_schema.properties.{str(key)[:_SHOWN]}.reducer"
                yield f"{place}: there are only {', '.join(_REDUCERS)}"


def _reducers_missing(graph: _Graph, reducers: Collection[str]) -> Iterator[str]:
    """Name keys of the state that two branches write and for which no reducer is declared."""
    ways = {
        key: [*after, *(graph.started[key] if isinstance(graph.by_key[key], ParallelNode) else [])]
        for key, after in graph.following.items()
    }
    for node in graph.by_key.values():
        if isinstance(node, ParallelNode):
            for key, branches in _written_twice(graph, ways, node).items():
                if key not in reducers:
                    yield (
                        f"{graph.places[node.key]}: reducers missing: branches {branches[0]!r} and {branches[1]!r} "
                        f"both write {key!r}: declare state_schema.properties.{key}.reducer"
                    )


def _written_twice(
    graph: _Graph, ways: Mapping[str, Sequence[str]], parallel: ParallelNode
) -> Mapping[str, Sequence[str]]:
    """Return the keys of the state that two branches write, each with the names of two of them.

    ``ways``: keys of the nodes that may come after each node and write to the state of its task.

    A node is looked at twice at most: that a third branch comes to it says nothing more.
    """
    branches = [key for key in graph.started[parallel.key] if key != parallel.then]
    coming: dict[str, list[str]] = {}
    waiting = [(key, key) for key in branches]
    while waiting:
        key, branch = waiting.pop()
        come = coming.setdefault(key, [])
        if branch in come or len(come) == 2:
            continue
        come.append(branch)
        waiting += [(each, branch) for each in ways[key] if each != parallel.then]
    writing: dict[str, list[str]] = {}
    for key, come in coming.items():
        written = graph.by_key[key].written
        if written is not None:
            writing[written] = [*dict.fromkeys([*writing.get(written, ()), *come])]
    return {written: sorted(come, key=branches.index) for written, come in sorted(writing.items()) if len(come) > 1}


def _unknown_places(graph: _Graph, properties: Collection[str]) -> Iterator[str]:
    """Name places of the state of which neither the schema nor a node knows the first key."""
    known = {*properties, *(node.written for node in graph.nodes if node.written is not None)}
    of_items = _in_items(graph) if _OF_ITEMS - known else set()
    for number, node in enumerate(graph.nodes):
        place = f"nodes[{number}] ({node.key})"
        here = known | _OF_ITEMS if node.key in of_items else known
        for field, path in _places_of(node):
            yield from _unknown_place(f"{place}.{field}", path, here)
    for number, edge in enumerate(graph.edges):
        here = known | _OF_ITEMS if edge.source in of_items else known
        for path in edge.where or {}:
            yield from _unknown_place(f"edges[{number}].where", path, here)


def _unknown_place(place: str, path: str, known: Collection[str]) -> Iterator[str]:
    key = path.split(".")[1]
    if key not in known:
        yield f"{place}: {path}: the state has no {key!r}: add it to state_schema.properties, or let a node write it"


def _in_items(graph: _Graph) -> set[str]:
    """Return the keys of the nodes that run in tasks of a map's items."""
    found: set[str] = set()
    for node in graph.by_key.values():
        if isinstance(node, MapNode) and node.node != node.then:
            found |= _reached(graph.started[node.key], partial(graph.within, node.then))
    return found


def _places_of(node: Node) -> Iterator[tuple[str, str]]:
    """Return the places of the state that a node names, each with the field of the node that names it."""
    if isinstance(node, MapNode):
        yield "over", node.over
    field = "system_prompt" if isinstance(node, LlmNode) else "args" if isinstance(node, ToolNode) else "question"
    for text in node.reads:
        if isinstance(node, ToolNode) and _PATH.fullmatch(text):
            yield field, text
        for path in sorted(state_paths_in(text)):
            yield field, path
