"""The port on which a connection to a server stands, whichever way it is spoken to."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

MAX_MESSAGE_BYTES = 4 << 20
"""Bytes that one message of a server may have."""
MAX_MESSAGE_VALUES = 30_000
"""JSON values that one message of a server may have: to read them holds the event loop."""
LOST, NOT_SENT, SESSION_GONE, TOO_LARGE = -32010, -32011, -32012, -32013
"""Codes of errors that a link makes itself, none of which the protocol uses: the connection ended after the request was
sent; the request was not sent; the server does not know the session any more and ran nothing; the answer cannot be
read."""


class ServerLink(Protocol):
    """A way to one server, opened once."""

    def open(self) -> AbstractAsyncContextManager[Any]:
        """Open it, and return the streams of messages from and to the server."""

    @property
    def has_ended(self) -> bool:
        """Whether the server is gone."""

    def about(self) -> str:
        """Return what is known of the server's end beside errors. '' for nothing."""

    def words(self) -> str:
        """Return the last words of the server that are no messages. '' for none."""


LinkEnded = Callable[[], None]
"""Called when a link has ended by itself."""
