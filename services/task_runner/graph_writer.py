"""Writes what the run of a graph does into its task's commit: entries of the transcript, events, and started tasks."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import to_json

from pentad.contracts.envelope import Budget
from pentad.contracts.events import NodeEnd, NodeStart, TaskStart, TaskStatusEvent
from pentad.contracts.graphs import GraphSpec
from pentad.contracts.ids import child_task_id, encoded_id, tool_call_id
from pentad.contracts.records import NodeEntry, TranscriptMeta
from pentad.services.task_runner.domain.result_in_prompt import in_prompt
from pentad.services.task_runner.domain.strategy import ChildTask, FailRun, GoOn, StartChildren
from pentad.services.task_runner.domain.turn import remaining
from pentad.services.task_runner.mail_writer import close_children, keep_result
from pentad.services.task_runner.prompt import assistant, tool_result, user
from pentad.services.task_runner.status_writer import fail_task, leave_wait, limit_calls
from pentad.services.task_runner.step_writer import StepWriter
from pentad.shared import metrics
from pentad.shared.actors.headers import OpenCall
from pentad.shared.actors.opening import goal_of, keep_graph, keep_instruction
from pentad.shared.actors.transcript import NODE, entry
from pentad.shared.agent_graphs.run import GraphRun
from pentad.shared.keys import SessionKeys, TaskKeys, task_index
from pentad.shared.random_hex import random_hex

_CONTEXT_BYTES = 65_536
"""Bytes of its parent's conversation with which a task begins that a node has started."""
_LEAVES = ("end", "retry", "failed")
"""Kinds of entries with which a run leaves a node, or an attempt at it: what the node has started is cancelled."""


def write_entries(
    writer: StepWriter, run: GraphRun, entries: Sequence[NodeEntry], judged: Sequence[int] = ()
) -> GraphRun:
    """Append entries about a run to the transcript, and tell clients; return the run after them.

    ``judged``: positions of the question to a model that has judged conditions, and of its answer.
    """
    for each in entries:
        kept = each.model_copy(update={"positions": list(judged)}) if each.kind == "decided" else each
        note(writer, kept)
        _tell(writer, run, each)
        run = run.after((each,))
    if any(each.kind in _LEAVES for each in entries):
        close_children(writer, "the run has left their node")
    return run


def _tell(writer: StepWriter, run: GraphRun, entry: NodeEntry) -> None:
    """Tell clients of a node that begins or ends, and keep in the header where the run is."""
    steps = writer.task.step + writer.spent.steps
    header: dict[str, Any] = {}
    if entry.kind == "begin":
        header = {"node": entry.node, "waited": 0, "node_waited": 0, "node_from": writer.turn.steps}
        if writer.task.node != entry.node:
            writer.emit(NodeStart, node=entry.node, step=writer.task.step + 1)
    elif entry.kind == "end":
        _tell_end(writer, run, entry)
        writer.run_failed |= entry.next is None and entry.error is not None
        header = {"node": entry.next or "", "node_waited": 0, "node_from": writer.turn.steps, "repairs": 0}
        if entry.next is not None:
            writer.emit(NodeStart, node=entry.next, step=steps + 1)
    elif entry.kind == "failed":
        _tell_end(writer, run, entry)
        writer.run_failed = True
    elif entry.kind in ("retry", "done"):
        header = {"node_waited": 0, "node_from": writer.turn.steps, "repairs": 0}
        if entry.kind == "retry":
            told = f"node {entry.node} has failed and is tried again: {entry.error}"
            writer.emit(TaskStatusEvent, status="active", reason=told)
    if header:
        writer.commit.set(writer.keys.header, **header)


def _tell_end(writer: StepWriter, run: GraphRun, entry: NodeEntry) -> None:
    writer.emit(
        NodeEnd,
        node=entry.node,
        step=writer.task.step + writer.spent.steps,
        duration_ms=max(0, entry.at_ms - run.node_at),
        next=entry.next,
        error=entry.error,
    )


def go_on(writer: StepWriter, then: GoOn) -> None:
    """Let the task go on at once, or after a while. The header of the handling is written already."""
    writer.commit.set(writer.keys.header, unanswered=1)
    if then.delay_ms:
        writer.commit.timer(writer.keys, "retry", then.delay_ms)
    else:
        writer.commit.rewake()


def write_results(writer: StepWriter, node: str, result: str) -> None:
    """Append the results of tasks that a node has started, in the form of a tool call and its result: what others have
    written must not read like a person's words.
    """
    call = tool_call_id(writer.keys.shard, random_hex(20))
    shown = in_prompt(result, call, writer.limits.result_bytes)
    writer.append(assistant("", [(call, node, "{}")]), origin="node")
    writer.append(tool_result(call, shown), origin="node")
    if shown is not result:
        keep_result(writer, call, result)


def write_boundary(
    writer: StepWriter,
    run: GraphRun,
    entries: Sequence[NodeEntry],
    then: GoOn | StartChildren | FailRun,
    conversation: Sequence[bytes],
    limit_at: int,
) -> None:
    """Write what a run does without asking a model.

    ``conversation``: the messages of the prompt. ``limit_at``: when the time of the node is over, in ms.
    """
    leave_wait(writer)
    run = write_entries(writer, run, entries)
    calls: list[OpenCall] = []
    if isinstance(then, StartChildren):
        calls = start_children(writer, run, then, conversation)
    elif isinstance(then, GoOn) and then.result is not None:
        write_results(writer, entries[-1].node, then.result)
    opened = [*writer.still_open, *calls]
    fields: dict[str, Any] = {"open": to_json([kept_call(call) for call in opened]) if opened else b"", "fails": 0}
    fields |= {"status": "active", "retry_since": 0, **writer.usage.model_dump()}
    if opened:
        writer.commit.stamp(writer.keys.header, "asked_at")
        limit_calls(writer, limit_at)
    else:
        writer.commit.untimer(writer.keys, "timeout", "limit")
    writer.set_header(**fields)
    if isinstance(then, GoOn):
        go_on(writer, then)
    elif isinstance(then, FailRun):
        fail_task(writer, then.code, then.problem)


