"""What a model server says arrives whole: text, thinking, tool calls, usage, however it is cut and framed."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import Any

import pytest

from pentad.shared.models.loose_values import as_text
from pentad.shared.models.ports import ChatRequest, ToolCallDraft
from tests.integration.models.conftest import USER, Start, until
from tests.support.models.protocols import ScriptedProtocol
from tests.support.models.replies import Reply, call, raw, say
from tests.support.waiting import PATIENCE_S

TOOLS = b'[{"type":"function","function":{"name":"add"}}]'


async def test_text_streams_and_comes_back_whole(start: Start) -> None:
    bench = await start(say("Hello, 世界! 😀", chunks=5, delay=0.001, thinking="hmm"))
    answer = await bench.ask()
    assert answer.text == bench.said == "Hello, 世界! 😀"
    assert answer.thinking == "hmm"
    assert (answer.finish_reason, answer.model) == ("stop", "scripted")
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (11, 3)
    assert len(bench.deltas) > 5


async def test_the_first_delta_comes_before_the_answer_ends(start: Start) -> None:
    gate = asyncio.Event()
    bench = await start(say("one two", chunks=2, wait=gate, wait_after=2))
    asking = asyncio.create_task(bench.ask())
    await until("the first delta", lambda: bool(bench.deltas))
    assert not asking.done()
    gate.set()
    assert (await asking).text == "one two"


async def test_several_tool_calls_in_one_answer(start: Start) -> None:
    bench = await start(call(("add", {"a": 1}), ("say", '{"text": "é"}'), ("broken", "{nope"), text="let me see"))
    answer = await bench.ask(tools=TOOLS)
    assert answer.text == "let me see"
    assert answer.tool_calls == (
        ToolCallDraft("add", '{"a":1}'),
        ToolCallDraft("say", '{"text": "é"}'),
        ToolCallDraft("broken", "{nope"),
    )
    assert answer.finish_reason == "tool_calls"


async def test_a_model_that_may_not_call_is_told_so_beside_its_tools(start: Start) -> None:
    bench = await start()
    for tools in (TOOLS, None):
        await bench.client.stream(ChatRequest([USER], tools, 10.0, may_call=False), lambda _kind, _text: None)
    told, without = bench.server.chats
    assert told["tool_choice"] in ("none", {"type": "none"})
    assert told["tools"]
    assert without.keys().isdisjoint(("tools", "tool_choice"))


async def test_a_later_request_differs_in_nothing_but_its_body(start: Start) -> None:
    bench = await start()
    await bench.ask()
    await bench.ask(USER, USER)
    first, later = (dict(request.headers) for request in bench.server.seen.requests)
    assert int(later.pop("content-length")) > int(first.pop("content-length"))
    assert later == first


async def test_a_request_that_is_sent_on_takes_its_own_body_along_and_the_next_begins_anew(
    start: Start, protocol: ScriptedProtocol
) -> None:
    elsewhere = f"/v1/elsewhere{protocol.path}"
    moved = Reply(status=307, headers=(("Location", elsewhere),))
    bench = await start()
    seen = bench.server.seen.requests
    bench.server.script = lambda _: say("there") if seen[-1].path == elsewhere else moved
    for text in ("first", "second"):
        assert (await bench.ask(b'{"role":"user","content":"%s"}' % text.encode())).text == "there"
        assert (seen[-1].path, _asked(seen[-1].body)) == (elsewhere, text)
    bench.server.script = lambda _: say("here")
    assert (await bench.ask()).text == "here"
    assert seen[-1].path == f"/v1{protocol.path}"


async def test_a_request_may_name_its_own_model(start: Start) -> None:
    bench = await start(model=None)
    await bench.client.stream(ChatRequest([USER], None, 5.0, model='odd "name"'), lambda _kind, _text: None)
    assert [chat["model"] for chat in bench.server.chats] == ['odd "name"']
    assert len(bench.server.seen.requests) == 1


FRAMINGS = {
    "CRLF": lambda body: body.replace(b"\n", b"\r\n"),
    "CR": lambda body: body.replace(b"\n", b"\r"),
    "no space after the colon": lambda body: body.replace(b"data: ", b"data:"),
    "comments and event names": lambda body: body.replace(b"data: ", b": ping\nevent: message\ndata: "),
    "data over several lines": lambda body: body.replace(b',"', b',\ndata: "'),
    "no blank line at the end": lambda body: body.rstrip(b"\n"),
    "no last event": lambda body: body[: body.rindex(b"\n\n", 0, -2) + 2],
    "more after the last event": lambda body: body + b"data: {nonsense\n\n",
    "a byte order mark": lambda body: b"\xef\xbb\xbf" + body,
}


async def test_a_server_that_compresses_unasked_is_read(start: Start, protocol: ScriptedProtocol) -> None:
    body = gzip.compress(b"".join(protocol.events(say("small on the way", chunks=4))))
    bench = await start(raw(body[:20], body[20:], content_type="text/event-stream\r\nContent-Encoding: gzip"))
    assert (await bench.ask()).text == "small on the way"


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("size", [1, 7, 100_000])
async def test_every_framing_is_read(start: Start, protocol: ScriptedProtocol, framing: str, size: int) -> None:
    body = FRAMINGS[framing](b"".join(protocol.events(say("Hé, 你好", chunks=3))))
    step = max(size, 1)
    bench = await start(raw(*(body[at : at + step] for at in range(0, len(body), step))))
    answer = await bench.ask()
    used = (answer.usage.input_tokens, answer.usage.output_tokens)
    assert (answer.text, answer.finish_reason, used) == ("Hé, 你好", "stop", (11, 2))


async def test_a_finish_reason_is_enough_when_the_connection_breaks_after_it(
    start: Start, protocol: ScriptedProtocol
) -> None:
    body = protocol.events(say("done", usage=False))
    bench = await start(raw(*body[:-1], cut_after=0))
    assert (await bench.ask()).text == "done"


async def test_a_server_that_keeps_the_line_open_after_the_last_event_does_not_hold_the_answer(
    start: Start, protocol: ScriptedProtocol
) -> None:
    body = protocol.events(say("done"))
    bench = await start(raw(*body, wait=asyncio.Event(), wait_after=len(body)))
    assert (await asyncio.wait_for(bench.ask(timeout_s=10 * PATIENCE_S), PATIENCE_S)).text == "done"


async def test_an_empty_answer_is_an_answer(start: Start) -> None:
    bench = await start(say("", finish="length"))
    answer = await bench.ask()
    assert (answer.text, answer.finish_reason) == ("", "length")


async def test_connections_are_used_again(start: Start) -> None:
    bench = await start(say("x", chunks=20))
    for _ in range(10):
        await bench.ask()
    assert bench.server.seen.connections == 1


async def test_hundreds_of_answers_stream_at_the_same_time(start: Start) -> None:
    gate = asyncio.Event()

    def script(request: dict[str, Any]) -> Reply:
        return say(_asked(request), chunks=4, wait=gate, wait_after=2)

    bench = await start(script)
    texts = [f"question number {n}" for n in range(300)]
    asking = [asyncio.create_task(bench.ask(json.dumps({"role": "user", "content": text}).encode())) for text in texts]
    await until("all answers to be under way", lambda: bench.server.seen.answering == 300, 30)
    gate.set()
    assert [answer.text for answer in await asyncio.gather(*asking)] == texts


async def test_a_server_that_does_not_stream_is_understood(start: Start, protocol: ScriptedProtocol) -> None:
    body = protocol.document(call(("add", {"a": 1}), text="all at once", thinking="hmm"))
    bench = await start(raw(body[:30], body[30:], content_type="application/json", delay=0.001))
    answer = await bench.ask()
    assert (answer.text, answer.thinking, answer.model, answer.finish_reason) == (
        bench.said,
        "hmm",
        "scripted",
        "tool_calls",
    )
    assert bench.deltas == [("thinking", "hmm"), ("content", "all at once")]
    assert [(draft.name, json.loads(draft.arguments)) for draft in answer.tool_calls] == [("add", {"a": 1})]
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (11, 5)


def _asked(request: dict[str, Any]) -> str:
    return as_text(request["messages"][-1]["content"])
