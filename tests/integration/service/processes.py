"""Real processes for the tests of the frame, and what is left of them afterwards."""

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGKILL, Signals
from types import TracebackType

from tests.support.waiting import PATIENCE_S, wait_until

_MARK = "LC_TEST_MARK"
"""Named like a variable of the language, which every process of ours is given, helpers and tools too."""
_ENVIRONMENT = {"PENTAD_LOG_LEVEL": "warning"}


class Started:
    """A process whose descendants can be found again: by a mark in their environment, or by living in ``folder``.

    (Redis writes its title over its environment, but works in its data folder.)
    """

    def __init__(self, folder: Path, *words: str, **environment: str) -> None:
        self.folder = folder
        self.mark = uuid.uuid4().hex
        self._out, self._err = folder / f"{self.mark}.out", folder / f"{self.mark}.err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *words],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=_clean_environment() | {_MARK: self.mark} | _ENVIRONMENT | environment,
                start_new_session=True,
            )

    @property
    def out(self) -> str:
        return self._out.read_text(errors="replace")

    @property
    def err(self) -> str:
        return self._err.read_text(errors="replace")

    async def ready(self) -> str:
        """Wait for the whole line that says so, and return the address in it."""
        await wait_until("the ready line", lambda: self._is_ready or self.process.poll() is not None)
        assert self._is_ready, f"ended with {self.process.returncode}: {self.err}"
        return self.out.split()[-1]

    @property
    def _is_ready(self) -> bool:
        return "\n" in self.out.partition("ready on")[2]

    async def exit_code(self, seconds: float = PATIENCE_S) -> int:
        """Wait until it has ended."""
        await wait_until("the process to end", lambda: self.process.poll() is not None, seconds)
        code = self.process.returncode
        assert code is not None
        return code

    def signal(self, number: Signals) -> None:
        self.process.send_signal(number)

    def signal_group(self, number: Signals) -> None:
        """What a terminal does on Ctrl-C: every process of the group hears it."""
        os.killpg(self.process.pid, number)

    def descendants(self) -> list[int]:
        """Living processes that it started, at any depth, also after its own end."""
        return [pid for pid in _all_pids() if pid != self.process.pid and self._is_ours(pid)]

    def _is_ours(self, pid: int) -> bool:
        return self.mark.encode() in _environment_of(pid) or _folder_of(pid).is_relative_to(self.folder)

    async def gone(self) -> None:
        """Wait until nothing of it is left."""
        await wait_until("its children to end", lambda: not self.descendants())

    def __enter__(self) -> "Started":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for pid in (*self.descendants(), *([self.process.pid] if self.process.poll() is None else ())):
            with _already_gone():
                os.kill(pid, SIGKILL)
        self.process.wait(timeout=PATIENCE_S)


@contextmanager
def _already_gone() -> Iterator[None]:
    try:
        yield
    except ProcessLookupError:
        return


def _clean_environment() -> dict[str, str]:
    ours = ("REDIS_URL", "PENTAD_", "LLM_", "EMBED_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def _all_pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _environment_of(pid: int) -> bytes:
    """Empty for a zombie, which has ended and only waits to be counted."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def _folder_of(pid: int) -> Path:
    try:
        return Path(f"/proc/{pid}/cwd").readlink()
    except OSError:
        return Path("/")
