"""What a model server says arrives whole: text, thinking, tool calls, usage, however it is cut and framed."""

from __future__ import annotations

import asyncio
import gzip
import json

import pytest

from pentad.shared.models.endpoint import Endpoint
from pentad.shared.models.ports import ChatRequest, ToolCallDraft, Usage
from tests.integration.models.conftest import USER, Start, until
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import Reply, call, events, raw, say


async def test_text_streams_and_comes_back_whole(start: Start) -> None:
    bench = await start(say("Hello, 世界! 😀", chunks=5, delay=0.001, thinking="hmm"))
    answer = await bench.ask()
    assert answer.text == bench.said == "Hello, 世界! 😀"
    assert answer.thinking == "hmm"
    assert (answer.finish_reason, answer.model) == ("stop", "scripted")
    assert answer.usage == Usage(11, 3)
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
    answer = await bench.ask(tools=b'[{"type":"function"}]')
    assert answer.text == "let me see"
    assert answer.tool_calls == (
        ToolCallDraft("add", '{"a":1}'),
        ToolCallDraft("say", '{"text": "é"}'),
        ToolCallDraft("broken", "{nope"),
    )
    assert answer.finish_reason == "tool_calls"


async def test_the_request_carries_messages_tools_and_key_as_they_are(start: Start) -> None:
    bench = await start()
    system = '{"role":"system","content":"sei nett: ä"}'.encode()
    await bench.ask(system, USER, tools=b'[{"type":"function","function":{"name":"f"}}]')
    request = bench.server.seen.requests[0]
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == "Bearer sk-secret-key"
    assert request.headers["content-type"] == "application/json"
    assert request.body == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [{"type": "function", "function": {"name": "f"}}],
        "messages": [json.loads(system), json.loads(USER)],
    }


async def test_without_tools_none_are_sent_and_without_a_key_none_is(start: Start) -> None:
    bench = await start(key=None)
    await bench.ask()
    assert "tools" not in bench.server.chats[0]
    assert bench.server.seen.requests[0].headers["authorization"] == "Bearer none"


async def test_a_later_request_differs_in_nothing_but_its_body(start: Start) -> None:
    bench = await start()
    await bench.ask()
    await bench.ask(USER, USER)
    first, later = (dict(request.headers) for request in bench.server.seen.requests)
    assert int(later.pop("content-length")) - int(first.pop("content-length")) == len(USER) + 1
    assert later == first


async def test_a_request_without_a_body_is_asked_again_as_it_was(plain: bool) -> None:
    async with ScriptedModel(lambda _: say("x")) as server:
        endpoint = Endpoint(server.base_url, "key", plain=plain)
        assert await endpoint.fetch("/models", None) == await endpoint.fetch("/models", None)
        await endpoint.aclose()
        first, later = server.seen.requests
        assert later == first


async def test_a_request_that_is_sent_on_takes_its_own_body_along_and_the_next_begins_anew(start: Start) -> None:
    elsewhere = "/v1/elsewhere/chat/completions"
    moved = Reply(status=307, headers=(("Location", elsewhere),))
    bench = await start()
    seen = bench.server.seen.requests
    bench.server.script = lambda _: say("there") if seen[-1].path == elsewhere else moved
    for count in (1, 2):
        assert (await bench.ask(*[USER] * count)).text == "there"
        assert (seen[-1].path, len(seen[-1].body["messages"])) == (elsewhere, count)
    bench.server.script = lambda _: say("here")
    assert (await bench.ask()).text == "here"
    assert seen[-1].path == "/v1/chat/completions"


async def test_a_missing_model_id_is_the_servers_first_asked_once(start: Start) -> None:
    bench = await start(model=None, models=("qwen", "llama"))
    await asyncio.gather(*(bench.ask() for _ in range(5)))
    paths = [request.path for request in bench.server.seen.requests]
    assert paths.count("/v1/models") == 1
    assert {chat["model"] for chat in bench.server.chats} == {"qwen"}
    assert bench.client.name == "qwen"


