"""Tools of MCP servers in the whole system: a model calls them, users have their own secrets, servers come and go."""

import asyncio
import json
import os
import signal
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

import pentad
from pentad.contracts.tool_servers import ToolServer
from tests.support.mcp.entries import file_entry, http_process, program
from tests.support.mcp.sign_in_server import SignInServer, redirect_of
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import MODEL, Reply, call, say
from tests.support.ports import free_port
from tests.support.processes.stage import Stage, new_session, stage
from tests.support.processes.up import PENTAD, Up
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance


def mcp_file(folder: Path, **servers: Any) -> str:
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {name: file_entry(each) for name, each in servers.items()}}))
    return str(path)


def calling(tool: str, args: dict[str, Any]) -> Any:
    """A model that calls a tool, and then says what came of it."""

    def script(request: dict[str, Any]) -> Reply:
        last = request["messages"][-1]
        return say(f"it is {last['content']}") if last["role"] == "tool" else call((tool, args))

    return script


def offered(model: ScriptedModel) -> set[str]:
    """The tools that the model was offered last."""
    return {tool["function"]["name"] for tool in model.chats[-1].get("tools", ())}


@pytest.fixture
def numbers(tmp_path: Path) -> Iterator[Stage]:
    """``pentad up`` with the file of a server; the test plays the model."""
    with stage(tmp_path / "up", {"PENTAD_MCP": mcp_file(tmp_path, numbers=program("numbers", tmp_path))}) as system:
        yield system


async def test_a_model_calls_a_servers_tool_through_the_whole_chain(numbers: Stage) -> None:
    script = calling("numbers__count", {"to": 2})
    async with numbers.api() as api, numbers.model(script) as model, numbers.line() as line:
        await wait_until("the tools are offered", lambda: _has(api, "numbers__count"))
        await line.say("count to two")
        end = await line.until("task_end")
        assert end["status"] == "completed"
        assert {"numbers__add", "numbers__count"} <= offered(model)
        [result] = line.answers("tool_result")
        assert result["result"] == "counted to 2"
        assert line.answers("tool_progress")[0]["content"] == "at 1"
        assert line.answers("message")[-1]["content"] == "it is counted to 2"
        [server] = (await api.get("/v1/tools/servers"))["items"]
        assert (server["condition"], server["ready"], server["error"]) == ("ready", 1, None)


async def _has(api: Any, tool: str) -> bool:
    return tool in {each["name"] for each in (await api.get("/v1/tools"))["items"]}


@pytest.mark.parametrize(
    ("tool", "result"), [("hold", "go is there"), ("hold_again", "go is there"), ("hold_once", "outcome unknown")]
)
async def test_a_server_killed_during_a_call_ends_it_by_its_tools_effect(
    tool: str, result: str, tmp_path: Path
) -> None:
    file = mcp_file(tmp_path, s=program("s", tmp_path))
    async with pentad.start(tmp_path / "data", pentad_mcp=file) as agent:
        await wait_until("the tools are offered", lambda: _offers(agent, f"s__{tool}"))
        ledger = tmp_path / "ledger"

        async def asked() -> str:
            try:
                return str(await agent.tools.execute(f"s__{tool}", {"name": "go"}))
            except pentad.ToolFailed as error:
                return str(error)

        running = asyncio.create_task(asked())
        await wait_until("it has begun", lambda: ledger.exists() and ledger.read_text().endswith("\n"))
        os.kill(int(ledger.read_text().split()[2]), signal.SIGKILL)
        if tool != "hold_once":
            await wait_until("it has begun again", lambda: ledger.read_text().count("begun go") == 2)
            (tmp_path / "go").touch()
        assert result in await running
        assert ledger.read_text().count("begun go") == (1 if tool == "hold_once" else 2)


async def _offers(agent: pentad.Agent, tool: str) -> bool:
    return tool in {each["name"] for each in await agent.inspection.tools()}


async def test_a_call_that_needs_input_goes_on_after_everything_was_killed(tmp_path: Path) -> None:
    port, session = free_port(), new_session()
    played = {"LLM_BASE_URL": f"http://127.0.0.1:{port}/v1", "LLM_MODEL_ID": MODEL, "PENTAD_RECALL_TOKENS": "0"}
    model = ScriptedModel(calling("s__book", {"city": "Rome"}), port=port)
    async with http_process("http", tmp_path) as server, model:
        given = played | {"PENTAD_MCP": mcp_file(tmp_path, s=ToolServer(name="s", url=server.url))}
        with Up(tmp_path / "up", given) as system:
            async with pentad.connect(await system.ready()) as agent:
                await wait_until("the tools are offered", lambda: _offers(agent, "s__book"))
                [_ async for _ in agent.session(session).turn("book it")]
                [waiting] = await agent.inspection.approvals()
                assert (waiting.needs, waiting.reason) == ("input", "How many seats?")
            system.kill_everything()
        with Up(tmp_path / "up", given) as system:
            async with pentad.connect(await system.ready()) as agent:
                turn = await agent.decide(waiting, approved=True, args={"seats": 3})
                assert "it is 3 seats to Rome" in [text async for text in turn.text()][-1]
    assert (tmp_path / "ledger").read_text() == "book to Rome accept {'seats': 3}\n"


