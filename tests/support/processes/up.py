"""``pentad up`` as a user runs it: a process with an embedded Redis, a folder of its own, and its leftovers.

with Up(tmp_path) as system:
    url = await system.ready()
    system.kill_everything()
    system.start()
"""

import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from tests.support.processes.warm import Running, start
from tests.support.waiting import PATIENCE_S, wait_until

ROOT = Path(__file__).resolve().parents[3]
PENTAD = Path(sys.executable).with_name("pentad")
"""The command, of the same virtual environment."""
_OURS = ("PENTAD_", "LLM_", "EMBED_", "REDIS_", "QDRANT_", "NEO4J_", "PYTHONPATH")
_MARK = "LC_TEST_MARK"
"""Name of a variable that marks processes: like those of the locale, it is passed on to helpers and tools, too."""


class Up:
    """One system on the data directory ``folder/data``: started when entered, without leftovers when closed."""

    def __init__(
        self,
        folder: Path,
        environment: Mapping[str, str] | None = None,
        command: Sequence[str] = (str(PENTAD), "up", "--port", "0"),
        cwd: Path | None = None,
        *,
        warm: bool = True,
    ) -> None:
        """``warm``: whether it is forked with everything imported, or begins as it does elsewhere."""
        self.folder = folder
        self.data = folder / "data"
        self._environment = dict(environment or {})
        self._command = list(command)
        self._cwd = cwd or folder
        self._warm = warm
        self._mark = uuid4().hex
        self._begun = 0.0
        self._process: Running | None = None
        self._log = folder / "unused.log"
        self._starts = 0

    # Its life

    def start(self) -> None:
        """Start the system as the leader of a process group, as a terminal does."""
        self._starts += 1
        self.folder.mkdir(parents=True, exist_ok=True)
        self._log = self.folder / f"up-{self._starts}.log"
        with self._log.open("wb") as log, self._log.with_suffix(".err").open("wb") as err:
            self._begun = time.monotonic()
            self._process = start(self._command, self._env(), self._cwd, log, err, leads=True, warm=self._warm)

    def _env(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        ours = {"PENTAD_DATA_DIR": str(self.data), "PYTHONPATH": str(ROOT), _MARK: self._mark}
        return kept | ours | self._environment

    async def ready(self, seconds: float = PATIENCE_S) -> str:
        """Wait for the line that says that the system is ready, and return the address in it."""
        await wait_until("the ready line", lambda: self._is_ready or self.returned is not None, seconds)
        assert self._is_ready, f"ended with {self.returned}: {self.err[-3000:]}"
        return self.url

    @property
    def _is_ready(self) -> bool:
        return "\n" in self.out.partition("ready on ")[2]

    async def started(self, seconds: float = PATIENCE_S) -> float:
        """Wait until the system is ready, and return the seconds since its start."""
        await self.ready(seconds)
        return time.monotonic() - self._begun

    async def ended(self, seconds: float = PATIENCE_S) -> int:
        """Wait for the end of the process, and return its exit code."""
        await wait_until("the process to end", lambda: self.returned is not None, seconds)
        assert self.returned is not None
        return self.returned

    @property
    def admin_key(self) -> str:
        """Return the admin key that an open system makes for itself."""
        return (self.data / "admin.key").read_text()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process alone."""
        assert self._process is not None
        self._process.send_signal(number)

    def ctrl_c(self) -> None:
        """Send SIGINT to every process of the group, as a terminal does."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGINT)

    def kill_everything(self) -> int:
        """``kill -9`` of the process, of its Redis and of its tools' processes; returns how many died."""
        assert self._process is not None
        victims = [*self.descendants(), self._process.pid]
        for pid in victims:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait(timeout=PATIENCE_S)
        return len(victims)

    def close(self) -> None:
        """End all leftover processes."""
        if self._process is not None:
            self.kill_everything()

    def __enter__(self) -> "Up":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What it shows

    @property
    def out(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def err(self) -> str:
        return self._log.with_suffix(".err").read_text(errors="replace")

    @property
    def url(self) -> str:
        """The gateway's address, once it is ready."""
        return self.out.rpartition("ready on ")[2].split()[0]

    @property
    def redis_url(self) -> str:
        """The address of its embedded Redis."""
        return (self.data / "redis.url").read_text().strip()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def returned(self) -> int | None:
        """The exit code; None while it runs."""
        return None if self._process is None else self._process.poll()

    def descendants(self) -> list[int]:
        """Living processes that it started, also after its end: by a mark in their environment, or their folder."""
        others = (int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit() and int(p.name) != self.pid)
        return [pid for pid in others if self._is_ours(pid)]

    def _is_ours(self, pid: int) -> bool:
        # A zombie's environment is empty and it has no folder: it has ended.
        with suppress(OSError):
            if f"{_MARK}={self._mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes():
                return True
        with suppress(OSError):
            return Path(f"/proc/{pid}/cwd").readlink().is_relative_to(self.data)
        return False
