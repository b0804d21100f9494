"""Keys that are not streams. All of a shard carries its hash tag, all of a tenant its name.

Ids of users, sessions and messages come from other systems: they are parts of keys as `encoded_id` writes them.
"""

import hashlib
from dataclasses import field
from functools import lru_cache
from typing import ClassVar

from pentad.contracts.ids import decoded_id, encoded_id, is_identifier
from pentad.contracts.streams import EVENTS, SESSION_WAKE, TASK_WAKE, Stream
from pentad.shared.immutable import immutable
from pentad.shared.kinds import USER, MailKind

DAY_S = 86_400
TURNS_KEPT = 200
"""Messages that a session remembers of its last turns."""
DEDUP_TTL_S = DAY_S
"""Seconds for which a ``message_id`` is remembered."""

REDRIVEN_TTL_S = 366 * DAY_S
"""Seconds for which it is known that a dead letter was redriven: longer than any setting keeps a dead letter."""

ERASED_TTL_S = 400 * DAY_S
"""Seconds for which it is known that something was erased: longer than any dead letter or guard is kept."""

VERSIONS_KEPT, VERSIONS_TTL_S = 10, 400 * DAY_S
"""Versions of an entry of a registry that are kept, and seconds for which the last one is."""

SMALL_EVENT = 4096
"""Bytes of an event that counts as one of ``PENTAD_EVENTS_MAXLEN``: all together may have that many times these."""

