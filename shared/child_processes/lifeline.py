"""A child process dies with its parent: however that ends, whatever the child is doing."""

import os
import signal
import sys
from threading import Thread

_PR_SET_PDEATHSIG = 1


def tie_to_parent(life_fd: int, parent_pid: int) -> None:
    """Kills this process as soon as its parent ends.

    On Linux the kernel does it, even when something holds the interpreter. Everywhere a thread waits for the end of the
    pipe ``life_fd``, whose other end only the parent holds.
    """
    if sys.platform == "linux":
        _ask_kernel()
    if os.getppid() != parent_pid:  # it ended before the kernel was asked
        die()
    Thread(target=_wait, args=(life_fd,), name="lifeline", daemon=True).start()


def die() -> None:
    """Ends this process at once, and what it started when the group is its own."""
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
