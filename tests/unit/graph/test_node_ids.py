"""Ids of nodes and edges: the same for the same content, another for another owner or kind."""

import pytest

from pentad.shared.graph.knowledge import EdgeType, NodeKind
from pentad.shared.graph.merging import edge_id, node_id
from pentad.shared.owners import Owner
from pentad.shared.vectors.limits import check_id
from tests.unit.segments.transcripts import HOSTILE

OURS, ADAS = Owner("acme"), Owner("acme", "ada")


def test_however_it_is_written_it_is_the_same_node_and_the_id_of_a_point() -> None:
    written = {node_id(ADAS, NodeKind.ENTITY, text) for text in ("Mimi Solberg", " mimi\nSOLBERG", "Ｍimi Solberg")}
    assert written == {"a73308c7-f7b0-83d6-ade3-64e336049b21"}, "ids that are kept must stay"


def test_owners_kinds_and_texts_have_ids_of_their_own() -> None:
    asked = [
        (OURS, NodeKind.FACT, "a"), (ADAS, NodeKind.FACT, "a"), (Owner("ada"), NodeKind.FACT, "a"),
        (OURS, NodeKind.ENTITY, "a"), (OURS, NodeKind.FACT, "b"), (OURS, NodeKind.FACT, "a" * 300),
        (OURS, NodeKind.FACT, "a" * 300 + "b"),
    ]  # fmt: skip
    assert len({node_id(*each) for each in asked}) == len(asked)


def test_an_edge_has_one_of_its_ends_type_and_owner() -> None:
    assert edge_id(ADAS, "a", "b", EdgeType.PART_OF) == "2e52b6c7-c35b-8411-ad3d-95c194d4233b", (
        "ids that clients keep must stay"
    )
    asked = [
        (ADAS, "a", "b", EdgeType.PART_OF), (OURS, "a", "b", EdgeType.PART_OF), (ADAS, "b", "a", EdgeType.PART_OF),
        (ADAS, "a", "b", EdgeType.RELATED_TO), (Owner("other", "ada"), "a", "b", EdgeType.PART_OF),
    ]  # fmt: skip
    made = {edge_id(*each) for each in asked}
    assert len(made) == len(asked)
    for each in made:
        check_id(each)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_any_text_has_one(text: str) -> None:
    check_id(node_id(OURS, NodeKind.FACT, text))
