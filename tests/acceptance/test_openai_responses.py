"""OpenAI's responses: the official client makes, streams, reads, goes on from, cancels and forgets them."""

import asyncio
import json
from typing import Any
from uuid import uuid4

import openai
import pytest
from openai import AsyncOpenAI

from tests.support.models.replies import Reply, call, fail, say
from tests.support.processes.stage import Stage, new_session
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance


def client(asking: Stage) -> AsyncOpenAI:
    return AsyncOpenAI(api_key="none", base_url=f"{asking.url}/openai/v1", timeout=15, max_retries=0)


def said(request: dict[str, Any]) -> list[str]:
    """What a model was told of the conversation."""
    return [m["content"] for m in request["messages"] if m["role"] in ("user", "assistant")]


def unique(text: str) -> str:
    """A text that no other test has said: conversations are found by what was said."""
    return f"{text} {uuid4().hex[:8]}"


async def test_the_official_client_streams_thoughts_tools_and_texts_as_items(asking: Stage) -> None:
    def script(request: dict[str, Any]) -> Reply:
        last = request["messages"][-1]
        if last["role"] == "tool":
            return say(f"it is {last['content']}", chunks=3, thinking="easy")
        return call(("calculator", {"expression": "6*7"}), text="let me see")

    events = list[Any]()
    async with asking.model(script), client(asking) as ai:
        async with ai.responses.stream(model="pentad", input=unique("what is 6*7?")) as stream:
            events += [event async for event in stream]
            made = await stream.get_final_response()
        kept = await ai.responses.retrieve(made.id)
    kinds = [event.type for event in events]
    assert [event.sequence_number for event in events if hasattr(event, "sequence_number")] == sorted(
        {event.sequence_number for event in events if hasattr(event, "sequence_number")}
    )
    assert kinds[:3] == ["response.created", "response.in_progress", "response.output_item.added"]
    assert kinds[-1] == "response.completed"
    items: list[Any] = list(made.output)
    assert [item.type for item in items] == ["message", "mcp_call", "reasoning", "message"]
    assert (items[1].name, items[1].output, items[1].status) == ("calculator", "42", "completed")
    assert made.output_text == "let me seeit is 42"
    assert made.usage is not None
    assert made.usage.input_tokens > 0
    assert (kept.status, kept.output_text, kept.usage) == ("completed", made.output_text, made.usage)


async def test_responses_go_on_from_each_other_and_from_an_earlier_one_fork(asking: Stage) -> None:
    async with asking.model(lambda request: say(f"answer to {said(request)[-1]}")) as model, client(asking) as ai:
        first = await ai.responses.create(model="pentad", input=unique("one"), instructions="Be short.")
        second = await ai.responses.create(model="pentad", input="two", previous_response_id=first.id)
        third = await ai.responses.create(model="pentad", input="three", previous_response_id=second.id)
        assert third.output_text == "answer to three"
        assert "two" in said(model.chats[-1])
        fork = await ai.responses.create(model="pentad", input="other", previous_response_id=first.id)
        assert {"two", "three"} & set(said(model.chats[-1])) == set()
        assert said(model.chats[-1])[-2:] == [first.output_text, "other"]
        with pytest.raises(openai.NotFoundError, match="previous_response_id"):
            await ai.responses.create(model="pentad", input="x", previous_response_id="resp_nobody")
    sessions = [each.conversation.id for each in (first, second, third, fork) if each.conversation]
    assert sessions[0] == sessions[1] == sessions[2] != sessions[3]
    assert (second.previous_response_id, fork.previous_response_id) == (first.id, first.id)


async def test_a_conversation_is_a_session_and_items_sent_back_find_theirs(asking: Stage) -> None:
    session, first = new_session(), unique("first")
    async with asking.model(lambda request: say("yes")), client(asking) as ai:
        for text in ("one", "two"):
            made = await ai.responses.create(model="pentad", input=text, conversation=session)
            assert made.conversation is not None
            assert made.conversation.id == session
        items: list[Any] = [{"role": "user", "content": first}]
        one = await ai.responses.create(model="pentad", input=items, store=False)
        items += [item.model_dump() for item in one.output] + [{"role": "user", "content": "more"}]
        two = await ai.responses.create(model="pentad", input=items, store=False)
        assert one.conversation is not None
        assert one.conversation == two.conversation
        with pytest.raises(openai.NotFoundError):
            await ai.responses.retrieve(one.id)


