"""Requests of a client beside the conversation: tasks, sessions, and an operator's dead letters."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal
from urllib.parse import quote

from pydantic_core import from_json

from pentad.client.gateway import TIMEOUT_S, Rest
from pentad.contracts.approvals import ApprovalDecision, PendingApproval
from pentad.contracts.comparisons import TaskComparison
from pentad.contracts.envelope import Contract
from pentad.contracts.events import PastEffect
from pentad.contracts.graphs import GraphSpec
from pentad.contracts.memories import (
    FoundMemory,
    KnownEdge,
    KnownNode,
    MemoryKind,
    MemoryRebuild,
    MemoryStats,
    Neighbourhood,
    OpenedAnchor,
    RecalledMemories,
)
from pentad.contracts.operations import Operations
from pentad.contracts.paths import TaskPath
from pentad.contracts.records import ShownStatus, StepPrompt, Task, TaskStep, UnreadableTask
from pentad.contracts.schedules import Overlap, Schedule, ScheduleRun
from pentad.contracts.turn_states import TurnState
from pentad.errors import NotFound, Refused, WrongGraph
from pentad.shared.agent_graphs.given import GivenGraph, WrongSpec, spec_of
from pentad.shared.agent_graphs.references import KnownNames, reference_problems, unknown_tools

PAGE_LIMIT = 100
_ANSWER_S = 15.0
"""Seconds that an answer may take beside what it was asked to wait."""
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


class Fork(Contract):
    """A fork that has begun."""

    task_id: str
    session_id: str
    message_id: str
    effects: list[PastEffect]
    """Calls of the other task after the step whose effects may have happened. The fork does not repeat them by
    itself."""


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
        strategy: Literal["bfs", "dfs", "astar"] | None = None,
        edge_type: str | None = None,
        as_of: str | None = None,
        user_id: str | None = None,
        session_id: str | None = None,
    ) -> Neighbourhood:
        """Return a node and the nodes around it: 2 edges far or ``depth``, 50 nodes or ``limit``, at most 200.

        ``node_id``: or several that the walk begins at, at most 16.
        ``strategy``: breadth first, depth first, or along the heaviest edges first. ``edge_type``: along these alone.
        ``as_of``, a time of RFC 3339: along what was true then. Raises ``NotFound``, ``Refused``.
        """
        asked: dict[str, Any] = {"depth": depth, "limit": limit, "strategy": strategy}
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


class Management:
    """Changes what runs. ``operator``: the same gateway with the admin key."""

    def __init__(self, rest: Rest, operator: Rest) -> None:
        self._rest, self._operator = rest, operator

    async def cancel_task(self, task_id: str) -> None:
        """Ask a task to stop; its ``task_end`` follows within a second. Raises ``Conflict`` when it has ended."""
        await self._rest.call("POST", path_of("tasks", task_id, "cancel"))

    async def approve(
        self,
        task_id: str,
        tool_call_id: str,
        *,
        args: Mapping[str, Any] | None = None,
        reason: str | None = None,
        args_digest: str | None = None,
    ) -> ApprovalDecision:
        """Allow a tool call that waits for it, and return the decision; said again, it is the same one.

        ``args``: others, with which it is made instead. ``args_digest``: of the arguments that you have seen. Raises
        ``NotFound``, ``Refused`` for arguments that do not fit the tool, and ``Conflict`` when it was decided otherwise
        before, when its time is over, or when its arguments are others.
        """
        asked = {"args": args, "reason": reason, "args_digest": args_digest}
        return await self._decide(task_id, tool_call_id, approved=True, **asked)

    async def refuse(self, task_id: str, tool_call_id: str, *, reason: str | None = None) -> ApprovalDecision:
        """Refuse a tool call that waits for approval; the model is told the reason. Raises as ``approve`` does."""
        return await self._decide(task_id, tool_call_id, approved=False, reason=reason)

    async def _decide(self, task_id: str, call: str, *, approved: bool, **asked: Any) -> ApprovalDecision:
        body = {"approved": approved} | {name: value for name, value in asked.items() if value is not None}
        return ApprovalDecision.model_validate(
            await self._rest.call("POST", path_of("tasks", task_id, "approvals", call), body=body)
        )

    async def register_policy(self, /, *, then: Literal["allow", "ask", "deny"], **fields: Any) -> dict[str, Any]:
        """Register an approval policy, or replace the registered one with its ``name``; returns it as it stands now.

        ``fields``: those of a policy, e.g. ``tool="send_*", args={"to": {"matches": "@example"}}, approvers=["ann"]``.
        Raises ``Refused`` for a wrong value or without the admin key, ``Conflict`` when the name is one of the file.
        """
        body = {**fields, "then": then}
        shown: dict[str, Any] = await self._operator.call("POST", "/v1/approval-policies", body=body)
        return shown

    async def delete_policy(self, name: str) -> None:
        """Remove a registered approval policy. Raises ``NotFound``, ``Conflict`` for one of the file, ``Refused``."""
        await self._operator.call("DELETE", path_of("approval-policies", name))

    async def add_schedule(
        self,
        content: str,
        *,
        cron: str | None = None,
        every: int | None = None,
        at: str | None = None,
        overlap: Overlap = "skip",
        **fields: Any,
    ) -> Schedule:
        """Have a message sent at due times: by ``cron``, each ``every`` seconds, or once ``at`` a time; one of them.

        ``fields``: ``time_zone session_id user_id instruction catch_up schedule_id``, as in docs/schedules.md. Raises
        ``Refused`` for a wrong value, and ``Conflict`` when there are too many or the id is another schedule's.
        """
        body = {"content": content, "cron": cron, "every": every, "at": at, "overlap": overlap, **fields}
        given = {name: value for name, value in body.items() if value is not None}
        return Schedule.model_validate(await self._rest.call("POST", "/v1/schedules", body=given))

    async def pause_schedule(self, schedule_id: str) -> Schedule:
        """Pause a schedule: nothing is due until it is resumed. Raises ``NotFound``, ``Conflict`` after its end."""
        return Schedule.model_validate(await self._rest.call("POST", path_of("schedules", schedule_id, "pause")))

    async def resume_schedule(self, schedule_id: str) -> Schedule:
        """Resume a schedule with its next due time. Raises ``NotFound``, ``Conflict`` after its end."""
        return Schedule.model_validate(await self._rest.call("POST", path_of("schedules", schedule_id, "resume")))

    async def delete_schedule(self, schedule_id: str) -> None:
        """Remove a schedule with its history; runs that go on go on. Raises ``NotFound``."""
        await self._rest.call("DELETE", path_of("schedules", schedule_id))

    async def move(self, message_id: str, to: str, task_id: str) -> None:
        """Give a message of the task ``task_id`` to another task of its session; ``to``: its id, or ``new``.

        A ``message_moved`` follows within a second. Said again, it changes nothing.
        Raises ``NotFound``, and ``Conflict`` when it cannot be moved so.
        """
        await self._rest.call("POST", path_of("tasks", task_id, "move"), body={"message_id": message_id, "to": to})

    async def fork(
        self,
        task_id: str,
        step: int,
        content: str | None = None,
        *,
        instruction: str | None = None,
        model: str | None = None,
        message_id: str | None = None,
    ) -> Fork:
        """Begin a new task in a session of its own that shares the past of a task up to a step, 0 for none.

        ``content``: a new message with which it goes on; without one it goes on by itself. ``instruction``, ``model``:
        others from there on. ``message_id``: with one of your own, it begins once however often you ask. Raises
        ``NotFound``, and ``Conflict`` when it cannot be forked there.
        """
        asked = {"step": step, "content": content, "instruction": instruction, "model": model, "message_id": message_id}
        body = {name: value for name, value in asked.items() if value is not None}
        return Fork.model_validate(await self._rest.call("POST", path_of("tasks", task_id, "fork"), body=body))

    async def register_model(self, model_id: str, **fields: Any) -> dict[str, Any]:
        """Register a chat or embedding model, or replace the registered one with this id; says how it stands now.

        ``fields``: those of a model's entry, e.g. ``endpoint="https://h/v1", model="m", api_key_env="H_API_KEY"``.
        Raises ``Refused`` for a wrong value or without the admin key, ``Conflict`` when the id is taken by the file.
        """
        shown: dict[str, Any] = await self._operator.call("POST", "/v1/models", body={**fields, "id": model_id})
        return shown

    async def delete_model(self, model_id: str) -> None:
        """Remove a registered model. Raises ``NotFound``, ``Conflict`` when it is in use, ``Refused`` as above."""
        await self._operator.call("DELETE", path_of("models", model_id))

    async def register_instruction(self, name: str, **fields: Any) -> dict[str, Any]:
        """Register an instruction, or replace the registered one with this name; says how it stands now.

        ``fields``: those of an instruction, e.g. ``system_prompt="...", tools=["calculator"], model="fast"``. In the
        answer, ``warning`` names tools that no worker has now. Raises ``Refused`` for a wrong value or without the
        admin key, ``Conflict`` when the name is taken by the file.
        """
        shown: dict[str, Any] = await self._operator.call("POST", "/v1/instructions", body={**fields, "name": name})
        return shown

    async def delete_instruction(self, name: str) -> None:
        """Remove a registered instruction; running tasks keep it. Raises ``NotFound``, ``Conflict``, ``Refused``."""
        await self._operator.call("DELETE", path_of("instructions", name))

    async def register_graph(self, graph: GivenGraph) -> dict[str, Any]:
        """Register a graph, or replace the registered one with its name; says how it stands now.

        ``graph``: a dict, a ``GraphSpec`` or what an ``AgentBuilder`` has built. In the answer, ``warning`` names tools
        that no worker has now. Raises ``WrongGraph`` for one that is none, ``Refused`` for unknown instructions, models
        and graphs or without the admin key, ``Conflict`` when the name is taken by the file or by an instruction.
        """
        body = from_json(given_spec(graph).to_json())
        shown: dict[str, Any] = await self._operator.call("POST", "/v1/graphs", body=body)
        return shown

    async def delete_graph(self, name: str) -> None:
        """Remove a registered graph; running tasks keep it. Raises ``NotFound``, ``Conflict``, ``Refused``."""
        await self._operator.call("DELETE", path_of("graphs", name))

    async def remove_hook(self, name: str) -> None:
        """Remove a hook that no worker has any more. Raises ``NotFound``, and ``Conflict`` while a worker has it."""
        await self._operator.call("DELETE", path_of("hooks", name))

    async def register_server(self, name: str, **fields: Any) -> dict[str, Any]:
        """Register an MCP server, or replace the registered one with this name; says how it stands now.

        ``fields``: those of an entry of ``mcpServers``, as ``url="https://h/mcp", headers={"Authorization": "Bearer
        {{secret:TOKEN}}"}``. Raises ``Refused`` for a wrong value, without the admin key, or for a program where these
        may not be registered, ``Conflict`` when the name is taken by the file.
        """
        shown: dict[str, Any] = await self._operator.call("POST", "/v1/tools/servers", body={**fields, "name": name})
        return shown

    async def delete_server(self, name: str) -> None:
        """Remove a registered MCP server. Raises ``NotFound``, ``Conflict``, and ``Refused`` without the admin key."""
        await self._operator.call("DELETE", path_of("tools", "servers", name))

    async def register_tool(self, **fields: Any) -> dict[str, Any]:
        """Register an endpoint of HTTP as a tool, or the operations of an OpenAPI document; says what is registered.

        ``fields``: of one tool ``name="invoice", url="https://h/invoices/{id}", method="GET", parameters={...}``; of a
        document ``openapi=URL_OR_DOCUMENT, operations=[...], prefix="crm_"``; of both ``headers={"Authorization":
        "Bearer {{secret:TOKEN}}"}``. Registered tools of the same names are replaced. Raises ``Refused`` for a wrong
        value or without the admin key, ``Conflict`` when another tool has a name.
        """
        told: dict[str, Any] = await self._operator.call("POST", "/v1/tools", body=fields)
        return told

    async def delete_tool(self, name: str) -> None:
        """Remove a registered tool. Raises ``NotFound``, ``Conflict``, and ``Refused`` without the admin key."""
        await self._operator.call("DELETE", path_of("tools", name))

    async def reload_plugins(self, wait_s: float = 30.0) -> dict[str, Any]:
        """Have each tool-worker import its plug-ins anew, one after the other, and wait so long for all of them.

        The answer has ``done`` and ``workers``, each with its ``state`` (``done``, ``failed``, ``running`` or
        ``waiting``) and ``error``. Raises ``Refused`` without the admin key.
        """
        silence_s = wait_s + _ANSWER_S  # it answers when the wait is over
        told: dict[str, Any] = await self._operator.call("POST", "/v1/plugins/reload", timeout_s=silence_s, wait=wait_s)
        return told

    async def set_secret(
        self, name: str, value: str, *, user_id: str | None = None, tenant_id: str | None = None
    ) -> None:
        """Keep a secret of a user, or without one of the whole tenant. Nobody can read it back.

        Raises ``Refused`` for a wrong value or without the admin key, ``Conflict`` where there is no place for secrets.
        """
        given = {"name": name, "value": value, "user_id": user_id, "tenant_id": tenant_id}
        body = {field: text for field, text in given.items() if text is not None}
        await self._operator.call("POST", "/v1/secrets", body=body)

    async def delete_secret(self, name: str, *, user_id: str | None = None, tenant_id: str | None = None) -> None:
        """Remove a secret. Raises ``NotFound``, and otherwise as `set_secret`."""
        await self._operator.call("DELETE", path_of("secrets", name), user_id=user_id, tenant_id=tenant_id)

    async def register_webhook(
        self, url: str, events: Sequence[str], secret: str, *, session_id: str | None = None
    ) -> dict[str, Any]:
        """Have events of a session, or of all, sent to an address; one with this address and session is replaced.

        ``events``: types of events, ``["*"]`` for all. ``secret``: signs them, ``whsec_`` and 24 to 64 random bytes in
        base64; nobody can read it back. Raises ``Refused`` for a wrong value or an address inside.
        """
        given = {"url": url, "events": list(events), "secret": secret, "session": session_id}
        body = {field: value for field, value in given.items() if value is not None}
        shown: dict[str, Any] = await self._rest.call("POST", "/v1/webhooks", body=body)
        return shown

    async def delete_webhook(self, webhook_id: str) -> None:
        """Remove a webhook, with all events that wait for it. Raises ``NotFound``."""
        await self._rest.call("DELETE", path_of("webhooks", webhook_id))

    async def pause_task(self, task_id: str) -> None:
        """Ask a task to pause; ``task_status: waiting``, reason ``paused``, follows within a second.

        Raises ``Conflict`` when it has ended.
        """
        await self._rest.call("POST", path_of("tasks", task_id, "pause"))

    async def resume_task(self, task_id: str) -> None:
        """Ask a paused task to go on where it was; for another it changes nothing.

        Raises ``Conflict`` when it has ended.
        """
        await self._rest.call("POST", path_of("tasks", task_id, "resume"))

    async def complete_task(self, task_id: str) -> None:
        """Say that a task that waits for a person is done: it ends as completed, without another answer.

        Raises ``Conflict`` when it does not wait, or has ended.
        """
        await self._rest.call("POST", path_of("tasks", task_id, "complete"))

    async def archive_task(self, task_id: str) -> None:
        """Archive a task that has ended, without its grace time. Raises ``Conflict`` when it has not ended."""
        await self._rest.call("POST", path_of("tasks", task_id, "archive"))

    async def delete_task(self, task_id: str) -> None:
        """Have a task erased everywhere: state, events, record, memory. One that goes on is cancelled first.

        Nothing of it comes back from now on; it is gone soon. Asked again, nothing changes. Raises ``NotFound``.
        """
        await self._rest.call("DELETE", path_of("tasks", task_id))

    async def delete_session(self, session_id: str) -> None:
        """Have a session erased likewise, with its tasks. Its next message begins afresh. Raises ``NotFound``."""
        await self._rest.call("DELETE", path_of("sessions", session_id))

    async def delete_user(self, user_id: str) -> None:
        """Have an end user erased likewise: the tasks in which nobody else has spoken, and what is remembered of them.

        Raises ``Refused`` for what is no id.
        """
        await self._rest.call("DELETE", path_of("users", user_id))

    async def forget(
        self,
        ids: Sequence[str] | None = None,
        *,
        task_id: str | None = None,
        since: str | None = None,
        until: str | None = None,
        user_id: str | None = None,
        importance_below: float | None = None,
        kind: MemoryKind | str | None = None,
    ) -> int:
        """Let memories not be found any more: those that meet all of this. Returns how many there were.

        ``ids``: of hits or nodes, at most 100; ``since`` and ``until``: RFC 3339; ``user_id``: of this user alone;
        ``kind``: ``episodic`` or ``semantic`` alone. Their records stay; see `delete_task`. Raises ``Refused`` for a
        wrong value, or when nothing says which.
        """
        conditions = {
            "ids": None if ids is None else list(ids), "task_id": task_id, "since": since, "until": until,
            "user_id": user_id, "importance_below": importance_below, "kind": kind,
        }  # fmt: skip
        body: dict[str, Any] = {name: value for name, value in conditions.items() if value is not None}
        forgotten = 0
        while True:
            done = await self._rest.call("POST", "/v1/memory/forget", body=body)
            forgotten += int(done["forgotten"])
            if not done["next"]:
                return forgotten
            body["cursor"] = done["next"]

    async def unforget(self, anchor: str, *, user_id: str | None = None) -> int:
        """Let be found again what a model has had forgotten at this anchor (`memory_forget`) within the last day.

        ``user_id``: of this user alone. Returns how many memories come back, a moment later. Raises ``NotFound`` when
        no model had anything forgotten there, when it is longer ago, or when it was erased since.
        """
        body = {"anchor": anchor} | ({} if user_id is None else {"user_id": user_id})
        return int((await self._rest.call("POST", "/v1/memory/unforget", body=body))["restored"])

    async def reindex_left(self, *, queue: bool = False) -> int:
        """How many tasks the embedding model in use has not embedded yet. ``queue``: have an archiver do it.

        All that is remembered is found meanwhile. Raises ``Refused`` without the admin key.
        """
        left, _ = await self.reindex_progress(queue=queue)
        return left

    async def reindex_progress(self, *, queue: bool = False) -> tuple[int, str | None]:
        """Return how many tasks are left to embed, and what the archiver waits for; None: it does not wait."""
        left, waits_for, cursor = 0, None, None
        while True:
            body = {"queue": queue} | ({} if cursor is None else {"cursor": cursor})
            page = await self._operator.call("POST", "/v1/memory/reindex", body=body)
            left, cursor = left + int(page["left"]), page["next"]
            waits_for = page.get("waits_for") or waits_for
            if cursor is None:
                return left, waits_for

    async def reindex_switch(self, *, force: bool = False) -> tuple[str, str | None]:
        """Let the memory be what the embedding model in use has embedded; what was there before is removed.

        Raises ``Conflict`` while that would lose anything of any tenant. ``force``: do it all the same; what was there
        before is kept then, and not searched. Returns the names of the collection that counts, and of one that is kept.
        Raises ``Refused`` without the admin key.
        """
        done = await self._operator.call("POST", "/v1/memory/reindex", body={"switch": True, "force": force})
        return str(done["current"]), done.get("kept")

    async def rebuild_memory(self) -> MemoryRebuild:
        """Have the memory of all tenants rebuilt from their records and the tasks in Redis, where its stores were
        emptied or damaged. One that goes on is gone on with. Raises ``Refused`` without the admin key."""
        return MemoryRebuild.model_validate(await self._operator.call("POST", "/v1/memory/rebuild"))

    async def memory_rebuild(self) -> MemoryRebuild:
        """How far that is. Raises ``Refused`` without the admin key."""
        return MemoryRebuild.model_validate(await self._operator.call("GET", "/v1/memory/rebuild"))

    async def add_node(self, kind: str, text: str, **fields: Any) -> KnownNode:
        """Keep something that a person knows, a ``concept fact procedure question answer``; searches find it.

        ``fields``: ``user_id`` (whose it is), ``importance`` (0 to 1), ``true_from``, ``true_until`` (RFC 3339),
        ``metadata`` (a JSON object that is kept as it is: 4 KiB at most). Said again it is the same node; metadata that
        is given replaces what was there. Raises ``Refused`` for a wrong value.
        """
        body = {**fields, "kind": kind, "text": text}
        return KnownNode.model_validate(await self._rest.call("POST", path_of("memory", "nodes"), body=body))

    async def add_edge(self, source: str, target: str, edge_type: str, **fields: Any) -> KnownEdge:
        """Keep how two nodes belong together: ``related_to followed_by contradicts derived_from part_of``.

        ``fields``: ``weight`` (0 to 1), ``text`` (why), ``user_id``, ``metadata`` as of a node. What is contradicted is
        true no more from now on.
        Raises ``NotFound`` for a node that is not there, ``Refused`` for a wrong value.
        """
        body = {**fields, "source": source, "target": target, "type": edge_type}
        return KnownEdge.model_validate(await self._rest.call("POST", path_of("memory", "edges"), body=body))

    async def delete_node(self, node_id: str, *, user_id: str | None = None, session_id: str | None = None) -> None:
        """Take a node away with its edges; the statements that it rested on stay. Raises ``NotFound``."""
        await self._rest.call("DELETE", path_of("memory", "nodes", node_id), user_id=user_id, session_id=session_id)

    async def redrive(self, letter_id: str, edit: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send a dead letter again, or ``edit`` in its place; says what was sent. It happens once.

        Raises ``NotFound``, ``Conflict`` when it cannot be redriven so, ``Refused`` without the admin key.
        """
        sent: dict[str, Any] = await self._operator.call(
            "POST", path_of("dead-letters", letter_id, "redrive"), body=edit
        )
        return sent

    async def discard(self, letter_id: str) -> None:
        """Remove a dead letter for good. Raises ``NotFound``, ``Refused`` without the admin key."""
        await self._operator.call("DELETE", path_of("dead-letters", letter_id))


def given_spec(graph: GivenGraph) -> GraphSpec:
    """Return the graph that a program gives, as data. Raises ``WrongGraph`` with all its mistakes."""
    try:
        return spec_of(graph)
    except WrongSpec as error:
        raise WrongGraph(error.problems) from None


def path_of(*parts: str) -> str:
    """The path of a REST route whose parts may hold anything."""
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)
