"""Only what is new of a task is learned: with what was there before it is the graph that is written at once."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from pentad.shared.graph.knowledge import MemoryEdge, MemoryNode
from pentad.shared.graph.merging import merged_edges, merged_nodes
from pentad.shared.memory.increments import learned_count, learned_from
from pentad.shared.memory.points import CutTask, cut_task, without
from pentad.shared.memory.task_graph import MOST_ENTITIES, MOST_MENTIONS, TaskGraph, task_graph
from tests.unit.segments.transcripts import HOSTILE, answered, calling, said

USERS = [None, "ada", "bob"]
NAMES = ["Mimi Solberg", "Oslo", "Bergen", "Olav Hagen", "《红楼梦》", "Tromso"]
NOTHING = frozenset[str]()


def cut(messages: Sequence[dict[str, Any]]) -> CutTask:
    return cut_task("acme", "task-0-2", "s1", messages)


def talk(chance: random.Random, turns: int) -> list[dict[str, Any]]:
    """Turns of several users in which names begin sentences, stand within them, and are noted."""
    messages: list[dict[str, Any]] = []
    for turn in range(turns):
        name, other = chance.choice(NAMES), chance.choice(NAMES)
        text = chance.choice([f"{name} is here.", f"We met dear {name} and {other}.", "nothing", "A long walk. " * 100])
        at = f"2030-01-31T12:00:{chance.randrange(60):02d}.000Z"
        messages.append(said(text, user_id=chance.choice(USERS), at=at))
        if chance.random() < 0.3:
            note = calling("memory_note", f'{{"text":"{chance.choice(["It rains.", "It snows."]) * 70}"}}')
            messages.append(answered(None, step=turn, tool_calls=[note]))
        messages.append(answered(f"{other}? So I see.", step=turn))
    return messages


class Kept:
    """A graph in two lists, in which supports are in order, as stores have them."""

    def __init__(self) -> None:
        self.nodes: list[MemoryNode] = []
        self.edges: list[MemoryEdge] = []

    def write(self, graph: TaskGraph) -> None:
        self.nodes = merged_nodes(self.nodes + 2 * graph.nodes)
        self.edges = merged_edges(self.edges + 2 * graph.edges)


def at_once(task: CutTask, before: str) -> tuple[list[MemoryNode], list[MemoryEdge]]:
    kept = Kept()
    kept.write(task_graph(task, before))
    return kept.nodes, kept.edges


@pytest.mark.parametrize("seed", range(12))
def test_learned_end_by_end_a_task_is_what_it_is_when_learned_at_once(seed: int) -> None:
    chance = random.Random(seed)
    messages, kept, learned, at = talk(chance, 14), Kept(), None, 0
    while at < len(messages):
        at += chance.randrange(1, 7)
        task = cut(messages[:at])
        known = learned_count(task, NOTHING, learned)
        assert known == (0 if learned is None else learned.count)
        kept.write(task_graph(task, "task-0-1", known))
        learned = learned_from(task, NOTHING)
        assert (kept.nodes, kept.edges) == at_once(task, "task-0-1")
    assert task_graph(cut(messages), "task-0-1", len(cut(messages).segments)) == TaskGraph([], [])


def test_an_end_adds_the_same_at_turn_3_and_at_turn_200() -> None:
    turns = [[said(f"I went to Place{n} today", user_id="ada"), answered(f"To Place{n}?", step=n)] for n in range(200)]
    added = {}
    for at in (3, 200):
        learned = len(cut([message for turn in turns[: at - 1] for message in turn]).segments)
        graph = task_graph(cut([message for turn in turns[:at] for message in turn]), "", learned)
        added[at] = (len(graph.nodes), len(graph.edges), sum(len(node.supports) for node in graph.nodes))
    assert added[200] == added[3] == (2, 1, 3), "a name in two places, that it is the task's, and what was stated"


def test_the_bounds_of_a_task_are_those_of_all_its_ends() -> None:
    messages = [said(f"We saw Place{n} and dear Mimi.") for n in range(MOST_ENTITIES + 40)]
    kept = Kept()
    for at in range(0, len(messages), 37):
        kept.write(task_graph(cut(messages[: at + 37]), "", at))
    assert (kept.nodes, kept.edges) == at_once(cut(messages), "")
    assert max(len(node.supports) for node in kept.nodes) == MOST_MENTIONS


def test_where_something_has_gone_or_is_another_nothing_counts_as_learned() -> None:
    messages = talk(random.Random(1), 6)
    task = cut(messages)
    learned = learned_from(task, NOTHING)
    assert learned_count(task, NOTHING, learned) == len(task.segments)
    assert learned_count(task, NOTHING, None) == 0
    assert learned_count(task, frozenset({"99"}), learned) == 0, "another writer may have learned from what has gone"
    assert learned_count(without(task, {task.segments[0].id}), NOTHING, learned) == 0
    assert learned_count(cut(messages[:2]), NOTHING, learned) == 0, "a restored task is shorter"
    for other in (said("Another", user_id="ada"), messages[0] | {"at": "2031-01-01T00:00:00.000Z"},
                  messages[0] | {"user_id": "eve"}):  # fmt: skip
        assert learned_count(cut([other, *messages[1:]]), NOTHING, learned) == 0


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_are_learned_from_like_others(text: str) -> None:
    task = cut([said(text[:5_000], name=text[:50]), answered(text[:5_000])])
    assert learned_count(task, NOTHING, learned_from(task, NOTHING)) == len(task.segments)
