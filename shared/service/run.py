"""Runs services in this process: starts them in order, says that they are ready, watches, stops them in reverse.

``python -m services.router`` and ``pentad serve router`` are both ``serve_one``; ``pentad up`` calls ``run_services``.
"""

import argparse
import asyncio
import logging
import os
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from pentad.contracts.streams import Service
from pentad.shared.addresses import is_loopback
from pentad.shared.embedded.operator_key import with_operator_key
from pentad.shared.errors import PentadError, SettingsError
from pentad.shared.presence.loop_holds import watch_loop
from pentad.shared.service.exits import DONE, FAILED, exit_code_of, say_unknown_variables
from pentad.shared.service.http import HttpServer, awaited, health_app, outages_of, unmet
from pentad.shared.service.options import Options, add_serve_options
from pentad.shared.service.process import Stop, StopAskedError, cancel_and_wait, run_loop, settle
from pentad.shared.service.runnable import DEFAULT_PORTS, Announcing, Listening, RunnableService
from pentad.shared.settings import Settings, load_settings
from pentad.shared.telemetry import chosen_form, configure_logging

log = logging.getLogger(__name__)

STOP_LIMIT_S = 25.0
"""Seconds that all services together get to stop after the first signal; below the 30 s of containers."""
_HURRIED_S = 0.5
_WATCH_S = 0.25
_START_QUIETLY_S = 1.0

_LESS_URGENT: Mapping[Service, int] = {"archiver": 5}
"""How nice a process is to the others of its machine: nobody waits for what is remembered as one does for an answer.
What it starts is as nice as itself."""

Build = Callable[..., RunnableService]
"""A composition root: ``build(settings)``; the gateway's is ``build(settings, host, port)``. No I/O."""


class DiedError(PentadError):
    """A part that should run for ever has ended. The process is to be started again."""


def main_of(name: Service, argv: Sequence[str], build: Build) -> int:
    """The command ``python -m services.NAME``; returns its exit code."""
    parser = argparse.ArgumentParser(prog=f"python -m services.{name.replace('-', '_')}")
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    add_serve_options(parser)
    args = parser.parse_args(argv)
    say_unknown_variables(parser.prog)
    return exit_code_of(lambda: _main(name, build, args), prog=parser.prog, debug=args.debug)


def _main(name: Service, build: Build, args: argparse.Namespace) -> int:
    options = Options.of(args)
    return serve_one(name, build, load_settings(pentad_data_dir=options.data_dir), options)


def serve_one(name: Service, build: Build, settings: Settings, options: Options) -> int:
    """Run one service until it is told to end. Raises ``PentadError`` when it cannot start or dies."""
    level, form = options.log_level or settings.pentad_log_level, settings.pentad_log_format
    configure_logging(level, payloads=options.log_payloads, form=form)
    settings.redis()
    if name == "gateway":
        require_keys(settings, options.host)
        service = build(with_operator_key(settings), options.host, options.port)
        return run_loop(lambda stop: run_services([service], stop))
    give_way(name)
    watched = Watched(build(settings))
    health = _health_of(watched, name, settings, options)
    health.claim()
    return run_loop(lambda stop: run_services([watched], stop, health))


def give_way(name: Service) -> None:
    """Lower the priority of this process when others that run beside this service are more urgent."""
    if sys.platform != "win32":
        os.nice(_LESS_URGENT.get(name, 0))


def _health_of(service: RunnableService, name: Service, settings: Settings, options: Options) -> HttpServer:
    app = health_app([service], metrics_keys=metrics_keys_of(settings, options.host))
    return HttpServer(app, options.host, options.port, default_port=DEFAULT_PORTS[name])


def require_keys(settings: Settings, host: str) -> None:
    """Refuse an open gateway on an address that others can reach. Raises ``SettingsError``."""
    if not settings.api_keys and not is_loopback(host):
        raise SettingsError(f"PENTAD_API_KEYS is not set: a gateway on {host} needs it, as key:tenant,...")


def metrics_keys_of(settings: Settings, host: str) -> tuple[str, ...] | None:
    """The ``metrics_keys`` of ``health_routes`` for a server on this host."""
    if is_loopback(host):
        return None
    return tuple(key for key in (settings.metrics_key, settings.admin_key) if key is not None)


class Watched:
    """A service that says of itself whether it has started: it may wait for a store long before it is ready."""

    def __init__(self, service: RunnableService) -> None:
        self.name = service.name
        self._service = service
        self._started = False

    @property
    def about(self) -> str:
        """The service's line for the person who starts it."""
        return self._service.about if isinstance(self._service, Announcing) else ""

    async def start(self) -> None:
        await self._service.start()
        self._started = True

    async def stop(self) -> None:
        await self._service.stop()

    def checks(self) -> Mapping[str, str | None]:
        return {**self._service.checks(), "start": None if self._started else "still starting"}

    def outages(self) -> Collection[str]:
        """Return what the service starts without."""
        return outages_of(self._service)

    def alive(self) -> bool:
        return not self._started or self._service.alive()


