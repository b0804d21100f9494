"""A transcript that is read on is the transcript that is read at once, and what was cut is not cut again."""

import random
from typing import Any

import pytest

from pentad.contracts.records import TranscriptMeta
from pentad.services.archiver.ended_tasks import CachedTranscript, read_further
from pentad.shared.actors.headers import TaskHeader
from pentad.shared.actors.transcript import entry
from pentad.shared.segments.segment import MOST_OF_TASK, MOST_OF_TEXT

AT = "2030-01-31T12:00:00.000Z"
HEADER = TaskHeader(tenant="acme", task_id="task-0-1", session="s1", status="completed", user="ada")


def line(number: int, user: str | None = "ada", **more: Any) -> bytes:
    return entry(
        {"role": "user", "content": f"Line {number}."} | more, TranscriptMeta(at=AT, user_id=user, step=number)
    )


def moved(*positions: int) -> bytes:
    gone = {"role": "exclusion", "positions": list(positions), "to": "new", "to_task_id": "task-0-2"}
    return entry(gone, TranscriptMeta(at=AT))


def further(entries: list[bytes], earlier: CachedTranscript | None) -> CachedTranscript:
    """As an archiver reads it."""
    begin = earlier.next if earlier is not None else 0
    if earlier is not None and not earlier.continues_in(entries[begin:]):
        return read_further(HEADER, entries, None)
    return read_further(HEADER, entries[begin:], earlier)


def same(one: CachedTranscript, other: CachedTranscript) -> bool:
    return (one.messages, one.cut, one.last, one.size) == (other.messages, other.cut, other.last, other.size)


@pytest.mark.parametrize("seed", range(6))
def test_read_in_pieces_it_is_what_it_is_at_once(seed: int) -> None:
    chance = random.Random(seed)
    entries = [line(n, chance.choice([None, "ada", "bob"])) for n in range(20)]
    if seed % 2:
        entries[chance.randrange(5, 18)] = moved(chance.randrange(4), 4)
    if seed == 4:
        entries = [line(n, None) for n in range(12)] + entries[12:]
    read, at = None, 0
    while at < len(entries):
        at += chance.randrange(0, 5)
        read = further(entries[:at], read)
        assert same(read, read_further(HEADER, entries[:at], None))


def test_of_a_long_task_only_what_is_new_is_cut() -> None:
    entries = [line(n) for n in range(401)]
    before = further(entries[:399], None)
    after = further(entries, before)
    assert len(entries[before.next :]) == 3, "the last one that was read, and two behind it"
    assert all(one is other for one, other in zip(before.cut.segments, after.cut.segments, strict=False))
    assert further(entries, after) is after, "nothing is new"


@pytest.mark.parametrize("left", [0, 1, 4])
def test_a_server_that_has_lost_its_last_writes_is_read_anew(left: int) -> None:
    before = further([line(n) for n in range(5)], None)
    other = [line(n) for n in range(left)] + [line(n, content="Another.") for n in range(4)]
    for entries in (other, other[:left]):
        assert same(further(entries, before), read_further(HEADER, entries, None))


def test_a_task_in_pieces_has_no_more_segments_than_at_once() -> None:
    text = "A sentence that goes on for quite some while, until it ends. " * 4_000
    entries = [line(n, content=text) for n in range(1 + MOST_OF_TASK // MOST_OF_TEXT)]
    read = further(entries, further(entries[:-1], None))
    assert len(read.cut.segments) == MOST_OF_TASK
    assert same(read, read_further(HEADER, entries, None))
    assert read.weight > read.size
