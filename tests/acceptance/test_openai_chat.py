"""OpenAI's chat completions: the official client, and the requests of chat UIs, hold conversations."""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import openai
import pytest
from httpx2 import AsyncClient
from openai import AsyncOpenAI

from tests.support.javascript.packages import installed
from tests.support.models.replies import Reply, call, cut, fail, say
from tests.support.processes.stage import Stage, new_session
from tests.support.processes.up import ROOT
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance
_PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

_OPERATOR = {"Authorization": "Bearer the-operator"}


def client(asking: Stage, **headers: str) -> AsyncOpenAI:
    return AsyncOpenAI(
        api_key="none", base_url=f"{asking.url}/openai/v1", default_headers=headers, timeout=15, max_retries=0
    )


def said(request: dict[str, Any]) -> list[tuple[str, str]]:
    """What a model was told of the conversation."""
    return [(m["role"], m["content"]) for m in request["messages"] if m["role"] in ("user", "assistant")]


def user(text: str) -> Any:
    return {"role": "user", "content": text}


def assistant(text: str) -> Any:
    return {"role": "assistant", "content": text}


def unique(text: str) -> str:
    """A text that no other test has said: conversations are found by what was said."""
    return f"{text} {uuid4().hex[:8]}"


async def test_the_official_client_streams_thoughts_tools_text_and_usage(asking: Stage) -> None:
    def script(request: dict[str, Any]) -> Reply:
        last = request["messages"][-1]
        if last["role"] == "tool":
            return say(f"it is {last['content']}", chunks=3, thinking="easy")
        return call(("calculator", {"expression": "6*7"}), text="let me see")

    async with asking.model(script), client(asking) as ai:
        stream = await ai.chat.completions.create(
            model="pentad",
            messages=[user(unique("what is 6*7?"))],
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert deltas[0].role == "assistant"
    assert "".join(delta.content or "" for delta in deltas) == "let me see\n\nit is 42"
    assert "".join((delta.model_extra or {}).get("reasoning_content", "") for delta in deltas) == "easy"
    assert not any(delta.tool_calls for delta in deltas)
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.prompt_tokens > 0
    ours = [event["type"] for chunk in chunks if (event := (chunk.model_extra or {}).get("pentad")) and "type" in event]
    assert {"message_routed", "tool_call", "tool_result", "task_end"} <= set(ours)
    shown = [(chunk.model_extra or {}).get("event") for chunk in chunks]
    assert {"type": "status", "data": {"description": "calculator", "done": True}} in shown


async def test_a_conversation_goes_on_in_its_session_and_an_edited_message_forks_it(asking: Stage) -> None:
    def script(request: dict[str, Any]) -> Reply:
        return say(f"answer to {said(request)[-1][1]}")

    first = user(unique("first"))
    async with asking.model(script) as model, client(asking) as ai:

        async def ask(*messages: Any) -> tuple[str, str]:
            raw = await ai.chat.completions.with_raw_response.create(model="pentad", messages=list(messages))
            return raw.parse().choices[0].message.content or "", raw.headers["x-pentad-session"]

        one, session = await ask(first)
        past = [first, assistant(one)]
        two, same = await ask(*past, user("second"))
        assert same == session
        edited, fork = await ask(*past, user("second, edited"))
        assert edited == "answer to second, edited"
        assert fork != session
        told = said(model.chats[-1])
        assert ("user", "second") not in told
        assert told[-2:] == [("assistant", one), ("user", "second, edited")]
        _, of_fork = await ask(*past, user("second, edited"), assistant(edited), user("third"))
        _, of_first = await ask(*past, user("second"), assistant(two), user("third"))
    assert (of_fork, of_first) == (fork, session)


async def test_the_same_request_again_is_one_turn(asking: Stage) -> None:
    body = {"model": "pentad", "messages": [user(unique("once"))]}
    more = asyncio.Event()
    async with asking.model(lambda _: say("done", wait=more)) as model, http(asking) as rest:
        first = asyncio.create_task(rest.post("/openai/v1/chat/completions", json=body))
        await wait_until("the model is asked", lambda: model.chats)
        second = asyncio.create_task(rest.post("/openai/v1/chat/completions", json=body))
        await asyncio.sleep(0)
        more.set()
        answers = [(await each).json() for each in (first, second)]
        answers.append((await rest.post("/openai/v1/chat/completions", json=body)).json())
        named = {"Idempotency-Key": uuid4().hex}
        answers += [(await rest.post("/openai/v1/chat/completions", json=body, headers=named)).json() for _ in range(2)]
        other = body | {"messages": [user("another")]}
        refused = await rest.post("/openai/v1/chat/completions", json=other, headers=named)
        asked = len(model.chats)
    assert [each["choices"][0]["message"]["content"] for each in answers] == ["done"] * 5
    assert [each["id"] for each in answers[:3]] == [answers[0]["id"]] * 3
    assert answers[3]["id"] == answers[4]["id"] != answers[0]["id"]
    assert asked == 2
    assert (refused.status_code, refused.json()["error"]["type"]) == (409, "conflict_error")
    assert refused.headers["x-should-retry"] == "false"


def http(asking: Stage) -> AsyncClient:
    return AsyncClient(base_url=asking.url, trust_env=False, timeout=15)


async def test_a_conversation_from_elsewhere_begins_a_session_with_its_past(asking: Stage) -> None:
    messages = [
        {"role": "system", "content": "Answer in one word."},
        user(unique("my name is Ada")),
        assistant("hello Ada"),
        user("what is my name?"),
    ]
    async with asking.model(lambda _: say("Ada")) as model, client(asking) as ai:
        raw = await ai.chat.completions.with_raw_response.create(model="pentad", messages=messages)
        session = raw.headers["x-pentad-session"]
        told = said(model.chats[-1])
    assert "Answer in one word." in told[0][1]
    assert told[1:] == [("user", messages[1]["content"]), ("assistant", "hello Ada"), ("user", "what is my name?")]
    async with http(asking) as rest:
        kept = (await rest.get(f"/v1/sessions/{session}/messages")).json()["items"]
    assert [m["content"] for m in kept][-4:] == [messages[1]["content"], "hello Ada", "what is my name?", "Ada"]


async def test_a_named_session_goes_on_with_the_last_message_alone(asking: Stage) -> None:
    session = new_session()
    async with asking.model(lambda _: say("yes")) as model, client(asking, **{"X-Pentad-Session": session}) as ai:
        for text in ("one", "two", "two"):
            await ai.chat.completions.create(model="pentad", messages=[user(text)])
        told = said(model.chats[-1])
        other = await ai.chat.completions.with_raw_response.create(
            model="pentad",
            messages=[user("three")],
            metadata={"session_id": f"{session}-other", "kind": "x"},
            extra_headers={"X-Pentad-Session": ""},
        )
    assert told == [
        ("user", "one"), ("assistant", "yes"), ("user", "two"), ("assistant", "yes"), ("user", "two")
    ]  # fmt: skip
    assert other.headers["x-pentad-session"] == f"{session}-other"


async def test_open_webui_titles_make_no_task_edits_fork_regenerations_do_not_double(asking: Stage) -> None:
    """Requests as Open WebUI sends them: the whole conversation, the ids of chat and message in headers."""
    chat = str(uuid4())

    def script(request: dict[str, Any]) -> Reply:
        if "title" in said(request)[-1][1]:
            return say("A Title")
        return say(f"answer {len(model.chats)}", chunks=2)

    async with asking.model(script) as model, http(asking) as rest:

        async def ask(message: str, *messages: Any, **more: Any) -> tuple[str, str]:
            headers = {"X-OpenWebUI-Chat-Id": chat, "X-OpenWebUI-Message-Id": message, "X-OpenWebUI-User-Id": "ann"}
            body = {"model": "pentad", "stream": True, "messages": list(messages)} | more
            answer = await rest.post("/openai/v1/chat/completions", json=body, headers=headers)
            chunks = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
            text = "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks if c["choices"])
            return text, answer.headers.get("x-pentad-session", "")

        one, session = await ask("m1", user("hi"))
        assert session == chat
        title, nowhere = await ask("m1", user("Give this chat a title: hi"), model="pentad-utility", stream=True)
        assert (title, nowhere) == ("A Title", "")
        marked = await rest.post(
            "/openai/v1/chat/completions",
            json={"model": "pentad", "messages": [user("Give a title")]},
            headers={"X-OpenWebUI-Chat-Id": chat, "X-Pentad-Task": "title_generation"},
        )
        assert marked.json()["choices"][0]["message"]["content"] == "A Title"
        again, regenerated = await ask("m2", user("hi"))
        assert again != one
        assert regenerated != session
        two, second = await ask("m3", user("hi"), assistant(again), user("more"))
        assert second == regenerated
        three, third = await ask("m4", user("hi"), assistant(again), user("more, edited"))
        assert third not in (session, regenerated)
        assert said(model.chats[-1])[-3:] == [("user", "hi"), ("assistant", again), ("user", "more, edited")]
        repeated = await ask("m4", user("hi"), assistant(again), user("more, edited"))
        assert repeated == (three, third)
        asked = len(model.chats)
        tasks = [
            (await rest.get("/v1/tasks", params={"session_id": s})).json()["items"] for s in (session, regenerated)
        ]
        kept = (await rest.get(f"/v1/sessions/{regenerated}/messages")).json()["items"]
    assert asked == 6  # four answers, two titles
    assert [len(each) for each in tasks] == [1, 1]
    assert [m["content"] for m in kept] == ["hi", again, "more", two]
    assert tasks[0][0]["user_id"] == "ann"


async def test_a_stream_that_its_client_closes_cancels_the_turn_and_the_same_again_is_a_new_one(asking: Stage) -> None:
    messages, more = [user(unique("count"))], asyncio.Event()
    reply = say("one two three", chunks=3, wait=more, wait_after=2)
    async with asking.model(lambda _: reply) as model, client(asking) as ai, http(asking) as rest:
        raw = await ai.chat.completions.with_raw_response.create(model="pentad", messages=messages, stream=True)
        session = raw.headers["x-pentad-session"]
        stream = raw.parse()
        async for chunk in stream:
            if chunk.choices[0].delta.content:
                break
        await stream.close()

        async def cancelled() -> bool:
            tasks = (await rest.get("/v1/tasks", params={"session_id": session})).json()["items"]
            return [task["status"] for task in tasks] == ["cancelled"]

        await wait_until("the task is cancelled", cancelled)
        more.set()
        again = await ai.chat.completions.with_raw_response.create(model="pentad", messages=messages)
    assert again.parse().choices[0].message.content == "one two three"
    assert again.headers["x-pentad-session"] != session
    assert len(model.chats) == 2


async def test_an_answer_that_was_not_streamed_is_not_cancelled_by_who_leaves(asking: Stage) -> None:
    body, more = {"model": "pentad", "messages": [user(unique("slow"))]}, asyncio.Event()
    async with asking.model(lambda _: say("at last", wait=more)) as model, http(asking) as rest:
        waiting = asyncio.create_task(rest.post("/openai/v1/chat/completions", json=body))
        await wait_until("the model is asked", lambda: model.chats)
        waiting.cancel()
        more.set()
        again = await rest.post("/openai/v1/chat/completions", json=body)
    assert again.json()["choices"][0]["message"]["content"] == "at last"
    assert len(model.chats) == 1


async def test_questions_and_approvals_are_answered_by_the_next_message(asking: Stage) -> None:
    def script(request: dict[str, Any]) -> Reply:
        results = [m["content"] for m in request["messages"] if m["role"] == "tool"]
        return say(f"it said {results[-1]}") if results else call(("echo", {"text": "secret"}))

    first = user(unique("say it"))
    async with asking.model(script), client(asking) as ai:
        asked = await ai.chat.completions.create(model="pentad", messages=[first])
        question = asked.choices[0].message.content or ""
        assert "`echo` waits for you" in question
        assert "secret" in question
        assert (asked.model_extra or {})["pentad"]["waiting"] == "approval"
        done = await ai.chat.completions.create(model="pentad", messages=[first, assistant(question), user("yes")])
    assert done.choices[0].message.content == "it said secret"


async def test_json_of_a_schema_is_told_whole(asking: Stage) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    form: Any = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}

    def script(request: dict[str, Any]) -> Reply:
        if not any(m["role"] == "tool" for m in request["messages"]):
            return call(("calculator", {"expression": "2-1"}), text="let me see")
        return say('{"n": 1}', chunks=3)

    async with asking.model(script), client(asking) as ai:
        stream = await ai.chat.completions.create(
            model="pentad", messages=[user(unique("count"))], response_format=form, stream=True
        )
        texts = [text async for chunk in stream if (text := chunk.choices[0].delta.content)]
    assert [json.loads(text) for text in texts] == [{"n": 1}]


