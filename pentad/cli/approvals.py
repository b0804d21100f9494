"""``pentad approvals``, ``pentad approve CALL`` and ``pentad refuse CALL``."""

import argparse
import json

from pentad.cli.asked import asked_lines
from pentad.cli.decided_before import MAX_TASKS_ASKED, decided_before, said_before
from pentad.cli.gateway import agent_for, streams
from pentad.cli.gateway import run as run_async
from pentad.cli.render import call_line, fitted, style_for, table, width
from pentad.contracts.approvals import PendingApproval
from pentad.errors import NotFound
from pentad.shared.settings import Settings

_HEADER = ("CALL", "TASK", "SESSION", "UNTIL", "ASKS FOR")


def run_approvals(args: argparse.Namespace, settings: Settings) -> int:
    """A table of the tool calls that wait for a decision."""
    return run_async(_approvals(args, settings))


def run_approve(args: argparse.Namespace, settings: Settings) -> int:
    """Allow a call, with ``--edit`` other arguments. Raises ``NotFound``, ``Refused`` and ``Conflict``."""
    return run_async(_decide(args, settings, approved=True))


def run_refuse(args: argparse.Namespace, settings: Settings) -> int:
    """Refuse a call. Raises ``NotFound`` and ``Conflict``."""
    return run_async(_decide(args, settings, approved=False))


async def _approvals(args: argparse.Namespace, settings: Settings) -> int:
    out, _ = streams()
    async with agent_for(args, settings) as agent:
        waiting = await agent.inspection.approvals(args.limit)
    if args.json:
        out.writelines(json.dumps(each.model_dump(mode="json"), ensure_ascii=False) + "\n" for each in waiting)
    elif waiting:
        out.write(table(_HEADER, fitted(_HEADER, [_row(each) for each in waiting]), style_for(out, settings)) + "\n")
        out.writelines(f"{line}\n" for each in waiting if each.needs != "approval" for line in asked_lines(each))
    else:
        out.write("no call waits for an approval\n")
    return 0


def _row(waiting: PendingApproval) -> tuple[str, ...]:
    about = call_line(waiting.tool, waiting.args, width())
    return (waiting.tool_call_id, waiting.task_id, waiting.session_id, waiting.expires_at, about)


async def _decide(args: argparse.Namespace, settings: Settings, *, approved: bool) -> int:
    out, _ = streams()
    async with agent_for(args, settings) as agent:
        try:
            waiting = await agent.inspection.approval(args.call)
        except NotFound:
            tasks = await agent.inspection.tasks(limit=MAX_TASKS_ASKED)
            made = await decided_before(agent, args.call, approved=approved, tasks=tasks)
            out.write(f"{said_before(made)}\n")
            return 0
        if approved:
            seen = waiting.args_digest
            await agent.management.approve(waiting.task_id, args.call, args=args.edit, args_digest=seen)
        else:
            await agent.management.refuse(waiting.task_id, args.call, reason=args.reason)
    out.write(f"{args.call} is {'approved' if approved else 'refused'}\n")
    return 0
