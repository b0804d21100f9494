"""An inbound entry of more JSON values than any message has is refused before they are made."""

from hashlib import sha256

from pentad.contracts.commands import InboundMessage
from pentad.shared.inbound.arrival import message_digest, read_entry


def test_an_entry_of_too_many_values_is_refused_with_the_number() -> None:
    read = read_entry("1-1", {b"data": b"[" + b"[]," * 100_000 + b"1]"}, 4)
    assert read.message is None
    assert "more than 50,000 JSON values" in read.problem


def test_signs_of_json_within_a_text_are_no_values() -> None:
    read = read_entry("1-1", {b"data": b'{"session_id":"s","content":"' + b"[{," * 20_000 + b'"}'}, 4)
    assert read.message is not None, read.problem


def test_the_digest_of_a_message_without_tools_is_as_it_was_kept_before_messages_had_tools() -> None:
    """A message that was accepted before an upgrade is known after it."""
    for tools in (None, ()):
        plain = message_digest(InboundMessage(content="hi", tools=tools))
        assert plain == sha256(b"hi").hexdigest()[:16]
        named = message_digest(InboundMessage(content="hi", user_id="ada", tools=tools))
        assert named == sha256(b'["hi",{"user_id":"ada"}]').hexdigest()[:16]
