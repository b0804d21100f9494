"""A turn as a product sees it: tools in parallel, an answer that streams, a follow-up that arrives in the middle."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.models.prompts import ill_formed
from tests.support.models.replies import Reply, call, say
from tests.support.processes.stage import Stage
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance


async def test_two_tool_calls_of_one_answer_run_in_parallel_and_their_results_go_back_in_order(
    pentad_up: Stage, tmp_path: Path
) -> None:
    first, second, go = (tmp_path / name for name in ("first", "second", "go"))
    # Each ends only after it saw the other begin; the first also waits for us, so the second's result comes first.
    calls = call(
        ("hold", {"mine": str(first), "until": [str(second), str(go)], "answer": "one"}),
        ("hold", {"mine": str(second), "until": [str(first)], "answer": "two"}),
    )

    def script(request: dict[str, Any]) -> Reply:
        return say("both are done") if request["messages"][-1]["role"] == "tool" else calls

    async with pentad_up.model(script) as model, pentad_up.line() as line:
        begun = time.monotonic()
        await line.say("do both")
        result = await line.until("tool_result")
        assert result["result"] == "two", "the second call waited for the first"
        go.touch()
        await line.until("task_end")
        took = time.monotonic() - begun
    told = model.chats[1]["messages"]
    asked = [c["id"] for c in told[-3]["tool_calls"]]
    print(f"two calls that wait for each other: {took:.2f} s for the turn")
    assert [(m["role"], m["content"], m["tool_call_id"]) for m in told[-2:]] == [
        ("tool", "one", asked[0]),
        ("tool", "two", asked[1]),
    ]
    assert asked == ["call_0", "call_1"], "the ids that the model's server gave"
    ours = {e["tool_call_id"]: e["result"] for e in line.answers("tool_result")}
    assert [ours[e["tool_call_id"]] for e in line.answers("tool_call")] == ["one", "two"]
    assert ill_formed(told) == []


async def test_the_answer_reaches_the_client_before_the_model_has_finished_it(pentad_up: Stage) -> None:
    text, rest = "the first half is here, and the second half is still to come", asyncio.Event()
    reply = say(text, chunks=6, wait=rest, wait_after=4)
    async with pentad_up.model(lambda _: reply) as model, pentad_up.line() as line:
        begun = time.monotonic()
        await line.say("tell me")
        delta = await line.until("content")
        after = time.monotonic() - begun
        assert model.seen.answering == 1, "the model had finished"
        assert text.startswith(delta["content"])
        assert delta["content"]
        rest.set()
        whole = await line.until("message")
        await line.until("task_end")
    deltas = "".join(e["content"] for e in line.answers("content"))
    print(f"first delta after {after * 1000:.0f} ms, while the model still held {text[len(delta['content']) :]!r}")
    assert (deltas, whole["content"]) == (text, text)


async def test_a_message_that_arrives_while_a_tool_runs_is_seen_after_its_result(
    pentad_up: Stage, tmp_path: Path
) -> None:
    begun, go = tmp_path / "begun", tmp_path / "go"

    def script(request: dict[str, Any]) -> Reply:
        if len(request["messages"]) == 2:
            return call(("hold", {"mine": str(begun), "until": [str(go)], "answer": "42"}))
        return say("it is 42, in French: quarante-deux")

    async with pentad_up.model(script) as model, pentad_up.line() as line:
        await line.say("what is it?")
        await wait_until("the tool to begin", begun.exists)
        added = await line.say("  and in French,\nplease  ")
        routed = await line.until("message_routed", lambda e: e["message_id"] == added)
        assert routed["decision"] == "append"
        assert len(model.chats) == 1, "a step ran while its tool did"
        go.touch()
        end = await line.until("task_end")
    told = model.chats[1]["messages"]
    print(f"messages of the step after: {[m['role'] for m in told]}")
    assert [(m["role"], m["content"]) for m in told[-2:]] == [("tool", "42"), ("user", "  and in French,\nplease  ")]
    assert (end["status"], len(model.chats), len(line.answers("task_start"))) == ("completed", 2, 1)


async def test_a_message_that_arrives_while_the_model_answers_gets_a_step_of_its_own(pentad_up: Stage) -> None:
    rest = asyncio.Event()
    replies = [say("the first answer", chunks=4, wait=rest, wait_after=2), say("and the second")]
    async with pentad_up.model(lambda _: replies.pop(0)) as model, pentad_up.line() as line:
        await line.say("one")
        await line.until("content")
        await line.say("two")
        await line.until("message_routed", count=2)
        rest.set()
        await line.until("task_end")
    assert [e["content"] for e in line.answers("message")] == ["the first answer", "and the second"]
    told = [(m["role"], m["content"]) for m in model.chats[1]["messages"][1:]]
    print(f"the second step was told {json.dumps(told)}")
    assert told == [("user", "one"), ("assistant", "the first answer"), ("user", "two")]
    assert [len(line.answers(kind)) for kind in ("task_start", "task_end")] == [1, 1]
    assert [e["step"] for e in line.answers("message")] == [1, 2]


async def test_a_follow_up_goes_on_with_the_same_task(pentad_up: Stage) -> None:
    async with pentad_up.model(lambda r: say(f"answer {len(r['messages'])}")) as model, pentad_up.line() as line:
        first = await line.turn("what is 6*7?")
        second = await line.turn("and times 2?", count=2)
    assert [e["decision"] for e in line.answers("message_routed")] == ["new", "reopen"]
    assert first["task_id"] == second["task_id"]
    roles = [m["role"] for m in model.chats[1]["messages"]]
    assert roles == ["system", "user", "assistant", "user"]
