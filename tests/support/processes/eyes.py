"""The views of a running system that people have: the doctor's report and the metrics."""

import asyncio
import json
import re
import sys
import urllib.request
from typing import Any

from tests.support.ports import free_port
from tests.support.processes.crew import Crew
from tests.support.processes.system import Process
from tests.support.waiting import PATIENCE_S


async def doctor(team: Crew) -> dict[str, Any]:
    """What `pentad doctor --json` prints in the environment of these services; there is no gateway."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "pentad.cli.main", "doctor", "--json", "--url", f"http://127.0.0.1:{free_port()}"),
        stdout=asyncio.subprocess.PIPE,
        env=team.variables,
        cwd=team.directory,
    )
    out, _ = await process.communicate()
    report: dict[str, Any] = json.loads(out)
    return report


async def metric(process: Process, name: str, label: str = "") -> float:
    """The sum of a metric's samples as `/metrics` shows them, of all labels or of one; 0 when it has no sample."""
    page = await asyncio.to_thread(_get, f"{process.url}/metrics")
    samples = re.findall(rf"^{name}({{.*}})? (\S+)$", page, re.MULTILINE)
    return sum(float(value) for labels, value in samples if label in labels)


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as reply:
        text: str = reply.read().decode()
    return text
