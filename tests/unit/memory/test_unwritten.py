"""Only what is new of a task is written: with what was there before it is what would be written at once."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from pentad.shared.memory.increments import FirstWritten, marked_point, new_points, unwritten
from pentad.shared.memory.points import MARK_DETAIL, TASK_KIND, CutTask, cut_task, ids_of, segment_points
from pentad.shared.models.embeddings import HashingEmbedding
from pentad.shared.vectors.points import Payload, Point
from tests.unit.segments.transcripts import HOSTILE, answered, said

MODEL = HashingEmbedding(8)
USERS = [None, "ada", "bob"]


class KeptPoints:
    """A store in a dictionary, and what each writing has cost."""

    def __init__(self) -> None:
        self.points: dict[str, Point] = {}
        self.embedded = self.written = 0

    def marks(self) -> dict[str, Payload]:
        return {name: point.payload for name, point in self.points.items() if point.payload.kind == TASK_KIND}

    def write(self, task: CutTask, written: FirstWritten | None = None) -> None:
        """As the archiver does, without what was moved away."""
        new = unwritten(task, self.marks(), written if written is not None else {})
        places = [place for each in new for place in each.embedded]
        vectors = {place: MODEL.vector(task.segments[place].text) for place in places}
        made = [point for each in new for point in (*new_points(task, each, vectors), marked_point(task, each))]
        self.points |= {point.id: point for point in made}
        self.embedded, self.written = len(places), len(made)


def cut(messages: Sequence[dict[str, Any]]) -> CutTask:
    return cut_task("t1", "task-0-1", "s1", messages)


def at_once(messages: Sequence[dict[str, Any]]) -> dict[str, Point]:
    """What is there when a task is written for the first time."""
    store = KeptPoints()
    store.write(cut(messages))
    return store.points


def talk(chance: random.Random, turns: int) -> list[dict[str, Any]]:
    """Turns of several users; some texts are in pieces, some say nothing."""
    messages = []
    for turn in range(turns):
        text = chance.choice([f"Where is my cat {turn}?", "A long story. " * chance.randrange(1, 200), "..."])
        messages += [said(text, user_id=chance.choice(USERS)), answered(f"Here, number {turn}.", step=turn)]
    return messages


@pytest.mark.parametrize("seed", range(8))
def test_written_end_by_end_a_task_is_what_it_is_when_written_at_once(seed: int) -> None:
    chance = random.Random(seed)
    messages, store, at = talk(chance, 12), KeptPoints(), 0
    while at < len(messages):
        at += chance.randrange(1, 7)
        store.write(cut(messages[:at]))
        assert store.points == at_once(messages[:at])
    store.write(cut(messages))
    assert (store.embedded, store.written) == (0, 0), "nothing is new"


def test_an_end_costs_the_same_at_turn_3_and_at_turn_200() -> None:
    turns = [[said(f"Turn {n}?", user_id="ada"), answered(f"Answer {n}.", step=n)] for n in range(200)]
    costs = {}
    for at in (3, 200):
        store = KeptPoints()
        store.write(cut([message for turn in turns[: at - 1] for message in turn]))
        store.write(cut([message for turn in turns[:at] for message in turn]))
        costs[at] = (store.embedded, store.written)
    assert costs[200] == costs[3] == (4, 4), "two new segments, two before them, the task's point"


def test_another_owners_turn_writes_nothing_of_mine() -> None:
    mine = [said("My boat", user_id="ada"), answered("Yes.")]
    store = KeptPoints()
    store.write(cut(mine))
    mine_before = dict(store.points)
    store.write(cut([*mine, said("My car", user_id="bob"), answered("Fine.", step=2)]))
    assert store.written == 3
    assert store.points.items() >= mine_before.items()


def test_a_part_that_is_another_now_is_written_whole() -> None:
    messages = talk(random.Random(1), 6)
    moved = [*messages, {"role": "exclusion", "positions": [0, 1], "to": "new", "to_task_id": "task-0-2"}]
    store = KeptPoints()
    store.write(cut(messages))
    store.write(cut(moved))
    there = ids_of(cut(moved))
    assert {name: point for name, point in store.points.items() if name in there} == at_once(moved)
    store.write(cut([*moved, said("More", user_id="ada")]))
    assert store.written <= 3, "from then on it adds again"


def test_an_older_store_is_brought_up_to_now() -> None:
    messages = talk(random.Random(2), 8)
    store = KeptPoints()
    store.write(cut(messages[:4]))
    backup = dict(store.points)
    store.write(cut(messages[:10]))
    store.points = backup
    store.write(cut(messages))
    assert store.points == at_once(messages)


def test_a_store_that_is_ahead_of_a_restored_task_is_written_whole() -> None:
    messages, other = talk(random.Random(3), 6), talk(random.Random(4), 2)
    store = KeptPoints()
    store.write(cut(messages))
    store.write(cut(messages[:4] + other))
    assert store.points.items() >= at_once(messages[:4] + other).items()


def test_what_this_writer_has_written_it_writes_again_behind_a_quicker_one() -> None:
    """A slow writer of an older task has put the older neighbours over a quicker one's."""
    older, newer = [said("One"), answered("Two")], [said("One"), answered("Two"), said("Three")]
    store = KeptPoints()
    store.write(cut(newer))
    store.points |= {p.id: p for p in at_once(older).values() if p.payload.kind != TASK_KIND}
    store.write(cut(newer))
    assert store.points != at_once(newer), "the task's point alone does not tell"
    store.write(cut(newer), {None: 0})
    assert store.points == at_once(newer)


@pytest.mark.parametrize(
    "mark", ["", "x", "-1.", "99999999999999999999.", "²", "2", "2.", "2.x", "1e9.", "4097.", True, 7, 0.5]
)
def test_a_mark_that_is_none_counts_for_nothing(mark: Any) -> None:
    messages, store = talk(random.Random(5), 3), KeptPoints()
    store.write(cut(messages))
    for payload in store.marks().values():
        payload.details[MARK_DETAIL] = mark
    store.write(cut(messages))
    assert store.points == at_once(messages)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_are_marked_like_others(text: str) -> None:
    text = text[:5_000]
    messages = [said(text, name=text), answered(text)]
    store = KeptPoints()
    for at in (1, 2):
        store.write(cut(messages[:at]))
    assert store.points == at_once(messages)
    store.write(cut(messages))
    assert store.written == 0


def test_each_thing_that_points_are_made_of_is_in_the_mark() -> None:
    plain = [said("One", user_id="ada"), answered("Two")]
    store = KeptPoints()
    store.write(cut(plain))
    for other in (
        cut_task("t1", "task-0-1", "s2", plain),
        cut([said("One", user_id="ada", name="Ada"), plain[1]]),
        cut([said("One", user_id="ada", at="2031-01-01T00:00:00.000Z"), plain[1]]),
        cut([said("Six", user_id="ada"), plain[1]]),
        cut([plain[0], answered("Two", step=9)]),
    ):
        assert unwritten(other, store.marks(), {})
        part = unwritten(other, store.marks(), {})[0].part
        assert len(list(segment_points(other, part, 0, {0: [1.0], 1: [1.0]}))) == 2
