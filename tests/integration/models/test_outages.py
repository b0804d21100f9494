"""Every way a model call can fail ends in the right failure, soon, and with words that help."""

from __future__ import annotations

import asyncio
import contextlib
import time

import pytest

from pentad.shared.models.ports import ChatRequest, ModelCutOff, ModelFailed, ModelRefused, ModelUnavailable
from tests.integration.models.conftest import USER, Start, client_of, until
from tests.support.models.protocols import ScriptedProtocol
from tests.support.models.replies import Reply, cut, fail, raw, say
from tests.support.waiting import PATIENCE_S


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_a_refusal_is_not_asked_twice(start: Start, status: int) -> None:
    bench = await start(fail(status, message="no such thing"))
    with pytest.raises(ModelRefused, match=f"{status}: no such thing"):
        await bench.ask()
    assert len(bench.server.chats) == 1


@pytest.mark.parametrize(("key", "told"), [("k", "no such ollama key"), ("ollama", "ollama"), ("sk-long-key", "***")])
async def test_only_a_key_that_is_long_enough_to_be_secret_is_starred_out(start: Start, key: str, told: str) -> None:
    """A short stand-in for an API key leaves the words of a server's error as they are; a real key is never shown."""
    bench = await start(fail(400, message="no such ollama key sk-long-key"), key=key)
    with pytest.raises(ModelRefused) as refused:
        await bench.ask()
    assert told in str(refused.value)
    assert key in str(refused.value) or told == "***"


@pytest.mark.parametrize("status", [429, 503])
async def test_a_short_outage_is_bridged(start: Start, status: int) -> None:
    bench = await start(fail(status), fail(status, retry_after=0.01), say("back"))
    assert (await bench.ask()).text == "back"
    assert len(bench.server.chats) == 3


async def test_a_longer_outage_is_reported_within_seconds(start: Start) -> None:
    bench = await start(fail(503))
    began = time.monotonic()
    with pytest.raises(ModelUnavailable, match="503"):
        await bench.ask()
    assert time.monotonic() - began < PATIENCE_S / 2
    assert len(bench.server.chats) == 3


async def test_a_long_retry_after_is_passed_on_at_once(start: Start) -> None:
    bench = await start(fail(429, retry_after=30))
    with pytest.raises(ModelUnavailable) as failed:
        await bench.ask()
    assert failed.value.retry_after == 30
    assert len(bench.server.chats) == 1


async def test_a_server_that_is_not_there_is_an_outage_and_heals_by_itself(start: Start) -> None:
    bench = await start()
    await bench.server.stop()
    with pytest.raises(ModelUnavailable, match="no connection to the model server at http://127"):
        await bench.ask()
    async with bench.server:
        assert (await bench.ask()).text == "ok"


async def test_a_kept_connection_that_the_server_closed_is_replaced(start: Start) -> None:
    bench = await start()
    await bench.ask()
    await bench.server.stop()
    async with bench.server:
        assert (await bench.ask()).text == "ok"


async def test_no_first_byte_in_time_is_an_outage(start: Start) -> None:
    bench = await start(say("ok"), say("never", wait=asyncio.Event()))
    await bench.ask()  # so that the time limit is spent on waiting, not on connecting
    with pytest.raises(ModelUnavailable, match="did not answer in time"):
        await bench.ask(timeout_s=0.5)
    await until("the server to notice that the client left", lambda: bench.server.seen.dropped == 1)


@pytest.mark.parametrize("hang_up", [True, False])
@pytest.mark.parametrize("chunks", [2, 3])
async def test_a_stream_without_its_end_is_cut_off_and_not_asked_again(
    start: Start, chunks: int, hang_up: bool
) -> None:
    bench = await start(cut(chunks, hang_up=hang_up))
    with pytest.raises(ModelCutOff, match="cut off"):
        await bench.ask()
    assert len(bench.server.chats) == 1


@pytest.mark.parametrize("hang_up", [True, False])
@pytest.mark.parametrize("chunks", [0, 1])
async def test_a_stream_that_ends_before_the_answer_begins_is_an_outage(
    start: Start, chunks: int, hang_up: bool
) -> None:
    bench = await start(cut(chunks, hang_up=hang_up))
    with pytest.raises(ModelUnavailable, match="answered 200 and then nothing"):
        await bench.ask()


