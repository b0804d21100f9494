"""``pentad hooks``: the hooks that steps of tasks wait for, and the end of one that no worker has any more."""

import argparse
import json
from typing import Any

from pentad.cli.gateway import operator_for, streams
from pentad.cli.gateway import run as run_async
from pentad.cli.render import ago, fitted, style_for, table
from pentad.errors import NotFound
from pentad.shared.settings import Settings

_HEADER = ("HOOK", "KIND", "ORDER", "LIMIT", "WORKER", "INSTRUCTIONS")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """A table of all hooks, or the removal of one."""
    return run_async(_list(args, settings) if args.action is None else _remove(args, settings))


async def _list(args: argparse.Namespace, settings: Settings) -> int:
    out, _ = streams()
    async with operator_for(args, settings) as agent:
        found = await agent.inspection.hooks()
    if args.json:
        out.writelines(json.dumps(each, ensure_ascii=False) + "\n" for each in found)
    elif found:
        out.write(table(_HEADER, fitted(_HEADER, [_row(each) for each in found]), style_for(out, settings)) + "\n")
    else:
        out.write("no hooks: docs/hooks.md says how to add one\n")
    return 0


def _row(hook: dict[str, Any]) -> tuple[str, ...]:
    worker = "there" if hook["alive"] else f"none for {ago(hook['seen_at'])}"
    instructions = "all" if hook["instructions"] is None else ", ".join(hook["instructions"])
    return str(hook["name"]), str(hook["kind"]), str(hook["order"]), f"{hook['timeout']:g} s", worker, instructions


async def _remove(args: argparse.Namespace, settings: Settings) -> int:
    out, _ = streams()
    async with operator_for(args, settings) as agent:
        try:
            await agent.management.remove_hook(args.name)
        except NotFound as error:
            raise NotFound(f"{error}: `pentad hooks` lists them") from None
    out.write(f"{args.name} is removed: tasks go on without it\n")
    return 0
