"""``pentad tool call``: one tool call outside a conversation, and its result."""

import argparse
import json

from pentad.cli.gateway import run as run_async
from pentad.cli.gateway import speaker_for, streams
from pentad.cli.render import harmless
from pentad.errors import ToolFailed
from pentad.shared.settings import Settings


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Call the tool, wait for its end, print the result. 1 when the tool has failed."""
    return run_async(_call(args, settings))


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