Ready = Callable[[Sequence[RunnableService], HttpServer | None], None]
"""Is told once that the services are ready, with the server of their health checks when they have one."""


def say_ready(services: Sequence[RunnableService], health: HttpServer | None) -> None:
    """Tell what the services say of themselves, and the address: of the one that listens, else of ``health``.

    For a person, or a program that starts us, on standard output; for whoever reads the log, there too, with time and
    level. A log of JSON is all there is: no line of another kind stands between.
    """
    lines, plain = [*_about(services), _ready_line(services, health)], chosen_form() == "console"
    if plain:
        print("\n".join(lines), flush=True)
    if not (plain and sys.stderr.isatty()):
        for line in lines:
            log.info("%s", line)


async def run_services(
    services: Sequence[RunnableService], stop: Stop, health: HttpServer | None = None, *, ready: Ready = say_ready
) -> int:
    """Start the services in order, say that they are ready, run until asked to stop, stop them in reverse order.

    ``health`` is served once the services consume (or after a second of waiting). Returns the exit code: 1 when
    something did not stop in time. Raises what a start raises, and ``DiedError`` when a part dies; everything has been
    stopped then.
    """
    begun: list[RunnableService] = []
    watching: asyncio.Task[None] | None = None
    try:
        await stop.unless_asked(_start(services, begun, health))
        await stop.unless_asked(_until_ready(services))
        ready(services, health)
        settle()
        watching = asyncio.create_task(watch_loop(_name_of(services)))
        await stop.unless_asked(_until_dead(services, health))
    except StopAskedError:
        log.info("stopping")
    finally:
        if watching is not None:
            watching.cancel()
        late = await stop_services(begun, stop)
        if health is not None:
            await health.stop()
    return FAILED if late else DONE


def _name_of(services: Sequence[RunnableService]) -> str:
    return services[0].name if len(services) == 1 else "all services"


async def _start(services: Sequence[RunnableService], begun: list[RunnableService], health: HttpServer | None) -> None:
    starting = asyncio.create_task(_start_in_order(services, begun))
    try:
        if health is not None:
            done, _ = await asyncio.wait({starting}, timeout=_START_QUIETLY_S)
            for failed in done:
                failed.result()
            await health.start()
        await starting
    finally:
        await cancel_and_wait(starting)


async def _start_in_order(services: Sequence[RunnableService], begun: list[RunnableService]) -> None:
    for service in services:
        begun.append(service)
        await service.start()
        log.info("%s has started", service.name)


async def _until_ready(services: Sequence[RunnableService]) -> None:
    said = time.monotonic()
    while wrong := awaited(services):
        _raise_when_dead(services, None)
        if time.monotonic() - said > 5:
            said = time.monotonic()
            log.warning("not ready yet: %s", "; ".join(f"{name}: {text}" for name, text in wrong.items()))
        await asyncio.sleep(0.02)


def _about(services: Sequence[RunnableService]) -> list[str]:
    return [service.about for service in services if isinstance(service, Announcing) and service.about]


def _ready_line(services: Sequence[RunnableService], health: HttpServer | None) -> str:
    listening = next((service for service in services if isinstance(service, Listening)), None)
    if listening is not None:
        return f"ready on {listening.address}"
    where = f" on {health.address}" if health is not None else ""
    return f"{' '.join(service.name for service in services)} ready{where}"


async def _until_dead(services: Sequence[RunnableService], health: HttpServer | None) -> None:
    while True:
        _raise_when_dead(services, health)
        await asyncio.sleep(_WATCH_S)


def _raise_when_dead(services: Sequence[RunnableService], health: HttpServer | None) -> None:
    for service in services:
        if not service.alive():
            why = "; ".join(f"{name}: {text}" for name, text in unmet([service]).items())
            raise DiedError(f"{service.name} has died ({why or 'see the log'})")
    if health is not None and not health.alive():
        raise DiedError("the HTTP server of the health checks has died")


async def stop_services(services: Sequence[RunnableService], stop: Stop) -> list[str]:
    """Stop in reverse order, within ``STOP_LIMIT_S`` for all; returns the names of those that did not stop well."""
    limit = time.monotonic() + STOP_LIMIT_S
    return [service.name for service in reversed(services) if not await _stop_one(service, stop, limit)]


async def _stop_one(service: RunnableService, stop: Stop, limit: float) -> bool:
    stopping = asyncio.create_task(service.stop(), name=f"stop {service.name}")
    hurried = asyncio.create_task(stop.hurried.wait())
    left = max(_HURRIED_S, limit - time.monotonic())
    await asyncio.wait({stopping, hurried}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
    if not stopping.done():
        await asyncio.wait({stopping}, timeout=_HURRIED_S)
    hurried.cancel()
    return _verdict(service.name, stopping)


def _verdict(name: str, stopping: "asyncio.Task[None]") -> bool:
    if not stopping.done():
        stopping.cancel()
        log.error("%s did not stop in time: what it had in work goes to others when its leases end", name)
        return False
    if (error := stopping.exception()) is not None:
        log.error("%s did not stop well", name, exc_info=error)
        return False
    return True
