"""Two tasks in one conversation: a message that went to the wrong one is moved, and the right one answers it."""

import asyncio
from typing import Any

import pytest

from tests.support.clients.api import Api
from tests.support.models.prompts import ill_formed
from tests.support.models.replies import Reply, call, say
from tests.support.processes.stage import Stage

pytestmark = pytest.mark.acceptance


async def contents(api: Api, task: str) -> list[str]:
    """What the task's next prompt would say."""
    messages = await api.transcript(task)
    gone = {n for m in messages if m["role"] == "exclusion" for n in m["positions"]}
    kept = [m for n, m in enumerate(messages) if n not in gone and m["role"] != "exclusion"]
    chat: list[dict[str, Any]] = [
        {name: m[name] for name in ("role", "content", "tool_calls", "tool_call_id") if name in m} for m in kept
    ]
    assert ill_formed(chat) == []
    return [str(m["content"]) for m in kept if m["role"] != "tool" and m["content"]]


async def test_a_wrong_message_is_moved_and_the_right_task_answers(pentad_up: Stage) -> None:
    never = asyncio.Event()

    def script(request: dict[str, Any]) -> Reply:
        last, seen = request["messages"][-1], " ".join(str(m["content"]) for m in request["messages"])
        assert ill_formed(request["messages"]) == []
        if last["content"] == "what is 6*7 in eggs?":
            return call(("calculator", {"expression": "6*7"}))
        if last["content"] == "how long do I cook it?" and "a recipe" not in seen:
            return say("I do not know what you mean, and take long to say so", chunks=6, wait=never, wait_after=2)
        return say(f"an answer to {last['content']}")

    async with pentad_up.model(script) as model, pentad_up.line() as line, pentad_up.api() as api:
        trip = (await line.turn("plan a trip"))["task_id"]
        recipe = await line.say("a recipe for pasta", task_id=trip)
        await line.until("task_end", count=2)
        await line.send(type="move", message_id=recipe, to="new")
        moved = await line.until("message_moved")
        pasta = moved["to_task_id"]
        assert (moved["from_task_id"], moved["message_id"], moved["emptied"]) == (trip, recipe, False)
        await line.until("task_end", lambda e: e["task_id"] == pasta)

        eggs = await line.say("what is 6*7 in eggs?", task_id=trip)
        await line.until("task_end", lambda e: e["task_id"] == trip, count=3)
        await api.post(f"/v1/tasks/{trip}/move", {"message_id": eggs, "to": pasta})
        await line.until("task_end", lambda e: e["task_id"] == pasta, count=2)

        asked = await line.say("how long do I cook it?", task_id=trip)
        await line.until("content", lambda e: e["correlation_id"] == asked)
        begun = asyncio.get_running_loop().time()
        await api.post(f"/v1/tasks/{trip}/move", {"message_id": asked, "to": pasta})
        await line.until("message_moved", count=3)
        cut_s = asyncio.get_running_loop().time() - begun
        end = await line.until("task_end", lambda e: e["task_id"] == pasta, count=3)
        await api.post(f"/v1/tasks/{trip}/move", {"message_id": asked, "to": pasta})
        answer = line.answers("message")[-1]
        told = model.chats[-1]["messages"]
        of_trip, of_pasta = await contents(api, trip), await contents(api, pasta)
    print(f"a running step was cut {cut_s * 1000:.0f} ms after the move was accepted")
    assert (answer["task_id"], answer["content"], end["status"]) == (
        pasta, "an answer to how long do I cook it?", "completed"
    )  # fmt: skip
    assert of_trip == ["plan a trip", "an answer to plan a trip"]
    assert of_pasta[-6:-5] + of_pasta[-2:] == ["a recipe for pasta", "how long do I cook it?", answer["content"]]
    assert "a recipe for pasta" in [m["content"] for m in told]
    ends = [(e["task_id"], e["reason"]) for e in line.answers("task_end")]
    assert ends[-2:] == [(trip, "moved"), (pasta, "answered")]
    assert len(line.answers("message_moved")) == 3
