"""Notes what a model wants to be known in other conversations."""

from typing import Annotated

from pydantic import Field

from pentad.shared.memory.facts import MIN_NOTE_IMPORTANCE, MOST_NOTE_CHARS, SEARCHED_IMPORTANCE


def memory_note(
    text: Annotated[str, Field(min_length=1, max_length=MOST_NOTE_CHARS)],
    importance: Annotated[float, Field(ge=0, le=1)] = SEARCHED_IMPORTANCE,
) -> str:
    """Notes something worth knowing in later conversations. It can be found there when this task has ended.

    Args:
        text: What is to be known, as a sentence that can be understood alone.
        importance: How much it matters, from 0 to 1. What matters less than 0.2 does not become a fact.
    """
    if importance < MIN_NOTE_IMPORTANCE:
        return "It matters too little to become a fact. The conversation itself can be found when this task has ended."
    return "Noted: it can be found when this task has ended."
