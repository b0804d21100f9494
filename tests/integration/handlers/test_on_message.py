"""What a message does that comes during a turn, by each policy of an instruction, with a model of each protocol."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import from_json

from pentad.contracts.instructions import Instruction
from pentad.contracts.models import ModelEntry
from pentad.contracts.streams import SESSION_WAKE, TASK_WAKE, TOOL_CALLS
from pentad.shared.actors.transcript import shown
from pentad.shared.keys import load
from pentad.shared.models.model_list import merged
from pentad.shared.models.model_makers import make_of_entry
from pentad.shared.models.model_pool import ModelPool, OpenGate
from pentad.shared.store.store import Store
from pentad.shared.work.entry import Entry
from tests.integration.handlers.flow import SESSION, Flow
from tests.integration.handlers.test_flow import beating
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import Reply, call, fail, say
from tests.support.waiting import PATIENCE_S, wait_until

ECHO = ("echo", {"text": "x"})
ASK = ("ask_user", {"question": "Which city?"})
DONE = ("complete_task", {"summary": "all done"})
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TOOLS = ["echo", "ask_user", "complete_task"]
LIVE = ("pending", "active", "waiting", "stale")


class Talk:
    """A flow whose model is a server, and what came of it."""

    def __init__(self, flow: Flow, server: ScriptedModel) -> None:
        self.flow, self.server = flow, server

    async def say(self, text: str) -> None:
        """A message reaches its task."""
        await self.flow.say(text, instruction="guide")
        await self.flow.once(SESSION_WAKE)

    async def said_while_asked(self, text: str) -> None:
        """A message comes while the model is being asked; what it cuts short, or not, goes on to the task's rest."""
        async with beating(self.flow):
            step = asyncio.create_task(self.flow.drive())
            await wait_until("what the model has said", self.delta_shown)
            await self.say(text)
            await wait_until("the call to be cut", lambda: self.server.seen.dropped > 0)
            await step

    async def delta_shown(self) -> bool:
        return bool(await self.told("content"))

    async def told(self, *kinds: str) -> list[dict[str, Any]]:
        found = await self.flow.store.call("XRANGE", SESSION.events, "-", "+")
        return [event for _, fields in found if (event := from_json(fields[1]))["type"] in kinds]

    async def turns(self) -> list[tuple[str, str | None]]:
        """When turns begin, what is said, when they end, and whose turn each is."""
        found = await self.told("task_start", "message", "task_end")
        return [(event.get("content") or event["type"], event.get("correlation_id")) for event in found]

    async def transcript(self) -> list[dict[str, Any]]:
        raw = await self.flow.store.call("LRANGE", (await self.flow.task()).log, 0, -1)
        return [shown(entry) for entry in raw]

    async def lines(self) -> list[tuple[str, str | None]]:
        return [(line["role"], line["content"]) for line in await self.transcript()]

    async def steps(self) -> list[dict[str, Any]]:
        return [from_json(raw) for raw in await self.flow.store.call("LRANGE", (await self.flow.task()).steps, 0, -1)]

    async def field(self, name: str) -> bytes:
        value: bytes = await self.flow.store.call("HGET", (await self.flow.task()).header, name)
        return value


Talking = Callable[..., Any]


@pytest.fixture(params=["openai", "anthropic"])
async def talking(request: pytest.FixtureRequest, store: Store, tmp_path: Path) -> AsyncIterator[Talking]:
    """Makes a talk: ``talking(policy, replies...)``. A reply that is left over is the last one."""
    opened: list[Any] = []

    async def make(policy: str, *replies: Reply, **fields: Any) -> Talk:
        rest = list(replies)
        server = ScriptedModel(lambda _: rest.pop(0) if len(rest) > 1 else rest[0])
        opened.append(await server.__aenter__())
        about = {"id": "m", "protocol": request.param, "endpoint": server.base_url, "model": "m1", "default": True}
        entry = ModelEntry.model_validate(about | {"prices": {"input": 1.0, "output": 1.0}})
        pool = ModelPool(lambda known: make_of_entry(known.entry), OpenGate(), merged((), [entry], ()))
        opened.append(pool)
        guide = Instruction.model_validate(
            {"name": "guide", "system_prompt": "Guide.", "on_message": policy, "tools": TOOLS} | fields
        )
        return Talk(await Flow(store, tmp_path, lambda _: None, models=pool, instructions=[guide]).prepare(), server)  # type: ignore[arg-type,return-value]

    yield make
    for each in opened:
        await (each.stop() if isinstance(each, ScriptedModel) else each.aclose())


