"""A graph is drawn as a flowchart in which no text of the graph is anything but a label."""

import re

from hypothesis import given
from hypothesis import strategies as st

from pentad.contracts.graphs import GraphSpec
from pentad.shared.agent_graphs.mermaid import label, mermaid
from tests.unit.agent_graphs.graphs import everything

DRAWN = """flowchart TD
    begin(["start"])
    n0["plan<br/>planner"]
    n1{{"both<br/>wait for all of 2"}}
    n2[/"look<br/>tool look_up"/]
    n3["think<br/>Thinks."]
    n4[\\"each<br/>each of state.cities, 2 at a time"/]
    n5[["visit<br/>graph visit_city"]]
    n6["write"]
    n7>"approve<br/>Is it good?"]
    finish(["end"])
    begin --> n0
    n1 -.->|"branch"| n2
    n1 -.->|"branch"| n3
    n1 -->|"then"| n4
    n4 -.->|"each item"| n5
    n5 -.->|"on error"| n0
    n0 --> n1
    n4 --> n6
    n6 -->|"state.score #60; 0.5 and state.notes exists true"| n0
    n6 -->|"check is_complete"| n0
    n6 --> n7
    n7 -->|"The person wants a change."| n6
    n7 --> finish
"""
LINE = re.compile(
    r'(?:flowchart TD|    (?:\w+(?:\(\["|\["|\[/"|\[\["|\{\{"|\[\\"|>")(?:[^"<>`;:{}\[\]]|<br/>|#\d+;)*'
    r'(?:"\]\)|"\]|"/\]|"\]\]|"\}\})|\w+ -\.?->(?:\|"(?:[^"<>`;:{}\[\]]|#\d+;)*"\|)? \w+))'
)
"""A line of a drawing: a node, or a way between two, with labels that hold nothing of the language."""
HOSTILE = (
    '"]; click n0 href "javascript:alert(1)"\nend %%{init: {}}%% `**x**` <script>&quot;#35;</script> style a:#b; \u2028'
)


def test_every_kind_of_node_and_edge_has_its_shape() -> None:
    assert mermaid(everything()) == DRAWN


def test_the_drawing_is_the_same_for_the_same_graph() -> None:
    again = GraphSpec.model_validate_json(everything().to_json())
    assert mermaid(again) == mermaid(everything())


def asking(question: str) -> GraphSpec:
    ask = {"key": "end", "kind": "ask", "question": question}
    edges = [{"from": "end", "to": "end", "when": question}]
    return GraphSpec.model_validate({"name": "g", "nodes": [ask], "edges": edges, "entry": "end", "ends": ["end"]})


def test_a_hostile_text_stays_within_its_label() -> None:
    drawn = mermaid(asking(HOSTILE))
    assert all(LINE.fullmatch(line) for line in drawn.splitlines()), drawn
    assert "script#62;" in drawn
    assert "javascript:" not in drawn
    assert "click n0" in drawn, "as words"


@given(st.text(min_size=1, max_size=200))
def test_any_text_stays_within_its_label(text: str) -> None:
    drawn = mermaid(asking(text)).split("\n")
    assert all(LINE.fullmatch(line) for line in drawn[:-1]), drawn
    assert len(drawn) == 8


def test_a_long_text_is_cut() -> None:
    assert label("x" * 10_000) == "x" * 80 + "#8230;"
