"""Writing a commit down: the operations of `scripts/commit.lua`, collected in order with their keys."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

from pentad.contracts.envelope import Contract
from pentad.contracts.streams import EVENTS, SESSION_WAKE, TASK_WAKE, Stream
from pentad.shared import metrics
from pentad.shared.keys import (
    DAY_S,
    DEDUP_TTL_S,
    SMALL_EVENT,
    SessionKeys,
    TaskKeys,
    bell,
    dedup,
    erased_user,
    events_kept,
    load,
    places,
    session_index,
    task_index,
    task_queue,
    timers,
)
from pentad.shared.kinds import ControlKind, MailKind, TimerKind
from pentad.shared.metrics import Counter, Histogram
from pentad.shared.store.store import Argument

_OLDEST_MS = 365 * DAY_S * 1000
"""Longest span that is measured: a producer may give an entry any id, and its time is read from the id."""


class Tallies:
    """Counts and times of one commit. Nothing is counted of a commit that is refused, and all of it once."""

    def __init__(self) -> None:
        self._counts: list[tuple[Counter, float]] = []
        self._times: list[tuple[Histogram, int, int | None]] = []
        """Each from a time to another, in ms of the server's clock; None is the time of the commit."""
        self._before_end: tuple[int, int] | None = None
        """How many of both do not belong to an end."""

    def finish(self) -> None:
        """Mark the end: counts that are added from here on belong to it, and are left out with it."""
        self._before_end = (len(self._counts), len(self._times))

    def count(self, counter: Counter, amount: float = 1) -> None:
        """Count something that the commit does."""
        self._counts.append((counter, amount))

    def measure(self, histogram: Histogram, since_ms: int, until_ms: int | None = None) -> None:
        """Observe the seconds from then to the commit, by the server's clock, or to another time that is known."""
        self._times.append((histogram, since_ms, until_ms))

    def apply(self, now: int, ended: bool) -> None:
        """Count what the commit did, which was made at ``now`` by the server's clock. Call it once.

        ``ended``: whether it did all, its end included; if not, what belongs to its end is left out.
        """
        counts, times = self._counts, self._times
        self._counts, self._times = [], []
        if not ended and self._before_end is not None:
            counts, times = counts[: self._before_end[0]], times[: self._before_end[1]]
        for counter, amount in counts:
            counter.inc(amount)
        for histogram, since, until in times:
            spent = (now if until is None else until) - since
            if 0 <= spent <= _OLDEST_MS:
                histogram.observe(spent / 1000)


Mode = Literal["continue", "complete", "stop", "fail"]
"""The meaning of a commit for its actor, see `scripts/commit.lua`."""
Outcome = Literal["committed", "continued", "overtaken", "lost"]
"""``continued``: committed without its end, because a message had come. The last two are refusals."""
Kind = Literal["h", "l", "s", "z", "-"]
"""The Redis type that a key must have: hash, list, stream or sorted set. ``-``: the type is not checked."""
ActorKeys = SessionKeys | TaskKeys


@lru_cache(maxsize=1024)
def own_keys(actor: ActorKeys) -> tuple[str, ...]:
    """Return an actor's keys in the order of the scripts.

    A session repeats its header where a task has its transcript, and a task adds the shard's keys for places of active
    tasks.

    A worker needs them twice, when it takes an actor and when it commits.
    """
    if isinstance(actor, SessionKeys):
        return (actor.header, actor.messages, actor.signals, actor.header, actor.wake)
    own = (actor.header, actor.messages, actor.signals, actor.log, actor.wake)
    return (*own, places(actor.shard), task_queue(actor.shard, actor.tenant))


