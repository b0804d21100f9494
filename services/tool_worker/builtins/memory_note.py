"""Notes what a model wants to be known in other conversations."""

from typing import Annotated

from pydantic import Field

from pentad.shared.memory.facts import MOST_NOTE_CHARS


def memory_note(text: Annotated[str, Field(min_length=1, max_length=MOST_NOTE_CHARS)]) -> str:
    """Notes something worth knowing in later conversations. It can be found there when this task has ended.

    Args:
        text: What is to be known, as a sentence that can be understood alone.
    """
    return "Noted: it can be found when this task has ended."
