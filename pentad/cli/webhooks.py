"""``pentad webhooks``: where events are sent and how each webhook does; one is added, with a new secret, or removed."""

import argparse
import json
from base64 import b64encode
from secrets import token_bytes
from typing import Any

from pentad.cli.gateway import agent_for, streams
from pentad.cli.gateway import run as run_async
from pentad.cli.render import fitted, style_for, table
from pentad.contracts.receivers import SECRET_PREFIX
from pentad.contracts.webhooks import ALL_EVENTS
from pentad.errors import NotFound
from pentad.shared.settings import Settings

_HEADER = ("WEBHOOK", "URL", "EVENTS", "SESSION", "WAITING", "STATE")
_SECRET_BYTES = 32


def run(args: argparse.Namespace, settings: Settings) -> int:
    """A table of the tenant's webhooks, or the registration or removal of one."""
    actions = {None: _list, "add": _add, "remove": _remove}
    return run_async(actions[args.action](args, settings))


async def _list(args: argparse.Namespace, settings: Settings) -> int:
    out, _ = streams()
    async with agent_for(args, settings) as agent:
        found = await agent.inspection.webhooks()
    if args.json:
        out.writelines(json.dumps(each, ensure_ascii=False) + "\n" for each in found)
    elif found:
        out.write(table(_HEADER, fitted(_HEADER, [_row(each) for each in found]), style_for(out, settings)) + "\n")
    else:
        out.write("no webhooks: `pentad webhooks add URL` adds one, and docs/webhooks.md says what it gets\n")
    return 0


def _row(webhook: dict[str, Any]) -> tuple[str, ...]:
    state = webhook["disabled"] or (webhook["error"] if webhook["waiting"] else None) or "good"
    session, waiting = str(webhook["session_id"] or "all"), str(webhook["waiting"])
    return str(webhook["id"]), str(webhook["url"]), ", ".join(webhook["events"]), session, waiting, str(state)


async def _add(args: argparse.Namespace, settings: Settings) -> int:
    out, _ = streams()
    made = args.secret or SECRET_PREFIX + b64encode(token_bytes(_SECRET_BYTES)).decode()
    async with agent_for(args, settings) as agent:
        webhook = await agent.management.register_webhook(
            args.address, args.event or [ALL_EVENTS], made, session_id=args.session
        )
    out.write(f"{webhook['id']} is registered\n")
    if args.secret is None:
        out.write(f"its secret, which is shown this once: {made}\n")
    return 0


async def _remove(args: argparse.Namespace, settings: Settings) -> int:
    out, _ = streams()
    async with agent_for(args, settings) as agent:
        try:
            await agent.management.delete_webhook(args.name)
        except NotFound as error:
            raise NotFound(f"{error}: `pentad webhooks` lists them") from None
    out.write(f"{args.name} is removed: nothing more is sent there\n")
    return 0
