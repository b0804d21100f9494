"""The event decoder finds the same events however the network cuts them."""

import pytest

from pentad.shared.models.sse_decoder import SseDecoder

STREAM = (
    b": a comment\n\n"
    b"event: message\nid: 7\nretry: 10\ndata: one\n\n"
    b"data:two\r\n\r\n"
    b"data: three\ndata: lines\n\n"
    b"data: \xe4\xbd\xa0\xe5\xa5\xbd\r\r"
    b"\n\n\n"
    b"ignored: field\nnonsense\n"
    b"data:  two spaces\n\n"
)
EVENTS = [b"one", b"two", b"three\nlines", "你好".encode(), b" two spaces"]


def decode(*chunks: bytes) -> list[bytes]:
    decoder = SseDecoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)] + decoder.flush()


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 16, 64, len(STREAM)])
def test_events_do_not_depend_on_where_the_network_cuts(size: int) -> None:
    assert decode(*(STREAM[at : at + size] for at in range(0, len(STREAM), size))) == EVENTS


def test_every_single_cut_gives_the_same_events() -> None:
    for at in range(len(STREAM)):
        assert decode(STREAM[:at], STREAM[at:]) == EVENTS, f"cut at {at}"


def test_an_event_is_handed_out_as_soon_as_it_is_complete() -> None:
    decoder = SseDecoder()
    assert decoder.feed(b"data: a\n") == []
    assert decoder.feed(b"\n") == [b"a"]


def test_the_last_event_needs_no_blank_line() -> None:
    assert decode(b"data: a\n\ndata: [DONE]") == [b"a", b"[DONE]"]


@pytest.mark.parametrize("size", [1, 3, 1_000])
def test_any_number_of_blank_lines_ends_one_event(size: int) -> None:
    stream = b"data: a\n\n\n\n\ndata: b\n\n\n\n\n\n\n\n"
    assert decode(*(stream[at : at + size] for at in range(0, len(stream), size))) == [b"a", b"b"]


def test_a_byte_order_mark_is_skipped() -> None:
    assert decode(b"\xef\xbb\xbfdata: a\n\n") == [b"a"]


def test_an_event_without_end_is_refused_before_it_fills_the_memory() -> None:
    with pytest.raises(ValueError, match="larger than"):
        decode(*(b"x" * 65536 for _ in range(1000)))


def test_many_small_events_are_not_taken_for_one_large() -> None:
    decoder = SseDecoder()
    chunk = b"data: " + b"x" * 1_000_000 + b"\n\n"
    assert sum(len(decoder.feed(chunk)) for _ in range(20)) == 20


@pytest.mark.parametrize(
    ("events", "read"),
    [
        ([("1", "a"), ("1", "a"), ("2", "b")], "ab"),
        ([("1", "a"), ("2", "b"), ("3", "b"), ("2", "b"), ("3", "b"), ("4", "c")], "abbc"),
        ([("x-1", "a"), ("x-2", "b"), ("x-1", "a"), ("x-2", "b"), ("x-3", "c")], "abc"),
        ([("chatcmpl-1", "ha"), ("chatcmpl-1", "ha"), ("chatcmpl-1", "!")], "haha!"),
        ([("1", "a"), ("1", "b"), ("1", "b"), ("2", "c"), ("2", "c")], "abbcc"),
        ([("1770000000123", "ha"), ("1770000000123", "ha")], "haha"),
    ],
)
def test_an_event_that_comes_again_with_its_id_is_read_once(events: list[tuple[str, str]], read: str) -> None:
    body = "".join(f"id: {number}\ndata: {data}\n\n" for number, data in events)
    assert b"".join(SseDecoder().feed(body.encode())) == read.encode()


def test_the_ids_of_a_long_stream_take_little_memory() -> None:
    decoder = SseDecoder()
    for number in range(50_000):
        assert decoder.feed(b"id: %d\ndata: x\n\n" % number) == [b"x"]
    assert decoder.feed(b"id: 49999\ndata: x\n\n") == []
    assert decoder.feed(b"id: 3\ndata: x\n\n") == [b"x"]  # forgotten long ago
