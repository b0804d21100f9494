"""The end of servers that tests run in their own event loop."""

import asyncio

_TURNS = 8
"""Turns of a loop after which what was accepted has its task, and what was closed no socket: it takes asyncio three."""


async def connections_settled() -> None:
    """Let connections that were just accepted begin, and those that were just closed let go of their sockets.

    A loop that is closed between leaves a socket that nobody closes, which fails whichever test comes next.
    """
    for _ in range(_TURNS):
        await asyncio.sleep(0)


async def close_port(server: asyncio.Server) -> None:
    """Close a server's port, when each connection that it has accepted has begun.

    ``Server.close`` alone loses those that begin later: their sockets stay open (Python 3.11).
    """
    for listening in server.sockets:
        asyncio.get_running_loop().remove_reader(listening.fileno())
    await connections_settled()
    server.close()