async def test_a_background_response_is_read_gone_on_from_cancelled_and_forgotten(asking: Stage) -> None:
    more = asyncio.Event()
    async with asking.model(lambda request: say("done", wait=more)) as model, client(asking) as ai:
        begun = await ai.responses.create(model="pentad", input=unique("slow"), background=True)
        assert (begun.status, begun.output) == ("queued", [])
        await wait_until("the model is asked", lambda: model.chats)
        assert (await ai.responses.retrieve(begun.id)).status == "in_progress"
        other = await ai.responses.create(model="pentad", input=unique("stop me"), background=True)
        await wait_until("the model is asked again", lambda: len(model.chats) == 2)
        await ai.responses.cancel(other.id)

        async def is_over(response: str, status: str) -> bool:
            return (await ai.responses.retrieve(response)).status == status

        await wait_until("it is cancelled", lambda: is_over(other.id, "cancelled"))
        more.set()
        await wait_until("it is done", lambda: is_over(begun.id, "completed"))
        assert (await ai.responses.retrieve(begun.id)).output_text == "done"
        went_on = await ai.responses.create(model="pentad", input="and?", previous_response_id=begun.id)
        assert went_on.conversation == begun.conversation
        await ai.responses.delete(begun.id)
        with pytest.raises(openai.NotFoundError):
            await ai.responses.retrieve(begun.id)


async def test_the_official_client_takes_the_stream_of_a_background_response_up(asking: Stage) -> None:
    more, session = asyncio.Event(), new_session()

    def script(request: dict[str, Any]) -> Reply:
        if request["messages"][-1]["role"] == "tool":
            return say("one two three four", chunks=4, wait=more, wait_after=2)
        return call(("calculator", {"expression": "6*7"}), text="let me see")

    async with asking.model(script), client(asking) as ai:
        seen, rest, late, last = list[Any](), list[Any](), list[Any](), list[Any]()
        begun = await ai.responses.create(
            model="pentad", input=unique("count"), conversation=session, background=True, stream=True
        )
        async for event in begun:
            seen.append(event)
            if event.type == "response.output_text.delta" and event.output_index == 2:
                break
        await begun.close()
        made = seen[0].response.id
        following = await ai.responses.retrieve(made, stream=True, starting_after=seen[-1].sequence_number)
        more.set()
        rest += [event async for event in following]
        late += [event async for event in await ai.responses.retrieve(made, stream=True)]
        after_end = await ai.responses.retrieve(made, stream=True, starting_after=rest[-1].sequence_number)
        last += [event async for event in after_end]
        plain = await ai.responses.create(model="pentad", input=unique("more"), conversation=session)
        with pytest.raises(openai.BadRequestError, match="background"):
            await ai.responses.retrieve(plain.id, stream=True)
        with pytest.raises(openai.BadRequestError, match="starting_after"):
            await ai.responses.retrieve(made, stream=True, starting_after=-1)
        with pytest.raises(openai.NotFoundError):
            await ai.responses.retrieve("resp_nobody", stream=True)
        kept = await ai.responses.retrieve(made)
    for events in ([*seen, *rest], late):
        numbers = [event.sequence_number for event in events]
        assert numbers == sorted(set(numbers))
        texts = {0: "", 2: ""}
        for event in events:
            if event.type == "response.output_text.delta":
                texts[event.output_index] += event.delta
        assert texts == {0: "let me see", 2: "one two three four"}
        done = [event.item for event in events if event.type == "response.output_item.done"]
        assert [item.id for item in done] == [item.id for item in kept.output]
    assert rest[-1].response.status == "completed", "the stream that was closed has cancelled nothing"
    assert [event.type for event in last] == ["response.completed"]


