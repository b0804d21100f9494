"""Changes that a client asks for: of tasks, registries, schedules, webhooks and memory."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic_core import from_json

from pentad.client.gateway import Rest
from pentad.client.inspection import given_spec, path_of
from pentad.contracts.approvals import ApprovalDecision
from pentad.contracts.envelope import Contract
from pentad.contracts.events import PastEffect
from pentad.contracts.memories import (
    KnownEdge,
    KnownNode,
    MemoryKind,
    MemoryRebuild,
)
from pentad.contracts.schedules import Overlap, Schedule
from pentad.errors import Refused
from pentad.shared.agent_graphs.given import GivenGraph

_ANSWER_S = 15.0
"""Seconds that an answer may take beside what it was asked to wait."""


class Fork(Contract):
    """A fork that has begun."""

    task_id: str
    session_id: str
    message_id: str
    effects: list[PastEffect]
    """Calls of the other task after the step whose effects may have happened. The fork does not repeat them by
    itself."""


class Management:
    """Changes what runs. ``operator``: the same gateway with the admin key."""

    def __init__(self, rest: Rest, operator: Rest) -> None:
        self._rest, self._operator = rest, operator

    async def cancel_task(self, task_id: str) -> None:
        """Ask a task to stop; its ``task_end`` follows within a second. Raises ``Conflict`` when it has ended."""
        await self._rest.call("POST", path_of("tasks", task_id, "cancel"))

    async def send_result(
        self, task_id: str, tool_call_id: str, *, result: Any = None, error: str | None = None
    ) -> None:
        """Send the result of a call of a client's own tool, a text or any other JSON, or why the call has failed.

        The first result is the only one; the same again changes nothing. Raises ``NotFound`` for a call that waits for
        no client, ``Conflict`` after another result and when the task has ended, ``Refused`` for what is no result.
        """
        if error is not None and result is not None:
            raise Refused("give either a result, or an error with why the call has failed")
        body = {"result": result} if error is None else {"error": error}
        await self._rest.call("POST", path_of("tasks", task_id, "calls", tool_call_id, "result"), body=body)

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
