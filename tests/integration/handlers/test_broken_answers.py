"""What a task makes of answers that are not whole, or are none: it says why, and asks again where that helps."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import from_json

from pentad.shared.keys import timers
from pentad.shared.models.model_pool import pool_of
from pentad.shared.models.openai_chat import OpenAIChat
from pentad.shared.store.store import Store
from pentad.shared.work.timers import TimerLoop
from tests.integration.handlers.flow import SESSION, Flow, answer
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import Reply, call, cut, fail, raw, say


class Talk:
    """A task whose model is a server on loopback; each request gets the next reply, the last one for ever."""

    def __init__(self, flow: Flow, server: ScriptedModel) -> None:
        self.flow, self.server = flow, server

    async def say(self) -> list[dict[str, Any]]:
        await self.flow.say("go")
        await self.flow.drive()
        return await self.told()

    async def told(self) -> list[dict[str, Any]]:
        return [from_json(f[1]) for _, f in await self.flow.store.call("XRANGE", SESSION.events, "-", "+")]

    async def again(self) -> list[dict[str, Any]]:
        """The next attempt is due now."""
        name = f"retry {(await self.flow.task()).actor}"
        assert await self.flow.store.call("ZADD", timers(0), "XX", "CH", 1, name) == 1
        await TimerLoop(self.flow.store, [0]).fire(0)
        await self.flow.drive()
        return await self.told()


@asynccontextmanager
async def talking(store: Store, folder: Path, *replies: Reply, **settings: Any) -> AsyncIterator[Talk]:
    left = list(replies)
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(ScriptedModel(lambda _: left.pop(0) if len(left) > 1 else left[0]))
        client = OpenAIChat(server.base_url, "none", "m")
        stack.push_async_callback(client.aclose)
        flow = Flow(store, folder, lambda _: answer("never"), models=pool_of(client), **settings)
        yield Talk(await flow.prepare(), server)


@pytest.mark.parametrize("reason", ["stop", "length", "content_filter"])
async def test_a_message_and_the_end_say_why_the_answer_ended(store: Store, tmp_path: Path, reason: str) -> None:
    async with talking(store, tmp_path, say("half a text", finish=reason)) as talk:
        *_, message, end = await talk.say()
    assert (message["type"], message["content"], message["finish_reason"]) == ("message", "half a text", reason)
    assert (end["type"], end["status"], end["finish_reason"]) == ("task_end", "completed", reason)


async def test_the_end_says_it_of_an_answer_that_came_with_a_call(store: Store, tmp_path: Path) -> None:
    done = call(("complete_task", {"summary": "all done"}))
    async with talking(store, tmp_path, done) as talk:
        end = (await talk.say())[-1]
    assert (end["type"], end["status"], end["finish_reason"]) == ("task_end", "completed", "tool_calls")


SILENT: dict[str, tuple[Reply, str]] = {
    "nothing": (say(""), "said nothing: finish_reason stop"),
    "thoughts alone": (say("", thinking="hm"), "thought and then said nothing: finish_reason stop"),
    "thoughts up to the limit": (say("", thinking="hm", finish="length"), "raise max_tokens"),
    "blanks": (say(" \n "), "said nothing"),
}


@pytest.mark.parametrize("kind", SILENT)
async def test_an_empty_answer_is_asked_for_again_and_then_said(store: Store, tmp_path: Path, kind: str) -> None:
    reply, why = SILENT[kind]
    async with talking(store, tmp_path, reply) as talk:
        told = await talk.say()
        assert (told[-1]["type"], told[-1]["status"]) == ("task_status", "active")
        assert why in told[-1]["reason"]
        *_, error, end = await talk.again()
    assert (error["type"], error["code"]) == ("error", "model_error")
    assert why in error["message"]
    assert (end["status"], end["reason"], end["usage"]["input_tokens"]) == ("failed", "model_error", 22)
    assert len(talk.server.chats) == 2
    assert talk.server.chats[0] == talk.server.chats[1], "nothing of the empty answer is in the prompt"


async def test_an_answer_after_an_empty_one_is_the_answer(store: Store, tmp_path: Path) -> None:
    async with talking(store, tmp_path, say(""), say("here I am")) as talk:
        await talk.say()
        end = (await talk.again())[-1]
    assert (end["status"], end["finish_reason"], end["usage"]["input_tokens"]) == ("completed", "stop", 22)


@pytest.mark.parametrize("finish", ["length", "content_filter"])
async def test_a_call_that_was_cut_before_its_arguments_is_not_made(store: Store, tmp_path: Path, finish: str) -> None:
    """A tool runs only with what the model asked for: a call cut right after its name would run with its defaults."""
    async with talking(store, tmp_path, call(("clock", ""), finish=finish), say("again, then")) as talk:
        told = await talk.say()
    [result] = [event for event in told if event["type"] == "tool_result"]
    assert "not made: the answer was cut off" in result["error"]
    assert "not made" in talk.server.chats[1]["messages"][-1]["content"], "the model is told"
    assert told[-1]["status"] == "completed"


LOST: dict[str, Reply] = {
    "an empty stream": raw(),
    "a ping": raw(b": ping\n\n"),
    "an empty document": raw(b"{}", content_type="application/json"),
    "a role, then a break": cut(1),
}


@pytest.mark.parametrize("kind", LOST)
async def test_an_answer_that_is_lost_before_it_begins_counts_as_no_attempt(
    store: Store, tmp_path: Path, kind: str
) -> None:
    async with talking(store, tmp_path, *[LOST[kind]] * 2, say("at last"), pentad_max_attempts=1) as talk:
        await talk.say()
        await talk.again()
        end = (await talk.again())[-1]
    assert (end["status"], end["reason"]) == ("completed", "answered")


FINAL: dict[str, tuple[Reply, str]] = {
    "no credit": (
        raw(b'data: {"error":{"message":"You exceeded your quota","code":"insufficient_quota"}}\n\n'),
        "no credit left",
    ),
    "too long": (raw(b'data: {"error":{"message":"context size has been exceeded","code":500}}\n\n'), "too long"),
    "too long, as an outage": (fail(500, message="the request exceeds the available context size"), "too long"),
}


@pytest.mark.parametrize("kind", FINAL)
async def test_what_no_waiting_mends_is_said_at_once(store: Store, tmp_path: Path, kind: str) -> None:
    reply, why = FINAL[kind]
    async with talking(store, tmp_path, reply) as talk:
        *_, error, end = await talk.say()
    assert (end["status"], len(talk.server.chats)) == ("failed", 1)
    assert why in error["message"]
