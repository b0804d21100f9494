"""The embedded Redis: a server from its wheel, a child of this process, with its data in the data directory.

with DataDirLock(data_dir):
    redis = EmbeddedRedis(data_dir, "everysec")
    url = await redis.start()
    ...
    await redis.stop()
"""

import asyncio
import contextlib
import logging
import secrets
import time
from pathlib import Path
from typing import Literal

from pentad.shared.embedded.data_dir import keep_to_ourselves
from pentad.shared.embedded.redis_child import RedisChild, free_port, is_free
from pentad.shared.embedded.redis_folder import Folder, KnownServer, write_atomically
from pentad.shared.embedded.redis_orphan import end_left_behind
from pentad.shared.errors import SettingsError

log = logging.getLogger(__name__)

Fsync = Literal["everysec", "always"]
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 5.0
_STEADY_S = 30.0
_PORT_TRIES = 5


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
        """The address to connect to, with its password. Raises ``RuntimeError`` before ``start``."""
        return self._running.url

    @property
    def pid(self) -> int:
        """The server's process id; another one after it had to be started again."""
        return self._running.process.pid

    async def start(self) -> str:
        """Start, wait until the data is loaded, and return the address, which is also in ``redis.url``.

        Raises ``SettingsError`` that says what to do when there is no server or it does not start.
        """
        self._folder.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        keep_to_ourselves(self._folder.path)
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
            known = KnownServer(self._choose_port(), password=self._password())
            try:
                return await self._spawn(known)
            except SettingsError:
                # Between choosing and opening, somebody else may have taken the port.
                if self._wanted_port is not None or is_free(known.port):
                    raise
        raise SettingsError("found no free loopback port for the embedded Redis; set REDIS_URL to use another")

    def _choose_port(self) -> int:
        if self._wanted_port is not None:
            return self._wanted_port
        last = self._folder.known().port
        return last if last and is_free(last) else free_port()

    def _password(self) -> str:
        """That of last time, like the port: who has the address goes on with it."""
        return self._folder.known().password or secrets.token_urlsafe(24)

    async def _spawn(self, known: KnownServer) -> RedisChild:
        child = await RedisChild.spawn(self._folder, known, self._options())
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
            "proto-max-bulk-len": "64mb",  # the largest that we send has half of it
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
            running = self._running
            self._child = await self._spawn(KnownServer(running.port, password=running.password))
        except SettingsError as error:
            log.error("%s", error)
        else:
            log.warning("the embedded Redis runs again with its data")
