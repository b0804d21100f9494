"""Counts of messages that wait, of all tenants and of one: from their acceptance until a step has taken them in.

Messages of a paused task wait for a person. They are parked: counted apart, of a tenant and of a session.
"""

import logging
from collections import Counter, deque
from time import monotonic

from redis.exceptions import ResponseError

from pentad.contracts.streams import INBOUND
from pentad.shared.errors import PentadError
from pentad.shared.inbound.renewal import REMEDY
from pentad.shared.keys import SessionKeys, load, parked_fields
from pentad.shared.store.store import Store

log = logging.getLogger(__name__)

_GROUP = (INBOUND.group or "").encode()
_FRESH_S = 0.25
"""Seconds after which a count is read again."""
_COUNTED = 20_000
"""Entries that are counted one by one, where Redis has lost count: more than any limit."""
_NO_COUNT = (float("-inf"), 0)
_MAX_TENANTS = 4096
"""Tenants whose counts are remembered at once; sessions likewise."""


class UnusableError(PentadError):
    """The inbound stream takes nothing until a person has mended it. Nothing was appended; trying again is no use."""


def unusable(error: ResponseError) -> UnusableError:
    """Return the error for a refusal that no waiting ends, in words for clients; details go to the log."""
    if "exhausted the last possible ID" in str(error):
        return UnusableError(f"the inbound stream has no entry ids left: its operator must {REMEDY}")
    log.error("%s does not take messages: %s", INBOUND.key(), error)
    return UnusableError("the inbound stream takes no messages: its operator finds the cause in the gateway's log")


class Backlog:
    """Counts of one gateway, a quarter of a second old at most. All raise ``OutageError`` and ``UnusableError``.

    Messages that a router has moved are counted in their shard, by tenant. Of those that lie in the inbound stream the
    number is known, and of this gateway's own their tenants: the others are taken to be distributed like these.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lag = _NO_COUNT
        self._mail: dict[int, tuple[float, int]] = {}
        self._parked: dict[int, int] = {}
        """Number of parked messages by shard, as old as `_mail`."""
        self._tenants: dict[tuple[int, str], tuple[float, int]] = {}
        self._sessions: dict[str, tuple[float, tuple[int, int]]] = {}
        """Numbers of parked messages of a tenant and of a session, by session, with the time of the count."""
        self._appended: deque[tuple[tuple[int, int], str]] = deque()
        """This gateway's entries that no router had read when that was looked at last, with their tenants."""
        self._read_to = (0, 0)
        self._own: Counter[str] = Counter()
        """How many of them are each tenant's."""

    def appended(self, entry: bytes, tenant: str) -> None:
        """Note that this gateway has appended a message."""
        self._appended.append((_order(entry), tenant))
        self._own[tenant] += 1
        if len(self._appended) > _COUNTED:
            self._forget_first()

    def known(self, shard: int) -> int | None:
        """Return what `all` returns, if that needs no question to Redis; else None."""
        then = monotonic() - _FRESH_S
        mail_at, mail = self._mail.get(shard, _NO_COUNT)
        lag_at, lag = self._lag
        return lag + mail if lag_at >= then and mail_at >= then else None

    async def all(self, shard: int) -> int:
        """Return the number of messages in the inbound stream and in this shard."""
        return await self._inbound() + await self._in_shard(shard)

    async def of(self, shard: int, tenant: str) -> int:
        """Return how many of these messages are this tenant's."""
        own = self._own.total()
        inbound = await self._inbound() * self._own[tenant] // own if own else 0
        return inbound + await self._tenants_own(shard, tenant)

    def parked(self, shard: int) -> int:
        """Messages in this shard that lie with paused tasks, as they were counted with the others last."""
        return self._parked.get(shard, 0)

    async def parked_of(self, keys: SessionKeys) -> tuple[int, int]:
        """Return how many of the parked messages are this tenant's, and how many this session's."""
        read_at, found = self._sessions.get(keys.header, (float("-inf"), (0, 0)))
        if monotonic() - read_at > _FRESH_S:
            tenant, session = await self._store.call("HMGET", load(keys.shard), *parked_fields(keys))
            found = int(tenant or 0), int(session or 0)
            if len(self._sessions) >= _MAX_TENANTS:
                self._sessions.clear()
            self._sessions[keys.header] = (monotonic(), found)
        return found

    async def _in_shard(self, shard: int) -> int:
        read_at, number = self._mail.get(shard, _NO_COUNT)
        if monotonic() - read_at > _FRESH_S:
            mail, parked = await self._store.call("HMGET", load(shard), "mail", "parked")
            number, self._parked[shard] = int(mail or 0), int(parked or 0)
            self._mail[shard] = (monotonic(), number)
        return number

    async def _tenants_own(self, shard: int, tenant: str) -> int:
        read_at, number = self._tenants.get((shard, tenant), _NO_COUNT)
        if monotonic() - read_at > _FRESH_S:
            number = int(await self._store.call("HGET", load(shard), f"tenant:{tenant}") or 0)
            if len(self._tenants) >= _MAX_TENANTS:
                self._tenants.clear()
            self._tenants[shard, tenant] = (monotonic(), number)
        return number

    async def _inbound(self) -> int:
        read_at, number = self._lag
        if monotonic() - read_at > _FRESH_S:
            number = await self._read_lag()
            self._lag = (monotonic(), number)
        return number

    async def _read_lag(self) -> int:
        """Return the number of entries that our consumer group has not read; other groups do not count."""
        try:
            groups = await self._store.call("XINFO", "GROUPS", INBOUND.key())
        except ResponseError as error:
            if "no such key" not in str(error):
                raise unusable(error) from None
            return 0
        read = (dict(zip(flat[::2], flat[1::2], strict=True)) for flat in groups)
        ours = next((group for group in read if group[b"name"] == _GROUP), None)
        if ours is None:  # no router has begun
            return int(await self._store.call("XLEN", INBOUND.key()))
        self._forget_read(_order(ours[b"last-delivered-id"]))
        lag = ours[b"lag"]
        if lag is None:  # somebody has deleted entries that the group had not read
            lag = await self._store.run("lag", [INBOUND.key()], [ours[b"last-delivered-id"], _COUNTED])
        return int(lag)

    def _forget_read(self, last: tuple[int, int]) -> None:
        if last < self._read_to:  # the stream has begun again: ids of before say nothing any more
            self._appended.clear()
            self._own.clear()
        self._read_to = last
        while self._appended and self._appended[0][0] <= last:
            self._forget_first()

    def _forget_first(self) -> None:
        _, tenant = self._appended.popleft()
        self._own[tenant] -= 1
        if not self._own[tenant]:
            del self._own[tenant]


def _order(entry: bytes) -> tuple[int, int]:
    at, _, number = entry.partition(b"-")
    return int(at), int(number)