PREFIX = "pentad:"
"""Begins every key: what an ACL has to allow is ``~pentad:*``."""
INSTRUCTIONS_PUBLISHED = "pentad:instructions:published"
"""Hash of an instruction's name to what a plugin defines; expires a day after the last beat of any tool-worker."""
INSTRUCTIONS_REGISTRY = "pentad:instructions"
"""Hash of the instructions that were registered while the system ran, by name; like that of models."""
GRAPHS_PUBLISHED = "pentad:graphs:published"
"""Hash of a graph's name to what a plugin defines; like that of instructions."""
GRAPHS_REGISTRY = "pentad:graphs"
"""Hash of the graphs that were registered while the system ran, by name; like that of models."""
POLICIES_REGISTRY = "pentad:approval-policies"
"""Hash of the approval policies that were registered while the system ran, by name; like that of models."""
HOOKS_PUBLISHED = "pentad:hooks:published"
"""Hash of a hook's name to its published spec; like that of instructions."""
TOOLS_REGISTRY = "pentad:tools"
"""Hash of tool name to its published spec; expires a day after the last beat of any tool-worker."""
TOOL_STATES = f"pentad:{{{TOOLS_REGISTRY}}}:"
"""Begins the keys of limits and breakers of tools: calls of all shards count together, so they lie in one slot. Each
has a TTL."""
TOOL_BREAKER = f"{TOOL_STATES}breaker:"
"""Begins the key of each breaker of a tool (`tool_breaker`)."""
BREAKER_CHANGES = f"{TOOL_STATES}breaker-changes"
"""Sorted set of the breakers that have changed, by the number of the change; has a TTL, and 10,000 names at most."""
SERVERS_REGISTRY = "pentad:mcp"
"""Hash of the MCP servers that were registered while the system ran, by name; like that of models."""
HTTP_TOOLS_REGISTRY = "pentad:http-tools"
"""Hash of the tools of HTTP endpoints that were registered while the system ran, by name; like that of models."""
WEBHOOKS_REGISTRY = "pentad:webhooks"
"""Hash of the webhooks that tenants have registered, by id; like that of models."""
SERVER_REPORTS = "pentad:mcp-reports"
"""Hash of a tool-worker's name to how its MCP servers do; ends a minute after the last worker that tells."""
GATEWAY_ADDRESS = "pentad:gateway-address"
"""String with the address of a gateway that listens on its machine alone; ends a minute after the last that does."""
SIGN_INS = "pentad:{pentad:sign-in}:"
"""Begins the keys of sign-ins to MCP servers that are under way: ``asked:`` and ``back:``, each with the digest of the
sign-in's state, end with the time to decide and minutes after a person has come back; ``lock:`` ends in under a
minute."""
PLUGIN_RELOAD = "pentad:plugin-reload"
"""Hash of the last request that tool-workers import their plug-ins anew; ends thirty days later."""
PLUGIN_REPORTS = "pentad:plugin-reports"
"""Hash of a tool-worker's name to its plug-ins; ends a minute after the last worker that tells."""
PLUGIN_TURN = "pentad:plugin-reload:turn"
"""Says which tool-worker imports its plug-ins anew; ends seconds after that one does."""
IN_USE = "pentad:in-use:"
"""Begins the key under which a process says which model it uses; ends seconds after the process does."""
PROCESSES = "pentad:processes"
"""Hash of a service's name, with a random part, to what it says of itself; ends a minute after the last that does."""
TOTALS = "pentad:totals"
"""Hash of how much the whole system has done: turns, steps, tokens, tool calls; ends `TOTALS_TTL_S` after the last."""
TOTALS_TTL_S = 7 * DAY_S
REMEMBERS = "pentad:remembers:"
"""Begins the key under which it is told whether long-term memory has anything of a tenant."""
MODELS_REGISTRY = "pentad:models"
"""Hash of the models that were registered while the system ran, by id, and under `VERSION` a word that each change
makes anew. It never ends, and holds a few hundred at most."""
VERSION = "@version"
"""A field of a registry's hash; no id begins so. A word, not a number: a failover may lose the last change, and the
next would have its number again."""
MODEL_HEALTH = "pentad:model-health"
"""Hash of a process's name to how its models do; ends a minute after the last process that tells."""
LOOP_HOLDS = "pentad:loop-holds"
"""Hash of a service's name to how long its event loop was held; ends a day after the last hold."""
FORGOTTEN_NOTES = "pentad:forgotten-notes"
"""Hash of what was forgotten and is not noted beside the records yet; it ends when an archiver has noted the last."""
UNDOABLE = "pentad:undoable:"
"""Begins the key of a hash that says what a model had forgotten at one anchor, without words; ends `UNDO_S` later."""
UNDO_S = DAY_S
"""Seconds for which a person can undo a model's forgetting."""
MEMORY_COUNTS = "pentad:memory-counts"
"""Hash of how much was written to the stores of the memory, and of what is wrong with them; a few fields. It never
ends: what is found is compared with it."""
MEMORY_WAITS = "pentad:memory-waits"
"""String that says why an archiver does not remember ended tasks yet; ends seconds after it waits no more."""
MEMORY_REBUILD = "pentad:memory-rebuild"
"""Hash that says how far a rebuild of the memory is; ends `REBUILD_TTL_S` after its last step."""
MEMORY_REBUILD_LEASE = "pentad:memory-rebuild:lease"
"""Says which archiver rebuilds the memory; ends seconds after that one does."""
MEMORY_REBUILD_LATER = "pentad:memory-rebuild:later"
"""Set of the tasks that a rebuild comes to last, as ``TENANT/TASK``; ends like the rebuild."""
SCHEDULES = "pentad:{pentad:schedules}:"
"""Begins the keys of schedules, which lie in one slot. Each goes with the last schedule in it; ``turn`` ends seconds
after the gateway that looks after them does."""
SCHEDULES_DUE = f"{SCHEDULES}due"
"""Sorted set of ``TENANT/SCHEDULE`` by the time in ms at which somebody must look at it."""
SCHEDULES_SET = f"{SCHEDULES}set"
"""Sorted set of when each schedule was written, in ms: a time ahead is of a clock that has stepped back since."""
SCHEDULES_TURN = f"{SCHEDULES}turn"
"""Says which gateway looks after the schedules; ends seconds after that one does."""
EXTRACTION = "pentad:extraction:"
"""Begins the key of a hash that says how many tokens extraction has taken on a day; ends `EXTRACTION_TTL_S` after the
last of them."""
EXTRACTION_TTL_S = 2 * DAY_S
CALLBACK_TTL_S = 8 * DAY_S
"""Seconds for which the callback of a message is known: a turn that goes on for longer tells it nothing more."""
REBUILD_TTL_S = 30 * DAY_S
"""Seconds for which the outcome of a rebuild of the memory is known, and for which a rebuild may pause."""
INBOUND_LEASE = "pentad:{pentad:inbound}:lease"
"""Who moves inbound entries to their sessions. In the slot of ``pentad:inbound``; it never ends, and so its token never
starts again."""
NEW_INBOUND = "pentad:{pentad:inbound}:new"
"""The successor of ``pentad:inbound`` while one script makes it."""
FIRST_ID = "first_id"
"""A field of inbound entries that went over to a new stream: the id that each had first, which its sender was told."""
PROBE = "pentad:probe"
"""Never written. Its removal, which changes nothing, asks whether the server takes writes."""
CLUSTER = "pentad:cluster"
"""Hash of facts that every process must agree on: the number of shards."""