PING = raw(b": ping\n\n", wait=asyncio.Event(), wait_after=1)


async def test_a_ping_and_then_nothing_is_an_outage(start: Start) -> None:
    bench = await start(PING, stall_s=0.1)
    with pytest.raises(ModelUnavailable, match="did not answer in time"):
        await bench.ask()


async def test_pings_are_no_beginning_where_another_model_stands_ready(start: Start) -> None:
    bench = await start(raw(*[b": ping\n\n"] * 500, delay=0.02))
    began = time.monotonic()
    with pytest.raises(ModelUnavailable, match="did not answer in time"):
        await bench.client.stream(ChatRequest([USER], None, 30.0, begin_s=0.3), lambda _kind, _text: None)
    assert time.monotonic() - began < 9, "the pings go on for ten"


async def test_a_stall_within_the_answer_is_cut_off(start: Start) -> None:
    bench = await start(say("a b c", chunks=3, wait=asyncio.Event(), wait_after=2), stall_s=0.1)
    with pytest.raises(ModelCutOff, match="stalled"):
        await bench.ask()
    assert bench.said == "a "


async def test_the_time_limit_ends_an_answer_that_trickles(start: Start) -> None:
    bench = await start(say("x" * 1000, chunks=1000, delay=0.01))
    with pytest.raises(ModelCutOff):
        await bench.ask(timeout_s=1.5)
    await until("the server to notice that the client left", lambda: bench.server.seen.dropped == 1)


async def test_a_wait_for_the_token_count_does_not_cost_the_answer(start: Start, protocol: ScriptedProtocol) -> None:
    frames = protocol.events(say("whole", usage=False))[:-1]
    bench = await start(raw(*frames, wait=asyncio.Event(), wait_after=len(frames)), stall_s=0.1)
    assert (await bench.ask()).text == "whole"


@pytest.mark.parametrize(
    ("error", "expected", "asked"),
    [
        (b'{"error":{"message":"too long","code":400}}', ModelRefused, 1),
        (b'{"error":{"message":"overloaded","code":529}}', ModelUnavailable, 1),
        (b'{"error":{"message":"broke","type":"server_error"}}', ModelCutOff, 1),
    ],
)
@pytest.mark.parametrize("streamed", [True, False])
async def test_an_error_object_within_the_body(
    start: Start, error: bytes, expected: type[ModelFailed], asked: int, streamed: bool
) -> None:
    bench = await start(raw(b"data: " + error + b"\n\n" if streamed else error))
    with pytest.raises(expected):
        await bench.ask()
    assert len(bench.server.chats) == asked


@pytest.mark.parametrize("finish", ["null", '"error"', '"stop"'])
async def test_an_error_beside_text_is_no_answer(start: Start, protocol: ScriptedProtocol, finish: str) -> None:
    chunk = b'{"choices":[{"delta":{"content":""},"finish_reason":%s}],"error":{"code":502,"message":"upstream"}}'
    bench = await start(raw(*protocol.events(say("half"))[:2], b"data: " + chunk % finish.encode() + b"\n\n"))
    with pytest.raises(ModelCutOff, match="upstream"):
        await bench.ask()


async def test_an_error_after_text_is_a_cut_off(start: Start, protocol: ScriptedProtocol) -> None:
    first = protocol.events(say("half", chunks=1))[1]
    bench = await start(raw(first, b'data: {"error":{"message":"overloaded","code":529}}\n\n'))
    with pytest.raises(ModelCutOff, match="overloaded"):
        await bench.ask()
    assert bench.said == "half"


@pytest.mark.parametrize("delayed", [0.0, 0.05])
async def test_cancelling_closes_the_connection_at_once(start: Start, delayed: float) -> None:
    answer = say("a b c", chunks=3, wait=asyncio.Event(), wait_after=2 if delayed else 0)
    bench = await start(answer)
    asking = asyncio.create_task(bench.ask())
    await until(
        "the answer to be under way", lambda: bench.server.seen.answering == 1 and bool(bench.deltas or not delayed)
    )
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await until("the server to notice that the client left", lambda: bench.server.seen.dropped == 1)


