"""A digest follows a conversation turn by turn, and stays small whatever is said."""

from itertools import product

import pytest

from pentad.shared.digests.task_digest import (
    KNOWN_WORDS,
    MOST_BYTES,
    MOST_DIMENSIONS,
    Sketch,
    TaskDigest,
    digest_bytes,
    digest_of,
    read_utterance,
)
from pentad.shared.digests.wording import clean, words_of
from tests.unit.digests.test_wording import HOSTILE

FULL = Sketch("𝔪" * 64, bytes(range(1, 129)) * 3)


def words(text: str) -> tuple[int, ...]:
    return words_of(clean(text))


def talk(*turns: str) -> TaskDigest:
    """Messages and answers by turns."""
    digest = TaskDigest()
    for number, text in enumerate(turns):
        digest = digest.answering(text) if number % 2 else digest.heard(read_utterance(text))
    return digest


def test_a_digest_knows_the_goal_the_last_turn_and_all_words() -> None:
    digest = talk("a flight to Lisbon", "From which airport?", "Hamburg", "There is one on Monday.")
    assert digest.goal == words("flight lisbon")
    assert (digest.said, digest.answered) == (words("hamburg"), words("monday"))
    assert set(digest.known) == set(words("flight lisbon airport hamburg monday"))


def test_a_question_waits_until_the_person_says_something() -> None:
    assert talk("a table", "For how many people?").asked == "number"
    assert talk("a table", "For how many people?", "three").asked == ""


@pytest.mark.parametrize(
    ("turns", "closed"),
    [
        (("a table", "It is booked."), False),
        (("a table", "It is booked.", "Thanks, bye"), True),
        (("a table", "It is booked.", "Thanks, bye", "You're welcome"), True),
        (("a table", "It is booked.", "Thanks", "Goodbye!", "and a taxi, can you call one?"), False),
        (("a table", "It is booked.", "thanks, could you call a taxi?"), False),
    ],
)
def test_a_goodbye_closes_a_talk_until_it_goes_on(turns: tuple[str, ...], closed: bool) -> None:
    assert talk(*turns).closed is closed


def test_the_oldest_words_make_room() -> None:
    digest = talk(*(" ".join(f"w{turn}x{n}" for n in range(60)) for turn in range(20)))
    assert len(digest.known) == KNOWN_WORDS
    assert set(words("w19x1 w19x59")) <= set(digest.known)
    assert not set(words("w0x1")) & set(digest.known)
    assert set(words("w0x1")) <= set(digest.goal)


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_stored_is_small_and_read_as_it_was(text: str) -> None:
    digest = TaskDigest()
    for turn in range(12):
        digest = digest.heard(read_utterance(f"{turn} {text} {turn}", FULL)).answering(f"{text} {turn}?", FULL)
        stored = digest_bytes(digest)
        assert len(stored) <= MOST_BYTES < 2_048
        assert digest_of(stored) == digest


def test_ten_full_digests_fit_into_a_header() -> None:
    names = (" ".join(f"z{turn}y{n}" for n in range(64)) for turn in range(12))
    digest = TaskDigest()
    for text in names:
        digest = digest.heard(read_utterance(text, FULL)).answering(text, FULL)
    assert len(digest.sketch.values if digest.sketch else b"") == MOST_DIMENSIONS
    assert 10 * len(digest_bytes(digest)) < 16 * 1024


def test_every_cut_and_changed_form_is_a_digest_or_none() -> None:
    stored = digest_bytes(talk("a flight to Lisbon", "From which airport?").heard(read_utterance("Hamburg", FULL)))
    assert all(digest_of(stored[:end]) is None for end in range(len(stored)))
    assert digest_of(stored + b"x") is None
    for at, byte in product(range(16), (0, 1, 2, 127, 255)):
        changed = digest_of(stored[:at] + bytes([byte]) + stored[at + 1 :])
        assert changed is None or len(digest_bytes(changed)) <= MOST_BYTES


def test_a_newer_form_is_as_if_nothing_had_been_kept() -> None:
    stored = digest_bytes(talk("a flight to Lisbon"))
    assert digest_of(b"\x02" + stored[1:]) is None
    assert digest_of(b"") is None
