"""A whole Pentad of separate processes for acceptance tests: started, killed and restarted by name."""

import asyncio
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.ports import free_port
from tests.support.processes.clocks import Clocks
from tests.support.processes.warm import Running, start
from tests.support.waiting import PATIENCE_S, wait_until

MODULES = {
    "gateway": "pentad.services.gateway",
    "router": "pentad.services.router",
    "task-runner": "pentad.services.task_runner",
    "tool-worker": "pentad.services.tool_worker",
    "embedding": "pentad.services.embedding",
    "archiver": "pentad.services.archiver",
}
ROOT = Path(__file__).resolve().parents[3]
_OURS = ("PENTAD_", "LLM_", "EMBED_", "REDIS_", "QDRANT_", "NEO4J_")
"""Beginnings of the names of variables that a process gets from the test alone."""


@dataclass
class Process:
    """One service process and the command that starts it again."""

    name: str
    port: int
    command: Sequence[str]
    running: Running | None = None
    kills: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def clock_of(process: Process) -> str:
    """Return the name of a process's clock."""
    return f"{process.name}-{process.port}"


@dataclass
class System:
    """Services of one Redis. ``counts`` says how many processes of each; ``launcher`` replaces ``-m services.X``."""

    redis_url: str
    directory: Path
    counts: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(MODULES, 1))
    environment: Mapping[str, str] = field(default_factory=dict)
    launcher: Sequence[str] = ()
    processes: list[Process] = field(default_factory=list)
    urls: Mapping[str, str] = field(default_factory=dict)
    """Other addresses of Redis for some services."""
    clocks: Clocks | None = None
    """Clocks from which each process gets its wall clock, by `clock_of`; None: the machine's clock."""

    warm: bool = True
    """Whether processes are forked with everything imported, or begin as they do elsewhere."""

    async def __aenter__(self) -> "System":
        for name, count in self.counts.items():
            for _ in range(count):
                self.processes.append(self._describe(name))
        try:
            for process in self.processes:
                self.start(process)
            await asyncio.gather(*(self.ready(p) for p in self.processes))
        except BaseException:  # or what has started would be nobody's
            await asyncio.to_thread(self.stop)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.stop)

    def _describe(self, name: str) -> Process:
        port = free_port()
        launch = [*self.launcher, name] if self.launcher else ["-m", MODULES[name]]
        return Process(name, port, [sys.executable, *launch, "--port", str(port)])

    def _environment(self) -> dict[str, str]:
        kept = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith(("PENTAD_", "LLM_", "EMBED_", "REDIS_", "QDRANT_", "NEO4J_"))
        }
        ours = {
            "REDIS_URL": self.redis_url,
            "PENTAD_DATA_DIR": str(self.directory),
            "PYTHONPATH": str(ROOT),
        }
        if self.counts and "archiver" not in self.counts:  # nobody has a memory: no task waits for one
            ours["PENTAD_RECALL_TOKENS"] = "0"
        return {**kept, **ours, **self.environment}

    def _environment_of(self, process: Process) -> dict[str, str]:
        name = process.name
        clock = self.clocks.environment(clock_of(process)) if self.clocks else {}
        return self._environment() | clock | ({"REDIS_URL": self.urls[name]} if name in self.urls else {})

    def start(self, process: Process) -> None:
        """Start a process; its output goes to a file of its own."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / f"{process.name}-{process.port}.log").open("ab") as log:
            environment = self._environment_of(process)
            process.running = start(process.command, environment, self.directory, log, log, warm=self.warm)

    async def ready(self, process: Process, seconds: float = 90.0) -> None:
        """Wait until a process says that it is ready."""
        await wait_until(f"{process.name} to be ready", lambda: asyncio.to_thread(self._is_ready, process), seconds)

    @staticmethod
    def _is_ready(process: Process) -> bool:
        try:
            with urllib.request.urlopen(f"{process.url}/readyz", timeout=1) as reply:
                return bool(reply.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def named(self, name: str) -> list[Process]:
        """The processes of one service."""
        return [p for p in self.processes if p.name == name]

    def kill(self, process: Process, number: signal.Signals = signal.SIGKILL) -> None:
        """Kill a process at once, or ask it to end; waits until it is gone."""
        assert process.running is not None
        process.running.send_signal(number)
        process.running.wait(timeout=PATIENCE_S)
        process.kills += 1

    def pause(self, process: Process) -> None:
        """Freeze a process: its connections stay open, and it does nothing."""
        assert process.running is not None
        process.running.send_signal(signal.SIGSTOP)

    def resume(self, process: Process) -> None:
        """End a `pause`."""
        assert process.running is not None
        process.running.send_signal(signal.SIGCONT)

    def ended(self) -> list[Process]:
        """Return the processes that have ended by themselves."""
        return [p for p in self.processes if p.running is not None and p.running.poll() is not None]

    def restart(self, process: Process) -> None:
        """Kill a process and start it again at once."""
        self.kill(process)
        self.start(process)

    def stop(self) -> None:
        """Stop all processes, and kill those that do not end."""
        for process in self.processes:
            if process.running is not None and process.running.poll() is None:
                process.running.terminate()
        for process in self.processes:
            if process.running is None:
                continue
            try:
                process.running.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.running.kill()
                process.running.wait()

    def said(self, words: str) -> list[str]:
        """Return the lines of all logs that contain these words."""
        logs = (log.read_text(errors="replace") for log in sorted(self.directory.glob("*.log")))
        return [line for text in logs for line in text.splitlines() if words in line]

    def logs(self) -> str:
        """Return the ends of all logs, for a failing test."""
        parts = [f"== {f.name}\n{f.read_text(errors='replace')[-1500:]}" for f in sorted(self.directory.glob("*.log"))]
        return "\n".join(parts)
