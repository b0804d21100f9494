"""Model calls outside a conversation in a running system: the models' layer as for tasks, and nothing that stays."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import pentad
from pentad.contracts.streams import MODEL_CALLS
from pentad.services.gateway.operator.model_calls import WANTED_S
from tests.support.models.model_server import Script, ScriptedModel
from tests.support.models.replies import MODEL, Reply, call, fail, say
from tests.support.processes.crew import Crew, crew
from tests.support.redis.bus_client import Bus
from tests.support.redis.redis_server import RedisServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance

HELLO = [{"role": "user", "content": "hello"}]
LEASE_S = 1
SECRET = "sk-not-to-be-shown"


class Completing:
    """A gateway, a task-runner and a scripted model."""

    def __init__(self, team: Crew, model: ScriptedModel, agent: pentad.Agent, bus: Bus) -> None:
        self.team, self.model, self.agent, self.bus = team, model, agent, bus

    @property
    def chats(self) -> list[dict[str, Any]]:
        return self.model.seen.chats

    async def nothing_is_left(self) -> None:
        """Wait until no key of a model call is left but the work stream, which is empty."""

        async def empty() -> bool:
            wanted = await self.bus.redis.keys("*:wanted:*")
            return not wanted and not await self.bus.redis.xlen(MODEL_CALLS.key(0))

        await wait_until("the call to leave nothing", empty)


@asynccontextmanager
async def completing(folder: Path, script: Script, *more: dict[str, Any]) -> AsyncIterator[Completing]:
    """``more``: fields of entries beside the default model, or of the default one where they name no id."""
    async with ScriptedModel(script) as model, RedisServer() as server:
        own = {"id": "main", "endpoint": model.base_url, "model": MODEL, "default": True, "api_key_env": "A_API_KEY"}
        entries = [own, *({"endpoint": model.base_url} | each for each in more)]
        (file := folder / "models.json").write_text(json.dumps({"models": entries}))
        environment = {"PENTAD_MODELS": str(file), "A_API_KEY": SECRET, "PENTAD_LEASE_S": str(LEASE_S)}
        async with (
            crew(server.url, folder / "run", {"gateway": 1, "task-runner": 1}, **environment) as team,
            pentad.connect(team.named("gateway")[0].url) as agent,
            Bus(server.url) as bus,
        ):
            yield Completing(team, model, agent, bus)


async def test_the_answer_is_whole_with_its_cost_and_the_request_is_the_callers(tmp_path: Path) -> None:
    tool = {"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}}
    script = lambda request: call(("look", {"at": "it"}), text="So:") if request.get("tools") else say("hi there")  # noqa: E731
    async with completing(tmp_path, script) as running:
        answer = await running.agent.models.complete(HELLO, temperature=0.3, max_tokens=77)
        assert (answer.content, answer.finish_reason, answer.model, answer.model_id) == (
            "hi there",
            "stop",
            MODEL,
            "main",
        )
        assert answer.usage.output_tokens > 0
        [sent] = running.chats
        assert (sent["messages"], sent["temperature"], sent["max_tokens"], "tools" in sent) == (HELLO, 0.3, 77, False)
        offered = await running.agent.models.complete(HELLO, model="main", tools=[tool])
        [asked] = offered.tool_calls
        assert (offered.content, asked["function"]) == ("So:", {"name": "look", "arguments": '{"at":"it"}'})
        assert running.chats[1]["tools"] == [tool]
        result = {"role": "tool", "tool_call_id": asked["id"], "content": "seen"}
        said = {"role": "assistant", "content": "So:", "tool_calls": offered.tool_calls}
        await running.agent.models.complete([*HELLO, said, result], model="default")
        assert [message["role"] for message in running.chats[2]["messages"]] == ["user", "assistant", "tool"]
        await running.nothing_is_left()


async def test_the_text_comes_as_it_is_written_and_is_whole_at_the_end(tmp_path: Path) -> None:
    held = asyncio.Event()
    script = lambda _: say("one two three four", chunks=4, wait=held, wait_after=3)  # noqa: E731
    async with completing(tmp_path, script) as running:
        chunks = running.agent.models.complete(HELLO, stream=True)
        first = await anext(chunks)
        assert first.content
        assert "one two three four".startswith(first.content)
        assert not first.finished
        held.set()
        rest = [chunk async for chunk in chunks]
        assert "".join(chunk.content for chunk in [first, *rest]) == "one two three four"
        assert [chunk.finished for chunk in rest][-1]
        assert rest[-1].completion is not None
        assert rest[-1].completion.content == "one two three four"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_goes_away_ends_the_models_call(tmp_path: Path, stream: bool) -> None:
    never = asyncio.Event()
    async with completing(tmp_path, lambda _: say("a b c d", chunks=4, wait=never, wait_after=2)) as running:
        if stream:
            chunks = running.agent.models.complete(HELLO, stream=True)
            await anext(chunks)
            await chunks.aclose()
        else:
            asking = asyncio.create_task(running.agent.models.complete(HELLO))
            await wait_until("the model to be asked", lambda: running.model.seen.answering == 1)
            asking.cancel()
        await wait_until("the model's server to be left", lambda: running.model.seen.dropped == 1)
        await running.nothing_is_left()
        assert len(running.chats) == 1


async def test_a_gateway_that_is_killed_ends_its_calls(tmp_path: Path) -> None:
    never = asyncio.Event()
    async with completing(tmp_path, lambda _: say("a b c d", chunks=4, wait=never, wait_after=2)) as running:
        asking = asyncio.create_task(running.agent.models.complete(HELLO))
        await wait_until("the model to be asked", lambda: running.model.seen.answering == 1)
        await asyncio.to_thread(running.team.kill, running.team.named("gateway")[0])
        with pytest.raises(pentad.ClientError):
            await asking
        await wait_until("the model's server to be left", lambda: running.model.seen.dropped == 1, 3 * WANTED_S)


async def test_a_runner_that_is_killed_is_told_and_the_model_is_not_asked_again(tmp_path: Path) -> None:
    never = asyncio.Event()
    async with completing(tmp_path, lambda _: say("a b c d", chunks=4, wait=never, wait_after=2)) as running:
        asking = asyncio.create_task(running.agent.models.complete(HELLO))
        await wait_until("the model to be asked", lambda: running.model.seen.answering == 1)
        [runner] = running.team.named("task-runner")
        await asyncio.to_thread(running.team.restart, runner)
        with pytest.raises(pentad.ModelCallFailed, match="has ended in the middle of it"):
            await asking
        assert len(running.chats) == 1
        await running.nothing_is_left()


async def test_a_runner_that_stops_hands_over_what_nobody_has_heard_a_word_of(tmp_path: Path) -> None:
    never = asyncio.Event()
    asked: list[dict[str, Any]] = []

    def script(request: dict[str, Any]) -> Reply:
        asked.append(request)
        return say("a b c d", chunks=4, wait=never, wait_after=0) if len(asked) == 1 else say("from the other")

    async with completing(tmp_path, script) as running:
        asking = asyncio.create_task(running.agent.models.complete(HELLO))
        await wait_until("the model to be asked", lambda: len(asked) == 1)
        [runner] = running.team.named("task-runner")
        await running.team.add("task-runner")
        assert runner.running is not None
        runner.running.send_signal(signal.SIGTERM)
        assert (await asking).content == "from the other"


async def test_failures_are_told_by_their_kind_without_the_key_and_fallbacks_answer(tmp_path: Path) -> None:
    def script(request: dict[str, Any]) -> Reply:
        said, model = request["messages"][-1]["content"], request["model"]
        if said == "refuse":
            return fail(400, message=f"no: {SECRET}")
        if said == "fall":
            return fail(503) if model == MODEL else say("the second")
        return fail(401, message=f"wrong key {SECRET}") if said == "key" else say("fine")

    second = {"id": "second", "model": "other"}
    chained = {"id": "chained", "model": MODEL, "fallbacks": ["second"]}
    async with completing(tmp_path, script, second, chained) as running:
        models = running.agent.models

        async def why(said: str, **options: Any) -> str:
            with pytest.raises(pentad.ModelCallFailed) as failed:
                await models.complete([{"role": "user", "content": said}], **options)
            return str(failed.value)

        assert "Unprocessable" in (told := await why("refuse"))
        assert SECRET not in told
        answer = await models.complete([{"role": "user", "content": "fall"}], model="chained")
        assert (answer.content, answer.model_id) == ("the second", "second")
        assert "Bad Gateway" in (told := await why("key"))
        assert SECRET not in told
        assert SECRET not in running.team.logs()


async def test_a_model_with_a_limit_lets_calls_wait_for_their_turn(tmp_path: Path) -> None:
    gate = asyncio.Event()
    script = lambda _: say("done", wait=gate, wait_after=0)  # noqa: E731
    async with completing(tmp_path, script, {"id": "narrow", "model": "narrow", "concurrency": 1}) as running:
        both = [asyncio.create_task(running.agent.models.complete(HELLO, model="narrow")) for _ in range(2)]
        await wait_until("the model to be asked", lambda: running.model.seen.answering == 1)
        gate.set()
        assert [answer.content for answer in await asyncio.gather(*both)] == ["done", "done"]
