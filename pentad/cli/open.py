"""``pentad open TASK``: the console's link to a task or to one of its steps, opened where there is a browser."""

import argparse
import webbrowser
from urllib.parse import quote

from pentad.cli.gateway import agent_for, streams
from pentad.cli.gateway import run as run_async
from pentad.client.address import address_for
from pentad.errors import NotFound
from pentad.shared.settings import Settings

_PAGE = "/console#/tasks/"
_IN_TERMINAL = frozenset({"www-browser", "links", "elinks", "lynx", "w3m"})
"""Browsers that are found where there is no display: the console is nothing for them."""


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Print the link, and open it in a browser where there is one and a person reads the link.

    ``--print`` opens nothing. Raises ``NotFound`` for a task or a step that is not there.
    """
    link = run_async(_link(args, settings))
    out, err = streams()
    out.write(link + "\n")
    out.flush()
    if not args.only_print and out.isatty() and _has_browser() and not webbrowser.open(link):
        err.write("no browser could be opened: open the link yourself\n")
    return 0


async def _link(args: argparse.Namespace, settings: Settings) -> str:
    async with agent_for(args, settings) as agent:
        task = await agent.inspection.task(args.id)
    if args.step is not None and args.step > task.steps:
        there = f"it has {task.steps} so far" if task.steps else "it has made none yet"
        raise NotFound(f"task {args.id} has no step {args.step}: {there}")
    url = address_for(args.url, settings).url.rstrip("/")
    step = "" if args.step is None else f"/steps/{args.step}"
    return f"{url}{_PAGE}{quote(task.task_id, safe='')}{step}"


def _has_browser() -> bool:
    """Whether there is a browser with a window, or one that the variable BROWSER names."""
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return False
    return getattr(browser, "basename", getattr(browser, "name", "")) not in _IN_TERMINAL
