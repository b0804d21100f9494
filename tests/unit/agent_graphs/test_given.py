"""A program hands a graph over in several forms."""

from typing import Any

import pytest

from pentad.contracts.graphs import GraphSpec
from pentad.shared.agent_graphs.given import WrongSpec, spec_of
from tests.unit.agent_graphs.graphs import EVERYTHING, everything


class Built:
    """What a builder makes."""

    spec: Any = everything()


def test_a_dict_a_contract_and_what_was_built_are_the_same_graph() -> None:
    assert spec_of(EVERYTHING) == spec_of(everything()) == spec_of(Built()) == everything()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "name: Field required"),
        (EVERYTHING | {"max_steps": 3}, "max_steps: Extra inputs are not permitted"),
        (EVERYTHING | {"ends": ["x"]}, "ends[0]: there is no node 'x'"),
        (EVERYTHING | {"nodes": [{"key": "a", "kind": "llm", "promt": "x"}]}, "nodes.0.llm.promt: Extra inputs"),
        ("report", "a graph is a dict, a GraphSpec or what an AgentBuilder builds, not str"),
        (7, "not int"),
        (GraphSpec, "not ModelMetaclass"),
    ],
)
def test_what_is_no_graph_is_refused_with_all_its_mistakes(given: Any, told: str) -> None:
    with pytest.raises(WrongSpec) as refused:
        spec_of(given)
    assert told in str(refused.value)
    assert any(told in problem for problem in refused.value.problems)
