"""Functions of a program, which a model calls: over a real system, with results that another turn needs."""

from typing import Any

import pytest

import pentad
from tests.support.models.replies import Reply, call, say
from tests.support.processes.stage import Stage, new_session
from tests.support.waiting import in_time

pytestmark = pytest.mark.acceptance
ANSWER = "found a found b ours found c"


def script(request: dict[str, Any]) -> Reply:
    """A model that looks up two places at once, and then a third, before it answers."""
    told = [str(message["content"]) for message in request["messages"] if message["role"] == "tool"]
    if request["messages"][-1]["role"] == "user" and "never mind" in str(request["messages"][-1]["content"]):
        return say("as you like")
    if not told:
        return call(("look_up", {"name": "a"}), ("look_up", {"name": "b"}), ("echo", {"text": "ours"}))
    return call(("look_up", {"name": "c"})) if len(told) == 3 else say(" ".join(told))


async def test_a_program_answers_call_after_call_within_one_turn_and_by_hand(pentad_up: Stage) -> None:
    seen: list[str] = []

    async def look_up(name: str) -> str:
        """Look something up."""
        seen.append(name)
        if name == "b":
            raise LookupError("there is no b")
        return f"found {name}"

    async with pentad_up.model(script), pentad.connect(pentad_up.url) as agent, in_time():
        answer = await agent.ask("where are they?", tools=[look_up])
        assert answer == "found a error: tool 'look_up' failed: LookupError: there is no b ours found c"
        assert sorted(seen) == ["a", "b", "c"]

        alice = agent.session(new_session())
        turn = alice.turn("where are they?", tools=[{"name": "look_up"}])
        calls = [one.event async for one in turn if isinstance(one.event, pentad.ToolCallEvent) and one.event.client]
        assert turn.end is not None
        assert (turn.end.outcome, turn.end.reason) == ("waiting", "client_tools")
        task = turn.task_id or ""
        first = calls[0].tool_call_id
        await agent.management.send_result(task, first, result=["by hand"])
        with pytest.raises(pentad.Conflict, match="another result was sent before"):
            await agent.management.send_result(task, first, result="another")
        assert await alice.ask("never mind", task_id=task) == "as you like"
        with pytest.raises(pentad.Conflict):
            await agent.management.send_result(task, calls[1].tool_call_id, result="too late")


async def test_a_run_of_an_instruction_calls_the_programs_functions_and_tells_all_of_it(pentad_up: Stage) -> None:
    """However a program begins a turn, the functions that it hands over are run by that call."""
    seen: list[str] = []
    started: list[str] = []

    def look_up(name: str) -> str:
        """Look something up."""
        seen.append(name)
        return f"found {name}"

    async with pentad_up.model(script), pentad.connect(pentad_up.url) as agent, in_time():
        assert await agent.run("executor", "where?", tools=[look_up]) == ANSWER
        ran = await agent.execute("executor", "where?", tools=[look_up], user_id="ada")
        assert (ran.status, ran.content, ran.steps, ran.error) == ("completed", ANSWER, 3, None)
        results = {call.result for call in ran.tool_calls if call.tool == "look_up"}
        assert results == {"found a", "found b", "found c"}
        told = await agent.run(
            "executor", "where?", tools=[look_up], trace=True, on_tool_start=lambda event: started.append(event.tool)
        )
        assert (told.value, sorted(started)) == (ANSWER, ["echo", "look_up", "look_up", "look_up"])
        helper = pentad.agents.FunctionCallAgent("helper", agent=agent)
        assert await helper.run("where?", tools=[look_up]) == ANSWER
        assert sorted(seen) == sorted("abc" * 4), "each call was run once"
        with pytest.raises(pentad.RunFailed, match="its task is waiting"):
            await agent.run("executor", "where?", tools=[{"name": "look_up"}])
        with pytest.raises(pentad.Refused, match=r"tools\[0\]"):
            await agent.execute("executor", "where?", tools=[len])


async def test_a_run_that_has_waited_is_told_as_it_stands_when_it_is_asked_for_again(pentad_up: Stage) -> None:
    body = {"input": "where?", "session_id": new_session(), "message_id": "m1", "tools": [{"name": "look_up"}]}
    run = "/v1/instructions/executor/run"
    async with pentad_up.model(script), pentad.connect(pentad_up.url) as agent, pentad_up.api() as api, in_time():
        for expected in ({"a", "b"}, {"c"}):
            waits = await api.post(run, body, status=200)
            assert waits["status"] == "waiting"
            calls = [call for call in waits["tool_calls"] if call["result"] is None]
            assert {call["args"]["name"] for call in calls} == expected
            for call in calls:
                found = f"found {call['args']['name']}"
                await agent.management.send_result(waits["task_id"], call["tool_call_id"], result=found)
        ended = await api.post(run, body, status=200)
        assert (ended["status"], ended["content"]) == ("completed", ANSWER)