async def test_images_become_files_of_the_session(asking: Stage) -> None:
    url = f"data:image/png;base64,{base64.b64encode(_PNG).decode()}"
    content: Any = [{"type": "text", "text": unique("look")}, {"type": "image_url", "image_url": {"url": url}}]
    async with asking.model(lambda _: say("a dot")) as model, client(asking) as ai, http(asking) as rest:
        raw = await ai.chat.completions.with_raw_response.create(
            model="pentad", messages=[{"role": "user", "content": content}]
        )
        session = raw.headers["x-pentad-session"]
        [file] = (await rest.get(f"/v1/sessions/{session}/files")).json()["items"]
        assert (await rest.get(f"/v1/sessions/{session}/files/{file['path']}")).content == _PNG
        past = [{"role": "user", "content": content}, assistant("a dot")]
        again = await ai.chat.completions.with_raw_response.create(model="pentad", messages=[*past, user("sure?")])
    assert again.headers["x-pentad-session"] == session
    assert file["path"] in json.dumps(model.chats[0])


async def test_pictures_of_a_conversation_from_elsewhere_are_seen(asking: Stage) -> None:
    url, seen = f"data:image/png;base64,{base64.b64encode(_PNG).decode()}", {"id": "eyes", "model": "m", "vision": True}
    image, elsewhere = [{"type": "image_url", "image_url": {"url": at}} for at in (url, "https://example.org/a.png")]
    text = {"type": "text", "text": unique("look")}
    past = [{"role": "user", "content": parts} for parts in ([text, image], [image], [text, elsewhere])]
    async with asking.model(lambda _: say("a dot")) as model, client(asking) as ai, http(asking) as rest:
        entry = seen | {"endpoint": model.base_url}
        assert (await rest.post("/v1/models", json=entry, headers=_OPERATOR)).is_success
        seer = {"name": "seer", "system_prompt": "Look.", "tools": [], "model": "eyes"}
        assert (await rest.post("/v1/instructions", json=seer, headers=_OPERATOR)).is_success
        messages: Any = [past[0], assistant("a dot"), past[1], past[2], user("what was in the picture I sent first?")]
        await ai.chat.completions.create(model="pentad/seer", messages=messages)
        told = [m["content"] for m in model.chats[-1]["messages"] if m["role"] == "user"]
    assert [part["type"] for part in told[0]] == ["text", "image_url"]
    assert told[0][1]["image_url"]["url"] == url
    assert (told[1][0]["text"].partition("\n")[0], told[1][1]["type"]) == ("[files]", "image_url")
    assert told[2] == f"{text['text']}\n\n[Sent here, but not kept: 1 image]"
    assert told[3] == messages[-1]["content"]


