"""A plugin defines a graph, or is told at once why it cannot."""

from typing import Any

import pytest

import pentad
from pentad.shared.plugins import runnables
from pentad.shared.plugins.errors import PluginError
from pentad.shared.plugins.graphs import registered_graphs
from pentad.shared.plugins.instructions import registered_instructions
from pentad.shared.plugins.runnables import runnable_sources
from tests.unit.agent_graphs.graphs import EVERYTHING, everything


@pytest.fixture(autouse=True)
def _a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runnables, "_defined", {})


def test_a_graph_is_defined_and_given_back_as_it_is() -> None:
    assert pentad.graph(EVERYTHING) is EVERYTHING
    assert registered_graphs() == {"report": everything()}
    assert registered_instructions() == {}
    own = f"{__name__}.test_a_graph_is_defined_and_given_back_as_it_is.<locals>.report"
    assert runnable_sources() == (own,), "a script is told that it must define graphs at its top"


def test_the_place_of_a_graph_is_its_module_and_its_name() -> None:
    exec(compile("import pentad\npentad.graph(GIVEN)", "m", "exec"), {"__name__": "my_graphs", "GIVEN": EVERYTHING})
    exec(compile("import pentad\npentad.graph(GIVEN)", "m", "exec"), {"__name__": "my_graphs", "GIVEN": EVERYTHING})
    assert runnable_sources() == ("my_graphs.report",), "imported twice, it is the same"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (EVERYTHING | {"ends": ["x"]}, r"graph 'report': ends\[0\]: there is no node 'x'"),
        (EVERYTHING | {"name": "a b"}, "graph 'a b': name: "),
        ({}, "graph: name: Field required"),
        ("report", "graph: a graph is a dict"),
    ],
)
def test_what_is_no_graph_is_told_with_its_mistakes(given: Any, told: str) -> None:
    with pytest.raises(PluginError, match=told):
        pentad.graph(given)


def test_an_instruction_and_a_graph_share_their_names() -> None:
    pentad.graph(EVERYTHING)
    with pytest.raises(PluginError, match=r"instruction 'report' is defined twice, as graph .* and as instruction"):

        @pentad.instruction()
        def report() -> str:
            return "Report."
