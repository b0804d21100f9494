"""Schedules in Redis: all of them lie in one slot, and each change compares what its writer has read."""

import logging
from collections.abc import Iterable, Sequence
from secrets import token_hex

from pydantic import ValidationError

from pentad.contracts.ids import is_identifier
from pentad.contracts.plain_json import read_json
from pentad.contracts.schedules import ScheduleSpec
from pentad.shared.immutable import immutable
from pentad.shared.keys import SCHEDULES_DUE, SCHEDULES_SET, schedule, schedule_list
from pentad.shared.schedules.schedule_state import ScheduleState
from pentad.shared.store.store import Argument, Store
from pentad.shared.telemetry import ThrottledLog

log = logging.getLogger(__name__)
_say = ThrottledLog(log)

_FIELDS = ("spec", "state", "revision")
_BATCH = 64
"""Schedules that are looked at together."""
_MAX_CLOCK_LEAD_MS = 1_000
"""Milliseconds. What was written further in the future was written before the clock stepped back."""


@immutable
class KeptSchedule:
    """A schedule as it was read."""

    tenant: str
    name: str
    spec: ScheduleSpec
    state: ScheduleState
    revision: bytes


class UnreadableScheduleError(ValueError):
    """A schedule of a newer version, or a damaged one: it stays as it is."""


