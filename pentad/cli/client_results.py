"""``pentad result TASK CALL TEXT``: a person answers a call in place of the application that was to run its tool."""

import argparse

from pentad.cli.gateway import agent_for, streams
from pentad.cli.gateway import run as run_async
from pentad.shared.settings import Settings


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Send the result of a call, or why it has failed. Raises ``NotFound``, ``Conflict`` and ``Refused``."""
    return run_async(_send_result(args, settings))


async def _send_result(args: argparse.Namespace, settings: Settings) -> int:
    out, _ = streams()
    outcome = {"error" if args.failed else "result": args.text}
    async with agent_for(args, settings) as agent:
        await agent.management.send_result(args.task, args.call, **outcome)
    out.write(f"{args.call} has its result\n")
    return 0
