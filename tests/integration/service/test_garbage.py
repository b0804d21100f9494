"""No turn leaves anything for the garbage collector: it stops the whole process while it looks."""

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from pentad.shared.service import process
from pentad.shared.service.options import Options
from pentad.shared.service.process import Stop
from pentad.shared.service.run import run_services
from pentad.shared.settings import Settings
from pentad.shared.store.wire import Wire
from pentad.system.composition import build_all, composition_root
from tests.support.clients.api import Api
from tests.support.clients.line import Line
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import MODEL, Reply, call, fail, say
from tests.support.processes.stage import new_session
from tests.support.redis.redis_server import RedisServer
from tests.support.waiting import wait_until

_WATCHED = ("contracts", "httptools", "openai", "pentad", "pydantic", "redis", "services", "shared", "uvicorn")
"""Packages whose objects are counted: the test's own client, server and Redis clean up as they like."""


@asynccontextmanager
async def system(folder: Path, model: ScriptedModel) -> AsyncIterator[str]:
    """All six in this process, as ``pentad up`` composes them; yields the gateway's address."""
    async with RedisServer() as redis:
        settings = Settings(
            redis_url=redis.url, llm_base_url=model.base_url, llm_model_id=MODEL, pentad_data_dir=folder
        )
        services = build_all(settings, Options(port=0), composition_root)
        try:
            for service in services:
                await service.start()
            yield services[-1].address  # type: ignore[attr-defined]
        finally:
            for service in reversed(services):
                await service.stop()


@contextmanager
def collecting() -> Iterator[Callable[[], Counter[str]]]:
    """Collect nothing within the block; yields a function that says what by then only a collector could free."""
    gc.collect()
    gc.disable()

    def left() -> Counter[str]:
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        gc.set_debug(0)
        kinds = Counter(f"{type(found).__module__}.{type(found).__qualname__}" for found in gc.garbage)
        gc.garbage.clear()
        return Counter({kind: n for kind, n in kinds.items() if kind.partition(".")[0] in _WATCHED})

    try:
        yield left
    finally:
        gc.enable()


def script(request: dict[str, Any]) -> Reply:
    """A turn with a tool; what is slow is cancelled; what is wrong is refused."""
    last = request["messages"][-1]
    if last["content"] == "slow":
        return say("never whole", chunks=2, wait=asyncio.Event(), wait_after=2)
    if last["content"] == "wrong":
        return fail(400)
    return say("119", chunks=5) if last["role"] == "tool" else call(("calculator", {"expression": "120-1"}))


async def _talk(url: str) -> None:
    async with Line(url, new_session()) as line:
        await line.turn("what is 120-1?")
        await line.turn("wrong", count=2)
        await line.send(type="nonsense")
        await line.until("error")
        await line.say("slow")
        await line.until("content", lambda e: "never" in e["content"])
        await line.send(type="cancel", task_id=line.answers("task_start")[-1]["task_id"])
        await line.until("task_end", count=3)


async def _inspect(url: str) -> None:
    async with Api(url) as api:
        session = new_session()
        await api.post("/v1/messages?wait=10", {"session_id": session, "content": "what is 120-1?"}, 200)
        async with api.sse(session) as events:
            await anext(events)
        await api.get("/v1/tasks")
        await api.get("/v1/tasks/none", 404)


async def test_what_turns_leave_is_freed_without_the_garbage_collector(tmp_path: Path) -> None:
    async with ScriptedModel(script) as model, system(tmp_path, model) as url:
        for _ in range(2):  # imports, caches, the app
            await _talk(url)
            await _inspect(url)
        with collecting() as left:
            await asyncio.gather(*(ask(url) for ask in (_talk, _inspect) * 4))
            await wait_until("the model's connections to be closed", lambda: model.seen.answering == 0)
            await asyncio.sleep(0.2)  # what ends behind an answer: closing connections, acknowledgements
            found = left()
    assert not found, f"in cycles after four rounds: {found.most_common(20)}"


async def test_a_connection_that_is_closed_is_freed_without_the_garbage_collector() -> None:
    async with RedisServer() as redis:
        with collecting() as left:
            for _ in range(2):
                wire = Wire(redis.url)
                assert await wire.ask("PING") == b"PONG"
                await wire.close()
                del wire
            await asyncio.sleep(0)  # the transport tells of its end
            found = left()
    assert not found, f"in cycles after two connections: {found.most_common(20)}"


class Ready:
    """A service that is ready at once, and then has the process asked to end."""

    name = "router"

    def __init__(self, stop: Stop) -> None:
        self.stop_asked, self.kept = stop, [[] for _ in range(1000)]  # type: ignore[var-annotated]

    async def start(self) -> None:
        asyncio.get_running_loop().call_later(0.1, self.stop_asked.on_signal)

    async def stop(self) -> None:
        self.looked_at = len(gc.get_objects(generation=2))

    def checks(self) -> Mapping[str, str | None]:
        return {}

    def alive(self) -> bool:
        return True


async def test_a_full_collection_does_not_look_at_what_was_there_at_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "_owned", True)  # as in a process that `run_loop` runs
    gc.unfreeze()  # what the collection of tests has frozen
    gc.collect()
    before = len(gc.get_objects(generation=2))
    service = Ready(stop := Stop())
    try:
        assert await run_services([service], stop) == 0
        assert gc.get_freeze_count() > len(service.kept)
    finally:
        gc.unfreeze()
    assert service.looked_at < before / 10


@pytest.fixture(autouse=True)
def _collector() -> Iterator[None]:
    yield
    assert gc.isenabled()
