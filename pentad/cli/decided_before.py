"""Decisions about tool calls that wait no more: what was decided, and by whom, as the gateway says it."""

from collections.abc import Sequence

from pentad.client.agent import Agent
from pentad.contracts.approvals import ApprovalDecision
from pentad.contracts.records import Task
from pentad.errors import Conflict, NotFound

MAX_TASKS_ASKED = 30
"""Tasks, the newest ones, that are asked for the decision about a call: its id does not say of which task it is."""

_DIGEST_OF_NO_CALL = "0" * 64


async def decided_before(agent: Agent, call: str, *, approved: bool, tasks: Sequence[Task]) -> ApprovalDecision:
    """Return the decision about a call of one of these tasks that waits no more, if it is the same as this one.

    Nothing is approved by asking, for the arguments that it names are no call's. Raises ``Conflict`` that says how it
    was decided otherwise, or that its time was over, and ``NotFound`` where none of the tasks knows the call.
    """
    for task in [each for each in tasks if _same_shard(each.task_id, call)][:MAX_TASKS_ASKED]:
        try:
            if approved:
                return await agent.management.approve(task.task_id, call, args_digest=_DIGEST_OF_NO_CALL)
            return await agent.management.refuse(task.task_id, call)
        except NotFound:
            continue
        except Conflict as error:
            if call in str(error):  # else the task has ended, and knows nothing of the call any more
                raise
    raise NotFound(f"no call {call} waits for an approval: it was decided about, or its time is over")


def said_before(decision: ApprovalDecision) -> str:
    """Return in words that a decision was made before, and by whom."""
    what = (
        "refused" if not decision.approved else "approved" if decision.args is None else "approved with other arguments"
    )
    return f"{decision.tool_call_id} was {what} before, by {decision.by or 'nobody in time'} at {decision.at}"


def _same_shard(task_id: str, call: str) -> bool:
    """Whether the ids of a task and a call have the same shard, which is their second part."""
    return task_id.split("-")[1:2] == call.split("-")[1:2]
