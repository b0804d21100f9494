"""The embedded Redis: a server from its wheel, a child of this process, with its data in the data directory.

with DataDirLock(data_dir):
    redis = EmbeddedRedis(data_dir, "everysec")
    url = await redis.start()
    ...
    await redis.stop()
"""

import asyncio
import contextlib
import fcntl
import logging
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Literal

from pentad.shared.embedded.redis_child import RedisChild, free_port, is_free
from pentad.shared.embedded.redis_folder import Folder, write_atomically
from pentad.shared.embedded.redis_orphan import end_left_behind
from pentad.shared.errors import SettingsError

log = logging.getLogger(__name__)

Fsync = Literal["everysec", "always"]
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 5.0
_STEADY_S = 30.0
_PORT_TRIES = 5


class DataDirLock:
    """One system to a data directory. A context manager; holds the file ``lock``, which names the process."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / "lock"
        self._fd: int | None = None

    def acquire(self) -> None:
        """Raises ``SettingsError`` naming the process that has it, or why the directory cannot be used."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise SettingsError(f"PENTAD_DATA_DIR cannot be used: {error}") from None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            raise SettingsError(self._refusal(error)) from None
        os.ftruncate(fd, 0)
        os.write(fd, str(os.getpid()).encode())
        self._fd = fd

    def release(self) -> None:
        """Let the next one in. Harmless when not held."""
        if self._fd is not None:
            os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = None

    def _refusal(self, error: OSError) -> str:
        if not isinstance(error, BlockingIOError):
            return f"{self._path} cannot be locked ({error}): PENTAD_DATA_DIR must be on a local disk"
        pid = self._path.read_text() or "unknown"
        folder = self._path.parent
        advice = "stop it, or choose another with --data-dir or PENTAD_DATA_DIR"
        return f"process {pid} already runs on the data directory {folder}: {advice}"

    def __enter__(self) -> "DataDirLock":
        self.acquire()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.release()


class EmbeddedRedis:
    """The server, kept running on one port from ``start`` to ``stop``. The caller holds the ``DataDirLock``.

    ``fsync`` is Redis's ``appendfsync``: ``everysec`` can lose the last second or two when the machine or the server
    is killed, ``always`` nothing that was confirmed. ``port`` None: the port of last time when free, else any.
    """

    def __init__(self, data_dir: Path, fsync: Fsync = "everysec", port: int | None = None) -> None:
        self._folder = Folder(data_dir / "redis")
        self._address = data_dir / "redis.url"
        self._fsync = fsync
        self._wanted_port = port
        self._child: RedisChild | None = None
        self._keeper: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """The address to connect to. Raises ``RuntimeError`` before ``start``."""
        return f"redis://127.0.0.1:{self._running.port}/0"

    @property
    def pid(self) -> int:
        """The server's process id; another one after it had to be started again."""
        return self._running.process.pid

    async def start(self) -> str:
        """Start, wait until the data is loaded, and return the address, which is also in ``redis.url``.

        Raises ``SettingsError`` that says what to do when there is no server or it does not start.
        """
        self._folder.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        await end_left_behind(self._folder)
        self._keep_last_log()
        self._child = await self._first()
        write_atomically(self._address, self.url)
        self._keeper = asyncio.create_task(self._keep(), name="embedded-redis")
        return self.url

    async def stop(self) -> None:
        """Shut down and wait until everything written is on disk. Harmless when not started."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            await asyncio.wait({keeper})
        child, self._child = self._child, None
        if child is not None:
            await child.end()
            self._address.unlink(missing_ok=True)

    @property
    def _running(self) -> RedisChild:
        if self._child is None:
            raise RuntimeError("the embedded Redis does not run: call start() first")
        return self._child

    def _keep_last_log(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._folder.log.replace(self._folder.log.with_suffix(".log.1"))

    async def _first(self) -> RedisChild:
        for _ in range(_PORT_TRIES):
            port = self._choose_port()
            try:
                return await self._spawn(port)
            except SettingsError:
                # Between choosing and opening, somebody else may have taken the port.
                if self._wanted_port is not None or is_free(port):
                    raise
        raise SettingsError("found no free loopback port for the embedded Redis; set REDIS_URL to use another")

    def _choose_port(self) -> int:
        if self._wanted_port is not None:
            return self._wanted_port
        last = self._folder.known().port
        return last if last and is_free(last) else free_port()

    async def _spawn(self, port: int) -> RedisChild:
        child = await RedisChild.spawn(self._folder, port, self._options())
        try:
            await child.until_ready(self._folder)
        except BaseException:
            await asyncio.shield(child.end())
            raise
        return child

    def _options(self) -> dict[str, str]:
        return {
            "protected-mode": "yes",
            "daemonize": "no",
            "save": "",
            "appendonly": "yes",
            "appendfsync": self._fsync,
            "aof-load-truncated": "yes",
            "maxmemory-policy": "noeviction",
        }

    async def _keep(self) -> None:
        pause = _FIRST_PAUSE_S
        while True:
            began = time.monotonic()
            code = await self._running.process.wait()
            self._running.dismiss_guard()
            pause = _FIRST_PAUSE_S if time.monotonic() - began > _STEADY_S else min(pause * 2, _LONGEST_PAUSE_S)
            log.error("the embedded Redis ended (exit code %s): starting it again on port %d", code, self._running.port)
            await asyncio.sleep(pause)
            await self._again()

    async def _again(self) -> None:
        """One attempt to run again; a failure is logged, and the next one follows after a longer pause."""
        try:
            self._child = await self._spawn(self._running.port)
        except SettingsError as error:
            log.error("%s", error)
        else:
            log.warning("the embedded Redis runs again with its data")
