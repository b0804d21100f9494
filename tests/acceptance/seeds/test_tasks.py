"""Tasks, messages and events of the documents, by public calls against a whole system and a scripted model."""

import asyncio
from pathlib import Path

import pytest

import pentad
from tests.acceptance.seeds.rows import shown
from tests.acceptance.seeds.systems import system
from tests.support.models.replies import call, say
from tests.support.waiting import in_time, wait_until

pytestmark = pytest.mark.acceptance


async def end_of(turn: pentad.Turn) -> pentad.TaskEnd:
    """Follow a turn to its end, and return the end of its task."""
    ends = [received.event async for received in turn if isinstance(received.event, pentad.TaskEnd)]
    return ends[-1]


async def test_a_task_and_its_events_are_those_of_the_documents(tmp_path: Path) -> None:
    async with system(tmp_path) as (agent, script, _):
        ada = agent.session("seeds", user_id="ada")
        script.next = [
            call(("calculator", {"expression": "6*7"}), ("calculator", {"expression": "1/0"}), text="let me see"),
            say("it is 42", thinking="easy", chunks=2),
        ]
        events = [event async for event in ada.send("what is 6*7?")]
        types = [event.type for event in events]
        [begun] = [event for event in events if isinstance(event, pentad.TaskStart)]
        [ended] = [event for event in events if isinstance(event, pentad.TaskEnd)]
        assert begun.task_id is not None
        with shown("`run_loop_start`, `task_start`"):
            assert begun.goal == "what is 6*7?"
        with shown("`thinking`, `response`, `content`"):
            assert "thinking" in types
            assert types.index("thinking") < len(types) - 1 - types[::-1].index("content")
            said = [event.content for event in events if isinstance(event, pentad.MessageEvent)]
            assert said == ["let me see", "it is 42"]
        with shown("`tool_calling`, `tool_call`; `tool_result`"):
            calls = {event.tool_call_id for event in events if isinstance(event, pentad.ToolCallEvent)}
            results = [event for event in events if isinstance(event, pentad.ToolResultEvent)]
            assert {each.tool_call_id for each in results} == calls
            assert {bool(each.error) for each in results} == {True, False}
            assert all(each.duration_ms >= 0 for each in results)
        with shown("`run_loop_end`, `task_end`; `error`"):
            assert (ended.status, ended.steps) == ("completed", 2)
            assert ended.usage is not None
            odd = [event async for event in ada.send("hello", task_id="task-0-unknown")]
            assert [event.decision for event in odd if isinstance(event, pentad.MessageRouted)] == ["rejected"]
        with shown("an unknown `taskId` begins a new task"):
            assert [event.type for event in odd] == ["message_routed"]
        task = await agent.inspection.task(begun.task_id)
        with shown("`RunLoop` (000), `Task` (002)"):
            assert (task.session_id, task.user_id, task.instruction) == ("seeds", "ada", "executor")
        with shown("status `active completed failed`"):
            assert task.status == "completed"
        with shown("`goal`, `createdAt`, `updatedAt`"):
            assert task.goal == "what is 6*7?"
            assert task.completed_at is not None
            assert task.last_user_message_at is not None
            assert task.last_user_message_at <= task.completed_at <= task.updated_at
            assert task.created_at < task.completed_at
            assert task.steps == 2
        with shown("`Iteration` `userMessage reasoning toolCalls toolResults response timestamp`"):
            first, last = await agent.inspection.steps(task.task_id)
            assert first.messages[0]["content"] == "what is 6*7?"
            assert [(each.tool, each.result or bool(each.error)) for each in first.calls] == [
                ("calculator", "42"),
                ("calculator", True),
            ]
            assert last.messages[-1]["content"] == "it is 42"
            assert first.at < last.at
        with shown("tool results are messages of the user (001)"):
            assert [message["role"] for message in script.asked[-1]["messages"][-2:]] == ["tool", "tool"]
        with shown("short-term memory"):
            assert (await ada.memory.working.retrieve("it is 42?"))[0].content == "it is 42"


