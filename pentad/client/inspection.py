"""Requests of a client beside the conversation: tasks, sessions, and an operator's dead letters."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal
from urllib.parse import quote

from pentad.client.gateway import TIMEOUT_S, Rest
from pentad.contracts.approvals import PendingApproval, PolicyAnswer
from pentad.contracts.comparisons import TaskComparison
from pentad.contracts.envelope import Contract
from pentad.contracts.graphs import GraphSpec
from pentad.contracts.memories import (
    FoundMemory,
    KnownNode,
    MemoryKind,
    MemoryStats,
    Neighbourhood,
    OpenedAnchor,
    RecalledMemories,
)
from pentad.contracts.operations import Operations
from pentad.contracts.paths import TaskPath
from pentad.contracts.records import ShownStatus, StepPrompt, Task, TaskStep, UnreadableTask
from pentad.contracts.schedules import Schedule, ScheduleRun
from pentad.contracts.turn_states import TurnState
from pentad.errors import NotFound, Refused, WrongGraph
from pentad.shared.agent_graphs.given import GivenGraph, WrongSpec, spec_of
from pentad.shared.agent_graphs.references import KnownNames, reference_problems, unknown_tools

PAGE_LIMIT = 100
_MAX_RUNS = 500
"""Runs of a schedule that are asked for: more than it remembers."""
Strategy = Literal["auto", "bfs", "dfs", "astar", "none"]
"""How the graph is walked from what a search has found."""


class Transcript(Contract):
    """The messages that a task's model would be sent, without the system prompt, in OpenAI's chat form with notes.

    Entries of the roles ``exclusion``, ``compaction`` and ``node`` are no messages: they name what is left out since a
    message was moved, what prompts have in short, and how the run of a graph has gone on.
    """

    task_id: str
    messages: list[dict[str, Any]]


class Inspection:
    """Looks, and changes nothing. Everything raises ``ClientError``. ``operator``: the same with the admin key.

    ``user_id``, ``session_id``: who looks at memory, where a call names no other. Who names neither finds only what the
    tenant shares.
    """

    def __init__(self, rest: Rest, operator: Rest, user_id: str | None = None, session_id: str | None = None) -> None:
        self._rest, self._operator = rest, operator
        self._user, self._session = user_id, session_id

    def _reader(self, user_id: str | None, session_id: str | None) -> dict[str, str | None]:
        return {"user_id": user_id or self._user, "session_id": session_id or self._session}

    async def tasks(
        self,
        status: ShownStatus | None = None,
        session_id: str | None = None,
        limit: int | None = PAGE_LIMIT,
        *,
        since: str | None = None,
        until: str | None = None,
    ) -> list[Task]:
        """The newest tasks first, at most ``limit`` (None: all of them). An ``UnreadableTask`` says its ``problem``.

        ``since``, ``until``: RFC 3339; those alone that began then or later, and before it. Archived ones, too.
        """
        wanted = {"status": status, "session_id": session_id, "since": since, "until": until}
        found = self._rest.pages("/v1/tasks", limit, **wanted)
        return [(UnreadableTask if "problem" in item else Task).model_validate(item) async for item in found]

    async def task(self, task_id: str) -> Task:
        """One task; archived ones answer from their record. Raises ``NotFound``, or its kind ``Unreadable``."""
        return Task.model_validate(await self._rest.call("GET", path_of("tasks", task_id)))

    async def run(self, message_id: str, session_id: str, wait: float | None = None) -> TurnState:
        """Return how far the turn of a message is, and what has come of it. Raises ``NotFound``.

        ``wait``: seconds to wait for its end; None: none.
        """
        timeout_s = TIMEOUT_S + (wait or 0.0)
        found = await self._rest.call(
            "GET", path_of("runs", message_id), timeout_s=timeout_s, session_id=session_id, wait=wait
        )
        return TurnState.model_validate(found)

    async def schedules(self) -> list[Schedule]:
        """Return the schedules of the tenant, the newest first; of long messages only the beginning."""
        return [Schedule.model_validate(item) async for item in self._rest.pages("/v1/schedules", None)]

    async def schedule(self, schedule_id: str) -> Schedule:
        """Return a schedule. Raises ``NotFound``."""
        return Schedule.model_validate(await self._rest.call("GET", path_of("schedules", schedule_id)))

    async def schedule_runs(self, schedule_id: str) -> list[ScheduleRun]:
        """Return what has come of a schedule's latest due times, the latest first. Raises ``NotFound``.

        ``run(message_id, session_id)`` tells a run's answer.
        """
        found = await self._rest.call("GET", path_of("schedules", schedule_id, "runs"), limit=_MAX_RUNS)
        return [ScheduleRun.model_validate(item) for item in found["items"]]

    async def transcript(self, task_id: str) -> Transcript:
        """A task's messages. Raises ``NotFound``."""
        return Transcript.model_validate(await self._rest.call("GET", path_of("tasks", task_id, "transcript")))

    async def steps(self, task_id: str, limit: int | None = PAGE_LIMIT) -> list[TaskStep]:
        """Return the steps of a task, the first one first, at most ``limit`` (None: all of them).

        Each has what it added to the prompt, its answer, its tool calls with their results, times, cost, and its
        manifest. Archived tasks answer from their record. Raises ``NotFound``, or its kind ``Unreadable``.
        """
        found = self._rest.pages(path_of("tasks", task_id, "steps"), limit)
        return [TaskStep.model_validate(item) async for item in found]

    async def prompt(self, task_id: str, step: int) -> StepPrompt:
        """Return the request of a step to its model, rebuilt and proved by its digest. Raises ``NotFound``."""
        found = await self._rest.call("GET", path_of("tasks", task_id, "steps", str(step), "prompt"))
        return StepPrompt.model_validate(found)

    async def compare(self, a: str, b: str) -> TaskComparison:
        """Compare two tasks step by step: where they part, what differs, what each cost. Raises ``NotFound``."""
        return TaskComparison.model_validate(await self._rest.call("GET", path_of("tasks", a, "compare", b)))

    async def approvals(self, limit: int | None = PAGE_LIMIT) -> list[PendingApproval]:
        """Return the tool calls that wait for a decision, the one with the most time left first."""
        return [PendingApproval.model_validate(item) async for item in self._rest.pages("/v1/approvals", limit)]

    async def approval(self, tool_call_id: str) -> PendingApproval:
        """Return one call that waits for a decision. Raises ``NotFound`` when none of this id does."""
        async for item in self._rest.pages("/v1/approvals", None):
            if item.get("tool_call_id") == tool_call_id:
                return PendingApproval.model_validate(item)
        raise NotFound(f"no call {tool_call_id} waits for an approval: it was decided about, or its time is over")

    async def value(self, task_id: str, ref: str) -> str:
        """Return the whole value of a ``ref`` of a ``tool_result``, as the model is told it. Raises ``NotFound``."""
        found = await self._rest.call("GET", path_of("tasks", task_id, "values", ref))
        return str(found["content"])

    async def sessions(self, limit: int | None = PAGE_LIMIT) -> list[dict[str, Any]]:
        """The sessions of this tenant, as the gateway tells them."""
        return [item async for item in self._rest.pages("/v1/sessions", limit)]

    async def messages(self, session_id: str, limit: int | None = PAGE_LIMIT) -> list[dict[str, Any]]:
        """The last messages of a session, user's and agent's."""
        return [item async for item in self._rest.pages(path_of("sessions", session_id, "messages"), limit)]

    async def search_memory(
        self,
        question: str,
        *,
        limit: int | None = None,
        user_id: str | None = None,
        as_of: str | None = None,
        strategy: Strategy | None = None,
        depth: int | None = None,
        kind: MemoryKind | str | None = None,
        session_id: str | None = None,
    ) -> list[FoundMemory]:
        """Search what was said in finished tasks, the best hit first: 10 hits, or ``limit``, at most 100.

        It finds what the tenant shares, with ``user_id`` what is this user's too, and with ``session_id`` what was said
        in this session without a user. ``as_of``, a time of RFC 3339: what had been said and was true then; without it,
        what is still true. ``strategy``: how the graph is walked from there, 2 edges far or ``depth``; without it, a
        rule says. ``kind``: ``episodic`` or ``semantic`` alone, or ``working``, that of the session. Raises
        ``Refused`` for a wrong value.
        """
        asked: dict[str, Any] = {"limit": limit, "user_id": user_id, "as_of": as_of, "depth": depth}
        asked |= {"kind": kind, "session_id": session_id}
        return (await self.recall(question, strategy=strategy or "auto", tasks=False, **asked)).hits

    async def recall(
        self,
        question: str,
        *,
        limit: int | None = None,
        user_id: str | None = None,
        as_of: str | None = None,
        strategy: Strategy = "auto",
        depth: int | None = None,
        kind: MemoryKind | str | None = None,
        session_id: str | None = None,
        tasks: bool = True,
    ) -> RecalledMemories:
        """Search like `search_memory`, and return the tasks of the hits and of the nodes that a walk has reached.

        Each of ``tasks`` has in ``task`` the task itself, if it is the reader's; ``tasks=False`` saves reading them.
        """
        asked: dict[str, Any] = {"q": question, "limit": limit, "as_of": as_of, "strategy": strategy}
        asked |= {"depth": depth, "kind": kind, **self._reader(user_id, session_id)}
        asked |= {"tasks": "true"} if tasks else {}
        return RecalledMemories.model_validate(await self._rest.call("GET", "/v1/memory/search", **asked))

    async def expand(
        self,
        anchor: str,
        window: int | None = None,
        *,
        user_id: str | None = None,
        session_id: str | None = None,
        whole: bool = False,
    ) -> OpenedAnchor:
        """The very words that a hit's ``anchor`` points at, with 2 or ``window`` pieces on each side, at most 50.

        ``anchor``: or its short form. ``user_id``, ``session_id``: only what this user and this session see; without
        them, of all of the tenant. ``whole``: with the task and its steps in ``whole``; only without the two.
        Raises ``NotFound`` when they are not there any more, ``Refused`` for what is no anchor.
        """
        given: dict[str, Any] = {"anchor": anchor, "window": window, "user_id": user_id, "session_id": session_id}
        given |= {"whole": True} if whole else {}
        body = {name: value for name, value in given.items() if value is not None}
        return OpenedAnchor.model_validate(await self._rest.call("POST", "/v1/memory/expand", body=body))

    async def memory_stats(self) -> MemoryStats:
        """How many segments of how many tasks are remembered, and nodes and edges known, whoever's they are."""
        return MemoryStats.model_validate(await self._rest.call("GET", "/v1/memory/stats"))

    async def memory_node(
        self, node_id: str, *, user_id: str | None = None, session_id: str | None = None
    ) -> KnownNode:
        """Return a node of the graph, with the anchors that support it. Raises ``NotFound``."""
        path = path_of("memory", "nodes", node_id)
        asked: dict[str, Any] = self._reader(user_id, session_id)
        return KnownNode.model_validate(await self._rest.call("GET", path, **asked))

    async def memory_neighbours(
        self,
        node_id: str | Sequence[str],
        *,
        depth: int | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        strategy: Literal["bfs", "dfs", "astar"] | None = None,
        edge_type: str | None = None,
        as_of: str | None = None,
        user_id: str | None = None,
        session_id: str | None = None,
    ) -> Neighbourhood:
        """Return a node and the nodes around it: 2 edges far or ``depth``, 50 nodes or ``limit``, at most 200.

        ``node_id``: or several that the walk begins at, at most 16. ``cursor``: the ``next`` of the page before.
        ``strategy``: breadth first, depth first, or along the heaviest edges first. ``edge_type``: along these alone.
        ``as_of``, a time of RFC 3339: along what was true then. Raises ``NotFound``, ``Refused``.
        """
        asked: dict[str, Any] = {"depth": depth, "limit": limit, "cursor": cursor, "strategy": strategy}
        asked |= self._reader(user_id, session_id)
        starts = [node_id] if isinstance(node_id, str) else list(node_id)
        if not starts:
            raise Refused("name a node that the walk begins at")
        asked |= {"type": edge_type, "as_of": as_of, "start": starts[1:]}
        path = path_of("memory", "nodes", starts[0], "neighbours")
        return Neighbourhood.model_validate(await self._rest.call("GET", path, **asked))

    async def models(self) -> list[dict[str, Any]]:
        """Every model: its entry, where that comes from (``source``), and how the model does (``health``)."""
        return [item async for item in self._rest.pages("/v1/models", None)]

    async def model(self, model_id: str) -> dict[str, Any]:
        """Return one model: its entry, where that comes from (``source``), and how the model does (``health``).

        Raises ``NotFound``.
        """
        found: dict[str, Any] = await self._rest.call("GET", path_of("models", model_id))
        return found

    async def instructions(self) -> list[dict[str, Any]]:
        """Every instruction that counts, with where it comes from (``source``) and the ``version`` of its content."""
        return [item async for item in self._rest.pages("/v1/instructions", None)]

    async def instruction(self, name: str) -> dict[str, Any]:
        """Return the instruction of a name that is in use, with its ``source`` and ``version``. Raises ``NotFound``."""
        found: dict[str, Any] = await self._rest.call("GET", path_of("instructions", name))
        return found

    async def graphs(self) -> list[dict[str, Any]]:
        """Every graph that counts, with where it comes from (``source``) and the ``version`` of its content."""
        return [item async for item in self._rest.pages("/v1/graphs", None)]

    async def graph(self, name: str) -> dict[str, Any]:
        """Return the graph of a name that is in use, with its ``source`` and ``version``. Raises ``NotFound``."""
        found: dict[str, Any] = await self._rest.call("GET", path_of("graphs", name))
        return found

    async def graph_problems(self, graph: GivenGraph) -> list[str]:
        """Return what a graph names and this system does not know, each with its place, and its recursion.

        Unknown are instructions, chat models, graphs, and tools that no worker has now. Raises ``WrongGraph``.
        """
        spec = given_spec(graph)
        graphs = {each["name"]: GraphSpec.model_validate(each) for each in await self.graphs()}
        models = {each["id"] for each in await self.models() if each["kind"] == "llm"}
        known = KnownNames({each["name"] for each in await self.instructions()}, models, graphs)
        tools = {each["name"] for each in await self.tools()}
        return [*reference_problems(spec, known), *unknown_tools(spec, tools)]

    async def path(self, task_id: str) -> TaskPath:
        """Return the path of a task through its graph: the nodes of its newest run, and the tasks that they started.

        Raises ``NotFound``, and ``Conflict`` for a task that runs an instruction and has called no agents.
        """
        return TaskPath.model_validate(await self._rest.call("GET", path_of("tasks", task_id, "path")))

    async def path_drawing(self, task_id: str) -> str:
        """Return the graph of a task as a flowchart in the language of Mermaid, its path marked. Raises as `path`."""
        return await self._rest.text(path_of("tasks", task_id, "path"), format="mermaid")

    async def tools(self) -> list[dict[str, Any]]:
        """The tools that workers have published: name, description, effect and the schema of their arguments; and
        registered ones, which have an ``endpoint``."""
        return [item async for item in self._rest.pages("/v1/tools", None)]

    async def hooks(self) -> list[dict[str, Any]]:
        """The hooks in force, each with ``seen_at`` and whether a living worker has it. Needs the admin key."""
        return [item async for item in self._operator.pages("/v1/hooks", None)]

    async def approval_policies(self) -> list[dict[str, Any]]:
        """The approval policies in their order, each with where it comes from (``source``). Needs the admin key."""
        return [item async for item in self._operator.pages("/v1/approval-policies", None)]

    async def try_policies(self, tool: str, args: Mapping[str, Any] | None = None, **more: str) -> PolicyAnswer:
        """Return what the approval policies say about a tool call, which is not made.

        ``more``: ``effect``, ``tenant_id`` and ``instruction`` of the call. Raises ``Refused`` without the admin key.
        """
        body = {"tool": tool, "args": dict(args or {}), **more}
        return PolicyAnswer.model_validate(await self._operator.call("POST", "/v1/approval-policies/try", body=body))

    async def plugins(self) -> dict[str, Any]:
        """The plug-ins of the tool-workers, and how far the last reload is: ``done``, and ``workers`` with their
        ``state``. Why one failed is told with the admin key.
        """
        told: dict[str, Any] = await self._operator.call("GET", "/v1/plugins")
        return told

    async def servers(self) -> list[dict[str, Any]]:
        """The MCP servers whose tools are offered: how each does (``condition``, ``error``), and tools left out.

        With the admin key also what their programs said (``said``).
        """
        return [item async for item in self._operator.pages("/v1/tools/servers", None)]

    async def operations(self) -> Operations:
        """Return the live system of all tenants, as it was within the last second. Needs the admin key."""
        return Operations.model_validate(await self._operator.call("GET", "/v1/operations"))

    async def webhooks(self) -> list[dict[str, Any]]:
        """The tenant's webhooks: how many events wait for each (``waiting``), and why (``error``, ``disabled``)."""
        return [item async for item in self._rest.pages("/v1/webhooks", None)]

    async def dead_letters(self, limit: int | None = PAGE_LIMIT) -> list[dict[str, Any]]:
        """List the dead letters of all tenants, the newest first, without the bodies. Needs the admin key."""
        return [item async for item in self._operator.pages("/v1/dead-letters", limit)]

    async def dead_letter(self, letter_id: str) -> dict[str, Any]:
        """One dead letter whole: what led to it, and in ``redrive`` what would be sent. Raises ``NotFound``."""
        found: dict[str, Any] = await self._operator.call("GET", path_of("dead-letters", letter_id))
        return found


def given_spec(graph: GivenGraph) -> GraphSpec:
    """Return the graph that a program gives, as data. Raises ``WrongGraph`` with all its mistakes."""
    try:
        return spec_of(graph)
    except WrongSpec as error:
        raise WrongGraph(error.problems) from None


def path_of(*parts: str) -> str:
    """The path of a REST route whose parts may hold anything."""
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)
