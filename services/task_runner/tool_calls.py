"""The tool calls that a step asks for: told to clients, then queued, or answered at once when they cannot be made."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pentad.contracts.commands import ToolCallCommand
from pentad.contracts.events import ToolCallEvent, ToolProgress, args_ref
from pentad.contracts.graphs import Runnable
from pentad.contracts.ids import rfc3339, tool_call_id
from pentad.contracts.tools import ToolOutcome, ToolSpec
from pentad.services.task_runner.domain.call_order import in_order
from pentad.services.task_runner.domain.planned_call import PlannedCall
from pentad.services.task_runner.domain.tool_search import search_result
from pentad.services.task_runner.kept_calls import ARGS_LIMIT, DENIED, hold_call, kept, queue_call, request_approval
from pentad.services.task_runner.step_writer import StepWriter
from pentad.shared import metrics
from pentad.shared.actors.client_tools import CLIENT_CALL
from pentad.shared.actors.headers import OpenCall
from pentad.shared.actors.mail import ResultMail
from pentad.shared.actors.targets import Target, awaits_client, awaits_decision, is_made_by_worker
from pentad.shared.clipping import clip
from pentad.shared.events.ephemeral import EphemeralEvents
from pentad.shared.kinds import RESULT
from pentad.shared.random_hex import random_hex
from pentad.shared.telemetry import ThrottledLog


class RequestedCall(NamedTuple):
    """A tool call that a step has asked for."""

    id: str
    tool: str
    arguments: str
    """Arguments for the prompt, always JSON."""
    queue: str
    """Queue of the call; '' for one that no worker knows, or that the runner ends itself."""
    target: Target = "worker"
    agent: Runnable | None = None
    """Instruction or graph that the call starts a task of."""
    said: str = ""
    """Task of that agent."""
    until: int = 0
    """Time in ms until which a person can allow the call; 0 where none is asked."""
    after: tuple[str, ...] = ()
    """Ids of the calls that have to end before this one is made."""
    inner_of: str = ""
    """Id of the call that makes this one on its way; '': the step does."""

    @property
    def opened(self) -> OpenCall:
        """The call as the task's header has it."""
        return OpenCall(
            self.id, self.tool, self.queue, self.target, self.until, after=self.after, inner_of=self.inner_of
        )


def request_calls(
    writer: StepWriter, planned: Sequence[PlannedCall], step: int, node: str | None
) -> list[RequestedCall]:
    """Put the calls into their queues, under ids of ours. Those that must wait are kept beside the task.

    ``node``: instruction of the node that asks for them, where the task runs a graph.
    """
    planned = in_order(planned)
    ids = [tool_call_id(writer.keys.shard, random_hex(20)) for _ in planned]
    return [
        request_call(writer, each, step, node, call, [ids[place] for place in each.after])
        for call, each in zip(ids, planned, strict=True)
    ]


def request_call(
    writer: StepWriter,
    planned: PlannedCall,
    step: int,
    node: str | None,
    call: str = "",
    after: Sequence[str] = (),
    *,
    inner_of: str = "",
) -> RequestedCall:
    """Put one call into its queue, unless it must wait, or cannot be made.

    ``node``: see `request_calls`. ``call``: its id, '' for a new one. ``after``: ids of calls that come first.
    ``inner_of``: id of the call that makes it on its way.
    """
    call = call or tool_call_id(writer.keys.shard, random_hex(20))
    told = _told(call, planned)
    if awaits_client(planned):
        told |= {"client": True}
    if inner_of:
        told |= {"parent_call_id": inner_of, "ref": None}  # the transcript does not have it
    writer.emit(ToolCallEvent, tool_call_id=call, tool=planned.tool, **told)
    requested = RequestedCall(call, planned.tool, planned.arguments, "", planned.target, planned.agent, planned.said)
    requested = requested._replace(inner_of=inner_of)
    if planned.spec is None or planned.args is None or planned.problem or planned.found is not None:
        _answer_at_once(writer, call, planned)
    elif is_made_by_worker(planned):
        command = _command(writer, call, planned.spec, planned.args, step, node)
        return _request(writer, requested, planned, planned.spec, command, after)
    elif awaits_client(planned):
        writer.commit.set(writer.keys.calls, **{call: CLIENT_CALL})
    return requested


