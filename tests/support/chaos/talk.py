"""The messages of a person in a session with several simultaneous tasks. No message names its task."""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.support.chaos.plan import Step, make_plan
from tests.support.chaos.setup import Setup

_SUBJECTS = (
    ("I want to book a flight from Berlin to Lisbon next Friday.", "Is the flight from Berlin to Lisbon direct?"),
    ("Please find me a vegetarian restaurant near the opera.", "Book a table at the vegetarian restaurant, please."),
    ("By the way, write a short poem about autumn leaves.", "Make the poem about autumn leaves rhyme."),
    ("Could you summarise the quarterly report of the sales team?", "Which figure of the sales report grew most?"),
    ("Translate my cover letter into French, please.", "Is the French of the letter polite enough?"),
)
_ASKED = 0.25
_PAUSED = 0.15
_MOVED = 0.2
_OF_ONE = 16
"""Numbers of messages that are reserved for one session."""
_LETTERS = "bcdfghjklmnpqrst"
_REF = re.compile(r"\(ref ([a-z]+)\)")


@dataclass(frozen=True, slots=True)
class Saying:
    """A message, with the plan of the model and the actions of the person."""

    number: int
    """Number of the message in the run, which the tools write into their ledger."""
    subject: int
    message_id: str
    content: str
    steps: list[Step]
    pauses: bool = False
    """Whether the person pauses the task while it works on the message."""
    leaves: bool = False
    """Whether the person moves the message to another task in the end."""


@dataclass(frozen=True, slots=True)
class Talk:
    """The messages of a session: the first one about each subject, and the later ones."""

    first: tuple[Saying, ...]
    then: tuple[Saying, ...]

    @property
    def all(self) -> tuple[Saying, ...]:
        return (*self.first, *self.then)


def make_talk(rng: random.Random, session: int, setup: Setup) -> Talk:
    """Return the messages about ``setup.each`` subjects, five at most. Some tasks ask or are paused, some are moved."""
    subjects = setup.each
    chosen = rng.sample(_SUBJECTS, subjects)
    first = []
    for subject, (opening, _) in enumerate(chosen):
        number = session * _OF_ONE + subject
        steps = make_plan(rng, number, setup.deadly, setup.tool_ms)
        if rng.random() < _ASKED:
            steps = [*steps, [("ask_user", {"question": "Is that what you want?"})]]
        first.append(_saying(number, subject, opening, steps, pauses=rng.random() < _PAUSED))
    then = []
    for subject, (_, following) in enumerate(chosen):
        number = session * _OF_ONE + subjects + subject
        leaves = rng.random() < _MOVED
        then.append(
            _saying(number, subject, following, make_plan(rng, number, setup.deadly, setup.tool_ms), leaves=leaves)
        )
    return Talk((*first,), (*then,))


def one_more(session: int, subject: int, number: int) -> Saying:
    """Return an additional message to a task with a question. ``number``: its number in the session, from 0."""
    return _saying(session * _OF_ONE + _OF_ONE - 1 - number, subject, "Yes, that is all.", [])


def _saying(number: int, subject: int, text: str, steps: list[Step], **more: bool) -> Saying:
    return Saying(number, subject, f"m-{number}", f"{text} (ref {_in_letters(number)})", steps, **more)


def _in_letters(number: int) -> str:
    return "".join(_LETTERS[int(digit, 16)] for digit in f"{number:x}")


def reference(content: str) -> str:
    """Return the reference at the beginning of a message; '' for a text without one."""
    found = _REF.search(content)
    return found[1] if found else ""


def by_reference(sayings: Sequence[Saying]) -> Mapping[str, Saying]:
    """Return the messages by their references."""
    return {reference(saying.content): saying for saying in sayings}


def user_of(session: int) -> str:
    """Return the user of a session."""
    return f"user-{session}"


def session_of(number: int) -> int:
    """Return the session of a message."""
    return number // _OF_ONE