async def test_tasks_are_sent_to_and_controlled_as_in_the_documents(tmp_path: Path) -> None:
    async with system(tmp_path, pentad_step_limit=3) as (agent, script, _):
        ada = agent.session("seeds", user_id="ada")
        with shown("`send(message, runLoopId?)`, `send(message, taskId?)`"):
            turn = ada.turn("hello")
            assert [event async for event in turn]
            assert turn.task_id is not None
            again = ada.turn("and again", task_id=turn.task_id)
            assert [event async for event in again]
            assert again.task_id == turn.task_id
        with shown("`appendToTask`, `createTask(goal, instruction)`"):
            own = ada.turn("something else", task_id="new", instruction="executor")
            assert [event async for event in own]
            assert own.task_id not in (None, turn.task_id)
        with shown("the user adds something in the middle of a run"):
            held = asyncio.Event()
            script.next = [
                call(("calculator", {"expression": "6*7"}), wait=held),
                say("and in words: forty-two"),
            ]
            running = ada.turn("what is 6*7?", task_id="new")
            reading = asyncio.create_task(end_of(running))
            await wait_until("the model to be asked", lambda: running.task_id and not script.next[1:])
            [live] = [task for task in await agent.inspection.tasks(session_id="seeds") if task.status == "active"]
            await running.say("in words, please", task_id=live.task_id)
            with shown("`getActive()`, `getActiveRunLoops()`"):
                assert [task.task_id for task in await agent.inspection.tasks(status="active")] == [live.task_id]
            held.set()
            async with in_time():
                assert (await reading).status == "completed"
            assert [m["content"] for m in script.asked[-1]["messages"] if m["role"] == "user"][-1] == "in words, please"
        with shown("`maxIterations` (10)"):
            script.next = [call(("calculator", {"expression": "1+1"}))]
            short = [event async for event in ada.send("count", task_id="new", budget={"steps": 1})]
            assert isinstance(short[-1], pentad.TaskStatusEvent)
            assert (short[-1].status, short[-1].reason) == ("waiting", "budget_exceeded")
        with shown("`max iterations` throws"):
            script.next = [call(("calculator", {"expression": "1+1"}))] * 3
            end = await end_of(ada.turn("count on", task_id="new"))
            assert (end.status, end.reason, end.steps) == ("failed", "step_limit", 3)
        with shown("`cancelTask`, `archiveTask`"):
            script.next = [say("la la la", first_delay=60.0)]
            singing = ada.turn("sing", task_id="new")
            heard = asyncio.create_task(end_of(singing))
            await wait_until("it to be routed", lambda: singing.task_id)
            assert singing.task_id is not None
            await agent.management.cancel_task(singing.task_id)
            async with in_time():
                assert (await heard).status == "cancelled"
            await agent.management.archive_task(singing.task_id)

            async def archived() -> bool:
                return (await agent.inspection.task(singing.task_id or "")).archived_at is not None

            await wait_until("it to be archived", archived)
        with shown("an archived task's id"):
            after = ada.turn("what did you sing?", task_id=singing.task_id)
            assert [event async for event in after]
            assert after.task_id not in (None, singing.task_id)
        with shown("`complete(runLoopId)`"), pytest.raises(pentad.Conflict):
            await agent.management.complete_task(turn.task_id)
        with shown("`RouteResult` `taskId confidence reason`"):
            routed = [event async for event in ada.send("hello") if isinstance(event, pentad.MessageRouted)]
            assert routed[0].reason
            assert routed[0].confidence > 0
            assert routed[0].stage is not None


async def test_a_message_goes_on_with_what_it_is_about(tmp_path: Path) -> None:
    async with system(tmp_path, pentad_route="auto") as (agent, script, _):
        ada = agent.session("seeds", user_id="ada")
        with shown("similarity first, then the model (002, option B)"):
            script.next = [say("Tokyo is lovely in spring", first_delay=0.0)]
            first = [event async for event in ada.send("plan my journey to Tokyo") if hasattr(event, "decision")]
            assert [event.decision for event in first] == ["new"]
            more = [
                event async for event in ada.send("the journey to Tokyo: which hotel?") if hasattr(event, "decision")
            ]
            assert more[0].task_id == first[0].task_id


async def test_a_task_is_archived_when_its_grace_is_over_and_a_list_is_told_of_changes(tmp_path: Path) -> None:
    async with system(tmp_path, pentad_grace_s=1) as (agent, _, _):
        ada = agent.session("seeds", user_id="ada")
        with shown("an observable list of tasks, `observe(...)`"):
            seen = []
            observing = ada.observe(memory=True, interval_s=0.2)
            async with in_time():
                async for tasks in observing:
                    seen.append(tasks)
                    if len(seen) == 1:
                        assert [*tasks] == []
                        await ada.ask("hello")
                    elif tasks and tasks[0].status == "completed" and tasks.memory is not None:
                        break
            await observing.aclose()
        with shown("archived five minutes after the end"):
            [task] = await agent.inspection.tasks(session_id="seeds")

            async def archived() -> bool:
                return (await agent.inspection.task(task.task_id)).archived_at is not None

            await wait_until("its grace to be over", archived)
