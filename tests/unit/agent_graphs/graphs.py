"""A graph with every kind of node and of edge."""

from typing import Any

from pentad.contracts.graphs import GraphSpec

EVERYTHING: dict[str, Any] = {
    "name": "report",
    "description": "Writes a report.",
    "state_schema": {
        "type": "object",
        "properties": {"cities": {"type": "array"}, "score": {"type": "number"}, "notes": {"reducer": "append"}},
    },
    "nodes": [
        {"key": "plan", "kind": "llm", "instruction": "planner"},
        {"key": "both", "kind": "parallel", "branches": ["look", "think"], "join": "all", "then": "each"},
        {"key": "look", "kind": "tool", "tool": "look_up", "args": {"n": "state.score"}, "writes": "notes"},
        {"key": "think", "kind": "llm", "system_prompt": "Think.", "model": "fast", "tools": ["calculator"]}
        | {"description": "Thinks.", "writes": "notes"},
        {"key": "each", "kind": "map", "over": "state.cities", "node": "visit", "max_parallel": 2},
        {"key": "visit", "kind": "graph", "graph": "visit_city", "on_error": "plan"},
        {"key": "write", "kind": "llm", "system_prompt": "Write of {{state.notes}}."},
        {"key": "approve", "kind": "ask", "question": "Is it good?"},
    ],
    "edges": [
        {"from": "plan", "to": "both"},
        {"from": "each", "to": "write"},
        {"from": "write", "to": "plan", "where": {"state.score": {"<": 0.5}, "state.notes": {"exists": True}}},
        {"from": "write", "to": "plan", "check": "is_complete"},
        {"from": "write", "to": "approve"},
        {"from": "approve", "to": "write", "when": "The person wants a change."},
    ],
    "entry": "plan",
    "ends": ["approve"],
}


def everything(**fields: Any) -> GraphSpec:
    """Return the graph with other fields."""
    return GraphSpec.model_validate(EVERYTHING | fields, extra="forbid")


def runs(name: str, *graphs: str) -> GraphSpec:
    """Return a graph that runs these graphs, one after the other."""
    nodes = [{"key": f"n{number}", "kind": "graph", "graph": graph} for number, graph in enumerate(graphs)]
    nodes.append({"key": "end", "kind": "ask", "question": "Well?"})
    edges = [{"from": nodes[at]["key"], "to": nodes[at + 1]["key"]} for at in range(len(graphs))]
    return GraphSpec.model_validate(
        {"name": name, "nodes": nodes, "edges": edges, "entry": nodes[0]["key"], "ends": ["end"]}
    )
