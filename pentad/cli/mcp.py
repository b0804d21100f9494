"""``pentad mcp``: the MCP servers whose tools are offered; a file of them is checked and registered, one is removed."""

import argparse
import json
import re
from typing import Any

from pentad.cli.gateway import operator_for, streams
from pentad.cli.gateway import run as run_async
from pentad.cli.render import fitted, plural, style_for, table
from pentad.errors import ClientError, NotFound
from pentad.shared.settings import Settings
from pentad.shared.tool_servers.server_file import ServerFile, read_server_file

_HEADER = ("SERVER", "FROM", "SPEAKS", "WITH", "STATE", "TOOLS", "WHY")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._~@-]+")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """A table of all servers, the registration of a file's, or the removal of one."""
    if args.action == "import":
        return run_async(_register(args, settings, read_server_file(args.file, "the file")))
    return run_async(_list(args, settings) if args.action is None else _remove(args, settings))


async def _list(args: argparse.Namespace, settings: Settings) -> int:
    out, _ = streams()
    async with operator_for(args, settings) as agent:
        found = await agent.inspection.servers()
    if args.json:
        out.writelines(json.dumps(each, ensure_ascii=False) + "\n" for each in found)
    elif found:
        out.write(table(_HEADER, fitted(_HEADER, [_row(each) for each in found]), style_for(out, settings)) + "\n")
        for each in found:
            out.writelines(
                f"{each['name']}: {left['tool']} is not offered: {left['why']}\n" for left in each["left_out"]
            )
    else:
        out.write("no MCP servers: docs/mcp.md says how to add one\n")
    return 0


def _row(server: dict[str, Any]) -> tuple[str, ...]:
    why = "; ".join(text for text in (server["error"], server["said"]) if text)
    tools = str(server["tools"]) + (f" (+{server['left_out_count']})" if server["left_out_count"] else "")
    speaks, state = str(server["transport"]), str(server["condition"])
    return str(server["name"]), str(server["source"]), speaks, str(server["place"]), state, tools, why


async def _register(args: argparse.Namespace, settings: Settings, file: ServerFile) -> int:
    out, err = streams()
    failed = 0
    async with operator_for(args, settings) as agent:
        for note in file.notes:
            err.write(f"{note}\n")
        for server in file.servers:
            name = _NOT_IN_NAMES.sub("-", server.name).strip("._~@-") or "server"
            entry = server.model_dump(mode="json", exclude_defaults=True) | {"name": name}
            if entry.pop("sse", False):
                entry["type"] = "sse"
            for ours, theirs in (("only", "includeTools"), ("without", "excludeTools")):
                if ours in entry:
                    entry[theirs] = entry.pop(ours)
            try:
                await agent.management.register_server(**entry)
            except ClientError as error:
                failed += 1
                err.write(f"{server.name}: {error}\n")
            else:
                out.write(f"{name} is registered: `pentad mcp` says how it does\n")
    for name in file.turned_off:
        out.write(f"{name} is turned off in the file, and left out\n")
    if failed:
        err.write(f"{plural(failed, 'server')} of {len(file.servers)} could not be registered\n")
    return 1 if failed else 0


async def _remove(args: argparse.Namespace, settings: Settings) -> int:
    out, _ = streams()
    async with operator_for(args, settings) as agent:
        try:
            await agent.management.delete_server(args.name)
        except NotFound as error:
            raise NotFound(f"{error}: `pentad mcp` lists them") from None
    out.write(f"{args.name} is removed: its tools are offered no more\n")
    return 0
