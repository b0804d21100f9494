"""Why a limit has ended a task, in words. Pure."""

from pentad.contracts.errors import ErrorCode
from pentad.contracts.ids import rfc3339
from pentad.services.task_runner.domain.plan import WAIT_EXPIRED, Bounds, End
from pentad.shared.actors.headers import TaskHeader


def in_words(end: End, task: TaskHeader, bounds: Bounds) -> str:
    """What the task's end says beside its reason; '' when the reason says it all."""
    if end.reason == ErrorCode.STEP_LIMIT:
        return f"{task.turn_steps} steps since the last message have led to no answer; PENTAD_STEP_LIMIT is the limit"
    if end.reason == ErrorCode.DEADLINE_EXCEEDED:
        return f"the turn's deadline was {rfc3339(task.deadline)}"
    if end.reason == WAIT_EXPIRED:
        return f"nobody has answered for {bounds.wait_ttl_ms / 1000:g} s; PENTAD_WAIT_TTL_S is the limit"
    return ""
