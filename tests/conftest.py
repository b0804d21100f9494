"""For all tests."""

import gc
import os
import signal
import sys
from collections.abc import Generator

import pytest

# A shell has what it runs in the background ignore Ctrl-C, and all that is started from there inherits that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests start hundreds of processes, each of which would compile all of Pentad anew: a third of what its start costs.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let the garbage collector rest while tests are collected, and spare it what that leaves: it all stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