async def test_models_are_the_agent_its_instructions_and_the_plain_model(asking: Stage) -> None:
    async with asking.model(lambda _: say("arr")) as model, client(asking) as ai:
        names = [each.id async for each in ai.models.list()]
        assert {"pentad", "pentad/pirate", "pentad-utility"} <= set(names)
        assert (await ai.models.retrieve("pentad/pirate")).id == "pentad/pirate"
        with pytest.raises(openai.NotFoundError) as missing:
            await ai.chat.completions.create(model="pentad/nobody", messages=[user("hi")])
        assert (missing.value.code, missing.value.param) == ("model_not_found", "model")
        await ai.chat.completions.create(model="pentad/pirate", messages=[user(unique("hi"))])
    assert "pirate" in model.chats[-1]["messages"][0]["content"]


async def test_the_plain_model_passes_the_clients_tools_on(asking: Stage) -> None:
    tool: Any = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}, "strict": True}}

    def script(request: dict[str, Any]) -> Reply:
        return say("sunny") if request["messages"][-1]["role"] == "tool" else call(("weather", {"city": "Oslo"}))

    async with asking.model(script), client(asking) as ai:
        asked: list[Any] = [{"role": "system", "content": "be short"}, user("weather?")]
        one = await ai.chat.completions.create(model="pentad-utility", messages=asked, tools=[tool])
        [made] = one.choices[0].message.tool_calls or []
        assert one.choices[0].finish_reason == "tool_calls"
        asked += [one.choices[0].message.model_dump(exclude_none=True)]
        asked.append({"role": "tool", "tool_call_id": made.id, "content": "sun"})
        two = await ai.chat.completions.create(model="pentad-utility", messages=asked, tools=[tool], stream=True)
        assert "".join([chunk.choices[0].delta.content or "" async for chunk in two]) == "sunny"


WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather in a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


def result(call_id: str, text: str) -> Any:
    """The result of a tool that the client runs."""
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def weather_then(*more: tuple[str, dict[str, Any]]) -> Any:
    """A model that asks for the weather in Oslo, and for these calls, and then says what the results are."""

    def script(request: dict[str, Any]) -> Reply:
        results = [m["content"] for m in request["messages"] if m["role"] == "tool"]
        if request["messages"][-1]["role"] == "tool":
            return say(f"so: {', '.join(results)}")
        return call(("weather", {"city": "Oslo"}), *more) if not results else say("you are welcome")

    return script


async def test_a_clients_tool_is_called_and_its_result_goes_on_with_the_turn(asking: Stage) -> None:
    first = user(unique("weather?"))
    async with asking.model(weather_then()) as model, client(asking) as ai:
        raw = await ai.chat.completions.with_raw_response.create(model="pentad", messages=[first], tools=[WEATHER])
        one = raw.parse()
        said_first = one.choices[0].message
        [made] = cast("list[Any]", said_first.tool_calls)
        assert (one.choices[0].finish_reason, said_first.content) == ("tool_calls", None)
        assert (made.function.name, json.loads(made.function.arguments)) == ("weather", {"city": "Oslo"})
        assert one.usage is not None
        assert one.usage.completion_tokens > 0
        past = [first, said_first.model_dump(exclude_none=True), result(made.id, "sun")]
        two, again = [await ai.chat.completions.create(model="pentad", messages=past, tools=[WEATHER]) for _ in "ab"]
        assert two.choices[0].message.content == again.choices[0].message.content == "so: sun"
        assert two.usage is not None
        assert two.usage.completion_tokens > 0
        third = await ai.chat.completions.with_raw_response.create(
            model="pentad", messages=[*past, assistant("so: sun"), user("thanks")], tools=[WEATHER]
        )
    assert third.parse().choices[0].message.content == "you are welcome"
    assert third.headers["x-pentad-session"] == raw.headers["x-pentad-session"]
    assert len(model.chats) == 3, "the same results again are one turn"
    offered = {tool["function"]["name"] for tool in model.chats[0]["tools"]}
    assert {"weather", "calculator"} <= offered, "beside ours"


