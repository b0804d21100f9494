"""The document 000, the Agent module, heading by heading, by public calls against a whole system."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import pentad
from tests.acceptance.seeds.rows import shown, walked
from tests.acceptance.seeds.systems import system
from tests.support.models.replies import call, say
from tests.support.waiting import in_time, wait_until

pytestmark = pytest.mark.acceptance


async def end_of(turn: pentad.Turn) -> pentad.TaskEnd:
    """Follow a turn to its end, and return the end of its task."""
    ends = [received.event async for received in turn if isinstance(received.event, pentad.TaskEnd)]
    return ends[-1]


async def test_the_components_work_together_as_in_the_example(tmp_path: Path) -> None:
    together = asyncio.Barrier(2)

    async def meet(who: str) -> str:
        """Wait until another call runs too."""
        async with in_time():
            await together.wait()
        return f"{who} was there"

    async def web_search(query: str) -> str:
        """Search the web."""
        return f"{query}: sunny"

    async with system(tmp_path, tools=[meet, web_search]) as (agent, script, _):
        with walked("Interfaces of the components"):
            assert {"complete", "execute", "retrieve", "send"} <= {
                *dir(agent.models),
                *dir(agent.tools),
                *dir(agent.memory),
                *dir(agent),
            }
        with walked("1. The LLM's interface"):
            search = {"id": "c1", "type": "function", "function": {"name": "web_search", "arguments": "{}"}}
            said: list[dict[str, Any]] = [
                {"role": "system", "content": "Be kind."},
                {"role": "user", "content": "hello"},
                {"role": "assistant", "content": None, "tool_calls": [search]},
                {"role": "tool", "content": "sunny", "tool_call_id": "c1"},
            ]
            script.next = [call(("web_search", {"query": "x"}))]
            last = [chunk async for chunk in agent.models.complete(said, tools=["web_search"], stream=True)][-1]
            assert [sent["role"] for sent in script.asked[-1]["messages"]] == [
                "system",
                "user",
                "assistant",
                "tool",
            ]
            assert last.completion is not None
            assert last.completion.tool_calls[0]["function"]["name"] == "web_search"
        with walked("2. The tool's interface"):
            [known] = [tool for tool in await agent.inspection.tools() if tool["name"] == "web_search"]
            assert (known["description"], known["parameters"]["required"]) == ("Search the web.", ["query"])
            assert await agent.tools.execute("web_search", {"query": "weather"}) == "weather: sunny"
            with pytest.raises(pentad.ToolFailed, match="query"):
                await agent.tools.execute("web_search", {})
        with walked("Example of its use"):
            chat = agent.session()
            script.next = [call(("web_search", {"query": "today"})), say("it is sunny", thinking="well")]
            turn = chat.turn("how is the weather today?")
            seen = [received.event.type async for received in turn]
            wanted = ["task_start", "tool_call", "tool_result", "thinking", "content", "task_end"]
            assert [kind for kind in dict.fromkeys(seen) if kind in wanted] == wanted
            script.next = [say("in Beijing, too")]
            assert await chat.ask("and in Beijing?", task_id=turn.task_id) == "in Beijing, too"
            assert "it is sunny" in [message["content"] for message in script.asked[-1]["messages"]]
        with walked("2. Tools at once"), shown("tools of one answer run at once"):
            script.next = [call(("meet", {"who": "Ann"}), ("meet", {"who": "Bob"})), say("both met")]
            async with in_time():
                traced = await agent.ask("let them meet", trace=True)
            assert [each.result for each in traced.trace[0].calls] == ["Ann was there", "Bob was there"]


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
        with walked("Overview"), shown("`RunLoop` (000), `Task` (002)"):
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
        with (
            walked("How a run loop goes"),
            shown("`Iteration` `userMessage"),
        ):
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
        with walked("4. The agent's interface"), shown("`send(message, runLoopId?)`, `send(message, taskId?)`"):
            turn = ada.turn("hello")
            assert [event async for event in turn]
            assert turn.task_id is not None
            again = ada.turn("and again", task_id=turn.task_id)
            assert [event async for event in again]
            assert again.task_id == turn.task_id
        with walked("Core flows"), shown("`appendToTask`, `createTask(goal, instruction)`"):
            own = ada.turn("something else", task_id="new", instruction="executor")
            assert [event async for event in own]
            assert own.task_id not in (None, turn.task_id)
        with walked("Core concept: the run loop"), shown("the user adds something in the middle of a run"):
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
        with walked("How messages are routed"), shown("an archived task's id"):
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
        with (
            walked("To be discussed", "1. How a model classifies messages"),
            shown("similarity first"),
        ):
            script.next = [say("Tokyo is lovely in spring", first_delay=0.0)]
            first = [event async for event in ada.send("plan my journey to Tokyo") if hasattr(event, "decision")]
            assert [event.decision for event in first] == ["new"]
            more = [
                event async for event in ada.send("the journey to Tokyo: which hotel?") if hasattr(event, "decision")
            ]
            assert more[0].task_id == first[0].task_id


def record_of(folder: Path, task_id: str) -> Any:
    """Return the JSON of the one file that a task's record is."""
    [record] = [path for path in folder.rglob("*.json") if path.stem == task_id]
    return json.loads(record.read_bytes())