class Commit:
    """One handling's end. Operations are applied in the order in which they are added here."""

    def __init__(self, actor: ActorKeys, step_id: str, events_maxlen: int = 10_000, events_ttl_s: int = 86_400) -> None:
        self.actor = actor
        self.step_id = step_id
        self.mode: Mode = "continue"
        self.leaves_messages = False
        """Whether messages that are in the mailbox now stay there. Only a message that comes after this commit wakes
        the actor again."""
        self._maxlen, self._ttl = events_maxlen, events_ttl_s
        self.keys = list(own_keys(actor))
        self._index = {key: n for n, key in enumerate(self.keys, start=1)}
        self._kinds = ["-", "-", "-", "-", "s", "-", "-"][: len(self.keys)]
        """The type that the script checks of each key, by its first letter. Mailboxes and places have ``-``: the script
        reads them before it writes, and so finds a wrong type anyway."""
        self._checks: tuple[Argument, ...] = ()
        self._arrival: tuple[Argument, ...] = ()
        self.operations: list[Argument] = []
        self._fields: dict[str, dict[str, Argument | None]] = {}
        """Fields of hashes that are not among the operations yet; None stands for the time of the commit."""
        self._bells_rung: tuple[str, ...] = ()
        self.status = ""
        """The status that this commit gives its actor; '': the one that it has."""
        self.tallies = Tallies()
        """Metrics that are counted once the commit is in, and only then."""

    def _k(self, key: str, kind: Kind = "-") -> int:
        """The key's place, for the next operation on it. The script checks its kind before it writes anything."""
        if key in self._fields:
            self._write_fields(key)
        place = self._index.get(key)
        if place is None:
            self.keys.append(key)
            self._kinds.append(kind)
            place = self._index[key] = len(self.keys)
        elif self._kinds[place - 1] == "-" and place > 1:  # the actor's own header has been read by then
            self._kinds[place - 1] = kind
        return place

    def expect(self, header: str, status: str) -> None:
        """Refuse the whole as ``overtaken`` unless that actor still has this status ('none': does not exist)."""
        self._checks += ("expect", self._k(header), status)

    def expect_no_new_result(self) -> None:
        """Refuse the whole as ``overtaken`` when a tool's result, or a decision about a call, has come that this
        step has not seen."""
        self._checks += ("no-new-result",)

    def expect_no_new_message(self) -> None:
        """Refuse the whole as ``overtaken`` when a message has come that this step has not read."""
        self._checks += ("no-new-message",)

    def arrive(
        self,
        session: SessionKeys,
        entry: str,
        message_id: str,
        digest: str,
        user: str | None,
        generation: str,
        ttl_s: int,
    ) -> None:
        """An inbound message enters this session, and then waits elsewhere. Refuse the whole as ``overtaken`` unless
        it is newer than the last one, its id is not known, and neither its session nor its user was erased since.
        ``digest``: of what it asks for (`message_digest`). ``generation``: of the inbound stream.
        """
        shard, tenant = session.shard, session.tenant
        seen = self._k(dedup(shard, tenant, session.session, message_id))
        self._arrival = ("arrive", seen, self._k(session_index(shard, tenant), "z"), self._k(load(shard), "h"))
        self._arrival += (self._k(session.erased), self._k(erased_user(shard, tenant, user)) if user else 0)
        self._arrival += (entry, generation, session.name, tenant, digest, ttl_s, DEDUP_TTL_S)

    def unmail(self, numbers: Sequence[int]) -> None:
        """Remove the signals that this step has used up."""
        for number in numbers:
            self.operations += ("unmail", number)

    def consume(self, number: int) -> None:
        """Remove the messages up to this number: they do not wait any more."""
        self.operations += ("consume", number, self._k(load(self.actor.shard), "h"), self.actor.tenant)

    def pass_on(self, number: int) -> None:
        """Remove the messages up to this number, which now wait for another actor."""
        self.operations += ("pass", number)

    def log(self, entry: bytes) -> None:
        """Append to the transcript."""
        self._kinds[3] = "l"
        self.operations += ("log", entry)

    def push(self, key: str, value: bytes, cap: int = 0) -> None:
        """Append to a list; ``cap`` keeps only its last so many."""
        self.operations += ("push", self._k(key, "l"), value, cap)

    def drop(self, key: str, value: bytes) -> None:
        """Remove the last entry of a list that is this very value, if there is one."""
        self.operations += ("drop", self._k(key, "l"), value)

    def set(self, header: str, **fields: Argument) -> None:
        """Set fields of a hash. What one commit sets in a hash is one operation, unless another comes between."""
        if header == self.keys[0]:
            self.status = str(fields.get("status", self.status))
        self._fields.setdefault(header, {}).update(fields)

    def stamp(self, header: str, *names: str) -> None:
        """Set fields of a hash to the server's time of the commit, in ms."""
        self._fields.setdefault(header, {}).update(dict.fromkeys(names))

    def _write_fields(self, header: str) -> None:
        fields = self._fields.pop(header)
        stamped = [name for name, value in fields.items() if value is None]
        self.operations += ("set", self._k(header, "h"), len(fields), len(stamped))
        for name in stamped:
            self.operations += (name, "")
        for pair in fields.items():
            if pair[1] is not None:
                self.operations += pair  # type: ignore[arg-type]

    def _write_all_fields(self) -> None:
        for header in list(self._fields):
            self._write_fields(header)

    def set_once(self, key: str, name: str, value: Argument) -> None:
        """Set a field of a hash that does not change once it is there."""
        self.operations += ("setnx", self._k(key, "h"), name, value)

    def cut(self, header: str, name: str, value: str) -> None:
        """Remove a field of a hash if it has this value."""
        self.operations += ("cut", self._k(header, "h"), name, value)

    def unset(self, header: str, *names: str) -> None:
        """Remove fields of a hash."""
        self.operations += ("unset", self._k(header, "h"), len(names), *names)

    def incr(self, header: str, **amounts: float) -> None:
        """Add to fields of a hash."""
        k = self._k(header, "h")
        for name, amount in amounts.items():
            if amount:
                self.operations += ("incr", k, name, amount)

    def event(self, session: SessionKeys, event: Contract | bytes) -> None:
        """Tell the session's clients; the doorbell is rung once, and first: it has the time of the shard."""
        data = event if isinstance(event, bytes) else event.to_json()
        self.tallies.count(metrics.published.labels(EVENTS.name, type(event).__name__))
        events = session.events
        maxlen = self._maxlen if len(data) <= SMALL_EVENT else events_kept(self._maxlen, len(data))
        self._ring(session, events)
        self.operations += ("event", self._k(events, "s"), data, maxlen, self._ttl)

    def delta(self, session: SessionKeys, kind: type[Contract], data: bytes, summary: str) -> None:
        """The last deltas of a step: with the commit, so that nothing of the step comes after its end."""
        self.tallies.count(metrics.published.labels(EVENTS.name, kind.__name__))
        events = session.events
        maxlen = self._maxlen if len(data) <= SMALL_EVENT else events_kept(self._maxlen, len(data))
        self.operations += ("delta", self._k(events, "s"), data, maxlen, self._ttl, summary)
        self._ring(session, events)

    def _ring(self, session: SessionKeys, events: str) -> None:
        if events not in self._bells_rung:
            self._bells_rung += (events,)
            self.operations += ("ring", self._k(bell(session.shard), "s"), session.actor)

    def post(self, to: ActorKeys, kind: MailKind, body: bytes) -> None:
        """Put mail into an actor's box and wake it."""
        stream = SESSION_WAKE if isinstance(to, SessionKeys) else TASK_WAKE
        self.tallies.count(metrics.published.labels(stream.name, kind))
        keys = (self._k(to.header, "h"), self._k(to.box(kind), "z"), self._k(to.wake, "s"))
        self.operations += ("post", *keys, to.actor, kind, body)

    def report(self, to: TaskKeys, kind: MailKind, body: bytes, control: ControlKind | Literal[""] = "") -> None:
        """Put mail into a task's box and wake it, unless the task is gone. ``control``: what interrupts its step."""
        self.tallies.count(metrics.published.labels(TASK_WAKE.name, kind))
        keys = (self._k(to.header, "h"), self._k(to.box(kind), "z"), self._k(to.wake, "s"))
        self.operations += ("report", *keys, to.actor, kind, body, control)

    def queue(self, stream: Stream, key: str, data: Contract) -> None:
        """Append to a work stream."""
        self.tallies.count(metrics.published.labels(stream.name, type(data).__name__))
        self.operations += ("queue", self._k(key, "s"), data.to_json())

    def timer(self, task: TaskKeys, kind: TimerKind, delay_ms: int) -> None:
        """Set the task's one timer of this kind; a set one moves."""
        self.operations += ("timer", self._k(timers(task.shard), "z"), f"{kind} {task.actor}", max(0, delay_ms))

    def due(self, task: TaskKeys, kind: TimerKind, at_ms: int) -> None:
        """Set the task's one timer of this kind to a time of the server's clock."""
        self.operations += ("due", self._k(timers(task.shard), "z"), f"{kind} {task.actor}", at_ms)

    def untimer(self, task: TaskKeys, *kinds: TimerKind) -> None:
        """Remove the task's timers of these kinds."""
        members = [f"{kind} {task.actor}" for kind in kinds]
        self.operations += ("untimer", self._k(timers(task.shard), "z"), len(members), *members)

    def begin(self, task: TaskKeys, session: SessionKeys, user: str | None) -> None:
        """Stamp when a task is created, and enter it into its index by that time.

        It is later than the last erasure of its session and of its user, also while the server's clock is back.
        """
        of_user = erased_user(task.shard, task.tenant, user) if user else session.erased
        index = self._k(task_index(task.shard, task.tenant), "z")
        marks = self._k(session.erased, "h"), self._k(of_user, "h")
        self.operations += ("begin", self._k(task.header, "h"), index, task.task, *marks)

    def list_session(self, session: SessionKeys, ttl_s: int) -> None:
        """Enter a session into the list of its tenant's sessions that no message has entered it into."""
        index = session_index(session.shard, session.tenant)
        self.operations += ("list", self._k(index, "z"), session.name)
        self.expire(index, ttl_s)

    def expire(self, key: str, seconds: int) -> None:
        """Give a key its time to live."""
        self.operations += ("expire", self._k(key), seconds)

    def enter(self, index: str, until_ms: int, member: str) -> None:
        """Enter a call that waits until this time of the server's clock into the index of such calls."""
        self.operations += ("enter", self._k(index, "z"), until_ms, member)

    def leave(self, index: str, member: str) -> None:
        """Remove a call from the index: it waits no more."""
        self.operations += ("leave", self._k(index, "z"), member)

    def rewake(self) -> None:
        """Wake this actor again although nothing newer than what was read has come."""
        self.operations.append("rewake")

    def finish(self) -> None:
        """Begin the end of the commit: operations added from here on are left out when a message came in time."""
        self.tallies.finish()
        self._write_all_fields()
        self.operations.append("finish")

    def arguments(
        self, token: str, version: str, wake_id: str, known: tuple[int, int], group: str, places: str = ""
    ) -> list[Argument]:
        """The script's arguments. ``known``: numbers of the newest message and of the newest signal that were read;
        ``places``: what becomes of a task's place."""
        self._write_all_fields()
        head: list[Argument] = [token, version, self.step_id, *known, group, wake_id, self.actor.actor, self.mode]
        return [*head, "".join(self._kinds), places, *self._checks, *self._arrival, *self.operations]


class CommitEvents:
    """Makes the envelopes of a commit's events, numbered under its step id; each says its session and cause (law 9)."""

    def __init__(self, commit: Commit, session: SessionKeys, at: str) -> None:
        self.commit, self.session = commit, session
        self.at = at
        """The time of the events that are added from now on."""
        self._count = 0

    def stamp(self, why: Mapping[str, Any]) -> dict[str, Any]:
        """Return the next event's envelope. ``why``: the event's task, its cause, its budget and deadline."""
        self._count += 1
        return {
            "event_id": f"{self.commit.step_id}.{self._count}",
            "at": self.at,
            "tenant_id": self.session.tenant,
            "session_id": self.session.session,
            **why,
        }