async def test_a_sink_that_fails_closes_the_connection_and_is_heard(start: Start) -> None:
    bench = await start(say("a b c", chunks=3, wait=asyncio.Event(), wait_after=2))

    def sink(_kind: str, _text: str) -> None:
        raise KeyError("sink")

    with pytest.raises(KeyError, match="sink"):
        await bench.client.stream(ChatRequest([USER], None, 5.0), sink)
    await until("the server to notice that the client left", lambda: bench.server.seen.dropped == 1)


HOSTILE: dict[str, Reply] = {
    "not JSON": raw(b"data: {nope\n\n"),
    "deep JSON": raw(b"data: " + b'{"a":' * 9000 + b"\n\n"),
    "a list": raw(b"data: []\n\n"),
    "only [DONE]": raw(b"data: [DONE]\n\n"),
    "nothing at all": raw(),
    "blank": raw(b"\n\n\n   \n"),
    "only comments": raw(b": ping\n\n" * 1000),
    "binary": raw(bytes(range(256)) * 100),
    "half a document": raw(b'{"choices":[{"message":', content_type="application/json"),
    "a document of another kind": raw(b'{"hello":"world"}', content_type="application/json"),
    "an endless event": raw(b"data: " + b"x" * (17 * 1024 * 1024)),
}


@pytest.mark.parametrize("kind", HOSTILE)
async def test_a_body_without_sense_is_an_outage(start: Start, kind: str) -> None:
    bench = await start(HOSTILE[kind])
    with pytest.raises(ModelUnavailable):
        await bench.ask()
    assert len(bench.server.chats) == 1


async def test_a_web_page_is_a_wrong_address(start: Start) -> None:
    bench = await start(raw(b"<html></html>", content_type="text/html; charset=utf-8"))
    with pytest.raises(ModelRefused, match="base URL"):
        await bench.ask()


async def test_a_server_that_does_not_speak_http_is_an_outage(protocol: ScriptedProtocol) -> None:
    async def babble(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example.org ESMTP\r\n")
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(babble, "127.0.0.1", 0)
    async with server:
        client = client_of(protocol, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", None, "m")
        with pytest.raises(ModelUnavailable):
            await client.stream(ChatRequest([USER], None, 5.0), lambda _kind, _text: None)
        await client.aclose()


@pytest.mark.parametrize(
    "reply", [fail(401, message="bad key sk-secret-key"), raw(b'{"error":{"message":"sk-secret-key","code":403}}')]
)
async def test_no_failure_shows_the_key(start: Start, reply: Reply) -> None:
    bench = await start(reply)
    with pytest.raises(ModelRefused) as failed:
        await bench.ask()
    chain: BaseException | None = failed.value
    while chain is not None:
        assert "sk-secret-key" not in str(chain)
        chain = chain.__cause__


async def test_a_client_closed_twice_opens_again(start: Start) -> None:
    bench = await start()
    await bench.ask()
    await bench.client.aclose()
    await bench.client.aclose()
    assert (await bench.ask()).text == "ok"


@pytest.mark.parametrize(("status", "said"), [(400, "400: no! xxx"), (503, "503: no! xxx"), (307, "redirect")])
async def test_only_the_beginning_of_an_endless_error_is_read(
    protocol: ScriptedProtocol, direct: bool, nth: str, status: int, said: str
) -> None:
    head = b"HTTP/1.1 %d No\r\nContent-Length: 99999999999\r\nRetry-After: 9\r\nLocation: /on\r\n\r\nno! " % status

    async def rage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(head)
                while True:
                    writer.write(b"x" * 65536)
                    await writer.drain()
        writer.close()

    server = await asyncio.start_server(rage, "127.0.0.1", 0)
    async with server:
        client = client_of(protocol, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", "k", "m", direct=direct)
        for _ in range(1 if nth == "first" else 2):
            with pytest.raises(ModelFailed, match=said):
                await asyncio.wait_for(
                    client.stream(ChatRequest([USER], None, 30.0), lambda _kind, _text: None), PATIENCE_S
                )
        await client.aclose()