async def test_what_was_said_is_found_and_opened_as_in_the_documents(tmp_path: Path) -> None:
    async with system(tmp_path, pentad_grace_s=1) as (agent, script, _):
        ada = agent.session("seeds", user_id="ada")
        turn = ada.turn("My cat is called Tom and lives in Lisbon.")
        assert [event async for event in turn]
        assert turn.task_id is not None

        async def found() -> bool:
            try:
                return bool(await ada.inspection.search_memory("what is my cat called?"))
            except pentad.GatewayUnreachable:  # on a busy machine the memory may need longer than a search waits
                return False

        await wait_until("the cat to be remembered", found)
        with shown("`longTerm.retrieve(query)`"):
            for strategy in ("bfs", "dfs", "astar"):
                hits = await ada.inspection.search_memory("what is my cat called?", strategy=strategy)
                assert hits[0].content == "My cat is called Tom and lives in Lisbon."
        with shown("`recall(query)` → `relevantNodes`, `relatedTasks`"):
            recalled = await ada.inspection.recall("what is my cat called?")
            assert [task.task_id for task in recalled.tasks] == [turn.task_id]
            assert recalled.tasks[0].task is not None
            assert recalled.tasks[0].task.goal.startswith("My cat")
        with walked("3. How long-term memory is cut into segments"), shown("`MemoryAnchor`"):
            place = pentad.anchor_of(recalled.hits[0].anchor)
            assert (place.task_id, place.position, place.segment) == (turn.task_id, 0, 0)
            assert (place.type, bool(place.at)) == ("user_message", True)
        with walked("3. The memory's interface"), shown("`expand(anchor, contextWindow)`"):
            opened = await agent.inspection.expand(recalled.hits[0].anchor, window=1, whole=True)
            assert opened.focus.content == "My cat is called Tom and lives in Lisbon."
            assert [piece.content for piece in opened.after] == ["good day"]
            assert opened.whole is not None
            assert [step.step for step in opened.whole.steps] == [1]
        with shown("`getMemoryStats`"):
            stats = await agent.inspection.memory_stats()
            assert (stats.tasks, stats.segments >= 1) == (1, True)
        with walked("How long-term memory is archived"), shown("`LowerMemory`"):

            async def archived() -> bool:
                return (await agent.inspection.task(turn.task_id or "")).archived_at is not None

            await wait_until("its record", archived)
            transcript = await agent.inspection.transcript(turn.task_id)
            assert [message["content"] for message in transcript.messages][-1] == "good day"
            assert [task.task_id for task in await agent.inspection.tasks(since="2020-01-01T00:00:00Z")] == [
                turn.task_id
            ]
            assert await agent.inspection.tasks(until="2020-01-01T00:00:00Z") == []
        with shown("a record is a JSON file"):
            assert record_of(tmp_path, turn.task_id)["task"]["goal"].startswith("My cat")
        with shown("knowledge is the new task's first *system* message"):
            await ada.ask("Where does my cat Tom live?", task_id="new")
            [quoting] = [m for m in script.asked[-1]["messages"] if "lives in Lisbon" in str(m["content"])]
            assert quoting["role"] == "user"
