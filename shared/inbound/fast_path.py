"""The port through which the ingress routes a message as it enters, without its session's mailbox."""

from collections.abc import Sequence
from typing import Any, Protocol

from pentad.contracts.commands import InboundMessage
from pentad.shared.immutable import immutable
from pentad.shared.keys import SessionKeys
from pentad.shared.store.store import Command


@immutable
class Source:
    """Where and when an arrival was read."""

    generation: str
    """Generation of the inbound stream; it changes when the stream is replaced."""
    connection: int
    """Number of the connection to the store. Writes for the arrival go over it or not at all:
    a new one may lead to a server that has lost what came before.
    """
    at: int
    """The server's clock, in ms."""
    answers: Sequence[Any] | None = None
    """To the questions about its session, when they were asked along with the read."""


class FastPath(Protocol):
    """Routes a message past its session's mailbox."""

    def questions(self, session: SessionKeys) -> Sequence[Command]:
        """The commands that read the state of the session."""

    async def route(self, session: SessionKeys, message: InboundMessage, entry_id: str, source: Source) -> int | None:
        """How many messages wait in the shard then; None, and nothing done, when this one is to be posted.

        Raises ``OutageError``.
        """
