"""`make look` draws every import of the house once, whatever links it goes through."""

from collections import Counter

from tests.architecture.look import as_dot, floors, graph_of
from tests.architecture.source import modules


def test_every_folder_with_code_is_a_room_and_links_are_none() -> None:
    graph = graph_of()
    assert {module.path.rpartition("/")[0] for module in modules()} == set(graph)
    assert "pentad/shared" not in graph
    assert graph["services/router"]["shared/inbound"] > 0
    assert not graph["contracts"], "contracts import nothing of ours"


def test_a_room_is_drawn_by_its_modules() -> None:
    graph = graph_of("shared/records")
    assert set(graph) == {"__init__", "by_time", "forgotten", "record_store"}
    assert graph["record_store"]["by_time"] > 0


def test_who_imports_stands_above_and_a_cycle_on_one_floor() -> None:
    graph = {"a": Counter(b=1), "b": Counter(c=2), "c": Counter[str](), "x": Counter(y=1), "y": Counter(x=1)}
    assert floors(graph) == [["c"], ["b"], ["a"], ["x", "y"]]
    assert '"b" -> "c" [label=2];' in as_dot(graph)