async def test_a_tool_that_needs_a_secret_is_offered_to_those_who_have_it(tmp_path: Path) -> None:
    async with http_process("http", tmp_path) as process:
        headers = {"Authorization": "Bearer {{secret:TOKEN}}"}
        path = tmp_path / "mcp.json"
        path.write_text(json.dumps({"mcpServers": {"s": {"url": process.url, "headers": headers}}}))
        port = free_port()
        played = {"LLM_BASE_URL": f"http://127.0.0.1:{port}/v1", "LLM_MODEL_ID": MODEL, "PENTAD_RECALL_TOKENS": "0"}
        places = {"PENTAD_MCP": str(path), "PENTAD_SECRETS": str(tmp_path / "secrets")}
        with Up(tmp_path / "up", played | places) as system:
            address = await system.ready()
            admin = (system.data / "admin.key").read_text().strip()
            async with (
                pentad.connect(address, admin_key=admin) as agent,
                ScriptedModel(calling("s__is_token", {"digest": "12"}), port=port) as model,
            ):
                await agent.management.set_secret("TOKEN", "alices-token", user_id="alice")
                await wait_until("the tools are offered", lambda: _offers(agent, "s__is_token"))
                for user, has in (("alice", True), ("bob", False)):
                    answer = await agent.session(new_session(), user_id=user).ask("is it mine?")
                    assert ("s__is_token" in offered(model)) is has, user
                    assert ("yes a" in str(answer)) is has, user
                with pytest.raises(pentad.ToolFailed, match="it needs the secret TOKEN, and user bob has none"):
                    await agent.tools.execute("s__who", {}, user_id="bob")
        log = "".join(each.read_text(errors="replace") for each in (tmp_path / "up").glob("*.err"))
        assert "alices-token" not in log


async def test_a_server_is_registered_while_everything_runs(tmp_path: Path) -> None:
    async with (
        http_process("http", tmp_path) as process,
        pentad.start(tmp_path / "data", pentad_web_allow="127.0.0.1") as agent,
    ):
        await agent.management.register_server("s", url=process.url)
        await wait_until("its tools are offered", lambda: _offers(agent, "s__add"))
        assert await agent.tools.execute("s__add", {"a": 1, "b": 2}) == "3"
        await agent.management.delete_server("s")
        await wait_until("they are offered no more", lambda: _lacks(agent, "s__add"))


async def _lacks(agent: pentad.Agent, tool: str) -> bool:
    return not await _offers(agent, tool)


async def test_a_person_signs_in_and_the_call_goes_on_after_everything_was_killed(tmp_path: Path) -> None:
    """The whole way: the question, everything killed, the page, the browser that comes back, the result."""
    port = free_port()
    played = {"LLM_BASE_URL": f"http://127.0.0.1:{port}/v1", "LLM_MODEL_ID": MODEL, "PENTAD_RECALL_TOKENS": "0"}
    model = ScriptedModel(calling("s__sign_in", {}), port=port)
    async with SignInServer(tmp_path).running() as place, model:
        key = {"PENTAD_SECRET_KEY": b64encode(bytes(32)).decode(), "PENTAD_APPROVE": "all"}
        file = {"PENTAD_MCP": mcp_file(tmp_path, s=ToolServer(name="s", url=place.url))}
        gateway = ("--port", str(free_port()))
        with Up(tmp_path / "up", played | key | file, command=(str(PENTAD), "up", *gateway)) as system:
            async with pentad.connect(await system.ready()) as agent:
                await wait_until("it can be signed in", lambda: _offers(agent, "s__sign_in"))
                [_ async for _ in agent.session("s1", user_id="alice").turn("use it")]
                [waiting] = await agent.inspection.approvals()
                await agent.management.approve(waiting.task_id, waiting.tool_call_id)
                asked = await wait_until("it asks to sign in", lambda: _asks_for_input(agent))
                assert asked is not None
            system.kill_everything()
            location = await redirect_of(asked.reason, "alice")
            system.start()
            address = await system.ready()
            async with pentad.connect(address) as agent, httpx2.AsyncClient() as browser:
                assert location.startswith(f"{address}/v1/oauth/callback?")
                page = await browser.get(location)
                assert (page.status_code, "It goes on by itself" in page.text) == (200, True)
                await wait_until("the model goes on", lambda: _said(model, "knows the person. Its tools: s__add"))
                await wait_until("the tools are offered", lambda: _offers(agent, "s__add"))
                assert await agent.inspection.approvals() == []
        log = "".join(each.read_text(errors="replace") for each in (tmp_path / "up").glob("*.err"))
        assert "alice-access" not in log
        assert "alice-access" not in str(model.chats)


async def _asks_for_input(agent: pentad.Agent) -> Any:
    return next((each for each in await agent.inspection.approvals() if each.needs == "input"), None)


def _said(model: ScriptedModel, words: str) -> bool:
    return any(words in str(each["messages"]) for each in model.chats)
