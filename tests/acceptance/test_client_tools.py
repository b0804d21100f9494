"""Functions of a program, which a model calls: over a real system, with results that another turn needs."""

from typing import Any

import pytest

import pentad
from tests.support.models.replies import Reply, call, say
from tests.support.processes.stage import Stage, new_session
from tests.support.waiting import in_time

pytestmark = pytest.mark.acceptance


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