def events_kept(maxlen: int, size: int) -> int:
    """Return how many events a session keeps once one of ``size`` bytes is added: fewer the larger it is."""
    return maxlen if size <= SMALL_EVENT else 1 + maxlen * SMALL_EVENT // size


def registry_versions(registry: str, name: str) -> str:
    """Return the key of the list of versions that an entry of a registry has had; it ends `VERSIONS_TTL_S` after the
    last one."""
    return f"pentad:{{{registry}}}:versions:{name}"


def model_places(model: str) -> tuple[str, str, str]:
    """Return the keys of a model with a limit: of calls that have a place, of calls that wait for one, of their return.

    The first is sorted by when a place ends, the second by when a call came. Calls of all shards count together, so
    these keys lie outside the shards, in one slot; each has a TTL.
    """
    base = f"pentad:{{{MODELS_REGISTRY}}}"
    return f"{base}:places:{model}", f"{base}:waiting:{model}", f"{base}:back:{model}"


def model_probe(model: str) -> str:
    """Says that a process finds out whether a model is well again; ends with the probe, or soon after it should."""
    return f"pentad:{{{MODELS_REGISTRY}}}:probe:{model}"


def tool_limit(name: str) -> tuple[str, str, str, str, str]:
    """Return the keys of a limit of tools: of the calls that have a place, by when it ends; of who holds each place; of
    the last starts; of its counts; and of the tenants whose calls wait, in turn.

    Behind the last, ``:TENANT`` is the line of that tenant's calls; the script makes this name. Each has a TTL of a
    day: what waits is known in the shards, too (`waiting_calls`).
    """
    base = f"{TOOL_STATES}limit:{name}"
    return f"{base}:places", f"{base}:holders", f"{base}:starts", f"{base}:counts", f"{base}:turns"


def tool_breaker(name: str) -> str:
    """Hash that says how calls of a ``TOOL:TENANT`` have failed lately, and until when they are refused; has a TTL."""
    return f"{TOOL_BREAKER}{name}"


def waiting_calls(shard: int) -> str:
    """Hash of the tool calls that wait until a limit of their tool lets them run, by id: each ``QUEUE COMMAND``. A call
    leaves it when its turn comes, or soon after it was closed: with the last it ends."""
    return f"{tag(shard)}:waiting-calls"


def tag(shard: int) -> str:
    """The prefix of everything that lives in a shard, with its literal braces."""
    return f"pentad:{{{shard}}}"


def timers(shard: int) -> str:
    """Sorted set of the shard's durable timers: member ``KIND TENANT/TASK``, score the due time in ms."""
    return f"{tag(shard)}:timers"


def timers_set(shard: int) -> str:
    """Sorted set of when each timer was set, in ms: those that are due after a while, not at a date. It goes with the
    timers. The scripts make this name from the other."""
    return f"{timers(shard)}:set"


def bell(shard: int) -> str:
    """Capped stream that tells gateways which sessions have news. The time of its last id is that of the shard: it does
    not step back with the clock of Redis: no event of before has a later one, and none of later an earlier one."""
    return f"{tag(shard)}:bell"


def load(shard: int) -> str:
    """Hash of counters for back-pressure: ``mail`` is the number of messages that no step has taken in yet,
    ``tenant:TENANT`` how many of them are that tenant's. Apart from these, ``parked`` is the number of messages that
    lie with paused tasks; ``parked:TENANT`` and ``parked:TENANT/SESSION`` are those of a tenant and of a session.
    """
    return f"{tag(shard)}:load"


def places(shard: int) -> str:
    """Hash of how many tasks are active: of each tenant by its name, of each session as its actor, and behind
    a ``?`` how many wait to be. A task that ends or waits for a person counts itself out: with the last it ends."""
    return f"{tag(shard)}:places"


def task_queue(shard: int, tenant: str) -> str:
    """Sorted set of a tenant's tasks that wait to be active, in order; with ``:SESSION`` behind it of those that wait
    for others of that session. It ends with the last of them. The scripts make the second name from the first: who
    takes a task does not know its session yet."""
    return f"{tag(shard)}:queue:{tenant}"


def approvals(shard: int, tenant: str) -> str:
    """Sorted set of a tenant's tool calls that wait for an approval, ``TASK~CALL`` by the time in ms until which a
    person can decide. It expires a day after the last of them; tasks that were erased leave theirs until then."""
    return f"{tag(shard)}:approvals:{tenant}"