def held(text: str, **more: Any) -> Reply:
    """An answer that stops in its middle, and never goes on."""
    return say(text, chunks=2, wait=asyncio.Event(), wait_after=more.pop("after", 3), **more)


# Steer


async def test_by_default_the_next_step_of_the_same_turn_sees_it(talking: Talking) -> None:
    talk = await talking("steer", call(ECHO), say("both done"))
    await talk.say("one")
    await talk.flow.once(TASK_WAKE)
    await talk.say("two")
    await talk.flow.drive()
    assert [role for role, _ in await talk.lines()] == ["user", "assistant", "tool", "user", "assistant"]
    assert await talk.turns() == [("task_start", "u1"), ("both done", "u2"), ("task_end", "u2")]
    (message,) = await talk.told("message")
    assert message["finish_reason"] == "stop"


async def test_by_default_no_message_cuts_a_model_call(talking: Talking) -> None:
    talk = await talking("steer", say("one two", chunks=8, delay=0.15), say("done"))
    await talk.say("one")
    async with beating(talk.flow):
        step = asyncio.create_task(talk.flow.drive())
        await wait_until("what the model has said", talk.delta_shown)
        await talk.say("two")
        await step
    assert talk.server.seen.dropped == 0
    assert [content for _, content in await talk.lines()] == ["one", "one two", "two", "done"]


# Queue


async def test_queued_messages_have_a_turn_each_in_order(talking: Talking) -> None:
    talk = await talking("queue", call(ECHO), say("first"), call(ECHO), say("second"), say("third"))
    await talk.say("one")
    await talk.flow.once(TASK_WAKE)
    await talk.say("two")
    await talk.say("three")
    await talk.flow.drive()
    called = [("assistant", None), ("tool", "x")]
    assert await talk.lines() == [
        ("user", "one"), *called, ("assistant", "first"),
        ("user", "two"), *called, ("assistant", "second"),
        ("user", "three"), ("assistant", "third"),
    ]  # fmt: skip
    expected = [
        [("task_start", f"u{n}"), (said, f"u{n}"), ("task_end", f"u{n}")]
        for n, said in enumerate(["first", "second", "third"], 1)
    ]
    assert await talk.turns() == [told for turn in expected for told in turn]
    assert [end["queues"] for end in await talk.told("task_end")] == [True, True, True]
    assert await talk.flow.store.call("HGET", load(0), "mail") == b"0"


async def test_messages_that_came_before_the_first_step_have_a_turn_each(talking: Talking) -> None:
    talk = await talking("queue", say("first"), say("second"), say("third"))
    for text in ("one", "two", "three"):
        await talk.say(text)
    await talk.flow.drive()
    assert [content for _, content in await talk.lines()] == ["one", "first", "two", "second", "three", "third"]
    assert [whose for kind, whose in await talk.turns() if kind == "task_end"] == ["u1", "u2", "u3"]


async def test_a_message_in_the_last_instant_of_a_turn_starts_the_next(talking: Talking) -> None:
    """It comes while the model gives the turn's last answer: that ends its turn all the same."""
    talk = await talking("queue", say("one two", chunks=8, delay=0.1), say("done"))
    await talk.say("one")
    step = asyncio.create_task(talk.flow.drive())
    await wait_until("what the model has said", talk.delta_shown)
    await talk.say("two")
    await step
    turns = [("task_start", "u1"), ("one two", "u1"), ("task_end", "u1")]
    assert await talk.turns() == [*turns, ("task_start", "u2"), ("done", "u2"), ("task_end", "u2")]
    assert await talk.flow.status() == "completed"


