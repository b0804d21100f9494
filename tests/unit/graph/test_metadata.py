"""What may be kept with a node or an edge, and in which form."""

from typing import Any

import pytest

from pentad.shared.errors import DamagedError, MemoryRefusedError
from pentad.shared.graph.knowledge import Metadata
from pentad.shared.graph.metadata import MOST_BYTES, check_metadata, metadata_text, metadata_told


def nested(depth: int) -> dict[str, Any]:
    return {"a": nested(depth - 1)} if depth > 1 else {}


@pytest.mark.parametrize(
    "given",
    [{}, {"a": None}, {"b": [1, 2.5, "猫", True, {"c": []}], "a": "\x00\u202e"}, nested(8), {"n": 10**400},
     {str(n): n for n in range(64)}, {"a": "x" * (MOST_BYTES - 8)}],
)  # fmt: skip
def test_an_object_within_bounds_is_kept_and_told_as_it_was(given: dict[str, Any]) -> None:
    kept = Metadata(metadata_text(given), 1)
    check_metadata(kept)
    assert metadata_told(kept) == given
    assert metadata_text(dict(reversed(given.items()))) == kept.json


def test_where_nothing_is_kept_nothing_is_told() -> None:
    assert metadata_told(None) == {}


ITSELF: dict[str, Any] = {}
ITSELF["a"] = ITSELF


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([], "a JSON object"),
        ("{}", "a JSON object"),
        (None, "a JSON object"),
        (nested(9), "8 deep"),
        ({"a": [[[[[[[[]]]]]]]]}, "8 deep"),
        (ITSELF, "8 deep"),
        ({str(n): n for n in range(65)}, "65 keys: 64"),
        ({"a": {str(n): n for n in range(40)}, "b": [{str(n): n for n in range(40)}]}, "82 keys: 64"),
        ({"a": "x" * (MOST_BYTES - 7)}, "4097 bytes of JSON: 4096"),
        ({"a": "猫" * 1_400}, "4208 bytes"),
        ({"a": float("nan")}, "written as JSON"),
        ({"a": [float("-inf")]}, "written as JSON"),
        ({"a": "\ud800"}, "in UTF-8"),
        ({"a": {1, 2}}, "written as JSON"),
    ],
)
def test_what_is_none_or_too_much_is_refused_in_words(given: Any, why: str) -> None:
    with pytest.raises(MemoryRefusedError, match=why):
        metadata_text(given)


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000])
def test_what_nobody_of_ours_has_kept_is_told(text: str) -> None:
    with pytest.raises(DamagedError, match="no JSON object"):
        metadata_told(Metadata(text, 1))
    with pytest.raises(MemoryRefusedError):
        check_metadata(Metadata(text, 1))
