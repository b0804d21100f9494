"""The live system at one moment, as operators see it: streams, services, models, tools, active tasks, approvals."""

from pydantic import Field

from pentad.contracts.envelope import Contract
from pentad.contracts.events import TaskStatus
from pentad.contracts.models import ModelState
from pentad.contracts.tool_servers import ServerCondition


class GroupState(Contract):
    """A consumer group of a stream."""

    name: str
    lag: int | None
    """Entries that no consumer of the group has read; None where Redis cannot tell."""
    pending: int
    """Entries that were read and are not acknowledged."""
    oldest_s: float | None = None
    """Seconds since the oldest entry was appended that is unread or pending; None: none is."""
    consumers: int
    active: int
    """Consumers that asked for work within the last ten seconds."""


class StreamState(Contract):
    """A work stream of the system, of one shard if it has one."""

    stream: str
    """Name of the stream in the registry of streams."""
    key: str
    shard: int | None = None
    queue: str | None = None
    """Queue of tool calls that the stream carries; None for any other stream."""
    length: int
    """Entries that lie in it, consumed ones that are not trimmed yet included."""
    groups: list[GroupState] = Field(default_factory=list)
    """Consumer groups, the one that serves it first; groups of others behind it hold back trimming."""


class ServiceState(Contract):
    """A running service, as it reports itself."""

    name: str
    service: str
    release: str
    """Release of Pentad that it runs."""
    machine: str
    pid: int
    started_at: str
    seen_at: str
    """Time of its last report: RFC 3339."""
    alive: bool
    """Whether it has reported within six seconds. One that was killed is told for a minute."""
    under_way: int
    """Entries that it handles; of a gateway, its open WebSocket connections."""
    queues: list[str] = Field(default_factory=list)
    """Queues of tool calls that a tool-worker serves."""


class ModelLoad(Contract):
    """A model of the registry: how it does, and how many calls it has."""

    id: str
    kind: str
    default: bool
    state: ModelState | None = None
    """How it does where it does worst: ``open`` is not asked, its breaker is open; None: no process reports it."""
    since: str | None = None
    error: str | None = None
    """Why it does not do well; None while it does."""
    processes: int = 0
    """Processes that report it."""
    limit: int | None = None
    """Calls that it may have at once in the whole system; None: no limit, and nobody counts them."""
    under_way: int | None = None
    waiting: int | None = None
    """Calls that wait for a place; None where there is no limit."""


class TroubledTool(Contract):
    """A tool that cannot be called: no living worker has it, or a tenant's calls are refused for a while."""

    name: str
    why: str
    tenant_id: str | None = None
    """Tenant whose calls are refused; None: nobody can call it."""


class TroubledServer(Contract):
    """An MCP server that is not ready."""

    name: str
    condition: ServerCondition | None = None
    """Condition in the tool-worker where it does worst; None: no worker has reported it."""
    error: str | None = None


class ToolsState(Contract):
    """Tools and MCP servers in numbers, and those that are in trouble."""

    total: int
    alive: int
    """Tools that a living worker has."""
    troubled: list[TroubledTool] = Field(default_factory=list)
    servers: int
    servers_ready: int
    troubled_servers: list[TroubledServer] = Field(default_factory=list)


class TenantTasks(Contract):
    """The active tasks of one tenant, and what waits there."""

    tenant_id: str
    active: int
    """Tasks that have a place among the active ones."""
    queued: int
    """Tasks that wait for a place."""
    approvals: int
    """Tool calls that wait for a person's decision."""
    messages: int
    """Messages that no step has taken in yet."""


class LiveTask(Contract):
    """A task that has not ended."""

    task_id: str
    tenant_id: str
    session_id: str
    status: TaskStatus
    goal: str
    """Begin of its goal."""
    instruction: str
    created_at: str
    updated_at: str
    steps: int
    waiting_for: str | None = None
    """Begin of what it waits for: tools, or the question to a person."""


class TasksState(Contract):
    """The tasks of all tenants that have not ended."""

    active: int
    """Tasks that have a place among the active ones, of all tenants."""
    queued: int
    by_status: dict[str, int]
    """Numbers of the tasks that were looked at, by status: the newest of each tenant that have not ended."""
    tenants: list[TenantTasks] = Field(default_factory=list)
    """Tenants with active tasks first."""
    newest: list[LiveTask] = Field(default_factory=list)
    """Tasks that have not ended, the newest first."""
    oldest: LiveTask | None = None
    """Oldest active task of those that were looked at; None: none is active."""


class Totals(Contract):
    """Numbers that only grow: how much the whole system has done. The difference of two answers is a rate.

    Services tell them every two seconds. They begin anew when nothing was done for a week.
    """

    turns: int
    """Turns that ended, however they did."""
    steps: int
    input_tokens: int
    output_tokens: int
    tool_calls: int


class Operations(Contract):
    """The live system at one moment, of all tenants. A gateway makes it once a second at most."""

    at: str
    """Time at which it was read: RFC 3339."""
    streams: list[StreamState]
    services: list[ServiceState]
    models: list[ModelLoad]
    tools: ToolsState
    tasks: TasksState
    approvals: int
    """Tool calls that wait for a person's decision, of the tenants that are known."""
    messages: int
    """Messages that wait to be taken into a step, in all shards."""
    dead_letters: int
    memory_lag_s: float
    """Seconds that the longest waiting task waits to be remembered; 0: none waits."""
    memory_waits: str | None = None
    """Why ended tasks are not remembered now; None: they are."""
    totals: Totals
    left_out: dict[str, int] = Field(default_factory=dict)
    """How many rows of a list are not told, by the list's name, where there are more than an answer may have."""
