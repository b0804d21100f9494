"""Child processes: started with a socket and a lifeline, ended with their parent, restarted with growing pauses."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Thread

_PR_SET_PDEATHSIG = 1
"""Number of the Linux ``prctl`` by which a process gets a signal when its parent ends."""
_PR_SET_DUMPABLE = 4
"""Number of the Linux ``prctl`` that says whether others may look into a process."""
_FIRST_DELAY_S = 0.1
"""Seconds between two starts after the second loss; doubled at each further loss."""
_MAX_DELAY_S = 5.0
"""Seconds between two starts at most."""
_QUIET_S = 60.0
"""Seconds without a loss after which losses are counted anew."""


def start_connected(
    start: Callable[[int, int], subprocess.Popen[bytes]],
) -> tuple[subprocess.Popen[bytes], socket.socket, int]:
    """Start a child; returns the process, our end of its socket, which does not block, and our end of its lifeline.

    ``start`` gets the file descriptors of the child's ends, socket and lifeline, and has to pass them on. Errors of
    ``start`` are raised, and nothing is left open then.
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


def tie_to_parent(life_fd: int, parent_pid: int) -> None:
    """Kill this process as soon as its parent ends, however that ends and whatever this process is doing.

    On Linux the kernel does it, even when something holds the interpreter. On all systems a thread waits for the end of
    the pipe ``life_fd``, whose other end only the parent holds.
    """
    if sys.platform == "linux":
        _ask_kernel()
    if os.getppid() != parent_pid:  # it ended before the kernel was asked
        die()
    Thread(target=_wait, args=(life_fd,), name="lifeline", daemon=True).start()


def close_to_others() -> None:
    """Take from processes of our own user the right to read what this one was started with and has in its memory.

    On Linux ``/proc/PID/environ``, ``mem`` and ``fd`` belong to root then, nobody else may trace this process, and it
    leaves no core file. A child has the right again once it runs a program of its own. No other system shows it so.
    """
    if sys.platform == "linux":
        from ctypes import CDLL

        CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def ending(returncode: int) -> str:
    """Return in words how a process ended."""
    if returncode >= 0:
        return f"it exited with code {returncode}"
    with suppress(ValueError):
        return f"it was killed by {signal.Signals(-returncode).name}"
    return f"it was killed by signal {-returncode}"


def die() -> None:
    """End this process at once, and its whole process group when this process leads it."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def _ask_kernel() -> None:
    from ctypes import CDLL

    CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _wait(life_fd: int) -> None:
    while os.read(life_fd, 1):
        pass
    die()


class Backoff:
    """Pauses between starts of a child, which grow while losses follow each other within a minute.

    A pause counts from the last start: a child that has served for longer is replaced at once, and calls that wait for
    a child do not pay for another call that ended it.
    """

    def __init__(self) -> None:
        self._losses = 0
        self._last_loss = 0.0
        self._last_start = float("-inf")

    def lost(self, now: float) -> None:
        """Count a child that ended by itself or did not start. ``now``: seconds of a monotonic clock."""
        self._losses = self._losses + 1 if now - self._last_loss < _QUIET_S else 1
        self._last_loss = now

    def started(self, now: float) -> None:
        """Note that a child is being started."""
        self._last_start = now

    def delay(self, now: float) -> float:
        """Return the seconds to wait from ``now`` on before the next start."""
        if self._losses < 2:
            return 0.0
        pause = min(_MAX_DELAY_S, _FIRST_DELAY_S * 2.0 ** min(self._losses - 2, 10))
        return max(0.0, self._last_start + pause - now)
