"""The port on which a connection to a server stands, whichever way it is spoken to."""

from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from pentad.contracts.envelope import Contract
from pentad.shared.outbound.address_guard import OutboundError

MAX_MESSAGE_BYTES = 4 << 20
"""Bytes that one message of a server may have."""
MAX_MESSAGE_VALUES = 30_000
"""JSON values that one message of a server may have: to read them holds the event loop."""
LOST, NOT_SENT, SESSION_GONE, TOO_LARGE, SIGN_IN = -32010, -32011, -32012, -32013, -32014
"""Codes of errors that a link makes itself, none of which the protocol uses: the connection ended after the request was
sent; the request was not sent; the server does not know the session any more and ran nothing; the answer cannot be
read; a person has to sign in first, nothing was run, and the error's data are the `Challenge`."""


INSUFFICIENT_SCOPE = "insufficient_scope"
"""Error of a server that wants a token for more than it has."""


class SignInError(OutboundError):
    """A person cannot be signed in, or a token not be renewed, for now. The text says why, and has no secret in it."""


class Challenge(Contract):
    """The words in which a server that refuses a request says how to sign in."""

    resource_metadata: str | None = None
    """Address of the server's metadata."""
    scope: str | None = None
    error: str = ""

    @property
    def wants_more(self) -> bool:
        """Whether the token is good, and not for this."""
        return self.error == INSUFFICIENT_SCOPE


class Bearer(Protocol):
    """The right of one user at a server over HTTP: a token that is renewed while the connection lasts."""

    async def token(self) -> str | None:
        """Return the token to send; None: requests go without. Raises ``SignInError``."""

    async def renewed(self, used: str | None) -> str | None:
        """Return another token than the one that was refused; None: a person has to sign in. Raises ``SignInError``."""

    def hidden(self) -> Collection[str]:
        """Return the tokens that were sent lately: nobody may see them."""


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
