"""``pentad tool``: one tool call outside a conversation, and its result; endpoints of HTTP registered as tools."""

import argparse
import json
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pentad.cli.gateway import operator_for, speaker_for, streams
from pentad.cli.gateway import run as run_async
from pentad.cli.render import harmless, plural
from pentad.client.agent import Agent
from pentad.contracts.plain_json import read_json
from pentad.errors import NotFound, Refused, ToolFailed
from pentad.shared.settings import Settings

_MAX_FILE_BYTES = 1 << 20
_OF_API = ("base", "operations", "prefix")
"""Options that say something about a document of OpenAPI."""


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Call the tool, wait for its end, print the result: 1 when it has failed. Or register tools, or remove some."""
    actions = {"call": _call, "add": _add, "remove": _remove}
    return run_async(actions[args.action](args, settings))


async def _call(args: argparse.Namespace, settings: Settings) -> int:
    out, err = streams()
    async with speaker_for(args, settings) as agent:
        found = await agent.tools.call(args.name, args.args, args.timeout, call_id=args.call_id)
    completed = found.status == "completed"
    if args.json:
        out.write(json.dumps(found.model_dump(mode="json"), ensure_ascii=False) + "\n")
    elif completed:
        text = found.result or ""
        out.write((harmless(text) if out.isatty() else text).rstrip("\n") + "\n")
    else:
        err.write(f"{harmless(str(ToolFailed(found)))}\n")
    return 0 if completed else 1


async def _add(args: argparse.Namespace, settings: Settings) -> int:
    out, err = streams()
    asked = _asked(args)
    async with operator_for(args, settings) as agent:
        for fields in asked:
            told = await agent.management.register_tool(**fields)
            for tool in told["items"]:
                out.write(f"{tool['name']} is registered: {tool['method']} at {tool['place']}, {tool['effect']}\n")
            err.writelines(f"{each['operation']} is no tool: {each['why']}\n" for each in told["left_out"])
            if told["warning"]:
                err.write(f"{told['warning']}\n")
    return 0


def _asked(args: argparse.Namespace) -> Sequence[dict[str, Any]]:
    """Return what is registered: the operations of a document, or the tools of a file. Raises ``Refused``."""
    is_address = args.source.startswith(("http://", "https://"))
    found = args.source if is_address else _read(Path(args.source))
    headers = dict(args.header or ())
    if is_address or (isinstance(found, Mapping) and ("openapi" in found or "swagger" in found)):
        given = {"url": args.base, "operations": args.operations, "prefix": args.prefix, "headers": headers or None}
        return [{"openapi": found} | {name: value for name, value in given.items() if value is not None}]
    if any(getattr(args, name) is not None for name in _OF_API):
        raise Refused("--base, --operations and --prefix are for documents of OpenAPI, and this file is none")
    tools = found if isinstance(found, list) else [found]
    if not tools or not all(isinstance(each, dict) for each in tools):
        raise Refused('the file has no tools: write {"name": ..., "url": ..., "parameters": ...}, or a list of these')
    return [each | ({"headers": {**(each.get("headers") or {}), **headers}} if headers else {}) for each in tools]


def _read(file: Path) -> Any:
    try:
        with file.open("rb") as opened:
            raw = opened.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise Refused(f"the file cannot be read: {error.strerror or error}") from None
    if len(raw) > _MAX_FILE_BYTES:
        raise Refused(f"the file has more than {_MAX_FILE_BYTES} bytes: give the document's URL, or a part of it")
    try:
        return read_json(raw)
    except ValueError as error:
        raise Refused(f"the file is no JSON (YAML is not read): {error}") from None


async def _remove(args: argparse.Namespace, settings: Settings) -> int:
    out, _ = streams()
    async with operator_for(args, settings) as agent:
        names = await _matching(agent, args.names)
        for name in names:
            await agent.management.delete_tool(name)
            out.write(f"{name} is removed: it is offered no more\n")
    if len(names) > 1:
        out.write(f"{plural(len(names), 'tool')} removed\n")
    return 0


async def _matching(agent: Agent, patterns: Sequence[str]) -> Sequence[str]:
    """Return the registered tools that patterns name. Raises ``NotFound`` for a pattern that names none."""
    tools = await agent.inspection.tools()
    found: dict[str, None] = {}
    for pattern in patterns:
        known = [each for each in tools if fnmatchcase(str(each["name"]), pattern)]
        matching = [str(each["name"]) for each in known if "endpoint" in each]
        if not matching and known:
            raise NotFound(f"{known[0]['name']} is a tool of a worker, and goes with its plug-in: it is not registered")
        if not matching:
            raise NotFound(f"there is no registered tool {pattern!r}: `pentad tools` lists all tools")
        found |= dict.fromkeys(matching)
    return list(found)