def attempts(shard: int) -> str:
    """Hash of ``STREAM ENTRY KIND`` to a count, for entries that carry their own work; expires a day after the last."""
    return f"{tag(shard)}:attempts"


def session_index(shard: int, tenant: str) -> str:
    """Sorted set of a tenant's sessions by the time of their last message; idle ones are cut."""
    return f"{tag(shard)}:sessions:{tenant}"


def task_index(shard: int, tenant: str) -> str:
    """Sorted set of a tenant's tasks by creation time, archived ones included until they are cut. Records go on."""
    return f"{tag(shard)}:tasks:{tenant}"


def parked_fields(keys: "SessionKeys") -> tuple[str, str]:
    """The fields of `load` that say how many messages of a tenant, and of a session, lie with paused tasks."""
    return f"parked:{keys.tenant}", f"parked:{keys.actor}"


def dedup(shard: int, tenant: str, session: str, message: str) -> str:
    """Marks a message id as accepted; its value is the inbound entry's id, and behind a space the text's digest."""
    return f"{tag(shard)}:seen:{tenant}:{encoded_id(session)}:{encoded_id(message)}"


def told(shard: int, tenant: str, session: str, what: str) -> str:
    """Marks that a session's clients were told something, ``KIND:ID``, so that it is once. No message id is encoded so.
    It has the TTL of a message id."""
    return f"{tag(shard)}:seen:{tenant}:{encoded_id(session)}:{what}"


def buried(entry: str) -> str:
    """Marks an inbound entry as set aside, so that it is once; in the slot of ``pentad:dead``, for a day."""
    return f"pentad:{{pentad:dead}}:seen:{entry}"


def redrive_claim(stream: str, entry: str) -> str:
    """Says what is sent for a dead letter whose redrive was begun; in the slot of its stream, as long as it is kept."""
    base = stream.removesuffix(":dead") if "{" in stream else "pentad:{pentad:dead}"
    return f"{base}:redrive:{entry}"


def redriven(shard: int, letter: str) -> str:
    """Marks a dead letter that was redriven into this shard, so that it is once; longer than any is kept."""
    return f"{tag(shard)}:redriven:{letter}"


def remembers(tenant: str) -> str:
    """Says whether long-term memory has anything of a tenant: ``1`` or ``0``; missing, nobody knows. It has a TTL.
    Tasks of all shards look there."""
    return f"{REMEMBERS}{tenant}"


def extraction_spending(day: str) -> str:
    """Hash of the tokens that extraction has taken on this day (UTC, ``2030-01-31``), of the whole system and of each
    tenant, with how many tasks were left to the rule; has a TTL."""
    return f"{EXTRACTION}{day}"


def sign_in(state: str) -> tuple[str, str]:
    """Return the keys of a sign-in: of what it is for, and of what a person has come back with. Both have a TTL."""
    digest = hashlib.sha256(state.encode(errors="replace")).hexdigest()
    return f"{SIGN_INS}asked:{digest}", f"{SIGN_INS}back:{digest}"


def token_lock(place: str) -> str:
    """Return the key of the lock of who renews a token; it has a TTL. The key has the digest of the token's place."""
    return f"{SIGN_INS}lock:{hashlib.sha256(place.encode()).hexdigest()}"


def schedule(tenant: str, name: str) -> str:
    """Hash of a schedule: what was asked for, how far it is, and a word that each change makes anew. It is removed with
    its session or user, by hand, and thirty days after the schedule's end."""
    return f"{SCHEDULES}one:{tenant}:{name}"


def schedule_list(tenant: str) -> str:
    """Sorted set of a tenant's schedules by the time in ms of their end; 0 for those that go on."""
    return f"{SCHEDULES}list:{tenant}"


def undoable(tenant: str, anchor: str) -> str:
    """Hash of the notes of a model's forgetting at an anchor, by id; has a TTL. The key has the anchor's digest."""
    return f"{UNDOABLE}{tenant}:{hashlib.sha256(anchor.encode()).hexdigest()[:32]}"


def model_call_wanted(shard: int, request: str) -> str:
    """Says that somebody waits for the answer to a model call outside a conversation; ends seconds after they left."""
    return f"{tag(shard)}:wanted:{request}"