async def test_a_question_is_answered_by_the_next_message_and_the_turn_goes_on(talking: Talking) -> None:
    talk = await talking("queue", call(ASK, ECHO), say("so: Berlin"), say("next"))
    await talk.say("one")
    await talk.flow.once(TASK_WAKE)
    await talk.say("Berlin")
    await talk.flow.once(TASK_WAKE)
    await talk.say("another thing")
    await talk.flow.drive()
    assert [content for _, content in await talk.lines()][-5:] == [
        "x", "Berlin", "so: Berlin", "another thing", "next"
    ]  # fmt: skip
    assert [whose for kind, whose in await talk.turns() if kind == "task_end"] == ["u2", "u3"]


async def test_a_task_that_says_that_it_is_done_ends_its_turn(talking: Talking) -> None:
    talk = await talking("queue", call(DONE), say("next"))
    await talk.say("one")
    await talk.flow.once(TASK_WAKE)
    await talk.say("two")
    await talk.flow.drive()
    assert [said for said, _ in await talk.turns()] == [
        "task_start", "all done", "task_end", "task_start", "next", "task_end"
    ]  # fmt: skip


async def test_an_answer_is_repaired_before_the_next_message_is_taken(talking: Talking) -> None:
    form = {"output": "json", "output_schema": NUMBER}
    talk = await talking("queue", say("three"), say('{"n":3}'), say("four"), say('{"n":4}'), **form)
    await talk.say("one")
    await talk.flow.once(TASK_WAKE)
    await talk.say("two")
    await talk.flow.drive()
    assert [said for said, _ in await talk.turns() if said[0] == "{"] == ['{"n":3}', '{"n":4}']
    users = [line["content"] for line in await talk.transcript() if line["role"] == "user"]
    assert (users[0], users[2]) == ("one", "two")
    assert all("Answer again" in repair for repair in users[1::2])


async def test_a_turn_that_fails_leaves_the_next_message_its_own(talking: Talking) -> None:
    talk = await talking("queue", fail(400), say("second"))
    await talk.say("one")
    await talk.say("two")
    await talk.flow.drive()
    ends = [(end["status"], end["correlation_id"]) for end in await talk.told("task_end")]
    assert ends == [("failed", "u1"), ("completed", "u2")]


@pytest.mark.parametrize("why", ["cancel", "deadline"])
async def test_a_cancel_and_a_deadline_take_the_queued_messages_with_them(talking: Talking, why: Any) -> None:
    talk = await talking("queue", call(ECHO), say("never said"))
    await talk.say("one")
    await talk.flow.once(TASK_WAKE)
    await talk.say("two")
    await talk.say("three")
    task = await talk.flow.task()
    if why == "deadline":
        await talk.flow.store.call("HSET", task.header, "deadline", 1)
    await talk.flow.actors.post(task, why, b"{}", LIVE, control=why)
    await talk.flow.drive()
    (end,) = await talk.told("task_end")
    assert (end["status"], "queues" in end) == ("cancelled" if why == "cancel" else "failed", False)
    assert [content for role, content in await talk.lines() if role == "user"] == ["one", "two", "three"]
    assert (len(talk.server.chats), await talk.flow.store.call("HGET", load(0), "mail")) == (1, b"0")


async def test_a_paused_task_keeps_its_queue(talking: Talking) -> None:
    talk = await talking("queue", call(ECHO), say("first"), say("second"))
    await talk.say("one")
    await talk.flow.once(TASK_WAKE)
    await talk.say("two")
    await talk.flow.actors.post(await talk.flow.task(), "pause", b"{}", LIVE, control="pause")
    await talk.flow.drive()
    assert (await talk.flow.status(), len(talk.server.chats)) == ("waiting", 1)
    await talk.flow.actors.post(await talk.flow.task(), "resume", b"{}", LIVE, control="resume")
    await talk.flow.drive()
    said = [said for said, _ in await talk.turns()]
    assert said == ["task_start", "first", "task_end", "task_start", "second", "task_end"]


