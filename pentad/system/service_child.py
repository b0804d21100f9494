"""The process that a service of `pentad up` runs in. Only its parent starts it, with one argument (`service_process`).

It ends with its parent. Signals are the parent's to handle: it says when the service is to stop.
"""

import asyncio
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

from pentad.shared.child_processes import close_to_others, tie_to_parent
from pentad.shared.errors import PentadError, SettingsError
from pentad.shared.instructions.instruction_list import configured_instructions
from pentad.shared.metrics import counted_here
from pentad.shared.models.configured_models import configured_models
from pentad.shared.policies.policy_list import configured_policies
from pentad.shared.presence.loop_holds import watch_loop
from pentad.shared.service.exits import DONE, FAILED, leave, line_of
from pentad.shared.service.http import awaited, checks_of, outages_of, unmet
from pentad.shared.service.process import (
    Stop,
    StopAskedError,
    cancel_and_wait,
    collections_deferred,
    run_loop,
    settle,
)
from pentad.shared.service.run import give_way, stop_services
from pentad.shared.service.runnable import HasNotes, RunnableService
from pentad.shared.settings import Settings, take_into_environment
from pentad.shared.telemetry import pass_log_on
from pentad.system.reload import UsesInstructions, UsesModels, UsesPolicies
from pentad.system.service_process import MAX_LINE_BYTES, Order, ProcessLaunch, unpacked_line

log = logging.getLogger(__name__)

_LOOK_S, _FIRST_LOOKS_S = 0.25, 0.02
"""Seconds between two looks at the service's checks, and before they are all good for the first time."""
_TELL_S = 1.0
"""Seconds after which the checks are told although nothing has changed: the parent hears that this process works."""
_MAX_WAITING_BYTES = 1 << 20
"""Bytes that may wait for a parent that does not read; further lines of the log are left out until there is room."""
_LAST_WORDS_S = 2.0
"""Seconds in which the parent must take what is told at the end."""


class ParentConnection:
    """The connection to the parent: lines are told to it, and its requests answered."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        self._left_out = 0

    async def received(self) -> bytes:
        """Return the next line; empty when the parent has closed the connection."""
        return await self._reader.readline()

    def tell(self, kind: str, *parts: Any) -> None:
        """Send a line."""
        if not self._writer.is_closing():
            self._writer.write(json.dumps([kind, *parts]).encode() + b"\n")

    def log(self, record: dict[str, Any]) -> None:
        """Send a record of the log, from any thread. What the parent has no time for is left out, and counted."""
        if threading.get_ident() == self._thread:
            self._log(record)
        else:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._log, record)

    def _log(self, record: dict[str, Any]) -> None:
        if self._writer.transport.get_write_buffer_size() > _MAX_WAITING_BYTES:
            self._left_out += 1
            return
        if self._left_out:
            record["msg"] += f" ({self._left_out} lines before it were left out)"
            self._left_out = 0
        self.tell("log", record)

    async def answer(self, service: RunnableService, settings: Settings, stop: Stop) -> None:
        """Answer requests until the parent asks to stop, or closes the connection."""
        with suppress(OSError):
            while line := await self.received():
                match json.loads(line):
                    case ["stop"]:
                        break
                    case ["read"]:
                        await _read_files(service, settings)
                    case _:
                        self.tell("counts", counted_here())
        stop.asked.set()

    async def close(self) -> None:
        """Send what waits."""
        self._writer.close()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_S):
                await self._writer.wait_closed()


async def _run(launch: ProcessLaunch, stop: Stop) -> int:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, lambda: None)
    ours = socket.socket(fileno=launch.socket_fd)
    parent = ParentConnection(*await asyncio.open_connection(sock=ours, limit=MAX_LINE_BYTES))
    try:
        return await _serve(launch, parent, stop)
    finally:
        await parent.close()


async def _serve(launch: ProcessLaunch, parent: ParentConnection, stop: Stop) -> int:
    """Import and build the service as it is told to, and run it."""
    try:
        if not (environment := await parent.received()):
            return DONE
        take_into_environment(unpacked_line(environment))
        with collections_deferred():
            build: Callable[..., RunnableService] = import_module(launch.module).build
        if not (told := await parent.received()):
            return DONE
        order: Order = unpacked_line(told)
        pass_log_on(order.log_level, order.log_payloads, parent.log)
        service = build(order.settings)
    except Exception as error:
        return _failed(parent, error)
    give_way(launch.service)
    loops = parent.answer(service, order.settings, stop), watch_loop(service.name, gives_way=True)
    beside = [asyncio.create_task(each) for each in loops]
    try:
        code = await stop.unless_asked(_work(service, parent))
    except StopAskedError:
        code = DONE
    late = await stop_services([service], stop)
    await cancel_and_wait(*beside)
    parent.tell("counts", counted_here())
    return FAILED if late else code


async def _work(service: RunnableService, parent: ParentConnection) -> int:
    """Start the service, and tell how it does until it dies."""
    try:
        await service.start()
    except Exception as error:
        return _failed(parent, error)
    parent.tell("started")
    said, said_at, pause = None, 0.0, _FIRST_LOOKS_S
    await asyncio.sleep(_FIRST_LOOKS_S)
    settle()  # while the stores are being opened
    while service.alive():
        checks = checks_of(service)
        now = checks, dict(service.notes()) if isinstance(service, HasNotes) else {}, list(outages_of(service))
        if now != said or time.monotonic() - said_at >= _TELL_S:
            parent.tell("state", *now)
            said, said_at = now, time.monotonic()
        if not awaited([service]):
            pause = _LOOK_S
        await asyncio.sleep(pause)
    why = "; ".join(f"{name}: {text}" for name, text in unmet([service]).items())
    log.error("%s has died (%s)", service.name, why or "see the lines before")
    return FAILED


async def _read_files(service: RunnableService, settings: Settings) -> None:
    """Let the service use the instructions, models and approval policies that the files have now."""
    try:
        if isinstance(service, UsesInstructions):
            service.use_instructions(await asyncio.to_thread(configured_instructions, settings))
        if isinstance(service, UsesModels):
            service.use_models(await asyncio.to_thread(configured_models, settings))
        if isinstance(service, UsesPolicies):
            service.use_policies(await asyncio.to_thread(configured_policies, settings))
    except (PentadError, OSError) as error:  # it has changed again since the parent read it, which will say so
        log.warning("the %s goes on with the files that it has read before: %s", service.name, error)


def _failed(parent: ParentConnection, error: Exception) -> int:
    parent.tell("failed", isinstance(error, SettingsError), line_of(error))
    return FAILED


def main(argument: str) -> int:
    """Serve the parent until it says stop. Returns the exit code."""
    launch = ProcessLaunch.from_json(argument)
    tie_to_parent(launch.life_fd, launch.parent_pid)
    close_to_others()
    os.chdir(launch.directory)
    sys.path[:] = launch.path
    return run_loop(lambda stop: _run(launch, stop))


if __name__ == "__main__":
    leave(main(sys.argv[1]))
