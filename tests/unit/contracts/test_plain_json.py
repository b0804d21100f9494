"""JSON of others is read as RFC 8259 has it, and a text of too many values is refused before any is made."""

import json

import pytest

from pentad.contracts.plain_json import MOST_VALUES, read_json, values_in

LONG = "a" * 100_000


TEXTS = (
    *("[1,[2],{}]", '{"a":{"b":[]}}', r'["a,[{","\"[,","\\"]'),
    json.dumps({LONG: ["[", LONG, '"[', "\\", '\\"{']}),
)


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text[:20])
def test_values_are_counted_outside_texts_only(text: str) -> None:
    """Promise: what stands within texts and names is no value, whatever is escaped there."""
    found = values_in(text, 0)
    assert found == values_in(text.encode(), 0) == _signs(json.loads(text))


def _signs(value: object) -> int:
    """One for each list and object, and for each comma between members."""
    if isinstance(value, dict):
        return 1 + max(0, len(value) - 1) + sum(map(_signs, value.values()))
    return 1 + max(0, len(value) - 1) + sum(map(_signs, value)) if isinstance(value, list) else 0


@pytest.mark.parametrize("piece", ["[],", "{},", "1,", '"",', '{"a":1},'])
def test_a_text_of_too_many_values_is_refused_before_it_is_read(piece: str) -> None:
    text = "[" + piece * (MOST_VALUES + 1) + "0]"
    for given in (text, text.encode()):
        with pytest.raises(ValueError, match="more than 50,000 values"):
            read_json(given)
        assert len(read_json(given, None)) == MOST_VALUES + 2


def test_a_text_that_speaks_of_many_values_has_few() -> None:
    said = {"content": '[{,"' * 300_000}
    assert read_json(json.dumps(said)) == said


@pytest.mark.parametrize("text", ['"",' * 200_000, '"[", ' * (1 << 20)], ids=["many strings", "a long text"])
def test_what_takes_long_to_leave_out_of_the_count_is_counted(text: str) -> None:
    """Promise: millions of strings are not taken out of a text while an event loop waits."""
    for given in (text, text.encode()):
        assert values_in(given, 1_000) > 1_000


@pytest.mark.parametrize("number", ["1e999", "-1e999", "1" * 400])
@pytest.mark.parametrize("beside", ["", LONG])
def test_a_number_beyond_a_doubles_range_is_refused_also_beside_long_texts(number: str, beside: str) -> None:
    text = json.dumps({"text": beside}).replace("}", ', "n": [' + number + "]}")
    if number.isdigit():
        assert read_json(text)["n"] == [int(number)]
        return
    with pytest.raises(ValueError, match="a number in it is too large"):
        read_json(text)


def test_what_looks_like_a_large_number_within_a_text_is_none() -> None:
    assert read_json(json.dumps({"a": LONG, "b": "1e999"}))["b"] == "1e999"
