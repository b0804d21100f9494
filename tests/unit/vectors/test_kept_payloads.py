"""What points keep is read once, is forgotten with a write, and is not kept without bound."""

from collections.abc import Callable

import pytest

from pentad.shared.errors import DamagedError
from pentad.shared.vectors.payload_cache import DecodedPayloads, PayloadCache
from pentad.shared.vectors.points import Payload, encode_payload
from tests.support.point_maker import point


def reading(asked: list[str]) -> Callable[[list[str]], dict[str, Payload]]:
    """A store that says what it was asked; it has everything but `gone`."""

    def read(ids: list[str]) -> dict[str, Payload]:
        asked.extend(ids)
        return {name: point(name).payload for name in ids if name != "gone"}

    return read


def test_each_is_read_once_until_it_is_written() -> None:
    kept, asked = PayloadCache(), list[str]()
    for _ in range(2):
        assert set(kept.of(["a", "b", "gone"], reading(asked))) == {"a", "b"}
    assert asked == ["a", "b", "gone", "gone"]
    asked.clear()
    kept.forget(["a", "unknown"])
    kept.of(["a", "b"], reading(asked))
    assert asked == ["a"]
    kept.forget_all()
    kept.of(["a", "b"], reading(asked))
    assert asked == ["a", "a", "b"]


def test_the_oldest_go_first() -> None:
    kept, asked = PayloadCache(most=3), list[str]()
    for name in "abcd":
        kept.of([name], reading(asked))
    asked.clear()
    kept.of(["b", "c", "d"], reading(asked))
    assert asked == []
    kept.of(["a"], reading(asked))
    assert asked == ["a"]


def test_more_than_there_is_room_for_are_all_told() -> None:
    kept = PayloadCache(most=2)
    assert len(kept.of(list("abcdef"), reading([]))) == 6


def test_a_payload_that_comes_again_as_it_was_is_the_same_and_another_is_read() -> None:
    kept, before, after = DecodedPayloads(), point("a").payload, point("a", text="other").payload
    first = kept.of("a", encode_payload(before))
    assert first == before
    assert kept.of("a", encode_payload(before)) is first
    assert kept.of("a", encode_payload(after)) == after, "another process has written it meanwhile"
    assert kept.of("a", encode_payload(before)) == before
    with pytest.raises(DamagedError):
        kept.of("a", {"tenant": "acme"})


def test_decoded_payloads_are_not_kept_without_bound() -> None:
    kept = DecodedPayloads(most=3)
    first = {name: kept.of(name, encode_payload(point(name).payload)) for name in "abcd"}
    assert [kept.of(name, encode_payload(point(name).payload)) is first[name] for name in "bcda"] == [True] * 3 + [
        False
    ]
