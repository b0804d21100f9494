"""Events that may be lost: written to a session's clients outside of any commit, without waiting."""

from collections.abc import Callable

from pentad.contracts.envelope import Contract
from pentad.contracts.streams import EVENTS
from pentad.shared import metrics
from pentad.shared.keys import SMALL_EVENT, SessionKeys, bell, events_kept
from pentad.shared.kinds import BELL_LENGTH
from pentad.shared.store.store import Store


class EphemeralEvents:
    """One writer's way to one session's event stream. What is lost here, a durable event heals.

    ``may_write``: asked before each event. What a writer adds that has lost its lease could be taken for another's.
    """

    def __init__(
        self, store: Store, session: SessionKeys, maxlen: int, ttl_s: int, may_write: Callable[[], bool] = lambda: True
    ) -> None:
        self._store, self._maxlen, self._ttl, self._may_write = store, maxlen, ttl_s, may_write
        self._key, self._bell, self._name = session.events, bell(session.shard), session.actor

    def append(self, kind: type[Contract], data: bytes, mark: str | None = None) -> None:
        """Append an event of this kind. ``mark``: what a delta says of itself beside its JSON."""
        if not self._may_write():
            return
        marked = () if mark is None else ("d", mark)
        maxlen = self._maxlen if len(data) <= SMALL_EVENT else events_kept(self._maxlen, len(data))
        self._store.send("XADD", self._key, "MAXLEN", "~", maxlen, "*", "data", data, *marked)
        metrics.published.labels(EVENTS.name, kind.__name__).inc()

    def keep(self) -> None:
        """Give the stream its time to live: one that had run out was made anew by the appending, without an end."""
        self._store.send("EXPIRE", self._key, self._ttl)

    def ring(self) -> None:
        """Tell the gateways that there is news."""
        self._store.send("XADD", self._bell, "MAXLEN", "~", BELL_LENGTH, "*", "s", self._name)
