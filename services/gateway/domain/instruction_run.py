"""The result of an instruction's run, made from the events of its turn. Pure."""

from collections.abc import Iterable

from pentad.contracts.errors import ErrorCode
from pentad.contracts.events import (
    ErrorEvent,
    MessageEvent,
    SessionEvent,
    TaskEnd,
    TaskUsage,
    ToolCallEvent,
    ToolResultEvent,
)
from pentad.contracts.plain_json import read_json
from pentad.contracts.runs import InstructionRun, RunCall, RunProblem
from pentad.contracts.turns import TurnEnd
from pentad.services.gateway.domain.waited_turn import WaitedTurn, known_event


def run_of(instruction: str, turn: WaitedTurn, end: TurnEnd, session: str, checked: str | None) -> InstructionRun:
    """Return the run at the end of its turn. ``checked``: the JSON of an answer that fits the instruction's schema.

    An unchecked answer never becomes data: the runner may have an older version of the instruction.
    """
    events = [event for event in map(known_event, turn.events) if event is not None]
    own = [event for event in events if event.task_id == turn.task_id]
    ended = next((event for event in reversed(own) if isinstance(event, TaskEnd)), None)
    return InstructionRun(
        instruction=instruction,
        status=end.outcome,
        **({"content": turn.answer} if checked is None else {"data": read_json(checked, None)}),
        tool_calls=_calls(events),
        usage=TaskUsage() if ended is None else ended.usage,
        steps=_steps(own) if ended is None else ended.steps,
        error=_problem(events, end),
        session_id=session,
        message_id=turn.message_id,
        task_id=turn.task_id,
    )


def _steps(events: Iterable[SessionEvent]) -> int:
    """Return the number of steps of a task that has not ended: the last step that has said something."""
    return max((event.step for event in events if isinstance(event, MessageEvent)), default=0)


def _calls(events: Iterable[SessionEvent]) -> list[RunCall]:
    calls: dict[str, RunCall] = {}
    for event in events:
        if isinstance(event, ToolCallEvent):
            name = event.tool_call_id
            calls[name] = RunCall(tool_call_id=name, tool=event.tool, args=event.args, at=event.at)
        elif isinstance(event, ToolResultEvent) and event.tool_call_id in calls:
            told = {"result": event.result, "error": event.error, "duration_ms": event.duration_ms, "ref": event.ref}
            calls[event.tool_call_id] = calls[event.tool_call_id].model_copy(update=told)
    return [*calls.values()]


def _problem(events: Iterable[SessionEvent], end: TurnEnd) -> RunProblem | None:
    if end.ok:
        return None
    if end.outcome == "rejected":
        return RunProblem(code=ErrorCode.BAD_MESSAGE, message=end.reason)
    errors = [e for e in events if isinstance(e, ErrorEvent) and e.code is not ErrorCode.CURSOR_EXPIRED]
    if errors and end.outcome != "cancelled":
        return RunProblem(code=errors[-1].code, message=errors[-1].message)
    told = end.detail or f"the task has ended as {end.outcome}: {end.reason or 'no reason'}"
    return RunProblem(code=end.reason or end.outcome, message=told)
