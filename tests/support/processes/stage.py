"""A running ``pentad up`` whose model is played by the test.

    async with stage.model(lambda request: say("hello")) as model:
        async with stage.line() as line:
            await line.turn("hi")

One system serves all tests of a process, so that its start is paid once: each test has sessions of its own, and plays
the model, on the port that the system was told, for as long as it runs. Nothing is recalled, so that no test's prompt
has what others have said.
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from signal import SIGTERM
from uuid import uuid4

from tests.support.clients.api import Api
from tests.support.clients.line import Line
from tests.support.models.model_server import Script, ScriptedModel
from tests.support.models.replies import MODEL
from tests.support.ports import free_port
from tests.support.processes.up import Up

PLUGINS = "tests.support.plugins.staged_tools"


class Stage:
    """The system, and the ways to it that are open to everybody."""

    def __init__(self, url: str, redis_url: str, model_port: int) -> None:
        self.url, self.redis_url = url, redis_url
        self._model_port = model_port

    def model(self, script: Script) -> ScriptedModel:
        """The model, for ``async with``: it answers as the script says."""
        return ScriptedModel(script, port=self._model_port)

    def line(self, session: str | None = None, after: str | None = None) -> Line:
        """A WebSocket, for ``async with``; to a new session when none is named."""
        return Line(self.url, session or new_session(), after)

    def api(self) -> Api:
        """The REST side, for ``async with``."""
        return Api(self.url)


def new_session() -> str:
    """A session that nobody has used."""
    return f"s-{uuid4().hex[:12]}"


def echo_asks(folder: Path) -> dict[str, str]:
    """The setting by which a person must allow each call of ``echo``; its file is written into the folder."""
    file = folder / "policies.json"
    file.write_text('{"policies": [{"name": "echo", "tool": "echo", "then": "ask"}]}')
    return {"PENTAD_POLICIES": str(file)}


@contextmanager
def stage(folder: Path, environment: Mapping[str, str] | None = None) -> Iterator[Stage]:
    """Start a system; at the end it must stop cleanly and leave no process."""
    model_port = free_port()
    played = {"LLM_BASE_URL": f"http://127.0.0.1:{model_port}/v1", "LLM_MODEL_ID": MODEL, "PENTAD_PLUGINS": PLUGINS}
    played["PENTAD_RECALL_TOKENS"] = "0"
    with Up(folder, played | dict(environment or {})) as system:
        url = asyncio.run(system.ready())
        yield Stage(url, system.redis_url, model_port)
        system.signal(SIGTERM)
        code = asyncio.run(system.ended())
        left = system.descendants()
        assert (code, left) == (0, []), f"exit {code}, processes left {left}: {system.err[-3000:]}"