async def test_our_tools_run_while_the_client_is_asked_and_are_no_calls_of_it(asking: Stage) -> None:
    first = user(unique("weather and 6*7?"))
    script = weather_then(("calculator", {"expression": "6*7"}), ("weather", {"city": "Rome"}))
    async with asking.model(script), client(asking) as ai:
        stream = await ai.chat.completions.create(model="pentad", messages=[first], tools=[WEATHER], stream=True)
        chunks = [chunk async for chunk in stream]
        calls = [each for chunk in chunks for each in chunk.choices[0].delta.tool_calls or []]
        assert chunks[-1].choices[0].finish_reason == "tool_calls"
        asked = [
            (each.index, each.function.name, each.function.arguments) for each in calls if each.function is not None
        ]
        assert asked == [(0, "weather", '{"city":"Oslo"}'), (1, "weather", '{"city":"Rome"}')]
        ids = [str(each.id) for each in calls]
        said_first: Any = {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": i, "type": "function", "function": {"name": "weather", "arguments": "{}"}} for i in ids
            ],
        }
        with pytest.raises(openai.BadRequestError, match=f"{ids[1]} has no result"):
            await ai.chat.completions.create(model="pentad", messages=[first, said_first, result(ids[0], "rain")])
        past = [first, said_first, result(ids[0], "rain"), result(ids[1], "sun")]
        stream = await ai.chat.completions.create(model="pentad", messages=past, tools=[WEATHER], stream=True)
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
    assert text == "so: rain, 42, sun"


