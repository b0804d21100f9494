"""Small services to run for real: ``python -m tests.integration.service.system up --data-dir D`` and ``... router``.

They behave as the file ``play`` in the data directory says, so a test can break one while it runs:
``NAME die`` (its ``alive`` turns False), ``NAME hang`` (its ``stop`` never ends), ``NAME wait`` (``start`` waits),
``NAME fail`` (``start`` raises), ``NAME unready`` (a check fails).
"""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pentad.cli.main import build_parser
from pentad.cli.up import run_system
from pentad.contracts.streams import Service
from pentad.shared.embedded.redis_child import ask
from pentad.shared.errors import PentadError
from pentad.shared.service.exits import exit_code_of
from pentad.shared.service.http import HttpServer, health_routes
from pentad.shared.service.options import Options
from pentad.shared.service.run import Build, main_of
from pentad.shared.service.runnable import DEFAULT_PORTS, RunnableService
from pentad.shared.settings import Settings, load_settings


class Fake:
    """Asks its Redis on start, and writes down what happens to it in the file ``story``."""

    def __init__(self, name: str, settings: Settings) -> None:
        self.name = name
        self._folder = settings.pentad_data_dir
        self._redis = settings.redis()

    async def start(self) -> None:
        if self._plays("wait"):
            self._tell("wait")
        while self._plays("wait"):
            await asyncio.sleep(0.01)
        if self._plays("fail"):
            raise PentadError(f"{self.name} cannot start: the play says so")
        await ask(self._redis, "INCR", f"starts:{self.name}")
        self._tell("start")

    async def stop(self) -> None:
        while self._plays("hang"):
            await asyncio.sleep(0.01)
        self._tell("stop")

    def checks(self) -> Mapping[str, str | None]:
        return {"play": "the play says no" if self._plays("unready") else None}

    def alive(self) -> bool:
        return not self._plays("die")

    def _plays(self, what: str) -> bool:
        play = self._folder / "play"
        return play.exists() and f"{self.name} {what}" in play.read_text().splitlines()

    def _tell(self, what: str) -> None:
        with (self._folder / "story").open("a") as story:
            story.write(f"{what} {self.name}\n")


class FakeGateway(Fake):
    """Serves the health of all, and a WebSocket that says nothing."""

    def __init__(self, settings: Settings, host: str, port: int | None, others: Sequence[RunnableService] = ()) -> None:
        super().__init__("gateway", settings)
        self._others = others
        self._http = HttpServer(self._app, host, port, default_port=DEFAULT_PORTS["gateway"])

    @property
    def address(self) -> str:
        return self._http.address

    async def start(self) -> None:
        await super().start()
        await self._http.start()

    async def stop(self) -> None:
        await self._http.stop()
        await super().stop()

    async def _app(self, scope: object, receive: object, send: object) -> None:
        from starlette.applications import Starlette
        from starlette.routing import WebSocketRoute
        from starlette.websockets import WebSocket

        async def listen(socket: WebSocket) -> None:
            await socket.accept("pentad.v1" if socket.scope["subprotocols"] else None)
            await socket.receive()

        routes = [*health_routes([self, *self._others]), WebSocketRoute("/v1/ws", listen)]
        await Starlette(routes=routes)(scope, receive, send)  # type: ignore[arg-type]


def root(name: Service) -> Build:
    """The composition root of a fake."""
    if name == "gateway":
        return FakeGateway
    return lambda settings, **_: Fake(name, settings)


def main(argv: list[str]) -> int:
    if argv[0] != "up":
        name: Service = argv[0]  # type: ignore[assignment]
        return main_of(name, argv[1:], root(name))
    args = build_parser().parse_args(argv)

    def up() -> int:
        Path(args.data_dir).mkdir(exist_ok=True)
        return run_system(load_settings(pentad_data_dir=args.data_dir), Options.of(args), root)

    return exit_code_of(up, prog="pentad", debug=args.debug)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
