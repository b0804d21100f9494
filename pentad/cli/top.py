"""``pentad top``: the live system, drawn again each second; or once, for scripts."""

import argparse
import asyncio
import sys
from time import monotonic
from typing import TYPE_CHECKING

from pentad.cli.gateway import operator_for, streams
from pentad.cli.gateway import run as run_async
from pentad.cli.render import style_for
from pentad.cli.top_view import Rates, TopView
from pentad.client.agent import Agent
from pentad.contracts.operations import Operations
from pentad.errors import Busy, ClientError, GatewayUnreachable, NotFound, Refused
from pentad.shared.settings import Settings

if TYPE_CHECKING:
    from pentad.cli.top_screen import TopScreen

_EVERY_S = 1.0
"""Seconds between two looks."""
_TOO_OLD = "this gateway is of a version without live operations: `pentad doctor` looks at the stores themselves"


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Watch until ``q``. With ``--once`` or ``--json``, and without a terminal: one look.

    Raises ``ClientError`` when the first look fails, as it does without the admin key.
    """
    if args.json or args.once or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return run_async(_once(args, settings))
    return run_async(_watch(args, settings))


async def _once(args: argparse.Namespace, settings: Settings) -> int:
    out, _ = streams()
    async with operator_for(args, settings) as agent:
        found = await _look(agent)
    if args.json:
        out.write(found.model_dump_json() + "\n")
    else:
        rates = Rates()
        rates.add(found)
        out.write("\n".join(TopView(style_for(out, settings)).whole(found, rates)) + "\n")
    return 0


async def _watch(args: argparse.Namespace, settings: Settings) -> int:
    from pentad.cli.top_screen import TopScreen  # a third of a second for what a pipe needs not

    out, _ = streams()
    async with operator_for(args, settings) as agent:
        first = await _look(agent)
        screen = TopScreen(TopView(style_for(out, settings)))
        screen.show(first)
        looking = asyncio.create_task(_keep_looking(agent, screen))
        try:
            await screen.run()
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
    return 0


async def _keep_looking(agent: Agent, screen: "TopScreen") -> None:
    """Look again each second. A gateway that has gone away is asked until it is there again."""
    while True:
        began = monotonic()
        if not screen.paused:
            try:
                screen.show(await _look(agent))
            except ClientError as error:
                screen.trouble(str(error))
                if not isinstance(error, GatewayUnreachable | Busy):
                    await asyncio.sleep(_EVERY_S)
        await asyncio.sleep(max(0.0, _EVERY_S - (monotonic() - began)))


async def _look(agent: Agent) -> Operations:
    try:
        return await agent.inspection.operations()
    except NotFound:
        raise Refused(_TOO_OLD) from None
