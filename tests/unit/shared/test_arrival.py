"""An inbound entry of more JSON values than any message has is refused before they are made."""

from pentad.shared.inbound.arrival import read_entry


def test_an_entry_of_too_many_values_is_refused_with_the_number() -> None:
    read = read_entry("1-1", {b"data": b"[" + b"[]," * 100_000 + b"1]"}, 4)
    assert read.message is None
    assert "more than 50,000 JSON values" in read.problem


def test_signs_of_json_within_a_text_are_no_values() -> None:
    read = read_entry("1-1", {b"data": b'{"session_id":"s","content":"' + b"[{," * 20_000 + b'"}'}, 4)
    assert read.message is not None, read.problem