async def test_results_and_a_message_come_together_and_a_message_alone_gives_the_call_up(asking: Stage) -> None:
    first = user(unique("weather?"))
    async with asking.model(weather_then()) as model, client(asking) as ai:
        one = await ai.chat.completions.create(model="pentad", messages=[first], tools=[WEATHER])
        [made] = one.choices[0].message.tool_calls or []
        past = [first, one.choices[0].message.model_dump(exclude_none=True), result(made.id, "sun")]
        two = await ai.chat.completions.create(model="pentad", messages=[*past, user("and tomorrow?")])
        assert two.choices[0].finish_reason == "stop"
        assert [m["content"] for m in model.chats[-1]["messages"] if m["role"] == "tool"] == ["sun"]
        other = user(unique("weather?"))
        one = await ai.chat.completions.create(model="pentad", messages=[other], tools=[WEATHER])
        [made] = one.choices[0].message.tool_calls or []
        await ai.chat.completions.create(model="pentad", messages=[other, user("never mind")])
        late = [other, one.choices[0].message.model_dump(exclude_none=True), result(made.id, "sun")]
        with pytest.raises(openai.APIStatusError, match="has ended"):
            await ai.chat.completions.create(model="pentad", messages=late)
    told = [m["content"] for m in model.chats[-1]["messages"] if m["role"] == "tool"]
    assert told == ["error: the client has sent a message instead of a result"]


@pytest.mark.parametrize("results_before", [1, 2])
async def test_a_turn_that_went_on_with_results_and_failed_is_tried_again_and_repeats_no_call(
    asking: Stage, results_before: int
) -> None:
    """The same request again begins behind what was done: the tool that had run does not run again."""
    fails = 2

    def script(request: dict[str, Any]) -> Reply:
        nonlocal fails
        results = [m["content"] for m in request["messages"] if m["role"] == "tool"]
        if not results:
            return call(("weather", {"city": "Oslo"}))
        if len(results) == results_before and fails:
            fails -= 1
            return fail(400, message="no such model")
        if len(results) == 1:
            return call(("calculator", {"expression": "6*7"}))
        return say(f"so: {', '.join(results)}")

    first = user(unique("weather?"))
    async with asking.model(script) as model, client(asking) as ai:
        one = await ai.chat.completions.create(model="pentad", messages=[first], tools=[WEATHER])
        [made] = one.choices[0].message.tool_calls or []
        past: Any = [first, one.choices[0].message.model_dump(exclude_none=True), result(made.id, "sun")]
        asked: Any = {"model": "pentad", "messages": past, "tools": [WEATHER]}
        for _ in range(2):
            with pytest.raises(openai.InternalServerError, match="no such model"):
                await ai.chat.completions.create(**asked)
        raw = [await ai.chat.completions.with_raw_response.create(**asked) for _ in "ab"]
        chats, answers = len(model.chats), [each.parse().choices[0].message.content for each in raw]
        go_on: Any = [*past, assistant("so: sun, 42"), user("thanks")]
        third = await ai.chat.completions.with_raw_response.create(model="pentad", messages=go_on)
    assert answers == ["so: sun, 42"] * 2
    assert chats == 5, "two steps, two failures, one answer: what was done is not done again"
    assert "weather" in {tool["function"]["name"] for tool in model.chats[4]["tools"]}
    assert third.headers["x-pentad-session"] == raw[0].headers["x-pentad-session"]


