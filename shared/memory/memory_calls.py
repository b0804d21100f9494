"""A call of a memory that an archiver has open, as it goes over the bus: what it is given and gives back. Pure."""

from functools import cached_property
from typing import Any

from pydantic import TypeAdapter

MOST_REQUEST_BYTES = 8 << 20
"""Of one request."""
MOST_REPLY_BYTES = 32 << 20
"""Of one reply."""


def tenant_of(args: Any) -> str:
    """The tenant that a call is about, from its arguments as they are sent; '' where they name none.

    It only says whose turn it is: what a call may see is decided by its arguments as they are read.
    """
    named = (_told(part) for part in (args if isinstance(args, list) else [args]))
    return next((tenant for tenant in named if tenant), "")


def _told(part: Any) -> str:
    """A tenant, from an owner, a query, a question or the first of several points."""
    if isinstance(part, list):
        return _told(part[0]) if part else ""
    if not isinstance(part, dict):
        return ""
    inside = next((part[name] for name in ("payload", "selection", "owner") if name in part), None)
    tenant = part.get("tenant")
    return tenant if isinstance(tenant, str) else _told(inside)


class MemoryCall:
    """A method of a port. ``gives``: what it returns, None for nothing; ``given``: the types of its arguments.

    Their readers are made at the first call: a service that starts does not wait for them.
    """

    def __init__(self, gives: Any, *given: Any) -> None:
        self._gives, self._given = gives, given

    @cached_property
    def given(self) -> TypeAdapter[Any]:
        """Of the arguments, as a tuple."""
        arguments: Any = tuple.__class_getitem__(self._given)
        return TypeAdapter(arguments)

    @cached_property
    def gives(self) -> TypeAdapter[Any]:
        """Of what it returns."""
        return TypeAdapter(self._gives)
