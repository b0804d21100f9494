"""The process that user-defined tools run in. Only the worker starts it, with one argument (see ``launch``)."""

import asyncio
import logging
import os
import signal
import socket
import sys

import uvloop

from pentad.contracts.graphs import GraphSpec, Runnable
from pentad.services.tool_worker.children.call_server import CallServer
from pentad.services.tool_worker.children.launch import Launch
from pentad.services.tool_worker.children.tool_frames import Frame, pack
from pentad.services.tool_worker.children.tool_output import redirect_output
from pentad.shared.child_processes import tie_to_parent
from pentad.shared.instructions.usable import prove_usable
from pentad.shared.plugins.definition import companions_of
from pentad.shared.plugins.errors import PluginError
from pentad.shared.plugins.expandable import not_made_by_plugins
from pentad.shared.plugins.graphs import registered_graphs
from pentad.shared.plugins.hooks import registered_hooks
from pentad.shared.plugins.instructions import registered_instructions
from pentad.shared.plugins.loading import load_plugins, source_files
from pentad.shared.plugins.registry import registered_tools

_log = logging.getLogger("pentad.tools")


def main(argument: str) -> int:
    """Serves calls until the worker says stop. Returns the exit code."""
    told = Launch.from_json(argument)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the worker's to handle
    tie_to_parent(told.life_fd, told.parent_pid)
    _settle(told)
    connection = socket.socket(fileno=told.socket_fd)
    try:
        before = [*sys.modules]
        load_plugins(told.plugins)
        for kind in not_made_by_plugins():
            _log.warning(
                "%s is no tool of a plug-in, because it cannot be made without arguments: give them defaults, or hand "
                "an object to pentad.start(tools=[...])",
                kind,
            )
        connection.sendall(pack(_ready(source_files(told.plugins, before))))
    except PluginError as error:
        connection.sendall(pack(["failed", str(error)]))
        return 1
    _serve(connection, told.threads)
    return 0


def _settle(told: Launch) -> None:
    """Where the worker is, importing as it does; what tools print and log goes to its log."""
    os.chdir(told.directory)
    sys.path[:] = told.path
    sys.dont_write_bytecode = told.changing  # a file that changes twice in a second would be taken for the same
    redirect_output(told.log_level, told.log_form)


def _ready(files: list[str]) -> Frame:
    tools, instructions = registered_tools().values(), registered_instructions().values()
    graphs = registered_graphs().values()
    made: list[Runnable] = [*instructions, *graphs]
    for each in made:
        _check_usable(each)
    return [
        "ready",
        [[tool.spec.model_dump(mode="json"), tool.is_async, list(tool.env)] for tool in tools],
        [each.model_dump(mode="json") for each in instructions],
        files,
        [each.model_dump(mode="json") for each in graphs],
        [[each.spec.model_dump(mode="json"), each.is_async] for each in registered_hooks().values()],
        {name: each.is_async for name, each in companions_of(tools).items()},
    ]


def _check_usable(runnable: Runnable) -> None:
    """Raises ``PluginError``."""
    try:
        prove_usable(runnable)
    except ValueError as error:
        word = "graph" if isinstance(runnable, GraphSpec) else "instruction"
        raise PluginError(f"{word} {runnable.name!r}: {error}") from None


def _serve(connection: socket.socket, threads: int) -> None:
    serving = CallServer(registered_tools(), threads, registered_hooks())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serving.serve(connection))
    if serving.hangs:  # its thread would hold the interpreter's exit
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
