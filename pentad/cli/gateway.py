"""Client commands find their gateway and their key here."""

import argparse
import getpass
import os
import re
import sys
from collections.abc import Coroutine
from typing import Any, TextIO, TypeVar
from urllib.parse import urlsplit

from pentad.client.address import address_for, admin_address_for
from pentad.client.agent import Agent
from pentad.client.feed import Notice
from pentad.shared.addresses import is_loopback
from pentad.shared.settings import Settings

T = TypeVar("T")


def agent_for(args: argparse.Namespace, settings: Settings, notice: Notice | None = None) -> Agent:
    """The gateway that is meant, with ``PENTAD_API_KEY``."""
    return Agent(address_for(args.url, settings), notice=notice)


def speaker_for(args: argparse.Namespace, settings: Settings, notice: Notice | None = None) -> Agent:
    """Return an agent that speaks as a user: ``--user``, or at a gateway of this machine without keys the login name.

    A gateway with keys serves a product's users: which of them is meant, nobody can guess.
    """
    address = address_for(args.url, settings)
    is_open = address.api_key is None and is_loopback(urlsplit(address.url).hostname or "")
    return Agent(address, notice=notice, user_id=args.user or (login_name() if is_open else None))


def login_name() -> str:
    """Who is logged in, as an id: other characters than those of ids become ``-``."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # this number of a user has no name here, as in containers
        name = f"uid-{os.getuid()}"
    plain = re.sub(r"[^A-Za-z0-9._~@-]", "-", name[:128]).lstrip("._~@-")
    return plain or "user"


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
