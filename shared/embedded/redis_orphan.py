"""Ends a Redis server that a killed run left behind, before its data is opened again."""

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
from pathlib import Path

from pentad.shared.embedded.redis_child import ask
from pentad.shared.embedded.redis_folder import Folder, KnownServer
from pentad.shared.errors import SettingsError

log = logging.getLogger(__name__)

_HEED_S = 5.0


async def end_left_behind(folder: Folder) -> None:
    """Return when no server has the data open. The caller owns the data directory, so a server there is an orphan.

    It is asked to shut down, then told, then killed. Raises ``SettingsError`` when the data stays open all the same.
    """
    if _free(folder):
        return
    known = folder.known()
    log.warning("a Redis of an earlier run (process %d) still has %s open: ending it", known.pid, folder.path)
    for attempt in (_ask_to_end, _tell_to_end, _kill):
        if await attempt(folder, known) and await _freed(folder):
            return
    if await _freed(folder):
        return
    raise SettingsError(f"a Redis that is not ours to end has the data in {folder.path} open: end it, then start again")


def _free(folder: Folder) -> bool:
    fd = folder.lock()
    if fd is not None:
        os.close(fd)
    return fd is not None


async def _freed(folder: Folder) -> bool:
    fd = await folder.lock_within(_HEED_S)
    if fd is not None:
        os.close(fd)
    return fd is not None


async def _ask_to_end(folder: Folder, known: KnownServer) -> bool:
    with contextlib.suppress(OSError):
        if not known.port or not await _serves(folder, known):
            return False
        with contextlib.suppress(ConnectionError):  # it answers by closing
            await ask(known.url, "SHUTDOWN")
        return True
    return False


async def _serves(folder: Folder, known: KnownServer) -> bool:
    """Whether the server on this port has this folder open: then it is the one, whatever its process id."""
    answer = await ask(known.url, "CONFIG", "GET", "dir")
    return isinstance(answer, list) and answer[1:] == [str(folder.path)]


async def _tell_to_end(folder: Folder, known: KnownServer) -> bool:
    # A stopped process hears SIGTERM only when it goes on.
    return await _signal(known, signal.SIGTERM, signal.SIGCONT)


async def _kill(folder: Folder, known: KnownServer) -> bool:
    return await _signal(known, signal.SIGKILL)


async def _signal(known: KnownServer, *numbers: signal.Signals) -> bool:
    if not known.pid or str(known.port) not in await asyncio.to_thread(_command_of, known.pid):
        return False
    for number in numbers:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(known.pid, number)
    return True


def _command_of(pid: int) -> str:
    """The command line of a process when it is a Redis server of ours, else empty: process ids are used again."""
    listed = Path(f"/proc/{pid}/cmdline")
    try:
        if Path("/proc/self").exists():
            command = listed.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        else:
            command = subprocess.run(
                ["ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, timeout=5, check=False
            ).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    return command if "valkey-server" in command else ""