class ScheduleStore:
    """The schedules of all tenants. Raises ``OutageError``."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def add(self, tenant: str, spec: ScheduleSpec, state: ScheduleState, limit: int) -> str:
        """Add a schedule that has an id; return ``added``, ``taken`` where there is one of its id, or ``full``."""
        name = spec.schedule_id or ""
        wake = state.set_at if state.next is None else state.next
        args: list[Argument] = [_member(tenant, name), spec.to_json(), state.to_json(), token_hex(8), wake, limit]
        outcome: bytes = await self._store.run("schedule_add", _keys(tenant, name), [*args, name, schedule(tenant, "")])
        return outcome.decode()

    async def read(self, tenant: str, name: str) -> KeptSchedule | None:
        """Return a schedule, or None. Raises ``UnreadableScheduleError``."""
        return _kept(tenant, name, await self._store.call("HMGET", schedule(tenant, name), *_FIELDS))

    async def of_tenant(self, tenant: str) -> list[KeptSchedule]:
        """Return all schedules of a tenant that can be read."""
        names = [raw.decode(errors="replace") for raw in await self._store.call("ZRANGE", schedule_list(tenant), 0, -1)]
        return await self._readable([(tenant, name) for name in names])

    async def _readable(self, parts: Sequence[tuple[str, str]]) -> list[KeptSchedule]:
        replies = await self._store.calls([("HMGET", schedule(tenant, name), *_FIELDS) for tenant, name in parts])
        found = list[KeptSchedule]()
        for (tenant, name), reply in zip(parts, replies, strict=True):
            try:
                kept = _kept(tenant, name, reply)
            except UnreadableScheduleError as error:
                _say.warning(f"{tenant}/{name}", "schedule %s/%s is left out: %s", tenant, name[:64], error)
                continue
            if kept is not None:
                found.append(kept)
        return found

    async def going(self, limit: int, after: tuple[int, str] | None) -> list[tuple[int, str]]:
        """Return schedules of all tenants that somebody looks after, the one that is due next first: time in ms, and
        tenant and name with a slash between. ``after``: the last one that was returned before.
        """
        found, skip = list[tuple[int, str]](), 0
        lowest: Argument = "-inf" if after is None else after[0]
        while len(found) < limit:
            where = (SCHEDULES_DUE, lowest, "+inf", "WITHSCORES", "LIMIT", skip, limit)
            flat = await self._store.call("ZRANGEBYSCORE", *where)
            read = [(int(float(score)), member.decode(errors="replace")) for member, score in _pairs(flat)]
            found += [each for each in read if (after is None or each > after) and _names_schedule(each[1])]
            skip += len(read)
            if len(read) < limit:
                break
        return found[:limit]

    async def read_all(self, members: Sequence[str]) -> list[KeptSchedule]:
        """Return those of these schedules that can be read. ``members``: as `going` returns them."""
        parts = [(tenant, name) for tenant, _, name in (each.partition("/") for each in members)]
        return await self._readable(parts)

    async def write(self, kept: KeptSchedule, state: ScheduleState, wake: int | None) -> bool:
        """Write a schedule's state. False: it is not as it was read any more, and stays so.

        ``wake``: when it is to be looked at next; None: not before somebody changes it.
        """
        member = _member(kept.tenant, kept.name)
        args: list[Argument] = [member, kept.revision, token_hex(8), state.to_json(), "" if wake is None else wake]
        written = await self._store.run(
            "schedule_write", _keys(kept.tenant, kept.name), [*args, state.ended or 0, kept.name]
        )
        return bool(written)

    async def remove(self, tenant: str, name: str) -> bool:
        """Remove a schedule; return whether there was one."""
        return bool(await self._store.run("schedule_remove", _keys(tenant, name), [_member(tenant, name), name]))

    async def remove_of(self, tenant: str, until: int, *, session: str | None = None, user: str | None = None) -> int:
        """Remove a tenant's schedules of a session or a user that were made by then; return how many."""
        removed = 0
        for kept in await self.of_tenant(tenant):
            theirs = kept.spec.session_id == session if session is not None else kept.spec.user_id == user
            if theirs and kept.state.created <= until:
                removed += await self.remove(tenant, kept.name)
        return removed

    async def due(self, now: int) -> list[tuple[str, str]]:
        """Return tenants and names of schedules that are to be looked at now, the longest due first."""
        return await self._parts(
            await self._store.call("ZRANGEBYSCORE", SCHEDULES_DUE, "-inf", now, "LIMIT", 0, _BATCH)
        )

    async def ahead(self, now: int) -> list[tuple[str, str]]:
        """Return tenants and names of schedules that were written before the clock stepped back."""
        first = f"({now + _MAX_CLOCK_LEAD_MS}"
        return await self._parts(
            await self._store.call("ZRANGEBYSCORE", SCHEDULES_SET, first, "+inf", "LIMIT", 0, _BATCH)
        )

    async def postpone(self, tenant: str, name: str, until: int) -> None:
        """Have a schedule that nobody can read looked at later."""
        await self._store.call("ZADD", SCHEDULES_DUE, "XX", until, _member(tenant, name))

    async def _parts(self, members: Sequence[bytes]) -> list[tuple[str, str]]:
        """Return the tenants and names of members. One that names no schedule is removed."""
        found = list[tuple[str, str]]()
        for member in members:
            tenant, _, name = member.decode(errors="replace").partition("/")
            if is_identifier(tenant) and is_identifier(name):
                found.append((tenant, name))
                continue
            log.error("%r is removed from the due schedules, for it names none", member[:300])
            await self._store.call("ZREM", SCHEDULES_DUE, member)
            await self._store.call("ZREM", SCHEDULES_SET, member)
        return found


def _names_schedule(member: str) -> bool:
    return all(map(is_identifier, member.split("/", 1))) and "/" in member


def _pairs(flat: Sequence[bytes]) -> Iterable[tuple[bytes, bytes]]:
    return zip(flat[::2], flat[1::2], strict=True)


def _member(tenant: str, name: str) -> str:
    return f"{tenant}/{name}"


def _keys(tenant: str, name: str) -> list[str]:
    return [schedule(tenant, name), schedule_list(tenant), SCHEDULES_DUE, SCHEDULES_SET]


def _kept(tenant: str, name: str, reply: Sequence[bytes | None]) -> KeptSchedule | None:
    spec, state, revision = reply
    return None if revision is None else KeptSchedule(tenant, name, *_read(spec, state), revision)


def _read(spec: bytes | None, state: bytes | None) -> tuple[ScheduleSpec, ScheduleState]:
    try:
        return ScheduleSpec.model_validate(read_json(spec or b"")), ScheduleState.model_validate(
            read_json(state or b"")
        )
    except (ValidationError, ValueError) as error:
        raise UnreadableScheduleError(f"it cannot be read here: {str(error)[:200]}") from None
