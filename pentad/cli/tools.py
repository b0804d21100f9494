"""``pentad tools``: which tools tasks may call, what running each twice would mean, and whether a worker has it."""

import argparse
import json
from typing import Any

from pentad.cli.gateway import agent_for, streams
from pentad.cli.gateway import run as run_async
from pentad.cli.render import ago, fitted, style_for, table
from pentad.client.agent import Agent
from pentad.errors import NotFound
from pentad.shared.settings import Settings

_HEADER = ("TOOL", "EFFECT", "APPROVAL", "QUEUE", "LIMIT", "WORKER", "ARGUMENTS", "WHAT IT DOES")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """A table of all tools."""
    return run_async(_list(args, settings))


async def _list(args: argparse.Namespace, settings: Settings) -> int:
    out, _ = streams()
    async with agent_for(args, settings) as agent:
        found, away = await agent.inspection.tools(), await _servers_away(agent)
    if args.json:
        out.writelines(json.dumps(each, ensure_ascii=False) + "\n" for each in found)
    elif found:
        out.write(table(_HEADER, fitted(_HEADER, [_row(each) for each in found]), style_for(out, settings)) + "\n")
    else:
        out.write("no tools: no tool-worker has run\n")
    if not args.json:
        out.writelines(f"{each['refused']}\n" for each in found if each.get("refused"))
        out.writelines(f"MCP server {each['name']} is {each['condition']}: {each['error']}\n" for each in away)
    return 0


async def _servers_away(agent: Agent) -> list[dict[str, Any]]:
    """Return the MCP servers that are not ready; none where the gateway does not tell."""
    try:
        return [each for each in await agent.inspection.servers() if each["condition"] != "ready"]
    except NotFound:
        return []


def _limit(tool: dict[str, Any]) -> str:
    """How long a call may take, and how many calls may be made; a gateway of before 0.3 does not say the latter."""
    at_once = f"{tool['concurrency']} at once" if tool.get("concurrency") else ""
    waiting = f"{tool['waiting']} waiting" if tool.get("waiting") else ""
    return ", ".join(filter(None, (f"{tool['timeout']:g} s", at_once, tool.get("rate"), waiting)))


def _row(tool: dict[str, Any]) -> tuple[str, ...]:
    limit, arguments = _limit(tool), ", ".join(tool["parameters"].get("properties", {})) or "-"
    about = str(tool["description"]) or "(it has no docstring)"
    approval = str(tool.get("approval") or "-")
    place = str(tool["queue"]), limit, _worker(tool)
    return str(tool["name"]), str(tool["effect"]), approval, *place, arguments, about


def _worker(tool: dict[str, Any]) -> str:
    """Whether a living worker has it; a gateway of before 0.2 does not say."""
    if (tool.get("endpoint") or {}).get("problem"):
        return str(tool["endpoint"]["problem"])
    if tool.get("refused"):
        return f"refused until {str(tool['refused_until'])[11:19]} UTC"
    if tool.get("alive", True):
        return "there" if "alive" in tool else "-"
    if tool["seen_at"] is None:
        return "none yet"
    return f"none for {ago(tool['seen_at'])}"
