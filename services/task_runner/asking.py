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
from pentad.services.task_runner.telling import Telling
from pentad.shared import metrics
from pentad.shared.actors.mail import ResultMail
from pentad.shared.kinds import RESULT
from pentad.shared.models.ports import ToolCallDraft


class Asked(NamedTuple):
    """A tool call that a step has asked for."""

    id: str
    tool: str
    arguments: str
    """For the prompt: always JSON, whatever the model wrote."""
    queue: str
    """'' for a call that no worker knows."""


def ask(
    telling: Telling, drafts: Sequence[ToolCallDraft], toolbox: Toolbox, step: int, unique: Callable[[], str]
) -> list[Asked]:
    """Put the calls into their queues, under ids of ours. ``unique``: a text that no other call has."""
    calls = []
    for draft in drafts:
        call = tool_call_id(telling.keys.shard, unique())
        spec = toolbox.specs.get(draft.name)
        parsed = parse_arguments(draft.arguments)
        shown = parsed.args if parsed.args is not None else parsed.raw
        telling.tell(ToolCallEvent, tool_call_id=call, tool=draft.name, args=shown)
        problem = parsed.problem
        if spec is None:
            known = f"the tools are: {', '.join(toolbox.specs)}" if toolbox.specs else "no worker has any yet"
            problem = f"there is no tool {draft.name!r}; {known}"
        if problem or spec is None or parsed.args is None:
            _answer_at_once(telling, call, draft.name, f"{draft.name}: {problem}", spec is not None)
        else:
            _queue(telling, call, spec, parsed.args, step)
        arguments = draft.arguments if parsed.args is not None and draft.arguments else "{}"
        calls.append(Asked(call, draft.name, arguments, spec.queue if spec else ""))
    return calls


def _answer_at_once(telling: Telling, call: str, tool: str, problem: str, known: bool) -> None:
    telling.commit.tallies.count(metrics.tool_calls.labels(tool if known else "unknown", "error"))
    telling.tell(ToolResultEvent, tool_call_id=call, tool=tool, error=problem)
    mail = ResultMail(tool_call_id=call, content=f"error: {problem}", ok=False)
    telling.commit.post(telling.keys, RESULT, mail.to_json())


def _queue(telling: Telling, call: str, spec: ToolSpec, args: dict[str, Any], step: int) -> None:
    command = ToolCallCommand(
        **telling.envelope(),
        tool_call_id=call,
        step=step,
        tool=spec.name,
        args=args,
        effect=spec.effect,
        timeout=spec.timeout,
        user_id=telling.turn.speaker or None,
    )
    telling.commit.set(telling.keys.calls, **{call: "open 0"})
    telling.commit.queue(TOOL_CALLS, TOOL_CALLS.key(telling.keys.shard, queue=spec.queue), command)
