"""The page about graphs is true: its graph is drawn as it says, and its nodes and edges can be read."""

import re
import textwrap
import tomllib
from typing import get_args

from pydantic import TypeAdapter

from pentad.contracts.graph_nodes import Comparison, Edge, Node, Reducer
from pentad.contracts.graphs import GraphSpec
from pentad.shared.agent_graphs.mermaid import mermaid
from tests.support.documents.manifests import ROOT

PAGE = (ROOT / "docs" / "graphs.md").read_text()
BLOCKS = [textwrap.dedent(block) for block in re.findall(r"(?:^    .*\n|^\n(?=    ))+", PAGE, re.MULTILINE)]
"""The indented examples of the page."""


def block(begins: str) -> str:
    (found,) = (each for each in BLOCKS if each.strip().startswith(begins))
    return found.strip() + "\n"


def rows(kind: str) -> list[str]:
    """The lines of examples that are inline tables with this field."""
    return [line for each in BLOCKS for line in each.splitlines() if line.startswith("{ ") and f" {kind} = " in line]


def test_the_graph_of_the_page_is_drawn_as_the_page_says() -> None:
    text = block("# graphs.toml").partition("PENTAD_INSTRUCTIONS")[0]
    (row,) = tomllib.loads(text)["graphs"]
    drawn = PAGE[PAGE.index("    flowchart TD") :].partition("\n\n")[0]
    assert mermaid(GraphSpec.model_validate(row, extra="forbid")) == textwrap.dedent(drawn) + "\n"


def test_each_kind_of_node_and_edge_has_an_example_that_is_one() -> None:
    nodes = [tomllib.loads(f"x = {line}")["x"] for line in rows("kind")]
    for node in nodes:
        TypeAdapter(Node).validate_python(node, extra="forbid")
    assert {node["kind"] for node in nodes} == {"llm", "tool", "graph", "parallel", "map", "ask"}
    edges = [tomllib.loads(f"x = {line}")["x"] for line in rows("from")]
    made = [Edge.model_validate(edge, extra="forbid") for edge in edges]
    conditions = {name for edge in made for name in ("when", "where", "check") if getattr(edge, name) is not None}
    assert conditions == {"when", "where", "check"}
    assert any(edge.is_default for edge in made)


def test_every_comparison_and_reducer_is_named() -> None:
    assert f"`{' '.join(get_args(Comparison))}`" in PAGE
    assert [name for name in get_args(Reducer) if f"| `{name}` |" not in PAGE] == []