def kept_call(call: OpenCall) -> list[str]:
    """Return an open call as the header keeps it."""
    return [call.id, call.tool, call.queue, call.target]


def start_children(
    writer: StepWriter, run: GraphRun, then: StartChildren, conversation: Sequence[bytes]
) -> list[OpenCall]:
    """Start tasks of a node; return their calls."""
    calls: list[OpenCall] = []
    context = bounded_context(conversation)
    for child in then.children:
        call = OpenCall(tool_call_id(writer.keys.shard, random_hex(20)), child.name, "", "branch")
        start_child(writer, call.id, child, then.at_once, context, node=run.node)
        calls.append(call)
    return calls


def start_child(
    writer: StepWriter, call: str, child: ChildTask, at_once: int, context: Sequence[bytes], node: str = ""
) -> None:
    """Open a task in this commit, and note it in the transcript.

    ``call``: id of the call that it is the answer to. ``at_once``: number of tasks that share the rest of the budget.
    ``context``: messages before what it is told. ``node``: key of the node that starts it; '' if a model does.
    """
    commit, task = writer.commit, writer.task
    keys = TaskKeys(writer.keys.shard, writer.keys.tenant, child_task_id(call))
    goal = goal_of(child.said if child.said is not None else task.goal)
    started = NodeEntry(kind="started", node=node, at_ms=writer.clock(), call=call, index=child.index, child=keys.task)
    note(writer, started.model_copy(update={"name": child.name}))
    entries = [entry_of_line(line, writer.at) for line in context]
    if child.said is not None:
        entries.append(entry(user(child.said), TranscriptMeta(at=writer.at, origin="node")))
    commit.set(keys.header, status="active", session=encoded_id(task.session), user=task.user, goal=goal)
    commit.set(keys.header, instruction=child.runs.name, time_zone=task.time_zone, turn_at=writer.turn.at)
    commit.set(keys.header, parent=writer.keys.task, parent_call=call, branch=child.name, depth=task.depth + 1)
    commit.set(keys.header, unanswered=1, deadline=task.deadline, **_turn_fields(writer, at_once))
    if task.as_of:
        commit.set(keys.header, as_of=task.as_of)
    if isinstance(child.runs, GraphSpec):
        begin = NodeEntry(kind="begin", node=child.entry, at_ms=writer.clock(), state=dict(child.state) or None)
        entries.append(entry(_line_of(begin), TranscriptMeta(at=writer.at)))
        keep_graph(commit, keys, child.runs, child.entry, child.until)
    else:
        keep_instruction(commit, keys, child.runs)
    commit.set(keys.header, log_length=len(entries))
    commit.stamp(keys.header, "updated")
    commit.begin(keys, SessionKeys(keys.shard, keys.tenant, task.session), task.user or None)
    commit.expire(task_index(keys.shard, keys.tenant), writer.limits.session_ttl_s)
    for each in entries:
        commit.push(keys.log, each)
    if task.deadline:
        commit.due(keys, "deadline", task.deadline)
    whose = {"task_id": keys.task, "parent_task_id": writer.keys.task, "node": child.name}
    commit.tallies.count(metrics.tasks.labels("active"))
    commit.event(writer.session, TaskStart.from_fields(writer.envelope() | whose | {"goal": goal}))
    if child.entry:
        told = writer.envelope() | whose | {"node": child.entry, "step": 1}
        commit.event(writer.session, NodeStart.from_fields(told))
    commit.post(keys, "retry", b"{}")


def note(writer: StepWriter, noted: NodeEntry) -> None:
    """Append an entry about a run, or about a task that was started, to the transcript."""
    writer.append(_line_of(noted))


def _line_of(noted: NodeEntry) -> dict[str, Any]:
    return {"role": NODE} | noted.model_dump(mode="json", exclude_defaults=True)


def _turn_fields(writer: StepWriter, at_once: int) -> Mapping[str, str | bytes]:
    """The fields by which a started task knows the turn that it works for, with its part of the rest of the budget."""
    turn = writer.turn
    left = remaining(turn.budget, turn.tokens, turn.usd, turn.steps)
    fields = dict(turn.message_fields) | {"client_tools": ""}  # only the task that has got the message has them
    return fields | {"budget": part_of(left, at_once).to_json() if left is not None else b""}


def part_of(budget: Budget, parts: int) -> Budget:
    """Return one of so many equal parts of a budget."""
    return Budget(
        tokens=None if budget.tokens is None else budget.tokens // parts,
        usd=None if budget.usd is None else budget.usd / parts,
        steps=None if budget.steps is None else budget.steps // parts,
    )


def bounded_context(conversation: Sequence[bytes], limit: int = _CONTEXT_BYTES) -> Sequence[bytes]:
    """Return the end of a conversation with at most ``limit`` bytes, from a user's message on; calls keep their
    results.
    """
    size, begin = 0, len(conversation)
    for number in range(len(conversation) - 1, -1, -1):
        size += len(conversation[number])
        if size > limit:
            break
        if conversation[number].startswith(b'{"role":"user"'):
            begin = number
    return conversation[begin:]


def entry_of_line(line: bytes, at: str) -> bytes:
    """Return a message of the parent's conversation as an entry of another transcript."""
    return TranscriptMeta(at=at, origin="context").to_json() + b"\n" + line
