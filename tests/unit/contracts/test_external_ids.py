"""Ids of users, sessions and messages come from other systems, and are encoded in the names of keys."""

import re
from unicodedata import normalize
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pentad.contracts.ids import decoded_id, encoded_id, is_external_id, is_identifier, shard_of
from pentad.shared.keys import SessionKeys, actor_parts, dedup, erased_user, told

EXTERNAL = st.text(min_size=1, max_size=128).filter(is_external_id) | st.text(
    alphabet="ab%:{}|+\"'\\*?[].-~_@é中🦓\u0301", min_size=1, max_size=128
)
NAME = re.compile(r"(?:[A-Za-z0-9]|%[0-9A-F]{2})(?:[A-Za-z0-9._~@-]|%[0-9A-F]{2})*")


@pytest.mark.parametrize(
    ("given_id", "name"),
    [
        ("a.b_c~d@e-f", "a.b_c~d@e-f"),
        ("a.b+tag@example.com", "a.b%2Btag@example.com"),
        ("auth0|abc", "auth0%7Cabc"),
        ("slack:C01:99.1", "slack%3AC01%3A99.1"),
        ("a%2Fb", "a%252Fb"),
        ("..", "%2E."),
        ("-x", "%2Dx"),
        ("@x", "%40x"),
        ("{0}", "%7B0%7D"),
        ("é", "%C3%A9"),
        ("中" * 128, "%E4%B8%AD" * 128),
    ],
)
def test_an_id_of_another_system_is_taken_and_named_in_ascii(given_id: str, name: str) -> None:
    """Ids of users, sessions and messages are printable characters; in names of keys they are percent-encoded."""
    assert is_external_id(given_id)
    assert (encoded_id(given_id), decoded_id(name)) == (name, given_id)


@given(EXTERNAL)
def test_the_name_of_an_id_says_the_id(external: str) -> None:
    """An id comes back from the name of its key as it was given, character by character."""
    name = encoded_id(external)
    assert NAME.fullmatch(name)
    assert decoded_id(name) == external
    assert name == external or not is_identifier(external), "keys of ids that were always allowed stay"


@given(st.text(alphabet="ab%240Cc7.-~@éE9A", max_size=20))
def test_a_name_is_read_in_one_way_only(text: str) -> None:
    """No two names stand for one id: another spelling of a name is refused."""
    try:
        identifier = decoded_id(text)
    except ValueError:
        return
    assert encoded_id(identifier) == text


@given(EXTERNAL, EXTERNAL, EXTERNAL, EXTERNAL)
def test_keys_of_different_ids_differ_and_lie_in_their_shard(a: str, b: str, c: str, d: str) -> None:
    """Nothing in an id can name the key of another, of another part of the system, or of another slot."""
    one, other = SessionKeys(3, "acme", a), SessionKeys(3, "acme", b)
    assert actor_parts(one.actor) == ("acme", a)
    names = [*vars_of(one), dedup(3, "acme", a, c), erased_user(3, "acme", a), told(3, "acme", a, "lost:1-1")]
    assert all(name.startswith("pentad:{3}:") and name.count("{") == name.count("}") == 1 for name in names)
    assert len(set(names)) == len(names)
    if a != b:
        assert not set(vars_of(one)) & set(vars_of(other))
        assert one.actor != other.actor
    if (a, c) != (b, d):
        assert dedup(3, "acme", a, c) != dedup(3, "acme", b, d)


def vars_of(keys: SessionKeys) -> list[str]:
    """Every key that is a session's own."""
    return [keys.header, keys.messages, keys.signals, keys.turns, keys.erased, keys.events]


def test_nothing_is_normalised_and_the_shard_is_of_the_id_as_it_was_given() -> None:
    """Two writings of the same letters are two ids; a session's shard is the CRC of what its clients write."""
    composed, decomposed = "caf\u00e9", normalize("NFD", "caf\u00e9")
    assert encoded_id(composed) != encoded_id(decomposed)
    assert shard_of("t", composed, 1024) == crc32("t/caf\u00e9".encode()) % 1024