async def test_a_request_may_name_its_own_model(start: Start) -> None:
    bench = await start(model=None)
    await bench.client.stream(ChatRequest([USER], None, 5.0, model='odd "name"'), lambda _kind, _text: None)
    assert [chat["model"] for chat in bench.server.chats] == ['odd "name"']
    assert len(bench.server.seen.requests) == 1


async def test_a_server_that_does_not_stream_is_understood(start: Start) -> None:
    body = {"model": "plain", "choices": [{"message": {"content": "all at once"}}], "usage": {"completion_tokens": 4}}
    text = json.dumps(body, indent=1).encode()
    bench = await start(raw(text[:30], text[30:], content_type="application/json", delay=0.001))
    answer = await bench.ask()
    assert (answer.text, bench.said, answer.model, answer.usage.output_tokens) == (
        "all at once",
        "all at once",
        "plain",
        4,
    )


FRAMINGS = {
    "CRLF": lambda body: body.replace(b"\n", b"\r\n"),
    "CR": lambda body: body.replace(b"\n", b"\r"),
    "no space after the colon": lambda body: body.replace(b"data: ", b"data:"),
    "comments and event names": lambda body: body.replace(b"data: ", b": ping\nevent: message\ndata: "),
    "data over several lines": lambda body: body.replace(b',"', b',\ndata: "'),
    "no blank line at the end": lambda body: body.rstrip(b"\n"),
    "no [DONE]": lambda body: body.replace(b"data: [DONE]\n\n", b""),
    "more after [DONE]": lambda body: body + b"data: {nonsense\n\n",
    "a byte order mark": lambda body: b"\xef\xbb\xbf" + body,
}


async def test_a_server_that_compresses_unasked_is_read(start: Start) -> None:
    body = gzip.compress(b"".join(events(say("small on the way", chunks=4))))
    bench = await start(raw(body[:20], body[20:], content_type="text/event-stream\r\nContent-Encoding: gzip"))
    assert (await bench.ask()).text == "small on the way"


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("size", [1, 7, 100_000])
async def test_every_framing_is_read(start: Start, framing: str, size: int) -> None:
    body = FRAMINGS[framing](b"".join(events(say("Hé, 你好", chunks=3))))
    step = max(size, 1)
    bench = await start(raw(*(body[at : at + step] for at in range(0, len(body), step))))
    answer = await bench.ask()
    assert (answer.text, answer.finish_reason, answer.usage) == ("Hé, 你好", "stop", Usage(11, 2))


async def test_a_finish_reason_is_enough_when_the_connection_breaks_after_it(start: Start) -> None:
    body = events(say("done", usage=False))
    bench = await start(raw(*body[:-1], cut_after=0))
    assert (await bench.ask()).text == "done"


async def test_done_is_enough_without_a_finish_reason(start: Start) -> None:
    bench = await start(raw(b'data: {"choices":[{"delta":{"content":"x"}}]}\n\ndata: [DONE]\n\n'))
    answer = await bench.ask()
    assert (answer.text, answer.finish_reason, answer.usage, answer.model) == ("x", "stop", Usage(0, 0), "m")


async def test_a_server_that_keeps_the_line_open_after_done_does_not_hold_the_answer(start: Start) -> None:
    body = events(say("done"))
    bench = await start(raw(*body, wait=asyncio.Event(), wait_after=len(body)))
    assert (await asyncio.wait_for(bench.ask(timeout_s=60), 5)).text == "done"


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

    def script(request: dict[str, list[dict[str, str]]]) -> Reply:
        return say(request["messages"][-1]["content"], chunks=4, wait=gate, wait_after=2)

    bench = await start(script)
    texts = [f"question number {n}" for n in range(300)]
    asking = [asyncio.create_task(bench.ask(json.dumps({"role": "user", "content": text}).encode())) for text in texts]
    await until("all answers to be under way", lambda: bench.server.seen.answering == 300, 30)
    gate.set()
    assert [answer.text for answer in await asyncio.gather(*asking)] == texts
