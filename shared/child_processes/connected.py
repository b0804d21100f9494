"""A child process that talks with us over a socket, and learns by a lifeline that we are gone."""

import os
import socket
import subprocess
from collections.abc import Callable


def start_connected(
    start: Callable[[int, int], subprocess.Popen[bytes]],
) -> tuple[subprocess.Popen[bytes], socket.socket, int]:
    """Start a child; returns it, our end of the socket, which does not block, and our end of the lifeline.

    ``start`` is given the numbers of the child's ends, socket and lifeline, which it has to pass on. Raises what it
    raises; nothing is left open then.
    """
    ours, theirs = socket.socketpair()
    their_life, our_life = os.pipe()
    try:
        process = start(theirs.fileno(), their_life)
    except BaseException:
        ours.close()
        os.close(our_life)
        raise
    finally:
        theirs.close()
        os.close(their_life)
    ours.setblocking(False)
    return process, ours, our_life
