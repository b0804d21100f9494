"""The small headers of actors, as read from their hashes. Every field that a header may have is named here."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from typing import Any, get_args

from pydantic import TypeAdapter
from pydantic_core import from_json

from pentad.contracts.envelope import Budget
from pentad.contracts.events import EndStatus, TaskStatus, TaskUsage
from pentad.contracts.ids import LAST_MS, decoded_id, rfc3339
from pentad.contracts.records import ForkOrigin, Task
from pentad.contracts.turns import ASKED
from pentad.shared.actors.targets import RULES, Target
from pentad.shared.errors import DamagedError
from pentad.shared.immutable import immutable

ENDED: frozenset[TaskStatus] = frozenset(get_args(EndStatus))
LIVE: tuple[TaskStatus, ...] = tuple(status for status in get_args(TaskStatus) if status not in ENDED)

UNREADABLE = "unreadable"
"""Kind of what lies in a box and is no mail."""


@immutable
class Mail:
    """One numbered piece of mail."""

    number: int
    kind: str
    body: bytes


@immutable
class Lease:
    """The lease of a worker on an actor that it handles; every write compares it."""

    token: str
    """``COUNTER.NONCE``: given once, also by a Redis that has lost the counter's last steps."""
    version: str
    wake_id: str
    attempt: int
    starts: int
    """Starts without an outcome, this one included (law 8)."""
    now: int
    """The server's clock when it was taken, in ms."""


@immutable
class OpenCall:
    """A tool call without its result yet."""

    id: str
    tool: str
    queue: str
    """Queue of the tool-workers that run the call; '' where none does."""
    target: Target = "worker"
    until: int = 0
    """Time in ms until which a person can allow the call; 0 where none is asked."""
    decision: Mapping[str, str] | None = field(default=None, hash=False)
    """Decision of a person about the call, as its result's metadata says it; None where none was asked."""
    after: Sequence[str] = field(default=(), hash=False)
    """Ids of the calls that have to end before this one is made or goes on."""
    inner_of: str = ""
    """Id of the call that has made this one on its way; '': a step has."""

    @property
    def kept(self) -> list[Any]:
        """The call as the task's header keeps it, without what it does not have at the end."""
        decision = dict(self.decision) if self.decision else None
        kept: list[Any] = [self.target, self.until, decision, list(self.after), self.inner_of]
        while kept and kept[-1] == _PLAIN_CALL[len(kept) - 1]:
            kept.pop()
        return [self.id, self.tool, self.queue, *kept]


_PLAIN_CALL: Sequence[Any] = ("worker", 0, None, [], "")
"""Target, time, decision, calls before and outer call of a call of a worker that waits for nothing else."""


