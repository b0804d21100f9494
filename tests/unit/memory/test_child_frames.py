"""What goes to the store's process and back: as it was, bounded, and errors by their kind."""

from array import array
from typing import Any

import pytest

from pentad.shared.errors import DamagedError, MemoryOutageError, MemoryRefusedError, PentadError, SettingsError
from pentad.shared.memory import child_protocol
from pentad.shared.memory.child_protocol import (
    answer_frame,
    decode_points,
    encode_points,
    error_frame,
    frame_of,
    result_of,
)
from pentad.shared.vectors.points import Dense, Point, Sparse, SparseVector
from tests.support.point_maker import point


def as_kept(sent: Point) -> Point:
    """With numbers of four bytes, as every store keeps them."""
    dense = {using: tuple(array("f", vector)) for using, vector in sent.dense.items()}
    sparse = {u: SparseVector(terms.indices, tuple(array("f", terms.values))) for u, terms in sent.sparse.items()}
    return Point(sent.id, sent.payload, dense, sparse)


def test_points_arrive_as_they_were_sent() -> None:
    odd = point(
        "a", text="Ada 猫 \x00 🐈 \u202e", dense=(0.1, -2.5, 1e30), details={"asks": True, "turn": 7, "w": 0.25}
    )
    bare = Point(odd.id, odd.payload, {}, {Sparse.TASK_WORDS: SparseVector((0, (1 << 32) - 1), (1.5, -1.0))})
    sent = [odd, bare, Point(odd.id, odd.payload)]
    assert decode_points(*encode_points(sent)) == [as_kept(each) for each in sent]


@pytest.mark.parametrize(
    "told",
    [None, 7, [[]], ["x"], [["id", {}, [], []]], [["id", {"tenant": ""}, [], []]], [["id", None, [["text", 1]], []]]],
)
def test_points_that_are_none_are_an_error(told: Any) -> None:
    with pytest.raises((ValueError, TypeError, PentadError)):
        decode_points(told, b"")


@pytest.mark.parametrize("length", [-1, 3, 1 << 40, "2", None])
def test_numbers_that_are_not_there_are_an_error(length: Any) -> None:
    [told], numbers = encode_points([point("a", dense=(1.0, 2.0))])
    told[2] = [[Dense.TEXT, length]]
    told[3] = []
    with pytest.raises((ValueError, TypeError)):
        decode_points([told], numbers[:8])


def test_a_frame_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_protocol, "MAX_FRAME_BYTES", 10)
    assert frame_of(b"x" * 10) == b"\0\0\0\n" + b"x" * 10
    with pytest.raises(MemoryRefusedError, match="10 at most"):
        frame_of(b"x" * 11)


@pytest.mark.parametrize("kind", [MemoryRefusedError, MemoryOutageError, DamagedError, SettingsError])
def test_an_error_is_raised_again_as_it_was(kind: type[PentadError]) -> None:
    with pytest.raises(kind, match="say so"):
        result_of(error_frame(kind("say so"))[4:])


def test_what_nobody_expected_is_an_outage() -> None:
    with pytest.raises(MemoryOutageError, match="KeyError"):
        result_of(error_frame(KeyError("x"))[4:])
    assert result_of(answer_frame(b"[1]")[4:]) == b"[1]"


@pytest.mark.parametrize("answer", [b"", b"-", b"-[", b"-7", b'-["refused"]', b'-["none","x"]', b"\xff", b'-{"a":1}'])
def test_an_answer_that_is_none_is_an_outage(answer: bytes) -> None:
    with pytest.raises(MemoryOutageError):
        result_of(answer)
