"""A plugin with instructions."""

from pydantic import BaseModel

import pentad


class Count(BaseModel):
    """How many there are."""

    n: int


@pentad.instruction(tools=[])
def poet() -> str:
    """Writes poems."""
    return "You write poems for {{user_id}}."


@pentad.instruction(output=Count)
def counter() -> str:
    """Counts."""
    return "Count what you are given."