@immutable
class TaskHeader:
    """A task's small header. Times are ms of the server's clock; 0 and '' mean unset."""

    tenant: str
    task_id: str
    session: str
    status: TaskStatus
    user: str = ""
    """Who began the task."""
    speaker: str = ""
    """Who said the turn's last message."""
    goal: str = ""
    instruction: str = "executor"
    instruction_version: str = ""
    """The version that the task was opened with, kept with it. '': an earlier version of Pentad has opened it, and it
    has made no step."""
    created: int = 0
    updated: int = 0
    ended_at: int = 0
    step: int = 0
    """Committed steps; never starts again."""
    turn_steps: int = 0
    """Steps since the last user message."""
    turn_tokens: int = 0
    turn_usd: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0
    cached_tokens: int = 0
    """Input tokens that servers had in their caches."""
    deadline: int = 0
    budget: Budget | None = None
    correlation: str = ""
    """``message_id`` of the turn's user message."""
    traceparent: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Metadata that the producer of the last user message has sent along."""
    said_at: int = 0
    """Time at which the last user message came to the task."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Values of metadata that the task's instruction names, as the newest message with each has given them."""
    turn_at: int = 0
    """The time at which the turn's user message entered the inbound stream."""
    asked_at: int = 0
    """When the open tool calls were asked for: the step's time limit counts from here."""
    waiting_at: int = 0
    """When the task began to wait for a person."""
    paused: str = ""
    """The status that a resume leads back to: ``active``, or why the task waited; '' when it is not paused."""
    paused_mail: int = 0
    """Number of the last message whose sender was told that the task is paused, or waits for a decision."""
    parked: int = 0
    """How many of its messages are counted as parked, because it is paused. Only scripts change it."""
    archive_of: int = 0
    """The ``ended_at`` of the end after which the task is to be archived at once."""
    ended_mail: int = 0
    """Number of the newest message when the task was stopped. Messages up to it belong to the stopped turn."""
    retry_since: int = 0
    """Time since which this step has been tried without a usable answer of its model; 0 when no attempt has failed."""
    fails: int = 0
    """Failed attempts of this step (law 8)."""
    repairs: int = 0
    """How often this turn's answer was asked for again, because it did not fit."""
    unanswered: int = 0
    """Set to 1 while the turn goes on without mail: a step of it was moved away with its message, or cut short."""
    queues: int = 0
    """Set to 1 when messages that come during a turn wait for turns of their own, as the task's instruction says."""
    reads_results: int = 0
    """Set to 1 when results are kept beside the task of which prompts hold only a part."""
    hooks_told: int = 0
    """Set to 1 when hooks were told that the task begins; 0 again after its end."""
    log_length: int = 0
    digest: str = ""
    covered: int = 0
    """Transcript entries that ``digest`` covers."""
    tools: str = ""
    found_tools: str = ""
    """Names of the tools that the model has found by `tool_search`, the newest last, with spaces between them."""
    client_tools: str = ""
    """Digest of the tools that the sender of the turn's message has itself, kept beside the task; '': it has none."""
    time_zone: str = ""
    """The person's time zone, as a message's metadata has named it; '': that of the settings."""
    reason: str = ""
    detail: str = ""
    """Why it failed, in words. Of its last end: it stays while the task runs again."""
    graph: str = ""
    """Version of the graph that the task runs, kept with it; '': it runs an instruction."""
    entry: str = ""
    """Key of the node with which its runs begin."""
    until: str = ""
    """Key of the node before which its runs end; '' for none."""
    node: str = ""
    """Key of the node that its run has come to and that clients were told of; '' when no run is under way."""
    node_from: int = 0
    """Steps of the turn that were made before the run came to the node."""
    limit_at: int = 0
    """When the time of the node or of the run is over for which calls are open; 0 for no limit."""
    waited: int = 0
    """Milliseconds of this run for which a person was asked or the task was paused."""
    node_waited: int = 0
    """Milliseconds of these that belong to the node."""
    parent: str = ""
    """Id of the task that has started this one; '': a message has."""
    parent_call: str = ""
    """Id of the parent's call that this task is the answer to."""
    branch: str = ""
    """Key of the parent's node, of its branch or its item's node, for which the task was started."""
    depth: int = 0
    """Number of tasks above this one."""
    fork: ForkOrigin | None = None
    """Origin of a task that is a fork of another."""
    as_of: str = ""
    """Time as of which tools of a fork, and of the tasks that it starts, find the memory: RFC 3339; '' for now."""
    fork_request: str = ""
    """Digest of the request that has made the fork: another one under its id is refused."""
    place: str = ""
    """Place of the task among active tasks. ``a``: it may be active. ``s``: it waits in its session's queue. ``t``: it
    waits in its tenant's queue. '': it has ended, waits for a person, or was never handled."""
    open: tuple[OpenCall, ...] = field(default_factory=tuple)

    @property
    def ended(self) -> bool:
        return self.status in ENDED

    @property
    def waits(self) -> bool:
        """Whether it waits for a person."""
        return self.status in ("waiting", "stale")

    @property
    def queued(self) -> bool:
        """Whether it waits for others to end before it may be active."""
        return self.place in ("s", "t")

    @property
    def has_asked(self) -> bool:
        """Whether it waits for the answer to its question."""
        return self.waits and self.reason == ASKED

    @property
    def usage(self) -> TaskUsage:
        return TaskUsage(
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            usd=self.usd,
            cached_tokens=self.cached_tokens,
        )

    def describe(self) -> Task:
        """The task as inspection shows it."""
        told = (self.waits or self.status == "pending") and self.reason
        waiting = [self.reason] if told else [call.id for call in self.open]
        return Task(
            task_id=self.task_id,
            session_id=self.session,
            user_id=self.user or None,
            status=self.status,
            goal=self.goal,
            instruction=self.instruction,
            created_at=rfc3339(self.created),
            updated_at=rfc3339(self.updated),
            steps=self.step,
            usage=self.usage,
            waiting_for=waiting,
            waiting_for_tools=None if told or not self.open else [call.tool for call in self.open],
            reason=(self.reason or None) if self.ended else None,
            detail=(self.detail or None) if self.ended else None,
            completed_at=rfc3339(self.ended_at) if self.ended and self.ended_at else None,
            parent_task_id=self.parent or None,
            node=(self.node or None) if not self.ended else None,
            forked_from=self.fork,
            last_user_message_at=rfc3339(self.said_at) if self.said_at else None,
        )


_INTEGERS = (
    "created updated ended_at step turn_steps turn_tokens input_tokens output_tokens cached_tokens "
    "deadline said_at turn_at asked_at waiting_at ended_mail retry_since fails repairs unanswered log_length covered "
    "paused_mail parked archive_of queues reads_results node_from limit_at waited node_waited depth hooks_told"
)
_FLOATS = "turn_usd usd"
_MAX_NUMBER = LAST_MS
"""Largest number that a header may hold. A larger one is not real, for instance a token count that a server made up."""
_DIGITS = len(str(_MAX_NUMBER))
_STATUSES = frozenset(get_args(TaskStatus))
_TEXTS = (
    "status user speaker goal instruction instruction_version correlation traceparent digest tools reason "
    "detail paused place time_zone graph entry until node parent parent_call branch as_of fork_request found_tools "
    "client_tools"
)


def _number(value: bytes) -> float:
    """Bounded, so that one absurd number does not make a task unreadable. Raises ``ValueError`` for what is none."""
    number = float(value)
    return 0.0 if math.isnan(number) else min(max(number, 0.0), float(_MAX_NUMBER))