async def test_json_is_one_item_and_a_failed_turn_a_failed_response(asking: Stage) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    form: Any = {"format": {"type": "json_schema", "name": "n", "schema": schema}}

    def script(request: dict[str, Any]) -> Reply:
        if "fail" in json.dumps(request["messages"]):
            return fail(400, message="no such model")
        return say('{"n": "one"}') if len(model.chats) == 1 else say('{"n": 1}')

    async with asking.model(script) as model, client(asking) as ai:
        made = await ai.responses.create(model="pentad", input=unique("count"), text=form)
        assert json.loads(made.output_text) == {"n": 1}
        assert (await ai.responses.retrieve(made.id)).output_text == made.output_text
        failed = await ai.responses.create(model="pentad", input=unique("fail"))
        with pytest.raises(openai.BadRequestError, match="tools"):
            await ai.responses.create(model="pentad", input="x", tools=[{"type": "web_search"}])
    assert failed.status == "failed"
    assert failed.error is not None
    assert "no such model" in failed.error.message


async def test_a_clients_tool_is_an_item_and_its_output_goes_on_with_the_turn(asking: Stage) -> None:
    tool: Any = {"type": "function", "name": "weather", "parameters": {"type": "object"}, "strict": False}

    def script(request: dict[str, Any]) -> Reply:
        last = request["messages"][-1]
        if last["role"] == "tool":
            return say(f"so: {last['content']}")
        return say("welcome") if "thanks" in last["content"] else call(("weather", {"city": "Oslo"}), text="let me see")

    async with asking.model(script) as model, client(asking) as ai:
        first = await ai.responses.create(model="pentad", input=unique("weather?"), tools=[tool])
        asked: Any = next(item for item in first.output if item.type == "function_call")
        assert [item.type for item in first.output] == ["message", "function_call"]
        assert (first.status, asked.name, json.loads(asked.arguments)) == ("completed", "weather", {"city": "Oslo"})
        output: Any = [{"type": "function_call_output", "call_id": asked.call_id, "output": "sun"}]
        behind = {"model": "pentad", "input": output, "previous_response_id": first.id, "tools": [tool]}
        async with ai.responses.stream(**behind) as stream:
            second = await stream.get_final_response()
        again = await ai.responses.create(**behind)
        assert second.output_text == again.output_text == "so: sun"
        assert again.id == second.id
        for kept in (first, second):
            shown = await ai.responses.retrieve(kept.id)
            assert [item.type for item in shown.output] == [item.type for item in kept.output]
            assert shown.status == "completed"
            assert shown.usage == kept.usage
        third = await ai.responses.create(model="pentad", input="thanks", previous_response_id=second.id)
        assert third.conversation == first.conversation
        streamed = [event async for event in await ai.responses.create(
            model="pentad", input=unique("weather?"), tools=[tool], stream=True
        )]  # fmt: skip
    kinds = [event.type for event in streamed if "function_call" in event.type]
    assert kinds == ["response.function_call_arguments.delta", "response.function_call_arguments.done"]
    assert len(model.chats) == 4


async def test_a_background_response_stops_for_the_clients_tool_and_goes_on(asking: Stage) -> None:
    tool: Any = {"type": "function", "name": "weather", "parameters": {"type": "object"}, "strict": False}

    def script(request: dict[str, Any]) -> Reply:
        last = request["messages"][-1]
        return say(f"so: {last['content']}") if last["role"] == "tool" else call(("weather", {"city": "Oslo"}))

    async with asking.model(script), client(asking) as ai:
        begun = await ai.responses.create(model="pentad", input=unique("weather?"), tools=[tool], background=True)

        async def has_stopped() -> bool:
            return (await ai.responses.retrieve(begun.id)).status == "completed"

        await wait_until("it has stopped", has_stopped)
        [asked] = [item for item in (await ai.responses.retrieve(begun.id)).output if item.type == "function_call"]
        output: Any = [{"type": "function_call_output", "call_id": asked.call_id, "output": "sun"}]
        went_on = await ai.responses.create(model="pentad", input=output, previous_response_id=begun.id)
    assert went_on.output_text == "so: sun"


async def test_a_stream_that_its_client_closes_is_cancelled(asking: Stage) -> None:
    more = asyncio.Event()
    async with asking.model(lambda _: say("one two", chunks=2, wait=more, wait_after=2)), client(asking) as ai:
        stream = await ai.responses.create(model="pentad", input=unique("count"), stream=True)
        made = ""
        async for event in stream:
            if event.type == "response.created":
                made = event.response.id
            if event.type == "response.output_text.delta":
                break
        await stream.close()

        async def is_cancelled() -> bool:
            return (await ai.responses.retrieve(made)).status == "cancelled"

        await wait_until("it is cancelled", is_cancelled)
        more.set()