async def test_a_call_that_waits_for_a_person_is_asked_for_again_behind_the_clients_results(asking: Stage) -> None:
    """No event says it again: the question is that of the turn before."""
    first, script = user(unique("weather and say it?")), weather_then(("echo", {"text": "secret"}))
    async with asking.model(script) as model, client(asking) as ai:
        one = await ai.chat.completions.create(model="pentad", messages=[first], tools=[WEATHER])
        [made] = one.choices[0].message.tool_calls or []
        question = one.choices[0].message.content or ""
        past: Any = [first, one.choices[0].message.model_dump(exclude_none=True), result(made.id, "sun")]
        two = await ai.chat.completions.create(model="pentad", messages=past, tools=[WEATHER])
        again = two.choices[0].message.content or ""
        past += [assistant(again), user("yes")]
        await ai.chat.completions.create(model="pentad", messages=past, tools=[WEATHER])
    assert "`echo` waits for you" in question
    assert "secret" in again
    assert again == question
    assert [m["content"] for m in model.chats[-1]["messages"] if m["role"] == "tool"] == ["sun", "secret"]


async def test_tools_that_cannot_be_offered_are_refused(asking: Stage) -> None:
    wrong: list[tuple[Any, Any, str]] = [
        ([{"type": "web_search"}], None, "tools.0"),
        ([WEATHER, WEATHER], None, "same name"),
        ([{"type": "function", "function": {"name": "a b"}}], None, "tools.0.name"),
        ([WEATHER], "required", "tool_choice"),
    ]
    async with client(asking) as ai:
        for tools, choice, why in wrong:
            more = {} if choice is None else {"tool_choice": choice}
            with pytest.raises(openai.BadRequestError, match=why):
                await ai.chat.completions.create(model="pentad", messages=[user("hi")], tools=tools, **more)
        with pytest.raises(openai.NotFoundError, match="waits for its result"):
            await ai.chat.completions.create(model="pentad", messages=[user("hi"), result("call-0-none", "x")])


async def test_a_broken_attempt_is_said_to_begin_again(asking: Stage) -> None:
    def script(request: dict[str, Any]) -> Reply:
        return cut(3, text="wrong beginning") if len(model.chats) == 1 else say("right answer")

    async with asking.model(script) as model, client(asking) as ai:
        first = user(unique("try"))
        stream = await ai.chat.completions.create(model="pentad", messages=[first], stream=True)
        chunks = [chunk async for chunk in stream]
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        assert text.startswith("wrong")
        assert text.endswith("\n\n(restarted)\n\nright answer")
        assert any((chunk.model_extra or {}).get("pentad") == {"restarted": True} for chunk in chunks)
        await ai.chat.completions.create(model="pentad", messages=[first, assistant(text), user("go on")])
    assert said(model.chats[-1])[-3:] == [("user", first["content"]), ("assistant", "right answer"), ("user", "go on")]


