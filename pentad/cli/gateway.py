"""What the client commands have in common: which gateway, which key."""

import argparse
import sys
from collections.abc import Coroutine
from typing import Any, TextIO, TypeVar

from pentad.address import address_for, admin_address_for
from pentad.client import Agent
from pentad.feed import Notice
from pentad.shared.settings import Settings

T = TypeVar("T")


def agent_for(args: argparse.Namespace, settings: Settings, notice: Notice | None = None) -> Agent:
    """The gateway that is meant, with ``PENTAD_API_KEY``."""
    return Agent(address_for(args.url, settings), notice=notice)


def operator_for(args: argparse.Namespace, settings: Settings) -> Agent:
    """The gateway that is meant, with ``PENTAD_ADMIN_KEY``."""
    return Agent(admin_address_for(args.url, settings))


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a command to its end."""
    import asyncio

    return asyncio.run(work)


def lenient(stream: TextIO) -> TextIO:
    """The stream, which writes ``?`` where its encoding has no such character instead of failing."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")
    return stream


def streams() -> tuple[TextIO, TextIO]:
    """Standard output and standard error."""
    return lenient(sys.stdout), lenient(sys.stderr)
