"""How many connections a port holds, and how long they may do nothing: whoever opens one has shown no key yet."""

import asyncio
import logging
import resource
from collections import Counter
from typing import Protocol

from pentad.shared.immutable import immutable
from pentad.shared.telemetry import ThrottledLog

_SHARE_OF_FILES = 2
"""One in so many of the files that the process may open is for connections; others are for Redis, models, stores."""
_say = ThrottledLog(logging.getLogger(__name__))


@immutable
class ConnectionLimits:
    """Limits for the connections of one port. Times are in seconds."""

    most: int = 10_000
    of_one_address: int = 10_000
    head_s: float = 15.0
    """Seconds until the head of a request is whole, from the connection's beginning or the last answer."""
    body_s: float = 60.0
    """Seconds until the body of a request is whole."""
    read_s: float = 60.0
    """Seconds until a client that reads too slowly takes some of the data that waits for it."""
    close_s: float = 10.0
    """Seconds until a closed connection is gone."""
    look_s: float = 2.0
    """Seconds between two looks at the open connections."""


class OpenConnection(Protocol):
    """A connection as its port sees it."""

    address: str
    """The client's address, without its port."""

    @property
    def idle(self) -> bool:
        """Whether no request is under way, so that the connection may be closed to make room."""

    def look(self, now: float) -> None:
        """Close the connection if the client has had its time. ``now``: time of the loop's clock."""

    def hang_up(self) -> None:
        """Close the connection immediately."""


class Patience:
    """How long a connection has been in one state."""

    __slots__ = ("_since", "_state")

    def __init__(self) -> None:
        self._state: tuple[object, ...] = ()
        self._since = 0.0

    def lasted(self, now: float, *state: object) -> float:
        """Seconds since it was first seen in this state, without another between."""
        if state != self._state:
            self._state, self._since = state, now
        return now - self._since


class Connections:
    """The open connections of one port."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._most = min(limits.most, _files() // _SHARE_OF_FILES)
        self._open: dict[OpenConnection, None] = {}
        """The open connections, in the order in which they were opened."""
        self._of: Counter[str] = Counter()
        self._next_look: asyncio.TimerHandle | None = None

    def admit(self, one: OpenConnection) -> str:
        """Admit a connection; returns why when there is no room. Idle ones are closed for it, the oldest first."""
        full = self._full(one.address)
        if full and not self._made_room(one.address):
            _say.warning("full", "a connection of %s is refused: %s", one.address, full)
            return full
        self._open[one] = None
        self._of[one.address] += 1
        if self._next_look is None:
            self._look_later()
        return ""

    def leave(self, one: OpenConnection) -> None:
        """Remove a connection that is gone. Harmless for one that was not admitted."""
        if one in self._open:
            del self._open[one]
            self._of[one.address] -= 1
            if not self._of[one.address]:
                del self._of[one.address]

    def hand_over(self, one: OpenConnection, successor: OpenConnection) -> None:
        """Another protocol goes on with the connection."""
        if one in self._open:
            self.leave(one)
            self._open[successor] = None
            self._of[successor.address] += 1

    def _full(self, address: str) -> str:
        if len(self._open) >= self._most:
            return f"{self._most} connections are open (PENTAD_CONNECTIONS, and half of the files that may be open)"
        if self._of[address] >= self.limits.of_one_address:
            return f"{self.limits.of_one_address} of its connections are open (PENTAD_CONNECTIONS_PER_ADDRESS)"
        return ""

    def _made_room(self, address: str) -> bool:
        """Closes an eighth of the idle ones, so that a flood does not look through all for each."""
        whose = address if len(self._open) < self._most else None
        idle = [one for one in self._open if one.idle and whose in (None, one.address)]
        for one in idle[: 1 + len(idle) // 8]:
            self.leave(one)
            one.hang_up()
        if idle:
            _say.warning("room", "%d connections are open: idle ones are closed for new ones", len(self._open))
        return bool(idle)

    def _look_later(self) -> None:
        self._next_look = asyncio.get_running_loop().call_later(self.limits.look_s, self._look)

    def _look(self) -> None:
        self._next_look = None
        now = asyncio.get_running_loop().time()
        for one in tuple(self._open):
            one.look(now)
        if self._open:
            self._look_later()


def _files() -> int:
    """How many files this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 30 if soft == resource.RLIM_INFINITY else soft
