"""``pentad plugins``: which plug-ins the tool-workers have imported; and their new code, taken up by each in turn."""

import argparse
import json
from typing import Any

from pentad.cli.gateway import operator_for, streams
from pentad.cli.gateway import run as run_async
from pentad.cli.render import fitted, style_for, table
from pentad.shared.settings import Settings

_HEADER = ("WORKER", "STATE", "PLUG-INS", "WHY")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """A table of the tool-workers, after a reload where one is asked for: 1 when a worker could not take it up."""
    return run_async(_show(args, settings))


async def _show(args: argparse.Namespace, settings: Settings) -> int:
    out, err = streams()
    async with operator_for(args, settings) as agent:
        if args.action is None:
            told = await agent.inspection.plugins()
        else:
            told = await agent.management.reload_plugins(args.wait)
    if args.json:
        out.write(json.dumps(told, ensure_ascii=False) + "\n")
    elif told["workers"]:
        rows = [_row(each) for each in told["workers"]]
        out.write(table(_HEADER, fitted(_HEADER, rows), style_for(out, settings)) + "\n")
    if told["warning"]:
        err.write(f"{told['warning']}\n")
    if not told["done"]:
        err.write("it goes on: `pentad plugins` says how far it is\n")
    failed = any(each["state"] == "failed" for each in told["workers"])
    return 1 if args.action is not None and (failed or not told["done"]) else 0


def _row(worker: dict[str, Any]) -> tuple[str, ...]:
    return str(worker["worker"]), str(worker["state"]), ", ".join(worker["modules"]), str(worker["error"] or "")
