"""Frames survive any cutting of the stream."""

from datetime import UTC, datetime

import pytest

from pentad.services.tool_worker.children.launch import Launch
from pentad.services.tool_worker.children.tool_frames import (
    PIECE,
    Unpacker,
    context_frame,
    context_from,
    pack,
    pack_bytes,
)
from pentad.shared.child_processes import Backoff, ending
from pentad.shared.plugins.context import ToolContext

_FRAMES = [["ping", 1], ["call", 2, "täg", {"a": [1, None, 1.5, "\ud800"]}, []], ["done", 3, "ok", "x" * 300]]


@pytest.mark.parametrize("size", [1, 3, 7, 64, 10_000])
def test_frames_arrive_whole_and_in_order_however_they_are_cut(size: int) -> None:
    stream = b"".join(pack(frame) for frame in _FRAMES)
    unpacker = Unpacker()
    pieces = (stream[start : start + size] for start in range(0, len(stream), size))
    assert [frame for piece in pieces for frame in unpacker.feed(piece)] == _FRAMES


@pytest.mark.parametrize("size", [1, 3, 4096, 10_000_000])
def test_bytes_of_files_arrive_between_other_frames(size: int) -> None:
    data = bytes(range(256)) * 3_000
    stream = b"".join([pack(["ping", 1]), *pack_bytes(7, data), pack(["done", 7, "ok", "", [["a", "b", len(data)]]])])
    stream = stream if size > 3 else stream[:2_000]
    unpacker = Unpacker()
    frames = [f for at in range(0, len(stream), size) for f in unpacker.feed(stream[at : at + size])]
    assert frames[0] == ["ping", 1]
    if size > 3:
        assert all(len(frame[2]) <= PIECE for frame in frames[1:-1])
        assert b"".join(frame[2] for frame in frames[1:-1]) == data
        assert {tuple(frame[:2]) for frame in frames[1:-1]} == {("bytes", 7)}
        assert frames[-1][0] == "done"


def test_what_is_not_json_is_refused() -> None:
    with pytest.raises(ValueError, match="not JSON"):
        pack(["call", object()])


@pytest.mark.parametrize("deadline", [None, datetime(2030, 1, 31, 12, tzinfo=UTC)])
def test_a_context_travels(deadline: datetime | None) -> None:
    def report(message: str, fraction: float | None) -> None: ...

    context = ToolContext("call", "key", 3, "acme", "ann", "s1", "task", deadline, {"ward": "3b"}, report, deadline)
    assert context_from(context_frame(context), report) == context


def test_a_launch_survives_the_command_line() -> None:
    told = Launch(3, 4, 5, 6, "/tmp/my dir", ["", "/x"], ["my_tools"], 20, "json", True)
    assert Launch.from_json(told.to_json()) == told


@pytest.mark.parametrize(
    ("code", "words"),
    [(0, "it exited with code 0"), (-11, "it was killed by SIGSEGV"), (-250, "it was killed by signal 250")],
)
def test_an_ending_is_put_into_words(code: int, words: str) -> None:
    assert ending(code) == words


def test_losses_in_a_row_keep_starts_further_apart_and_a_quiet_minute_forgives() -> None:
    backoff, delays = Backoff(), []
    for second in range(9):
        backoff.started(1000.0 + second)
        backoff.lost(1000.0 + second)
        delays.append(round(backoff.delay(1000.0 + second), 3))
    assert delays == [0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert backoff.delay(1010.0) == pytest.approx(3.0)
    backoff.lost(1100.0)
    assert backoff.delay(1100.0) == 0


def test_a_child_that_served_for_longer_than_the_wait_is_replaced_at_once() -> None:
    backoff = Backoff()
    for second in range(9):
        backoff.started(1000.0 + 6 * second)
        backoff.lost(1005.5 + 6 * second)
    assert backoff.delay(1053.5) == 0