def _request(
    writer: StepWriter,
    requested: RequestedCall,
    planned: PlannedCall,
    spec: ToolSpec,
    command: ToolCallCommand,
    after: Sequence[str],
) -> RequestedCall:
    """Queue a call of a worker's tool, unless other calls or a person come first."""
    verdict, asks = planned.verdict, planned.said if awaits_decision(planned) else ""
    if verdict.lets_tool_ask(spec):
        command = command.model_copy(update={"asks_if": True})
    if not after and not asks:
        queue_call(writer, command, spec.queue)
        return requested._replace(queue=spec.queue)
    approvers = None if verdict.approvers is None else list(verdict.approvers)
    request = kept(command, spec.queue, spec.parameters, asks, approvers=approvers, expires_s=verdict.expires_s)
    if after:
        hold_call(writer, request)
        return requested._replace(target="calls", after=tuple(after))
    return requested._replace(until=request_approval(writer, request))


def _told(call: str, planned: PlannedCall) -> dict[str, Any]:
    """Arguments as clients are told them. The whole is in the transcript, unless it cannot be read."""
    shown = clip(planned.raw, ARGS_LIMIT)
    if shown is not planned.raw:
        return {"args": shown, "ref": None if planned.args is None else args_ref(call)}
    return {"args": planned.raw if planned.args is None else planned.args}


def _answer_at_once(writer: StepWriter, call: str, planned: PlannedCall) -> None:
    if planned.found is not None:
        outcome = ToolOutcome("ok", search_result(planned.found))
        writer.find_tools(planned.found)
    else:
        outcome = ToolOutcome("error", f"{planned.tool}: {planned.problem}")
        if planned.verdict.then == "deny":
            writer.commit.tallies.count(metrics.approvals.labels(DENIED))
    writer.emit_result(call, planned.tool, outcome, counted_for=_counted_for(planned.spec))
    writer.commit.post(writer.keys, RESULT, ResultMail.of(call, outcome).to_json())


def _counted_for(spec: ToolSpec | None) -> str:
    """Return the name under which a call is counted whose tool has a name that others have made up; '' for its own."""
    if spec is None:
        return "unknown"
    return CLIENT_CALL if spec.client else ""


def _command(
    writer: StepWriter, call: str, spec: ToolSpec, args: dict[str, Any], step: int, node: str | None
) -> ToolCallCommand:
    return ToolCallCommand(
        **writer.envelope(),
        tool_call_id=call,
        step=step,
        tool=spec.name,
        args=args,
        effect=spec.effect,
        timeout=spec.timeout,
        user_id=writer.turn.speaker or None,
        metadata=dict(writer.turn.metadata) or None,
        as_of=writer.task.as_of or None,
        on_unknown=None if spec.on_unknown == "tell" else spec.on_unknown,
        instruction=node,
    )


_throttled = ThrottledLog(logging.getLogger(__name__))


def report_unserved_calls(
    writer: StepWriter, events: EphemeralEvents, calls: Iterable[RequestedCall], silent: Mapping[str, int]
) -> None:
    """Tell clients which calls wait for a tool-worker.

    ``silent``: tools that no living worker has, each with the time in ms when one last had it.
    """
    for call in calls:
        seen = silent.get(call.tool)
        if seen is None or not call.queue:
            continue
        what = f"waits for a tool-worker that has {call.tool}: the last was there at {rfc3339(seen)}"
        told = ToolProgress(**writer.envelope(), tool_call_id=call.id, tool=call.tool, content=what)
        events.append(ToolProgress, told.to_json())
        events.keep()
        events.ring()
        _throttled.warning(call.tool, "a call of %s", what)
