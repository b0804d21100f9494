"""A process that is forked from the warm parent is what a new interpreter would be."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.warm import ROOT, WarmProcess, start

_TELLING = """
import json, os, signal, sys, time
from pathlib import Path
print(json.dumps({
    "name": __name__, "argv": sys.argv, "folder": os.getcwd(), "first": sys.path[0], "environment": dict(os.environ),
    "session": os.getsid(0), "pid": os.getpid(), "handles": sorted(os.listdir("/proc/self/fd")),
    "interrupt": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
    "child": signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL, "warm": "pentad.services.router.app" in sys.modules,
}), flush=True)
if sys.argv[1] == "wait":
    time.sleep(600)
sys.exit(sys.argv[1])
"""
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def started(folder: Path, *words: str, environment: Mapping[str, str] = ENVIRONMENT, leads: bool = False) -> Any:
    """Start a module that tells of itself; its last word goes to the errors, with exit code 1."""
    (folder / "telling.py").write_text(_TELLING)
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        return start([sys.executable, "-m", "telling", *words], environment, folder, out, err, leads=leads)


def told(folder: Path) -> dict[str, Any]:
    """What it told."""
    found: dict[str, Any] = json.loads((folder / "out").read_text())
    return found


@pytest.mark.parametrize("leads", [True, False])
def test_it_is_as_one_that_begins_anew(tmp_path: Path, leads: bool) -> None:
    forked, anew = tmp_path / "forked", tmp_path / "anew"
    environment = ENVIRONMENT | {"PENTAD_SHARD": "3"}
    for folder, other in ((forked, {}), (anew, {"PYTHONUTF8": "1"})):
        folder.mkdir()
        process = started(folder, "a", "b", environment=environment | other, leads=leads)
        assert isinstance(process, WarmProcess) == (folder == forked)
        assert (process.wait(), process.poll(), (folder / "err").read_text()) == (1, 1, "a\n")
        assert (told(folder)["pid"], told(folder)["warm"]) == (process.pid, folder == forked)
        assert (told(folder)["session"] == process.pid) == leads
    alike = ("name", "interrupt", "child", "handles")
    assert [told(forked)[key] for key in alike] == [told(anew)[key] for key in alike]
    assert told(forked)["environment"] == environment
    assert (told(forked)["folder"], told(forked)["first"]) == (str(forked), str(forked))
    assert told(forked)["argv"][1:] == ["a", "b"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_by_a_signal_and_says_so(tmp_path: Path, number: signal.Signals) -> None:
    process = started(tmp_path, "wait")
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=0)
    process.send_signal(number)
    assert (process.wait(), process.poll()) == (-number, -number)
    assert not Path(f"/proc/{process.pid}").exists()
    process.send_signal(number)  # to nobody


def test_many_threads_start_processes_at_once(tmp_path: Path) -> None:
    def ended(number: int) -> tuple[int, int]:
        folder = tmp_path / str(number)
        folder.mkdir()
        process = started(folder, str(number))
        process.wait()
        return process.pid, told(folder)["pid"]

    with ThreadPoolExecutor(8) as threads:
        pairs = list(threads.map(ended, range(24)))
    assert all(one == other for one, other in pairs)
    assert len(set(pairs)) == 24
