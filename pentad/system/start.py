"""``pentad.start()``: the whole system beside the caller's own work, on the caller's loop but for the archiver."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from pydantic import BaseModel

from pentad.client.agent import Agent
from pentad.client.gateway import Address
from pentad.errors import ClientError
from pentad.shared.agent_graphs.given import GivenGraph
from pentad.shared.command_settings import adopt_env_file, unknown_variables
from pentad.shared.embedded.data_dir import DataDirLock
from pentad.shared.embedded.operator_key import with_operator_key
from pentad.shared.errors import SettingsError
from pentad.shared.instructions.instruction_list import given_runnables
from pentad.shared.models.model_list import given_models
from pentad.shared.plugins.definition import ToolDefinition
from pentad.shared.plugins.errors import PluginError
from pentad.shared.plugins.expandable import ExpandableTool
from pentad.shared.plugins.given import given_tools
from pentad.shared.plugins.loading import is_loading_plugins, script_plugin
from pentad.shared.service.http import HttpServer
from pentad.shared.service.options import Options
from pentad.shared.service.process import Stop
from pentad.shared.service.runnable import Listening, RunnableService
from pentad.shared.settings import Settings, load_settings
from pentad.shared.telemetry import logging_to
from pentad.system.composition import Roots, run_all

log = logging.getLogger(__name__)

GivenTool = Callable[..., Any] | ExpandableTool | type[ExpandableTool]
"""A tool that a program hands over."""

_GONE = "the system that pentad.start() ran has stopped"


@asynccontextmanager
async def start(
    data_dir: str | Path | None = None,
    *,
    models: Sequence[Mapping[str, Any] | BaseModel] = (),
    instructions: Sequence[Mapping[str, Any] | BaseModel] = (),
    graphs: Sequence[GivenGraph] = (),
    tools: Sequence[GivenTool] = (),
    plugins: Sequence[str | ModuleType] | None = None,
    logger: logging.Logger | None = None,
    port: int = 0,
    user_id: str | None = None,
    **settings: Any,
) -> AsyncIterator[Agent]:
    """Run all six services here for the length of an ``async with``, and talk to them: yields a connected ``Agent``.

    With an embedded Redis on ``data_dir`` (``PENTAD_DATA_DIR``) unless ``REDIS_URL`` is set; the gateway listens on
    loopback, on ``port`` or any free one.

    ``models``, ``instructions`` and ``graphs``: dicts with the fields of the files of ``PENTAD_MODELS`` and
    ``PENTAD_INSTRUCTIONS``, a graph also as an ``AgentGraph``; they go before entries of the files with the same id or
    name. ``tools``: functions,
    decorated with ``@pentad.tool`` or plain, and objects of ``pentad.ExpandableTool``. They run in this process, async
    ones on this loop, plain ones in threads, with the time limits of other tools; but one that blocks the loop holds up
    everything, and a thread that hangs is not ended. ``plugins``: modules with tools and instructions, in place of
    ``PENTAD_PLUGINS``, whose tools run in processes of their own; those that the running program itself defines are
    there too. ``logger`` gets the log of all services, in place of the root logger. ``user_id``: as of ``connect``.
    ``settings`` go before the environment's, named as the variables in lower case: ``pentad_grace_s=60``. A ``.env`` in
    the working directory is read as ``pentad up`` reads it: what it names becomes a variable of this process where it
    is not set.

    Returns when all are ready, however long a Redis of your own takes. Takes no signals, and leaves logging as it is
    without ``logger``.
    Raises ``PentadError`` when it cannot start, which names the place of a mistake in an argument, and at the block's
    end when a service has died; the block is cancelled then.
    """
    definitions = _tools(tools)
    chosen = _settings(data_dir, plugins, settings, definitions)
    given = given_models(models), await asyncio.to_thread(given_runnables, instructions, graphs)
    chosen = chosen.handing_over(*given)
    with logging_to(logger), DataDirLock(chosen.pentad_data_dir):
        for line in unknown_variables():
            log.warning("%s", line)
        chosen = with_operator_key(chosen)
        async with (
            running_system(chosen, Options(port=port), tools=definitions) as url,
            Agent(Address.parse(url, _key(chosen), hint=_GONE), admin_key=chosen.admin_key, user_id=user_id) as agent,
        ):
            yield agent


def _tools(tools: Sequence[GivenTool]) -> Sequence[ToolDefinition]:
    try:
        return given_tools(tools)
    except PluginError as error:
        raise PluginError(f"pentad.start(tools=...) is wrong: {error}") from None


def _settings(
    data_dir: str | Path | None,
    plugins: Sequence[str | ModuleType] | None,
    given: dict[str, Any],
    tools: Sequence[ToolDefinition],
) -> Settings:
    if is_loading_plugins():
        raise PluginError(
            "pentad.start() is called where this program is imported for its tools: put the call under "
            'if __name__ == "__main__":'
        )
    if wrong := sorted(given.keys() - Settings.model_fields.keys()):
        raise SettingsError(
            f"pentad.start() knows no setting {wrong[0]!r}: they are named as the variables in docs/configure.md, in "
            "lower case, e.g. pentad_grace_s"
        )
    adopt_env_file()
    chosen = load_settings(pentad_data_dir=data_dir, pentad_plugins=_names(plugins), **given)
    script = script_plugin(tools)
    if script is None or script in chosen.pentad_plugins:
        return chosen
    return chosen.model_copy(update={"pentad_plugins": (*chosen.pentad_plugins, script)})


def _names(plugins: Sequence[str | ModuleType] | None) -> Sequence[str] | str | None:
    if plugins is None or isinstance(plugins, str):
        return plugins
    return tuple(module if isinstance(module, str) else module.__name__ for module in plugins)


def _key(settings: Settings) -> str | None:
    """A key that this gateway knows: the client's when it is one, else the first."""
    own = settings.pentad_api_key.get_secret_value() if settings.pentad_api_key else None
    return own if own in settings.api_keys else next(iter(settings.api_keys), None)


