"""For all tests."""

import os
import signal
import sys

# A shell has what it runs in the background ignore Ctrl-C, and all that is started from there inherits that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests start hundreds of processes, each of which would compile all of Pentad anew: a third of what its start costs.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
