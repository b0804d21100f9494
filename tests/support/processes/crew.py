"""A `System` that can grow, lists leftover processes, and ends even if its start fails."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

from tests.support.processes.system import Process, System

FIVE = {"router": 1, "task-runner": 1, "tool-worker": 1, "embedding": 1, "archiver": 1}
"""Number of processes of each service but the gateway."""
LONG = os.environ.get("PENTAD_TEST_LONG") == "1"
"""Whether tests run in their full size instead of a short form."""


class Crew(System):
    """Service processes that all carry a mark in their environment; their children inherit it."""

    mark = ""

    async def add(self, name: str) -> Process:
        """Start one more process of a service and wait until it is ready."""
        process = self._describe(name)
        self.processes.append(process)
        self.start(process)
        await self.ready(process)
        return process

    def pid(self, name: str) -> int:
        """The process id of the first process of a service."""
        running = self.named(name)[0].running
        assert running is not None
        return running.pid

    def pids(self) -> dict[str, int]:
        """Process ids by service and port, of those that run."""
        living = [p for p in self.processes if p.running is not None and p.running.poll() is None]
        return {f"{p.name}-{p.port}": p.running.pid for p in living if p.running is not None}

    @property
    def variables(self) -> dict[str, str]:
        """The environment of the services, for a command that belongs to them."""
        return self._environment()

    def log_of(self, name: str) -> str:
        """What the processes of a service wrote."""
        return "".join(f.read_text(errors="replace") for f in sorted(self.directory.glob(f"{name}-*.log")))

    def left_behind(self) -> list[str]:
        """Command lines of living processes that carry this crew's mark."""
        return [" ".join(command) for command in marked(self.mark).values()]


@asynccontextmanager
async def crew(
    redis_url: str,
    directory: Path,
    counts: Mapping[str, int] = FIVE,
    /,
    launcher: Sequence[str] = (),
    **environment: str,
) -> AsyncIterator[Crew]:
    """A running crew that ends with its tool children; a leftover process is an error."""
    mark = f"crew-{uuid4().hex}"
    named = {"LC_CREW_MARK": mark, **environment}
    team = Crew(redis_url, directory, counts, named, launcher)
    team.mark = mark
    try:
        async with team:
            yield team
    except BaseException:
        print(team.logs())  # which pytest shows beside the failure
        raise
    finally:
        await asyncio.to_thread(team.stop)
    left = team.left_behind()
    assert not left, f"processes were left behind: {left}"


def marked(mark: str) -> dict[int, list[str]]:
    """Living processes whose environment holds ``LC_CREW_MARK=mark``, with their command lines."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and _read(folder / "environ").find(f"LC_CREW_MARK={mark}".encode()) >= 0:
            command = _read(folder / "cmdline").decode(errors="replace").split("\0")
            if command != [""]:  # a zombie has none
                found[int(folder.name)] = command
    return found


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def rss(pid: int) -> float:
    """Resident memory of a process, in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def parent_of(pid: int) -> int:
    """The process id of a process's parent."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