@asynccontextmanager
async def running_system(
    settings: Settings, options: Options, roots: Roots | None = None, *, tools: Sequence[ToolDefinition] = ()
) -> AsyncIterator[str]:
    """The whole system for the length of a block; yields the gateway's address. The caller holds the ``DataDirLock``.

    Raises ``PentadError`` when it cannot start, or a part dies within the block.
    """
    stop, address = Stop(), asyncio.get_running_loop().create_future()

    def ready(services: Sequence[RunnableService], _: HttpServer | None) -> None:
        address.set_result(next(service.address for service in services if isinstance(service, Listening)))

    work = run_all(settings, options, stop, roots=roots, ready=ready, tools=tools)
    running = asyncio.create_task(work, name="pentad")
    try:
        await asyncio.wait({running, address}, return_when=asyncio.FIRST_COMPLETED)
        if not address.done():
            running.result()
        async with _CancelledBy(running):
            yield address.result()
    finally:
        await _stopped(running, stop)


async def _stopped(running: "asyncio.Task[int]", stop: Stop) -> None:
    """Ask it to stop and wait until it has; cancelled meanwhile, it hurries."""
    stop.asked.set()
    try:
        await asyncio.wait({running})
    except asyncio.CancelledError:
        stop.hurried.set()
        await asyncio.wait({running})
        raise
    finally:
        if running.done() and not running.cancelled():
            running.exception()  # raised already, or of no interest to a caller who has left


class _CancelledBy:
    """A block that is cancelled when a task ends before it; what the task raised is raised at the block's end."""

    def __init__(self, running: "asyncio.Task[int]") -> None:
        self._running = running
        self._ended = False

    async def __aenter__(self) -> None:
        block = asyncio.current_task()
        assert block is not None
        self._block, self._cancels = block, block.cancelling()
        self._running.add_done_callback(self._end_block)

    def _end_block(self, _: "asyncio.Task[int]") -> None:
        self._ended = True
        self._block.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.remove_done_callback(self._end_block)
        if not self._ended:
            return
        if kind is None:  # it ended before it could be cancelled
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
        others = self._block.uncancel() > self._cancels
        if kind is None or issubclass(kind, ClientError) or (kind is asyncio.CancelledError and not others):
            self._running.result()
