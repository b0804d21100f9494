"""The tool calls that a step asks for: told to clients, then queued, or answered at once when they cannot be made."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pentad.contracts.commands import ToolCallCommand
from pentad.contracts.events import ToolCallEvent, ToolResultEvent
from pentad.contracts.ids import tool_call_id
from pentad.contracts.streams import TOOL_CALLS
from pentad.contracts.tools import ToolSpec
from pentad.services.task_runner.domain import parse_arguments
from pentad.services.task_runner.prompt import Toolbox
from pentad.services.task_runner.task_events import TaskEvents
from pentad.shared import metrics
from pentad.shared.actors.mail import ResultMail
from pentad.shared.kinds import RESULT
from pentad.shared.models.ports import ToolCallDraft


class RequestedCall(NamedTuple):
    """A tool call that a step has asked for."""

    id: str
    tool: str
    arguments: str
    """For the prompt: always JSON, whatever the model wrote."""
    queue: str
    """'' for a call that no worker knows."""


def request_calls(
    events: TaskEvents, drafts: Sequence[ToolCallDraft], toolbox: Toolbox, step: int, unique: Callable[[], str]
) -> list[RequestedCall]:
    """Put the calls into their queues, under ids of ours. ``unique``: a text that no other call has."""
    calls = []
    for draft in drafts:
        call = tool_call_id(events.keys.shard, unique())
        spec = toolbox.specs.get(draft.name)
        parsed = parse_arguments(draft.arguments)
        shown = parsed.args if parsed.args is not None else parsed.raw
        events.emit(ToolCallEvent, tool_call_id=call, tool=draft.name, args=shown)
        problem = parsed.problem
        if spec is None:
            known = f"the tools are: {', '.join(toolbox.specs)}" if toolbox.specs else "no worker has any yet"
            problem = f"there is no tool {draft.name!r}; {known}"
        if problem or spec is None or parsed.args is None:
            _answer_at_once(events, call, draft.name, f"{draft.name}: {problem}", spec is not None)
        else:
            _queue(events, call, spec, parsed.args, step)
        arguments = draft.arguments if parsed.args is not None and draft.arguments else "{}"
        calls.append(RequestedCall(call, draft.name, arguments, spec.queue if spec else ""))
    return calls


def _answer_at_once(events: TaskEvents, call: str, tool: str, problem: str, known: bool) -> None:
    events.commit.tallies.count(metrics.tool_calls.labels(tool if known else "unknown", "error"))
    events.emit(ToolResultEvent, tool_call_id=call, tool=tool, error=problem)
    mail = ResultMail(tool_call_id=call, content=f"error: {problem}", ok=False)
    events.commit.post(events.keys, RESULT, mail.to_json())


def _queue(events: TaskEvents, call: str, spec: ToolSpec, args: dict[str, Any], step: int) -> None:
    command = ToolCallCommand(
        **events.envelope(),
        tool_call_id=call,
        step=step,
        tool=spec.name,
        args=args,
        effect=spec.effect,
        timeout=spec.timeout,
        user_id=events.turn.speaker or None,
    )
    events.commit.set(events.keys.calls, **{call: "open 0"})
    events.commit.queue(TOOL_CALLS, TOOL_CALLS.key(events.keys.shard, queue=spec.queue), command)
