"""Servers that are registered while the worker runs: followed, kept from the inside, started where that is allowed."""

from pathlib import Path

import pytest

from pentad.contracts.tool_servers import ToolServer
from pentad.shared.registries.registrations import REGISTERED_SERVERS
from pentad.shared.store.store import Store
from tests.integration.tool_worker_servers.conftest import Offer
from tests.support.mcp.entries import http_process, program, raw
from tests.support.waiting import wait_until


async def register(store: Store, server: ToolServer | None, name: str = "") -> None:
    read = await REGISTERED_SERVERS.read(store)
    assert await REGISTERED_SERVERS.write(store, read, name or (server.name if server else ""), server)


async def test_a_registered_server_is_offered_changed_and_withdrawn_without_a_restart(
    store: Store, tmp_path: Path, offer: Offer
) -> None:
    async with http_process("http", tmp_path) as process:
        server = ToolServer(name="s", url=process.url)
        async with offer(pentad_web_allow=("127.0.0.1",)) as offering:
            await register(store, server)
            await wait_until("its tools are offered", lambda: "s__add" in offering.names)
            assert offering.report("s").source == "registered"
            assert (await offering.call("s__add", a=1, b=2)).text == "3"
            await register(store, server.model_copy(update={"only": ("add",)}))
            await wait_until("only one is offered", lambda: offering.names == {"s__add"})
            await register(store, None, "s")
            await wait_until("none is offered", lambda: offering.names == set())
            assert offering.source.reports() == []


async def test_a_registered_address_inside_is_refused_unless_it_is_allowed(
    store: Store, tmp_path: Path, offer: Offer
) -> None:
    async with http_process("http", tmp_path) as process, offer() as offering:
        await register(store, ToolServer(name="s", url=process.url))
        await wait_until("it is told", offering.source.reports)
        report = await offering.until("s", "failing")
        assert "127.0.0.1 leads to an address that is loopback" in str(report.error)
        assert "PENTAD_WEB_ALLOW" in str(report.error)


async def test_a_server_of_the_operators_file_may_be_inside(tmp_path: Path, offer: Offer) -> None:
    async with http_process("http", tmp_path) as process, offer(ToolServer(name="s", url=process.url)) as offering:
        assert (await offering.until("s", "ready")).source == "file"


@pytest.mark.parametrize("allowed", ["off", "on"])
async def test_a_registered_program_is_started_only_where_the_operator_says_so(
    allowed: str, store: Store, tmp_path: Path, offer: Offer
) -> None:
    async with offer(pentad_mcp_commands=allowed) as offering:
        await register(store, program("s", tmp_path))
        await wait_until("it is told", offering.source.reports)
        if allowed == "on":
            await offering.until("s", "ready")
            return
        report = await offering.until("s", "refused")
        assert "set PENTAD_MCP_COMMANDS=on" in str(report.error)
        assert offering.names == set()


async def test_a_registered_server_takes_no_name_of_one_of_the_file(store: Store, tmp_path: Path, offer: Offer) -> None:
    async with offer(raw("my server", "old"), pentad_mcp_commands="on") as offering:
        await offering.until("my server", "ready")
        await register(store, raw("my_server", "old"))
        await wait_until("it is told", lambda: len(offering.source.reports()) == 2)
        report = await offering.until("my_server", "refused")
        assert "its tools would be named like those of 'my server'" in str(report.error)
        assert offering.names == {"my_server__plain"}
        assert (await offering.call("my_server__plain")).text == "plain ran"