async def test_hundreds_of_queued_messages_do_not_keep_the_runner_busy(talking: Talking) -> None:
    """More than one handling reads: the task sleeps while its tools run."""
    talk = await talking("queue", call(ECHO), say("done"))
    await talk.say("one")
    await talk.flow.once(TASK_WAKE)
    mail = b'{"message":{"content":"more","session_id":"s1"},"entry_id":"1-1","at":"now"}'
    for _ in range(300):
        await talk.flow.actors.post(await talk.flow.task(), "user", mail, LIVE)
    handled = 0
    while await talk.flow.once(TASK_WAKE):
        handled += 1
    assert handled <= 2
    await talk.flow.once(TOOL_CALLS)
    await asyncio.wait_for(talk.flow.drive(), PATIENCE_S)
    assert len(await talk.told("task_end")) == 301


# Interrupt


async def test_a_message_cuts_the_model_call_and_what_was_said_stays(talking: Talking) -> None:
    talk = await talking("interrupt", held("one two"), say("instead: three"))
    await talk.say("count")
    await talk.said_while_asked("stop, say three")
    first, second = await talk.told("message")
    assert (first["finish_reason"], first["step"], first["correlation_id"]) == ("interrupted", 1, "u1")
    assert (second["finish_reason"], second["content"]) == ("stop", "instead: three")
    kept = first["content"]
    assert kept
    assert "one two".startswith(kept)
    expected = [("user", "count"), ("assistant", kept), ("user", "stop, say three"), ("assistant", "instead: three")]
    assert await talk.lines() == expected
    assert [line.get("finish_reason") for line in await talk.transcript()] == [None, "interrupted", None, None]
    assert [step["finish_reason"] for step in await talk.steps()] == ["interrupted", "stop"]
    shown_text = "".join(e["content"] for e in await talk.told("content") if e["step"] == 1)
    assert shown_text == kept
    asked = talk.server.chats[-1]["messages"]
    assert [message["role"] for message in asked if message["role"] != "system"] == ["user", "assistant", "user"]
    assert (await talk.flow.status(), await talk.field("unanswered")) == ("completed", b"0")


async def test_several_messages_cut_one_call_after_the_other(talking: Talking) -> None:
    talk = await talking("interrupt", held("one"), held("two"), held("three"), say("enough"))
    await talk.say("count")
    async with beating(talk.flow):
        step = asyncio.create_task(talk.flow.drive())
        for n in range(1, 4):
            await wait_until("a step to say something", lambda n=n: _spoken(talk, n))  # type: ignore[misc]
            await talk.say(f"no {n}")
            await wait_until("the cut", lambda n=n: talk.server.seen.dropped == n)  # type: ignore[misc]
        await step
    reasons = [message["finish_reason"] for message in await talk.told("message")]
    assert reasons == ["interrupted", "interrupted", "interrupted", "stop"]
    assert [role for role, _ in await talk.lines()] == ["user", "assistant"] * 4


async def _spoken(talk: Talk, step: int) -> bool:
    return any(event["step"] == step for event in await talk.told("content"))


@pytest.mark.parametrize("after", [0, 2], ids=["nothing has come", "its beginning has come"])
async def test_where_nothing_was_said_nothing_is_kept(talking: Talking, after: int) -> None:
    talk = await talking("interrupt", held("one two", after=after), say("three"))
    await talk.say("count")
    async with beating(talk.flow):
        step = asyncio.create_task(talk.flow.drive())
        await wait_until("the model to be asked", lambda: talk.server.seen.chats)
        await talk.say("to three")
        await wait_until("the cut", lambda: talk.server.seen.dropped == 1)
        await step
    lines = [(role, content) for role, content in await talk.lines() if content]
    assert lines[-1] == ("assistant", "three")
    assert all(content for _, content in await talk.lines()), "no empty message"
    assert await talk.flow.status() == "completed"


async def test_calls_of_a_cut_answer_are_never_made(talking: Talking) -> None:
    many = call(*[ECHO] * 4, text="let me see", wait=asyncio.Event(), wait_after=6)
    talk = await talking("interrupt", many, say("done"))
    await talk.say("go")
    await talk.said_while_asked("do less")
    assert await talk.told("tool_call") == []
    assert [content for _, content in await talk.lines()] == ["go", "let me see", "do less", "done"]


