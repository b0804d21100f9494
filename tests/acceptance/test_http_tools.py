"""Endpoints of HTTP as tools in the whole system: registered while it runs, called by a model, gone when removed."""

import json
from pathlib import Path

import pytest

import pentad
from tests.support.outside.web_server import reply, web_server
from tests.support.waiting import wait_until


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


async def _alive(agent: pentad.Agent, *names: str) -> bool:
    return set(names) <= {each["name"] for each in await agent.inspection.tools() if each["alive"]}


async def _gone(name: str, agent: pentad.Agent) -> bool:
    return name not in {each["name"] for each in await agent.inspection.tools()}
