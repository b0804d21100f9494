"""The document 003, the Agent graph, heading by heading, by public calls against a whole system."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import pentad
from tests.acceptance.seeds.rows import shown, walked
from tests.acceptance.seeds.systems import system
from tests.support.models.replies import call, say
from tests.support.waiting import in_time

pytestmark = pytest.mark.acceptance


def flaky() -> Any:
    """A tool that fails the first time."""
    failures = iter([ValueError("not yet")])

    @pentad.tool(effect="pure")
    async def work(forever: bool = False) -> str:
        """Works."""
        if forever:
            await asyncio.Event().wait()
        for failure in failures:
            raise failure
        return "done"

    return work


def builder(name: str) -> pentad.AgentBuilder:
    """The builder of the document, with its two nodes."""
    return (
        pentad.AgentBuilder(name)
        .set_description("AI helper")
        .set_max_iterations(50)
        .set_timeout(60)
        .add_llm_node("chat", "Talks.", None, ["calculator"], "You are a helpful AI.")
        .add_llm_node("review", "Checks.", None, [], "You are a strict reviewer.")
        .set_entry_point("chat")
        .set_end_points(["review"])
    )


async def test_a_graph_is_built_run_and_looked_at_as_in_the_document(tmp_path: Path) -> None:
    async with system(tmp_path) as (agent, script, _):
        with (
            walked("Overview", "Architecture", "Core components", "AgentBuilder"),
            shown("`AgentBuilder` `setDescription"),
        ):
            graph = builder("my-agent").add_edge("chat", "review").build()
        with (
            walked("Configuration", "Design decisions", "2. State that changes and state that does not"),
            shown("`AgentGraph` `name maxIterations"),
        ):
            spec = graph.spec
            assert (spec.name, spec.max_iterations, spec.timeout) == ("my-agent", 50, 60)
            assert [node.key for node in spec.nodes] == ["chat", "review"]
            assert (spec.entry, spec.ends) == ("chat", ["review"])
            with pytest.raises(ValueError, match="frozen"):
                spec.entry = "review"
        with walked("AgentGraph"), shown("`validate()`, `getNode(key)`"):
            assert graph.validate() == await graph.validate(agent) == []
            assert graph.spec.by_key["review"].description == "Checks."
        script.next = [call(("calculator", {"expression": "6*7"})), say("it is 42", chunks=3), say("that is right")]
        told: list[str] = []
        with walked("LLMNode"), shown("`execute(entry, initialState)`"):
            state = {"history": [], "context": [{"role": "user", "content": "what is 6*7?"}], "mood": "good"}
            run = await graph.execute("chat", state, agent=agent, on_text=told.append)
            async with in_time():
                result = await run.result()
        with (
            walked("DefaultAgentExecutionContext", "4. How tool calls are traced"),
            shown("`executionId startTime iterationCount()"),
        ):
            task = await agent.inspection.task(run.execution_id)
            assert (run.start_time, await run.iteration_count()) == (task.created_at, 2)
            assert [(each.tool, each.result) for each in await run.get_tool_calls()] == [("calculator", "42")]
            script.next = [say("well"), say("yes")]
            await run.add_message("and again")
            assert (await run.result()).final_message == "yes"
        with shown("`sendChunk`"):
            assert "".join(told) == "it is 42that is rightwellyes"
            assert [event.node for event in [each async for each in run] if isinstance(event, pentad.NodeStart)]
        with (
            walked("Execution result", "Edge routing", "Plain edges"),
            shown("`AgentExecutionResult` `finalState"),
        ):
            assert [visit.node for visit in result.execution_path] == ["chat", "review"]
            assert (result.success, result.final_message, result.iterations) == (True, "that is right", 2)
            assert (await agent.inspection.path(run.execution_id)).success
        with walked("Message types"), shown("`AgentState` `history context`"):
            assert result.final_state == {"mood": "good"}
            assert task.goal == "what is 6*7?"
        with (
            shown("a run is given its `history` (003)"),
            pytest.raises(pentad.Refused, match="name in session_id= the conversation that has them"),
        ):
            await graph.execute(None, {"history": [{"role": "user", "content": "hello"}]}, agent=agent)
        with walked("Conditional edges", "3. How conditions are judged"), shown("`addConditionalEdge(a, b"):
            judged = builder("judged").add_conditional_edge("review", "chat", "It is wrong.").add_edge("chat", "review")
            script.next = [say("41"), say("no"), say('{"holds": [true]}')]
            script.next += [say("42"), say("yes"), say('{"holds": [false]}')]
            run = await judged.build().execute(agent=agent, content="6*7")
            async with in_time():
                result = await run.result()
            assert [visit.node for visit in result.execution_path] == ["chat", "review"] * 2
            assert [visit.judged for visit in result.execution_path][1::2] == [
                {"It is wrong.": True},
                {"It is wrong.": False},
            ]


async def test_what_the_document_leaves_to_the_future_is_there(tmp_path: Path) -> None:
    async with system(tmp_path, tools=[flaky()]) as (agent, script, _):

        async def ran(graph: pentad.AgentGraph, **about: Any) -> pentad.GraphResult:
            async with in_time():
                return await (await graph.execute(agent=agent, content="go", **about)).result()

        with shown("parallel execution (003"):
            both = pentad.AgentBuilder("both").add_parallel("fan", ["left", "right"], then="sum")
            for side in ("left", "right"):
                both.add_tool_node(side, "echo", {"text": side})
            both.add_tool_node("sum", "echo", {"text": "{{state.left}} {{state.right}}"})
            result = await ran(both.set_entry_point("fan").set_end_points("sum").build())
            assert result.final_message == "left right"
            assert [task.name for task in result.execution_path[0].tasks] == ["left", "right"]
        with shown("errors and retries (003"):
            again = pentad.AgentBuilder("again").add_tool_node("work", "work", {}, retry=2, on_error="sorry")
            again.add_tool_node("sorry", "echo", {"text": "sorry"})
            result = await ran(again.set_entry_point("work").set_end_points(["work", "sorry"]).build())
            assert [(v.node, v.outcome, v.attempts) for v in result.execution_path] == [("work", "ok", 2)]
        with shown("timeouts (003"):
            slow = pentad.AgentBuilder("slow").add_tool_node("wait", "work", {"forever": True}, timeout=0.3)
            result = await ran(slow.set_entry_point("wait").set_end_points("wait").build())
            assert not result.success
            assert "deadline_exceeded" in (result.error or "")
        with walked("Limits and future work"), shown("checkpoints (003"):
            asks = pentad.AgentBuilder("asks").add_tool_node("first", "echo", {"text": "first"})
            asks.add_ask_node("who", "Who?").add_edge("first", "who").set_entry_point("first").set_end_points("who")
            run = await asks.build().execute(agent=agent, content="go")
            with pytest.raises(pentad.RunWaits, match="asks: Who"):
                await run.result()
            assert [v.outcome for v in (await agent.inspection.path(run.execution_id)).path] == ["ok", "running"]
        with walked("1. One kind of node"), shown("a node is an `LLMNode` (003)"):
            assert [v.kind for v in (await agent.inspection.path(run.execution_id)).path] == ["tool", "ask"]
            assert script.asked == []
        with shown("`PENDING RUNNING COMPLETED CANCELLED ERROR`"):
            assert await run.status() == "RUNNING"
        with shown("`pause()`, `resume()`, `abort()`"):
            await run.pause()
            await run.resume()
            await run.abort()
            assert not (await run.result()).success
            assert await run.status() == "CANCELLED"
