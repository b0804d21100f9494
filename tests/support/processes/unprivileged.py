"""Commands without the powers of root: with them a process may look into every other, whatever that one forbids."""

import os
import sys
from collections.abc import Sequence

_DROP = """
import os, sys
from ctypes import CDLL
CAPABILITY_BOUNDING_SET_DROP = 24
for capability in range(64):
    CDLL(None).prctl(CAPABILITY_BOUNDING_SET_DROP, capability, 0, 0, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


def unprivileged(command: Sequence[str]) -> list[str]:
    """The command as it is for a user who is not root; as root, the same with no capability left: then two processes
    of this user may do to each other what those of any other user may."""
    return [sys.executable, "-c", _DROP, *command] if os.geteuid() == 0 else list(command)
