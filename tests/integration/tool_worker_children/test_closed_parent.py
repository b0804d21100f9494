"""A tool cannot look into the process that started it: not at its environment, not at its memory, not at its files."""

import json
import os
import subprocess
import sys

import pytest

from tests.support.processes.unprivileged import unprivileged
from tests.support.processes.up import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="no other system shows processes as files")

WORKER = """
import asyncio, json
from pentad.services.tool_worker.children.pool import ToolProcesses
from tests.integration.tool_worker_children.conftest import PLUGIN, Tools

async def main():
    pool = ToolProcesses((PLUGIN,), 1, 1)
    await pool.start(lambda: None)
    try:
        tools = Tools(pool)
        print(json.dumps([json.loads(await tools.result(tool)) for tool in ("look_into_parent", "look_into_itself")]))
    finally:
        await pool.stop(0)

asyncio.run(main())
"""
CHILD = """
import json, os
from tests.integration.tool_worker_children.plugin_tools import looks
print(json.dumps([looks(os.getppid())]))
"""
ORDINARY_PARENT = f"import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', {CHILD!r}]))"


def _said(program: str) -> list[dict[str, str]]:
    done = subprocess.run(
        unprivileged([sys.executable, "-c", program]),
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "PENTAD_ADMIN_KEY": "hunter2"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, str]] = json.loads(done.stdout)
    return found


def test_a_tool_sees_nothing_of_the_process_that_started_it_and_all_of_its_own() -> None:
    """Security: the worker holds keys and the address of Redis with its password; its tools are of its user."""
    parent, itself = _said(WORKER)
    assert parent == dict.fromkeys(("environ", "mem", "fd", "trace"), "PermissionError")
    assert set(itself.values()) == {"read"}


def test_the_look_would_find_a_process_that_is_not_closed() -> None:
    """Of an ordinary process of the same user the same look reads what it was started with."""
    [parent] = _said(ORDINARY_PARENT)
    assert {parent["environ"], parent["fd"]} == {"read"}