def chat_request(shard: int, tenant: str, digest: str) -> str:
    """Names the message that a request of an OpenAI client stands for, so that it is one however often it comes; ends
    minutes after it came, or a day where the client has named it. The key has the request's digest."""
    return f"{tag(shard)}:chat:{tenant}:request:{digest}"


def chat_place(shard: int, tenant: str, digest: str) -> str:
    """Hash that says where a conversation of an OpenAI client stands, by the digest of what was said: its session, the
    task and step of the last answer, and which message goes on from there; has the TTL of a session."""
    return f"{tag(shard)}:chat:{tenant}:place:{digest}"


def chat_response(shard: int, tenant: str, response: str) -> str:
    """Says which turn a response of OpenAI's protocol is; has the TTL of a session, and ends when a client deletes
    it."""
    return f"{tag(shard)}:chat:{tenant}:response:{encoded_id(response)}"


def chat_call(shard: int, tenant: str, call: str) -> str:
    """Says to which task a call belongs that an OpenAI client makes, and after which event its turn goes on; has the
    TTL of a session."""
    return f"{tag(shard)}:chat:{tenant}:call:{call}"


def agui_run(keys: "SessionKeys", run: str) -> str:
    """Says which task a run of AG-UI goes on with that a decision has begun, and behind which event; has the TTL of a
    message's id."""
    return f"{keys.header}:agui:{encoded_id(run)}"


def webhook_lease(shard: int) -> str:
    """String that says which gateway sends the events of a shard to webhooks; ends seconds after that one does."""
    return f"{tag(shard)}:webhook-lease"


def waiting_webhooks(shard: int) -> str:
    """Sorted set of the webhooks with events that wait, by when the next may be sent, in ms. It ends with the last."""
    return f"{tag(shard)}:webhooks-waiting"


def webhook_state(shard: int, webhook: str) -> str:
    """Hash of how many events, and bytes, wait for a webhook, of the failures of each lane (``try:LANE``), of the last
    one, and of when a lane got its time last (``set``). It ends with the last event that waits."""
    return f"{tag(shard)}:webhook:{webhook}"


def webhook_due(shard: int, webhook: str) -> str:
    """Sorted set of a webhook's lanes by when the first event of each may be sent, in ms; it ends with the last.

    A lane is ``TENANT/SESSION/TASK``: its events are sent in order.
    """
    return f"{tag(shard)}:webhook-due:{webhook}"


def webhook_lane(shard: int, webhook: str, lane: str) -> str:
    """List of the events of one lane of a webhook that wait, each ``CURSOR MS JSON``; it ends with the last. The
    scripts make this name from that of the waiting webhooks."""
    return f"{tag(shard)}:webhook-lane:{webhook}:{lane}"


def callbacks(shard: int) -> str:
    """Sorted set of the callbacks of turns and tasks that go on, by numbers that grow as they come; has a TTL."""
    return f"{tag(shard)}:callbacks"


def callback(shard: int, webhook: str) -> str:
    """String of one callback, a webhook of one message's turn, by its id (`callback_id`); has a TTL."""
    return f"{tag(shard)}:callback:{webhook}"


def erased_user(shard: int, tenant: str, user: str) -> str:
    """Hash that says up to when an end user was erased; has a TTL. Sessions and tasks have one of their own."""
    return f"{tag(shard)}:user:{tenant}:{encoded_id(user)}:erased"


def vector(shard: int, digest: str) -> str:
    """A cached embedding, by the digest of model and content; has a TTL."""
    return f"{tag(shard)}:vector:{digest}"


@lru_cache(maxsize=4096)
def actor_parts(text: str) -> tuple[str, str]:
    """The tenant and the id of an actor, session or task, that a wake-up names ``TENANT/NAME``.

    Raises ``ValueError``.
    """
    tenant, _, name = text.partition("/")
    try:
        identifier = decoded_id(name)
    except ValueError:
        identifier = ""
    if not identifier or not is_identifier(tenant):
        raise ValueError(f"{text[:300]!r} is no actor: TENANT/NAME")
    return tenant, identifier


def task_parts(text: str) -> tuple[str, str]:
    """The tenant and the id of a task that a wake-up or a timer names ``TENANT/TASK``. Raises ``ValueError``."""
    tenant, _, task = text.partition("/")
    if not (is_identifier(tenant) and is_identifier(task)):
        raise ValueError(f"{text[:300]!r} is no actor: TENANT/TASK")
    return tenant, task


