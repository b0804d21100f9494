"""Writes a fork into the commit with which it begins: its header, its past, its session and its first mail."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import to_json

from pentad.contracts.commands import InboundMessage
from pentad.contracts.events import ForkPoint, NodeStart, TaskStart
from pentad.contracts.graphs import GraphSpec
from pentad.contracts.ids import encoded_id, rfc3339
from pentad.contracts.instructions import Instruction
from pentad.contracts.records import ForkOrigin, Task
from pentad.services.gateway.domain.fork import (
    ForkRequest,
    SharedPast,
    call_ids,
    first_said,
    last_said,
    run_of,
    steps_at_node,
    turns_of,
)
from pentad.shared import metrics
from pentad.shared.actors.client_tools import CLIENT_TOOLS, digest_of_client_tools, kept_client_tools
from pentad.shared.actors.commit import Commit, CommitEvents
from pentad.shared.actors.mail import UserMail
from pentad.shared.actors.opening import goal_of, hand_over, keep_graph, keep_instruction
from pentad.shared.actors.session_header import recent_field
from pentad.shared.immutable import immutable
from pentad.shared.keys import TURNS_KEPT, SessionKeys, TaskKeys, load, task_index
from pentad.shared.kinds import RESULT


@immutable
class Beginning:
    """All that a fork is written from."""

    keys: TaskKeys
    session: SessionKeys
    request: ForkRequest
    task: Task
    shared: SharedPast
    instruction: Instruction | None
    """Instruction that the fork runs; None: a graph."""
    graph: GraphSpec | None
    entries: Sequence[bytes]
    kept: Mapping[str, bytes]
    """Values beside the task: tools, instructions and graphs that its steps name, and whole results."""
    time_zone: str
    origin: ForkOrigin


class ForkWriter:
    """Writes a fork into the commit with which it begins."""

    def __init__(self, commit: Commit, beginning: Beginning, now: int, ttl_s: int) -> None:
        self._commit, self._beginning, self._now, self._ttl_s = commit, beginning, now, ttl_s
        self._keys, self._session, self._shared = beginning.keys, beginning.session, beginning.shared
        first = first_said(beginning.shared.entries)
        self._goal = beginning.task.goal if first is None else goal_of(first)

    def write(self) -> None:
        """Write the whole fork: its header, its past, its session, its first mail and its event."""
        self._commit.expect(self._keys.header, "none")
        self._header()
        self._past()
        self._in_session()
        self._tell()
        for call in self._shared.open:
            if (result := self._shared.results.get(call.id)) is not None:
                self._commit.post(self._keys, RESULT, result.to_json())
        if self._beginning.request.content:
            self._say()
        else:
            self._commit.set(self._keys.header, unanswered=1)
            self._keep_client_tools()
        self._commit.rewake()

    def _keep_client_tools(self) -> None:
        """Keep beside the fork the tools of who asks for it: no message brings them."""
        if tools := self._beginning.request.tools:
            self._commit.set(self._keys.header, client_tools=digest_of_client_tools(tools))
            self._commit.set(self._keys.big, **{CLIENT_TOOLS: kept_client_tools(tools)})

    def _header(self) -> None:
        begun, shared, header = self._beginning, self._shared, self._keys.header
        commit, task, manifest = self._commit, begun.task, shared.named_by.manifest
        last = shared.steps[-1].manifest if shared.steps else None
        commit.set(
            header, status="active", session=encoded_id(self._session.session), user=task.user_id or "", goal=self._goal
        )
        commit.set(header, step=len(shared.steps), log_length=len(begun.entries), said_at=self._now, turn_at=self._now)
        if last is not None:
            commit.set(header, digest=last.digest, covered=last.messages[1], tools=last.tools)
        commit.set(header, fork=begun.origin.to_json(), as_of=begun.origin.as_of, fork_request=begun.request.digest)
        if manifest.variables:
            commit.set(header, variables=to_json(manifest.variables))
        if begun.time_zone:
            commit.set(header, time_zone=begun.time_zone)
        if any(name in begun.kept for name in call_ids(shared.entries)):
            commit.set(header, reads_results=1)
        if shared.open:
            opened = [[call.id, call.tool, "", call.target] for call in shared.open]
            commit.set(header, open=to_json(opened))
            commit.stamp(header, "asked_at")
        commit.set(header, correlation=begun.request.message_id)
        said = last_said(shared.entries)
        commit.set(header, speaker=str(said.get("user_id") or ""))
        if said.get("metadata"):
            commit.set(header, metadata=to_json(said["metadata"]))
        if said.get("budget") and not begun.request.content:
            commit.set(header, budget=to_json(said["budget"]))
        if begun.instruction is not None:
            name = begun.instruction.name if begun.request.instruction else task.instruction
            commit.set(header, instruction=name)
            keep_instruction(commit, self._keys, begun.instruction)
        if begun.graph is not None:
            self._graph(begun.graph, manifest.instruction_version or "")
        commit.stamp(header, "updated")
        commit.begin(self._keys, self._session, task.user_id)
        commit.expire(task_index(self._keys.shard, self._keys.tenant), self._ttl_s)

    def _graph(self, graph: GraphSpec, instruction_version: str) -> None:
        """The run goes on at the node to which it had come; its times count from now on."""
        run, header = run_of(self._shared.entries), self._keys.header
        keep_graph(self._commit, self._keys, graph, graph.entry)
        fields: dict[str, Any] = {"node": run.node, "turn_steps": steps_at_node(self._shared, run)}
        if run.node:
            fields |= {"waited": max(0, self._now - run.began_at), "node_waited": max(0, self._now - run.node_at)}
        self._commit.set(header, instruction=graph.name, instruction_version=instruction_version, **fields)

    def _past(self) -> None:
        for each in self._beginning.entries:
            self._commit.push(self._keys.log, each)
        for step in self._shared.steps:
            self._commit.push(self._keys.steps, step.to_json())
        for name, value in self._beginning.kept.items():
            self._commit.set_once(self._keys.big, name, value)

    def _in_session(self) -> None:
        """The fork is the task that its session's next message belongs to, and its past is what was said there."""
        commit, session = self._commit, self._session
        commit.set(session.header, **{recent_field(self._keys.task): self._now})
        commit.expire(session.header, self._ttl_s)
        for turn in turns_of(self._shared.entries, self._keys.task):
            commit.push(session.turns, turn.to_json(), TURNS_KEPT)
        commit.expire(session.turns, self._ttl_s)
        commit.list_session(session, self._ttl_s)

    def _say(self) -> None:
        """The new message waits in the fork's mailbox, from the one who spoke last."""
        request, said, tenant = self._beginning.request, last_said(self._shared.entries), self._keys.tenant
        message = InboundMessage(
            content=request.content,
            session_id=self._session.session,
            message_id=request.message_id,
            user_id=said.get("user_id") or self._beginning.task.user_id,
            tenant_id=tenant,
            metadata=said.get("metadata") or {},
            files=request.files or None,
            tools=request.tools or None,
        )
        mail = UserMail(message=message, entry_id=f"{self._now}-0", at=rfc3339(self._now))
        hand_over(self._commit, self._session, self._keys, mail, self._ttl_s, reopened=False)
        self._commit.incr(load(self._keys.shard), **{"mail": 1, f"tenant:{tenant}": 1})

    def _tell(self) -> None:
        begun = self._beginning
        events = CommitEvents(self._commit, self._session, rfc3339(self._now))
        why = {"task_id": self._keys.task, "correlation_id": begun.request.message_id}
        point = ForkPoint(task_id=begun.origin.task_id, step=begun.origin.step)
        self._commit.tallies.count(metrics.tasks.labels("active"))
        self._commit.event(self._session, TaskStart(**events.stamp(why), goal=self._goal, forked_from=point))
        if begun.graph is not None and (node := run_of(self._shared.entries).node):
            self._commit.event(self._session, NodeStart(**events.stamp(why), node=node, step=begun.origin.step + 1))