async def test_a_failed_turn_is_an_error_in_openais_form(asking: Stage) -> None:
    async with asking.model(lambda _: fail(400, message="no such model")), client(asking) as ai:
        with pytest.raises(openai.InternalServerError, match="no such model") as whole:
            await ai.chat.completions.create(model="pentad", messages=[user(unique("fail"))])
        assert whole.value.response.headers["x-should-retry"] == "false"
        stream = await ai.chat.completions.create(model="pentad", messages=[user(unique("fail"))], stream=True)
        with pytest.raises(openai.APIError, match="no such model"):
            [chunk async for chunk in stream]


async def test_librechats_requests_edit_the_first_message_and_go_on(asking: Stage) -> None:
    """Requests as LibreChat sends them: the id of the conversation in a header, the whole of it in the body."""
    chat = str(uuid4())
    headers = {"X-Pentad-Chat": chat}
    async with asking.model(lambda r: say(f"answer to {said(r)[-1][1]}")) as model, client(asking, **headers) as ai:

        async def ask(*messages: Any) -> tuple[str, str]:
            raw = await ai.chat.completions.with_raw_response.create(
                model="pentad", messages=list(messages), user="ann", stream=True
            )
            chunks = [chunk async for chunk in raw.parse()]
            text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
            return text, raw.headers["x-pentad-session"]

        one, session = await ask(user("hello"))
        _, edited = await ask(user("hello, edited"))
        assert said(model.chats[-1]) == [("user", "hello, edited")]
        two, same = await ask(user("hello"), assistant(one), user("more"))
    assert (session, same, two) == (chat, chat, "answer to more")
    assert edited != chat


async def test_a_message_over_rest_may_bring_a_conversation_along(asking: Stage) -> None:
    session = new_session()
    history = [user("my name is Ada"), assistant("hello Ada")]
    body = {"content": "what is my name?", "session_id": session, "history": history}
    async with asking.model(lambda _: say("Ada")) as model, http(asking) as rest:
        await rest.post("/v1/messages?wait=15", json=body)
        assert said(model.chats[-1])[:2] == [("user", "my name is Ada"), ("assistant", "hello Ada")]
        again = body | {"content": "sure?", "history": [user("my name is Bob")]}
        await rest.post("/v1/messages?wait=15", json=again)
        assert "Bob" not in json.dumps(model.chats[-1])
        for wrong in ([user("")], [{"role": "system", "content": "x"}], [user("x")] * 201, [user("x" * 262_145)]):
            refused = await rest.post("/v1/messages", json=body | {"history": wrong})
            assert (refused.status_code, "history" in refused.json()["detail"]) == (422, True)


@pytest.fixture(scope="module")
def packages() -> Path:
    folder = installed("openai@6.49.0")
    if folder is None:
        pytest.skip("the official JavaScript client of OpenAI cannot be installed here: it needs node and npm")
    return folder


async def test_the_official_javascript_client_holds_a_conversation(asking: Stage, packages: Path) -> None:
    script = packages / "openai_client.mjs"
    script.write_text((ROOT / "tests" / "support" / "javascript" / "openai_client.mjs").read_text())
    asked = {"url": asking.url, "first": unique("what is 6*7?")}

    def play(request: dict[str, Any]) -> Reply:
        last = request["messages"][-1]["content"]
        if any(m["role"] == "tool" for m in request["messages"]):
            return say(f"you are {last}" if "Berlin" in last else "it is 42", chunks=2)
        if "where" in last:
            return call(("get_place", {"exact": True}))
        return call(("calculator", {"expression": "6*7"}))

    async with asking.model(play):
        process = await asyncio.create_subprocess_exec(
            "node", str(script), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, cwd=packages
        )
        told, _ = await process.communicate(json.dumps(asked).encode())
    seen = json.loads(told)
    assert seen["models"][0] == "pentad"
    assert seen["streamed"] == seen["whole"] == "it is 42"
    assert seen["sessions"][0] == seen["sessions"][1]
    assert seen["tools"] == ["calculator"]
    assert seen["items"] == ["mcp_call", "message"]
    assert seen["responded"] == "it is 42"
    assert (seen["places"], seen["placed"]) == ([True], "you are in Berlin")
    assert seen["refused"] == [404, "model_not_found"]
