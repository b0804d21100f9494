"""A call of a memory that an archiver has open, as it goes over the bus: what it is given and gives back. Pure."""

from typing import Any

from pydantic import TypeAdapter

from pentad.shared.immutable import immutable

MOST_REQUEST_BYTES = 8 << 20
"""Of one request."""
MOST_REPLY_BYTES = 32 << 20
"""Of one reply."""
NOTHING: TypeAdapter[Any] = TypeAdapter(None)
"""What a call gives back that only does something."""


@immutable
class MemoryCall:
    """A method of a port. ``given``: its arguments as a tuple; ``gives``: what it returns."""

    given: TypeAdapter[Any]
    gives: TypeAdapter[Any]
