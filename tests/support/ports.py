"""Loopback ports for servers that are started later, or again: nobody else is given one meanwhile."""

import os
import socket
from collections import deque

_MOST = 200
"""Ports that one test process keeps; the oldest are free again."""
_kept: deque[int] = deque()


def free_port() -> int:
    """A loopback port that nobody listens on and that the system gives to nobody else.

    A socket stays bound to it without listening: servers that ask for this very port get it (they all set
    SO_REUSEADDR), and whoever asks for any port gets another.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        _kept.append(probe.detach())
    if len(_kept) > _MOST:
        os.close(_kept.popleft())
    return port
