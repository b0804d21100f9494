"""``pentad graphs``: which graphs can be run, where each comes from, and what one does."""

import argparse
import json
from typing import Any

from pentad.cli.gateway import agent_for, streams
from pentad.cli.gateway import run as run_async
from pentad.cli.render import fitted, harmless, style_for, table
from pentad.contracts.graphs import GraphSpec
from pentad.errors import NotFound
from pentad.shared.agent_graphs.mermaid import mermaid
from pentad.shared.settings import Settings

_HEADER = ("GRAPH", "FROM", "NODES", "BEGINS", "ENDS", "WHAT IT DOES")
_MOST_ENDS = 3
_ABOUT_ALL_NODES = ("key", "kind", "description")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """A table of all graphs, or one of them."""
    return run_async(_list(args, settings) if args.action is None else _show(args, settings))


async def _list(args: argparse.Namespace, settings: Settings) -> int:
    out, _ = streams()
    async with agent_for(args, settings) as agent:
        found = await agent.inspection.graphs()
    if args.json:
        out.writelines(json.dumps(each, ensure_ascii=False) + "\n" for each in found)
    elif found:
        out.write(table(_HEADER, fitted(_HEADER, [_row(each) for each in found]), style_for(out, settings)) + "\n")
    else:
        out.write("no graphs: docs/graphs.md says how to make one\n")
    return 0


def _row(graph: dict[str, Any]) -> tuple[str, ...]:
    ends, source = graph["ends"], str(graph["source"]).replace("_", " ")
    more = f" and {len(ends) - _MOST_ENDS} more" if len(ends) > _MOST_ENDS else ""
    about, count = str(graph.get("description", "")), str(len(graph["nodes"]))
    return str(graph["name"]), source, count, str(graph["entry"]), ", ".join(ends[:_MOST_ENDS]) + more, about


async def _show(args: argparse.Namespace, settings: Settings) -> int:
    out, _ = streams()
    async with agent_for(args, settings) as agent:
        try:
            found = await agent.inspection.graph(args.name)
        except NotFound as error:
            raise NotFound(f"{error}: `pentad graphs` lists them") from None
    if args.json:
        out.write(json.dumps(found, ensure_ascii=False) + "\n")
    elif args.mermaid:
        out.write(mermaid(GraphSpec.model_validate(found)))
    else:
        out.writelines(f"{harmless(line)}\n" for line in _told(found))
    return 0


def _told(graph: dict[str, Any]) -> list[str]:
    """Return the lines that describe a graph: what it is, its nodes with their ways, the schema of its state."""
    lines = [f"{graph['name']} ({str(graph['source']).replace('_', ' ')}, version {graph['version']})"]
    lines += [graph["description"]] if graph.get("description") else []
    lines.append(f"begins with {graph['entry']}, ends with {', '.join(graph['ends'])}")
    lines.append(f"at most {graph['max_iterations']} nodes and {graph['timeout']:g} s")
    for node in graph["nodes"]:
        about = f": {node['description']}" if node.get("description") else ""
        lines += ["", f"{node['key']} ({node['kind']}){about}"]
        fields = {name: value for name, value in node.items() if name not in _ABOUT_ALL_NODES}
        lines += [f"  {name}: {_value(value)}" for name, value in fields.items() if not _says_nothing(name, value)]
        lines += [f"  -> {edge['to']}{_condition(edge)}" for edge in graph["edges"] if edge["from"] == node["key"]]
    if graph.get("state_schema") is not None:
        lines += ["", f"state: {_value(graph['state_schema'])}"]
    return lines


def _says_nothing(name: str, value: Any) -> bool:
    """Return whether a field of a node has the value that it has where nobody gives one."""
    return (name, value) in (("on_error", "fail"), ("retry", {"attempts": 1, "delay": 0.0}), ("args", {}))


def _condition(edge: dict[str, Any]) -> str:
    named = next((name for name in ("when", "where", "check") if name in edge), None)
    return "" if named is None else f" {named} {_value(edge[named])}"


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