@immutable
class SessionKeys:
    """The keys of one session actor."""

    stream: ClassVar[Stream] = SESSION_WAKE
    """The stream of wake-ups of these actors."""
    group: ClassVar[str] = SESSION_WAKE.group or ""
    """The consumer group that serves the wake-ups."""

    shard: int
    tenant: str
    session: str
    """The session's id, as clients write it."""
    header: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "header", f"{tag(self.shard)}:session:{self.tenant}:{encoded_id(self.session)}")

    @property
    def name(self) -> str:
        """The session's id as a part of keys, and wherever scripts compare it or make keys of it."""
        return encoded_id(self.session)

    @property
    def actor(self) -> str:
        """The session's name in a wake-up."""
        return f"{self.tenant}/{self.name}"

    @property
    def messages(self) -> str:
        """Mailbox of users' messages that no task has yet. Read in bounded pieces."""
        return f"{self.header}:mail"

    @property
    def signals(self) -> str:
        """Mailbox of signals to the session itself. Few; read whole."""
        return f"{self.header}:signals"

    def box(self, kind: MailKind) -> str:
        """Return the mailbox for mail of this kind."""
        return self.messages if kind == USER else self.signals

    @property
    def turns(self) -> str:
        """Capped list of the session's last messages, user's and agent's."""
        return f"{self.header}:turns"

    @property
    def erased(self) -> str:
        """Hash that says up to when the session was erased; has a TTL, and outlives everything else of it."""
        return f"{self.header}:erased"

    @property
    def webhook_cursors(self) -> str:
        """Hash of webhooks to the last event of the session that is on its way to each; has a TTL."""
        return f"{tag(self.shard)}:webhook-cursors:{self.tenant}:{self.name}"

    def callback_id(self, message: str) -> str:
        """Return the id of the callback of one of the session's messages: no registered webhook has a colon."""
        return f"{self.tenant}:{self.name}:{hashlib.sha256(message.encode(errors='replace')).hexdigest()[:32]}"

    @property
    def wake(self) -> str:
        return SESSION_WAKE.key(self.shard)

    @property
    def events(self) -> str:
        return EVENTS.key(self.shard, tenant=self.tenant, session=self.name)


@immutable
class TaskKeys:
    """The keys of one task actor. All of them are removed by the archiver."""

    stream: ClassVar[Stream] = TASK_WAKE
    """The stream of wake-ups of these actors."""
    group: ClassVar[str] = TASK_WAKE.group or ""
    """The consumer group that serves the wake-ups."""

    shard: int
    tenant: str
    task: str
    header: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "header", f"{tag(self.shard)}:task:{self.tenant}:{self.task}")

    @property
    def actor(self) -> str:
        """The task's name in a wake-up."""
        return f"{self.tenant}/{self.task}"

    @property
    def messages(self) -> str:
        """Mailbox of users' messages that no step has taken in. Any number; read in bounded pieces."""
        return f"{self.header}:mail"

    @property
    def signals(self) -> str:
        """Mailbox of signals: results of tools, cancels, due timers. Few; read whole."""
        return f"{self.header}:signals"

    def box(self, kind: MailKind) -> str:
        """Return the mailbox for mail of this kind."""
        return self.messages if kind == USER else self.signals

    @property
    def log(self) -> str:
        """The transcript: an append-only list."""
        return f"{self.header}:log"

    @property
    def steps(self) -> str:
        """One manifest per committed step: an append-only list."""
        return f"{self.header}:steps"

    @property
    def calls(self) -> str:
        """Hash of the open tool calls' states; a missing call is a closed one."""
        return f"{self.header}:calls"

    @property
    def big(self) -> str:
        """Hash of values kept aside: large results by reference, tool schemas by digest."""
        return f"{self.header}:big"

    @property
    def erased(self) -> str:
        """Hash that says when the task was erased; has a TTL, and outlives everything else of it."""
        return f"{self.header}:erased"

    @property
    def push_configs(self) -> str:
        """Hash of the addresses to which updates of the task are sent for clients of A2A; has a TTL, which ends days
        after the task is archived: what waits for them is sent until then."""
        return f"{self.header}:push"

    @property
    def walk(self) -> str:
        """String that says how a model wants the graph walked for the task's recall; has a TTL."""
        return f"{self.header}:walk"

    @property
    def wake(self) -> str:
        return TASK_WAKE.key(self.shard)

    def all(self) -> tuple[str, ...]:
        """Every key that the task owns, and that goes with it."""
        return (self.header, self.messages, self.signals, self.log, self.steps, self.calls, self.big, self.walk)
