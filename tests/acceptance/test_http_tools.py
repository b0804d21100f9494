"""Endpoints of HTTP as tools in the whole system: registered while it runs, called by a model, gone when removed."""

import asyncio
import json
from pathlib import Path

import pytest

import pentad
from tests.support.outside.web_server import reply, web_server
from tests.support.processes.crew import crew
from tests.support.redis.redis_server import RedisServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance


async def test_an_api_is_registered_called_and_removed_while_everything_runs(tmp_path: Path) -> None:
    async with web_server() as web, web_server() as inside:
        web.answers["/invoices/7"] = reply(b'{"total": 12}', "application/json")
        document = {
            "openapi": "3.0.3",
            "servers": [{"url": web.url}],
            "paths": {
                "/invoices/{id}": {
                    "get": {
                        "operationId": "invoice",
                        "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}],
                    }
                }
            },
        }
        async with pentad.start(tmp_path, pentad_web_allow=web.place) as agent:
            await agent.management.register_tool(openapi=document, prefix="crm_")
            await agent.management.register_tool(name="sneaky", url=f"{inside.url}/x")
            await wait_until("workers have them", lambda: _alive(agent, "crm_invoice", "sneaky"))
            assert json.loads(str(await agent.tools.execute("crm_invoice", {"id": 7}))) == {"total": 12}
            with pytest.raises(pentad.ToolFailed, match="answered 404"):
                await agent.tools.execute("crm_invoice", {"id": 8})
            with pytest.raises(pentad.ToolFailed, match="loopback"):
                await agent.tools.execute("sneaky", {})
            assert inside.received == []
            await agent.management.delete_tool("crm_invoice")
            await wait_until("it is offered no more", lambda: _gone("crm_invoice", agent))


@pytest.mark.parametrize(("method", "times"), [("PUT", 2), ("POST", 1)])
async def test_a_call_whose_worker_is_killed_is_made_again_where_it_may(
    method: str, times: int, tmp_path: Path
) -> None:
    released = asyncio.Event()

    async def held(writer: asyncio.StreamWriter) -> None:
        await released.wait()
        writer.write(reply(b"done", "text/plain"))
        await writer.drain()

    services = {"gateway": 1, "router": 1, "task-runner": 1, "tool-worker": 1}
    async with (
        web_server(x=held) as web,
        RedisServer(aof="everysec") as server,
        crew(server.url, tmp_path, services, PENTAD_WEB_ALLOW=web.place, PENTAD_ADMIN_KEY="boss") as team,
        pentad.connect(team.named("gateway")[0].url, admin_key="boss") as agent,
    ):
        await agent.management.register_tool(name="slow", url=f"{web.url}/x", method=method)
        await wait_until("a worker has it", lambda: _alive(agent, "slow"))
        asked = asyncio.create_task(agent.tools.call("slow", {}, call_id="once"))
        await wait_until("the request is there", lambda: len(web.received) == 1)
        [worker] = team.named("tool-worker")
        await asyncio.to_thread(team.restart, worker)
        await team.ready(worker)
        await wait_until("it is there as often as it may", lambda: len(web.received) == times)
        released.set()
        run = await asked
        assert (run.status, len(web.received)) == ("completed" if times == 2 else "failed", times)
        assert times == 2 or "outcome unknown" in str(run.error)
        assert len({each.headers["idempotency-key"] for each in web.received}) == 1


async def _alive(agent: pentad.Agent, *names: str) -> bool:
    return set(names) <= {each["name"] for each in await agent.inspection.tools() if each["alive"]}


async def _gone(name: str, agent: pentad.Agent) -> bool:
    return name not in {each["name"] for each in await agent.inspection.tools()}
