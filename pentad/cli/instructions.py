"""``pentad instructions``: what can be run, where each comes from, and what one says."""

import argparse
import json
from typing import Any

from pentad.cli.gateway import agent_for, streams
from pentad.cli.gateway import run as run_async
from pentad.cli.render import fitted, harmless, style_for, table
from pentad.errors import NotFound
from pentad.shared.settings import Settings

_HEADER = ("INSTRUCTION", "FROM", "MODEL", "OUTPUT", "TOOLS", "WHAT IT DOES")
_MOST_TOOLS = 3


def run(args: argparse.Namespace, settings: Settings) -> int:
    """A table of all instructions, or one of them."""
    return run_async(_list(args, settings) if args.action is None else _show(args, settings))


async def _list(args: argparse.Namespace, settings: Settings) -> int:
    out, _ = streams()
    async with agent_for(args, settings) as agent:
        found = await agent.inspection.instructions()
    if args.json:
        out.writelines(json.dumps(each, ensure_ascii=False) + "\n" for each in found)
    else:
        out.write(table(_HEADER, _rows(found), style_for(out, settings)) + "\n")
    return 0


def _rows(found: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    return fitted(_HEADER, [(*_row(each), str(each["description"])) for each in found])


def _row(each: dict[str, Any]) -> tuple[str, ...]:
    source = str(each["source"]).replace("_", " ")
    return str(each["name"]), source, str(each["model"] or "the default"), str(each["output"]), _tools(each["tools"])


def _tools(names: list[str] | None) -> str:
    if names is None:
        return "all"
    more = f" and {len(names) - _MOST_TOOLS} more" if len(names) > _MOST_TOOLS else ""
    return ", ".join(names[:_MOST_TOOLS]) + more or "-"


async def _show(args: argparse.Namespace, settings: Settings) -> int:
    out, _ = streams()
    async with agent_for(args, settings) as agent:
        try:
            found = await agent.inspection.instruction(args.name)
        except NotFound as error:
            if args.name in {graph["name"] for graph in await agent.inspection.graphs()}:
                raise NotFound(f"{args.name} is a graph: `pentad graphs show {args.name}` shows it") from None
            raise NotFound(f"{error}: `pentad instructions` lists them") from None
    if args.json:
        out.write(json.dumps(found, ensure_ascii=False) + "\n")
    else:
        out.writelines(f"{harmless(line)}\n" for line in _told(found))
    return 0


def _told(instruction: dict[str, Any]) -> list[str]:
    """Return the lines that describe an instruction: its fields, and below them its system prompt."""
    fields = {name: value for name, value in instruction.items() if name != "system_prompt" and value is not None}
    lines = [f"{name}: {value if isinstance(value, str) else json.dumps(value)}" for name, value in fields.items()]
    return [*lines, "", *str(instruction["system_prompt"]).splitlines()]