async def test_tools_that_run_are_not_cut(talking: Talking) -> None:
    talk = await talking("interrupt", call(ECHO), say("both done"))
    await talk.say("one")
    await talk.flow.once(TASK_WAKE)
    await talk.say("two")
    await talk.flow.drive()
    assert [role for role, _ in await talk.lines()] == ["user", "assistant", "tool", "user", "assistant"]
    assert [message["finish_reason"] for message in await talk.told("message")] == ["stop"]


async def test_of_a_json_answer_that_is_cut_nothing_is_kept(talking: Talking) -> None:
    form = {"output": "json", "output_schema": NUMBER}
    talk = await talking("interrupt", held('{"n": 3}'), say('{"n":4}'), **form)
    await talk.say("count")
    async with beating(talk.flow):
        step = asyncio.create_task(talk.flow.drive())
        await wait_until("the model to be asked", lambda: talk.server.seen.answering or talk.server.seen.chats)
        await talk.say("to four")
        await wait_until("the cut", lambda: talk.server.seen.dropped == 1)
        await step
    assert [message["content"] for message in await talk.told("message")] == ['{"n":4}']
    assert [content for _, content in await talk.lines()] == ["count", "to four", '{"n":4}']


async def test_what_a_cut_call_has_cost_is_counted_as_far_as_it_is_known(talking: Talking) -> None:
    """The Anthropic protocol tells what a prompt costs at the answer's beginning, OpenAI's only at its end."""
    talk = await talking("interrupt", held("one two"), say("three"))
    await talk.say("count")
    await talk.said_while_asked("to three")
    cut, whole = (step["usage"] for step in await talk.steps())
    assert (await talk.told("task_end"))[0]["usage"]["input_tokens"] == cut["input_tokens"] + whole["input_tokens"]
    assert (cut["usd"] > 0) == (cut["input_tokens"] > 0)


@pytest.mark.parametrize("after", [False, True], ids=["before its commit", "after its commit"])
async def test_killed_at_the_cut_the_step_is_committed_once(
    talking: Talking, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    """Another runner takes the task. What was said and not committed is void; what was committed is there once."""
    talk = await talking("interrupt", held("one two"), say("three"))
    await talk.say("count")
    real, dead = talk.flow.store.run, asyncio.Event()

    async def run(name: str, keys: Any, args: Any, **more: Any) -> Any:
        if name == "commit" and not dead.is_set() and any(b'"interrupted"' in each for each in map(_bytes, args)):
            if after:
                await real(name, keys, args, **more)
            dead.set()
            await asyncio.Event().wait()
        return await real(name, keys, args, **more)

    monkeypatch.setattr(talk.flow.store, "run", run)
    async with beating(talk.flow):
        step = asyncio.create_task(talk.flow.drive())
        await wait_until("what the model has said", talk.delta_shown)
        await talk.say("to three")
        await wait_until("the cut step at its commit", dead.is_set)
    step.cancel()
    await asyncio.gather(step, return_exceptions=True)
    monkeypatch.undo()
    task = await talk.flow.task()
    await talk.flow.store.call("HSET", task.header, "exp", 0)
    await _serve_what_is_pending(talk.flow)
    await talk.flow.drive()
    reasons = [message["finish_reason"] for message in await talk.told("message")]
    assert reasons == (["interrupted", "stop"] if after else ["stop"])
    assert [content for role, content in await talk.lines() if role == "user"] == ["count", "to three"]
    assert (await talk.flow.status(), len(await talk.told("task_end"))) == ("completed", 1)


def _bytes(argument: Any) -> bytes:
    return argument if isinstance(argument, bytes) else b""


async def _serve_what_is_pending(flow: Flow) -> None:
    """As another process reclaims the wake-ups of one that is dead."""
    for stream, key, handler in flow._served:
        reply = await flow.store.call("XREADGROUP", "GROUP", stream.group or "", "flow", "STREAMS", key, "0")
        for entry_id, fields in reply[0][1] if reply else ():
            await handler.handle(Entry(key, entry_id.decode(), fields[1]))