def read_integer(value: bytes) -> int:
    """A whole number of a header. Raises ``ValueError``."""
    if value.isdigit() and len(value) < _DIGITS:  # nearly always, and a tenth of the price
        return int(value)
    return int(_number(value))


def read_text(value: bytes) -> str:
    """A text of a header, whatever its bytes."""
    return value.decode(errors="replace")


def read_session(value: bytes) -> str:
    """Return the session id that a header's field encodes, and a field that is not encoded so as it is."""
    name = read_text(value)
    try:
        return decoded_id(name)
    except ValueError:
        return name


_METADATA = TypeAdapter(dict[str, str])
_INTEGER, _FLOAT, _TEXT = 1, 2, 3
_KINDS: dict[str, int] = {
    **dict.fromkeys(_INTEGERS.split(), _INTEGER),
    **dict.fromkeys(_FLOATS.split(), _FLOAT),
    **dict.fromkeys(_TEXTS.split(), _TEXT),
}
_LEASE = "token nonce v format attempt starts exp lease wake mail"
"""Other fields that many hashes have."""


class _Names(dict[bytes, str]):
    """The names of fields as texts. Those that every header has are made once."""

    def __missing__(self, name: bytes) -> str:
        return name.decode()


_NAMES = _Names({name.encode(): name for name in (*_LEASE.split(), *(each.name for each in fields(TaskHeader)))})
"""These very strings are the names of `TaskHeader`'s parameters: it finds them five times as fast as equal ones."""


def pairs(flat: Sequence[bytes]) -> dict[str, bytes]:
    """A hash as the scripts return it, as a dictionary."""
    return dict(zip(map(_NAMES.__getitem__, flat[::2]), flat[1::2], strict=True))


HEADER_FORMAT = 1
"""Format of the headers of tasks and sessions, which each commit writes. A later version reads the earlier ones."""
_FORMAT_TEXT = str(HEADER_FORMAT).encode()


def task_header(tenant: str, task: str, raw: dict[str, bytes]) -> TaskHeader | None:
    """Return a task's header from its hash, or None when there is no such task. Raises ``DamagedError``."""
    if not raw.get("status"):
        return None
    written = raw.get("format", b"1")
    if written != _FORMAT_TEXT and (not written.isdigit() or int(written) > HEADER_FORMAT):
        raise DamagedError(
            f"the header of task {task} has the format {read_text(written[:20])}: a newer version wrote it"
        )
    try:
        return _task_header({"tenant": tenant, "task_id": task}, raw)
    except (ValueError, TypeError) as error:
        raise DamagedError(f"the header of task {task} cannot be read ({type(error).__name__})") from error


def _task_header(found: dict[str, Any], raw: dict[str, bytes]) -> TaskHeader:
    for name, value in raw.items():  # without a call for each of them: every step and every decision reads one
        kind = _KINDS.get(name)
        if kind == _INTEGER:
            found[name] = int(value) if value.isdigit() and len(value) < _DIGITS else read_integer(value)
        elif kind == _TEXT:
            found[name] = value.decode("utf-8", "replace")
        elif kind == _FLOAT:
            found[name] = _number(value)
    found["session"] = read_session(raw.get("session", b""))
    if raw.get("budget"):
        found["budget"] = Budget.model_validate_json(raw["budget"])
    if raw.get("fork"):
        found["fork"] = ForkOrigin.model_validate_json(raw["fork"])
    if raw.get("metadata"):
        found["metadata"] = _METADATA.validate_json(raw["metadata"])
    if raw.get("variables"):
        found["variables"] = _METADATA.validate_json(raw["variables"])
    if raw.get("open"):
        found["open"] = calls = tuple(OpenCall(*call) for call in from_json(raw["open"]))
        if any(call.target not in RULES for call in calls):
            raise ValueError("no target of a call")
    if found["status"] not in _STATUSES:
        raise ValueError("no status of a task")
    return TaskHeader(**found)


def mail_of(members: Sequence[bytes]) -> tuple[Mail, ...]:
    """A box's members, ``NUMBER KIND BODY`` each, in order."""
    split = (member.split(b" ", 2) for member in members)
    return tuple(Mail(int(number), kind.decode(), body) for number, kind, body in split)


def numbered_mail(flat: Sequence[bytes]) -> tuple[Mail, ...]:
    """Members with their scores; what cannot be read is of the kind `UNREADABLE`."""
    found: list[Mail] = []
    for member, score in zip(flat[::2], flat[1::2], strict=True):
        try:
            found += mail_of([member])
        except ValueError:
            found.append(Mail(int(float(score)), UNREADABLE, member))
    return tuple(found)


def lease_of(raw: dict[str, bytes], wake_id: str, now: int) -> Lease:
    """The lease that a take has just given."""
    return Lease(
        token=f"{raw['token'].decode()}.{raw['nonce'].decode()}",
        version=raw.get("v", b"0").decode(),
        wake_id=wake_id,
        attempt=int(raw["attempt"]),
        starts=int(raw["starts"]),
        now=now,
    )
