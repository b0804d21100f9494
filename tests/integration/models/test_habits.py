"""Servers and proxies that send requests on, or encode what nobody asked them to."""

from __future__ import annotations

import asyncio
import gzip
import json

import pytest

from pentad.shared.models.ports import ModelFailed, ModelMisconfigured, ModelUnavailable
from tests.integration.models.conftest import Start
from tests.support.models.protocols import ScriptedProtocol
from tests.support.models.replies import Reply, fail, raw, say


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, br", "gzip, gzip", "x-new"])
async def test_an_encoding_that_cannot_be_read_is_named(start: Start, encoding: str) -> None:
    bench = await start(raw(b"\x1b\x0f\x00", content_type=f"text/event-stream\r\nContent-Encoding: {encoding}"))
    with pytest.raises(ModelMisconfigured, match="turn compression off"):
        await bench.ask()
    assert len(bench.server.chats) == 1


async def test_no_server_is_asked_to_encode(start: Start) -> None:
    bench = await start()
    await bench.ask()
    assert [request.headers["accept-encoding"] for request in bench.server.seen.requests] == ["identity"]


async def test_a_bomb_does_not_stop_what_else_runs(start: Start) -> None:
    bomb = gzip.compress(b"\n" * (20 << 20))
    bench = await start(raw(bomb, content_type="text/event-stream\r\nContent-Encoding: gzip"))
    turns = 0

    async def neighbour() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(neighbour())
    with pytest.raises(ModelUnavailable, match="larger than 9437184 bytes"):
        await bench.ask(timeout_s=60)
    beside.cancel()
    assert turns > (9 << 20) / (16 << 10), "a turn for each piece"


async def test_a_server_that_sends_requests_on_is_asked_once_each_time(
    start: Start, protocol: ScriptedProtocol
) -> None:
    there = f"/v1/elsewhere{protocol.path}"
    bench = await start()
    seen = bench.server.seen.requests
    moved = Reply(status=308, headers=(("Location", there),))
    bench.server.script = lambda _: say("there") if seen[-1].path == there else moved
    for _ in range(2):
        assert (await bench.ask()).text == "there"
    assert [request.path for request in seen] == [f"/v1{protocol.path}", there] * 2


async def test_a_refusal_after_a_redirect_says_where_it_came_from(start: Start, protocol: ScriptedProtocol) -> None:
    there = f"/v1/elsewhere{protocol.path}"
    bench = await start()
    seen = bench.server.seen.requests
    moved = Reply(status=307, headers=(("Location", there + "?key=secret"),))
    bench.server.script = lambda _: Reply(status=401, message="who?") if seen[-1].path == there else moved
    with pytest.raises(
        ModelMisconfigured, match=r"401: who\? \(the request was sent on to http://127.*/elsewhere"
    ) as no:
        await bench.ask()
    assert "secret" not in str(no.value)


@pytest.mark.parametrize("direct", [True])
async def test_a_redirect_to_https_is_no_outage(start: Start) -> None:
    bench = await start(Reply(status=308, headers=(("Location", "https://127.0.0.1:1/v1/x?key=secret"),)))
    with pytest.raises(ModelMisconfigured, match=r"sends requests on to https://127\.0\.0\.1:1: use that") as failed:
        await bench.ask()
    assert "secret" not in str(failed.value)
    assert len(bench.server.chats) == 1


async def test_an_error_in_an_encoding_that_cannot_be_read_is_not_shown(start: Start) -> None:
    bench = await start(Reply(status=400, headers=(("Content-Encoding", "br"),), message="x"))
    with pytest.raises(ModelFailed, match="400: Bad Request"):
        await bench.ask()


async def test_a_server_that_makes_no_grammar_of_a_bound_is_not_told_of_it_again(start: Start) -> None:
    bench = await start()
    seen = bench.server.seen.requests
    refusal = fail(400, message="Failed to initialize samplers: failed to parse grammar")
    bench.server.script = lambda _: refusal if "maxLength" in json.dumps(seen[-1].body) else say("there")
    parameters = b'{"type":"object","properties":{"a":{"type":"string","maxLength":2000}}}'
    tools = b'[{"type":"function","function":{"name":"f","description":"d","parameters":%s}}]' % parameters
    for _ in range(2):
        assert (await bench.ask(tools=tools)).text == "there"
    assert ["maxLength" in json.dumps(request.body) for request in seen] == [True, False, False]
