"""Checks of the limits of active tasks during a run: counts are exact, no place stays free, and the order is kept."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pentad.shared.keys import places, task_queue
from tests.support.interleave.server import Server

Event = dict[str, Any]
Line = dict[str, float]
"""Tasks that wait in a queue, with their numbers."""
_HEADERS = """
local found = {}
for _, key in ipairs(redis.call('KEYS', 'pentad:{0}:task:default:*')) do
  if string.match(key, '^pentad:{0}:task:default:[^:]+$') then
    local place, session = unpack(redis.call('HMGET', key, 'place', 'session'))
    if place and place ~= '' then found[#found + 1] = {key, place, session} end
  end
end
return found
"""


@dataclass(frozen=True, slots=True)
class _Seen:
    """The state of the server at one moment."""

    places: dict[str, tuple[str, str]]
    """Place and session of each task, by its header."""
    counts: dict[str, int]
    tenant: Line
    sessions: dict[str, Line]


class PlaceWatch:
    """Compares the limits again and again, and keeps the first fault."""

    def __init__(self, server: Server, sessions: tuple[str, ...], per_session: int, per_tenant: int) -> None:
        self._server, self._sessions = server, sessions
        self._per_session, self._per_tenant = per_session, per_tenant
        self._before: _Seen | None = None
        self.problems: list[str] = []

    def forget(self) -> None:
        """Forget the state before, because the server was put back to an earlier one."""
        self._before = None

    def look(self) -> None:
        """Compare the counts, the waiting tasks and the places, with each other and with the state before."""
        seen = self._read()
        if not self.problems:
            self.problems = [*self._now(seen), *(_overtaken(self._before, seen) if self._before else ())]
        self._before = seen

    def _read(self) -> _Seen:
        queue = task_queue(0, "default")
        lines = [queue, *(f"{queue}:{name}" for name in self._sessions)]
        raw, found, tenant, *sessions = self._server.ask_all(
            [("HGETALL", places(0)), ("EVAL", _HEADERS, 0), *(("ZRANGE", key, 0, -1, "WITHSCORES") for key in lines)]
        )
        return _Seen(
            {key.decode(): (place.decode(), session.decode()) for key, place, session in found},
            {name.decode(): int(n) for name, n in zip(raw[::2], raw[1::2], strict=True)},
            _line(tenant),
            {name: _line(line) for name, line in zip(self._sessions, sessions, strict=True)},
        )

    def _now(self, seen: _Seen) -> Iterator[str]:
        held = [place for place, _ in seen.places.values()]
        taken = Counter(session for place, session in seen.places.values() if place in "ta")
        want = Counter({f"default/{name}": n for name, n in taken.items()}) + Counter(default=held.count("a"))
        want += Counter({"?default": len(seen.tenant)})
        want += Counter({f"?default/{name}": len(line) for name, line in seen.sessions.items()})
        if want != Counter(seen.counts):
            yield f"{seen.places} is counted as {seen.counts}"
        if held.count("a") > self._per_tenant or any(n > self._per_session for n in taken.values()):
            yield f"too many are active: {seen.places}"
        if seen.tenant and held.count("a") < self._per_tenant:
            yield f"{list(seen.tenant)} wait beside a free place of the tenant"
        for name, line in seen.sessions.items():
            if line and taken[name] < self._per_session:
                yield f"{list(line)} wait beside a free place of {name}"
        waiting = dict.fromkeys(seen.tenant, "t") | {who: "s" for line in seen.sessions.values() for who in line}
        if waiting != {who: place for who, (place, _) in seen.places.items() if place in "st"}:
            yield f"{seen.places} wait as {waiting}"


def _line(raw: list[bytes]) -> Line:
    return {who.decode().split()[0]: float(n) for who, n in zip(raw[::2], raw[1::2], strict=True)}


def _overtaken(before: _Seen, seen: _Seen) -> Iterator[str]:
    """Check that no task got a place before one that had come earlier and still waits."""
    pairs = [(before.tenant, seen.tenant, "a")]
    pairs += [(line, seen.sessions[name], "ta") for name, line in before.sessions.items()]
    for was, now, further in pairs:
        stayed = [number for who, number in was.items() if now.get(who) == number]
        for who, number in was.items():
            place = seen.places.get(who, ("", ""))[0]
            if place and place in further and any(first < number for first in stayed):
                yield f"{who} went on before those who came first: {was}, then {now}"


def pending_problems(events: list[Event]) -> Iterator[str]:
    """Check that a pending task writes no event and makes no call until its status is active."""
    pending: set[str] = set()
    for e in events:
        task = e.get("task_id", "")
        if e["type"] == "task_status":
            (pending.add if e["status"] == "pending" else pending.discard)(task)
        elif e["type"] == "task_end":
            pending.discard(task)
        elif task in pending and e["type"] == "tool_call":
            yield f"{task} is pending, and yet there is a call of step {e.get('step')}"
