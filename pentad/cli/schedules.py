"""``pentad schedules``: messages that are sent at due times, and what has come of them."""

import argparse
import json
from collections.abc import Sequence

from pentad.cli.gateway import agent_for, streams
from pentad.cli.gateway import run as run_async
from pentad.cli.render import fitted, style_for, table
from pentad.client.agent import Agent
from pentad.contracts.envelope import Contract
from pentad.contracts.schedules import Overlap, Schedule, ScheduleRun
from pentad.errors import NotFound
from pentad.shared.settings import Settings

_HEADER = ("SCHEDULE", "STATUS", "NEXT", "WHEN", "LAST RUN", "MESSAGE")
_RUNS_HEADER = ("DUE", "STATUS", "TASK", "MESSAGE", "REASON")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Run one of the actions; without one, list. Raises ``Refused``, ``Conflict`` and ``NotFound``."""
    return run_async(_run(args, settings))


async def _run(args: argparse.Namespace, settings: Settings) -> int:
    async with agent_for(args, settings) as agent:
        if args.action is None:
            return await _list(agent, args, settings)
        if args.action == "add":
            return await _add(agent, args)
        try:
            if args.action == "history":
                return await _history(agent, args, settings)
            return await _change(agent, args)
        except NotFound as error:
            raise NotFound(f"{error}: `pentad schedules` lists them") from None


async def _list(agent: Agent, args: argparse.Namespace, settings: Settings) -> int:
    found = await agent.inspection.schedules()
    nothing = "no schedules: `pentad schedules add` makes one\n"
    return _write(args, settings, found, _HEADER, [_row(each) for each in found], nothing)


def _row(schedule: Schedule) -> tuple[str, ...]:
    when = schedule.cron or (f"every {schedule.every} s" if schedule.every else f"at {schedule.at}")
    zone = f" {schedule.time_zone}" if schedule.cron and schedule.time_zone != "UTC" else ""
    last = "-" if schedule.last is None else f"{schedule.last.status} {schedule.last.due_at}"
    return schedule.schedule_id, schedule.status, schedule.next_at or "-", when + zone, last, schedule.content


async def _add(agent: Agent, args: argparse.Namespace) -> int:
    out, _ = streams()
    fields = {
        "time_zone": args.time_zone,
        "session_id": args.session,
        "user_id": args.user,
        "instruction": args.instruction,
        "catch_up": args.catch_up,
        "schedule_id": args.id,
    }
    overlap: Overlap = args.overlap or "skip"
    added = await agent.management.add_schedule(
        args.content, cron=args.cron, every=args.every, at=args.at, overlap=overlap, **fields
    )
    out.write(
        added.model_dump_json(exclude_none=True) + "\n" if args.json else f"{added.schedule_id} {_stands(added)}\n"
    )
    return 0


def _stands(schedule: Schedule) -> str:
    return f"is due at {schedule.next_at}" if schedule.next_at else f"is {schedule.status}"


async def _history(agent: Agent, args: argparse.Namespace, settings: Settings) -> int:
    found = await agent.inspection.schedule_runs(args.schedule)
    return _write(args, settings, found, _RUNS_HEADER, [_run_row(each) for each in found], "nothing was due yet\n")


def _run_row(run: ScheduleRun) -> tuple[str, ...]:
    due = f"{run.due_at} - {run.until}" if run.until else run.due_at
    return due, run.status, run.task_id or "-", run.message_id or "-", run.reason or "-"


def _write(
    args: argparse.Namespace,
    settings: Settings,
    found: Sequence[Contract],
    header: tuple[str, ...],
    rows: Sequence[tuple[str, ...]],
    nothing: str,
) -> int:
    """Write what was found as lines of JSON, or as a table."""
    out, _ = streams()
    if args.json:
        out.writelines(json.dumps(each.model_dump(mode="json", exclude_none=True)) + "\n" for each in found)
    else:
        out.write(table(header, fitted(header, rows), style_for(out, settings)) + "\n" if found else nothing)
    return 0


async def _change(agent: Agent, args: argparse.Namespace) -> int:
    out, _ = streams()
    if args.action == "remove":
        await agent.management.delete_schedule(args.schedule)
        out.write(f"{args.schedule} is removed\n")
        return 0
    change = agent.management.pause_schedule if args.action == "pause" else agent.management.resume_schedule
    out.write(f"{args.schedule} {_stands(await change(args.schedule))}\n")
    return 0
