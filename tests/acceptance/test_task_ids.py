"""Messages that name their task."""

from pathlib import Path

import pytest

from tests.support.models.prompts import ill_formed
from tests.support.models.replies import call, say
from tests.support.processes.stage import Stage, new_session
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance


async def test_a_live_task_takes_the_message_that_names_it(pentad_up: Stage, tmp_path: Path) -> None:
    go = tmp_path / "go"
    asked = call(("hold", {"mine": str(tmp_path / "begun"), "until": [str(go)], "answer": "done"}))
    replies = [asked, say("all right")]
    async with pentad_up.model(lambda _: replies.pop(0)) as model, pentad_up.line() as line:
        await line.say("work")
        await wait_until("the tool to begin", (tmp_path / "begun").exists)
        task_id = line.events[0]["task_id"]
        added = await line.say("this belongs to it", task_id=task_id)
        routed = await line.until("message_routed", lambda e: e["message_id"] == added)
        go.touch()
        await line.until("task_end")
    assert (routed["decision"], routed["task_id"]) == ("append", task_id)
    assert model.chats[1]["messages"][-1] == {"role": "user", "content": "this belongs to it"}


async def test_a_completed_task_is_opened_again(pentad_up: Stage) -> None:
    replies = [say("one"), say("two"), say("three")]
    async with pentad_up.model(lambda _: replies.pop(0)) as model, pentad_up.line() as line:
        first = await line.turn("1")
        second = await line.turn("2", count=2, task_id=first["task_id"])
        third = await line.turn("3", count=3, task_id=first["task_id"])
    starts = [e["task_id"] for e in line.answers("task_start")]
    print(f"one task, started {len(starts)} times, steps {[e['steps'] for e in (first, second, third)]}")
    assert starts == [first["task_id"]] * 3
    assert [e["step"] for e in line.answers("message")] == [1, 2, 3]
    assert [e["decision"] for e in line.answers("message_routed")] == ["new", "reopen", "reopen"]
    assert ill_formed(model.chats[2]["messages"]) == []
    assert len(model.chats[2]["messages"]) == 6


async def test_a_failed_task_is_opened_again(strict: Stage) -> None:
    replies = [call(("echo", {"text": "x"}))] * 3 + [say("better")]
    async with strict.model(lambda _: replies.pop(0)) as model, strict.line() as line:
        failed = await line.turn("loop")
        end = await line.turn("try again", count=2, task_id=failed["task_id"])
    assert (failed["status"], end["status"], end["task_id"]) == ("failed", "completed", failed["task_id"])
    assert ill_formed(model.chats[3]["messages"]) == []


async def test_a_cancelled_task_takes_nothing_more(pentad_up: Stage, tmp_path: Path) -> None:
    asked = call(("hold", {"mine": str(tmp_path / "begun"), "until": [str(tmp_path / "never")], "answer": ""}))
    async with pentad_up.model(lambda _: asked) as model, pentad_up.line() as line:
        await line.say("work")
        await wait_until("the tool to begin", (tmp_path / "begun").exists)
        task_id = line.events[0]["task_id"]
        await line.send(type="cancel", task_id=task_id)
        await line.until("task_end")
        refused = await line.say("go on", task_id=task_id)
        error = await line.until("error")
        routed = line.answers("message_routed")[-1]
    print(f"cancelled: {routed['reason']}")
    assert (routed["decision"], routed["message_id"]) == ("rejected", refused)
    assert (error["code"], error["message_id"], len(model.chats)) == ("not_allowed", refused, 1)
    assert len(line.answers("task_end")) == 1


async def test_an_unknown_task_refuses_the_message(pentad_up: Stage) -> None:
    async with pentad_up.line() as line:
        for n, name in enumerate(("task-0-unknown", "task-7-othershard", "not-one-of-ours"), 1):
            refused = await line.say("hi", task_id=name)
            error = await line.until("error", count=n)
            assert (error["code"], error["message_id"]) == ("unknown_task", refused)
    assert [e["decision"] for e in line.answers("message_routed")] == ["rejected"] * 3


async def test_a_task_of_another_session_is_unknown(pentad_up: Stage) -> None:
    async with pentad_up.model(lambda _: say("yes")), pentad_up.line() as mine, pentad_up.line(new_session()) as theirs:
        end = await theirs.turn("hi")
        await mine.say("let me in", task_id=end["task_id"])
        error = await mine.until("error")
    assert error["code"] == "unknown_task"
    assert len(theirs.answers("message_routed")) == 1
