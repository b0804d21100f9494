"""An agent as a graph (the document 003): a loop until a value is good, branches side by side, a person who is asked.

    .venv/bin/python examples/graph.py

No node of it needs a model, so that it says the same everywhere. A node that asks one is
``add_llm_node("review", "Checks.", None, [], "Judge the draft strictly.")``, and what it decides in words
``add_conditional_edge("review", "draft", "The review asks for changes.")``.
"""

import asyncio
from typing import Any

import pentad


@pentad.tool(effect="pure")
async def improve(draft: dict[str, Any] | None, topic: str) -> dict[str, Any]:
    """A better draft, with its score."""
    version = draft["version"] + 1 if draft else 1
    return {"version": version, "text": f"{topic}, draft {version}", "score": version / 3}


@pentad.tool(effect="pure")
async def count_words(text: str) -> int:
    """Number of words."""
    return len(text.split())


@pentad.tool(effect="pure")
async def shout(text: str) -> str:
    """The text in capitals."""
    return text.upper()


graph = (
    pentad.AgentBuilder("writer")
    .set_description("Writes about a topic, and asks before it is done.")
    .set_max_iterations(20)
    .set_timeout(60)
    .add_tool_node("draft", improve, {"draft": "state.draft", "topic": "state.topic"}, retry=2)
    .add_parallel("look", ["words", "title"], join="all", then="approve")
    .add_tool_node("words", count_words, {"text": "state.draft.text"})
    .add_tool_node("title", shout, {"text": "state.topic"})
    .add_ask_node("approve", "Print {{state.title}} with {{state.words}} words?", writes="answer")
    .add_edge("draft", "look")
    .add_conditional_edge("draft", "draft", {"state.draft.score": {"<": 0.9}})
    .add_conditional_edge("approve", "draft", {"state.answer": {"==": "no"}})
    .set_entry_point("draft")
    .set_end_points(["approve"])
    .build()
)


async def main() -> None:
    """Everything that the example shows."""
    async with pentad.start(tools=[improve, count_words, shout]) as agent:
        print("unknown:", await graph.validate(agent))
        run = await graph.execute("draft", {"topic": "tea", "draft": None}, agent=agent)
        try:
            await run.result()
        except pentad.RunWaits as waits:
            print("asked:", waits.question)
            print("status:", await run.status(), "after", await run.iteration_count(), "nodes")
            await run.add_message("yes")
        result = await run.result()
        print("path:", " -> ".join(visit.node for visit in result.execution_path))
        print("branches:", [task.name for visit in result.execution_path for task in visit.tasks])
        print("calls:", sorted(call.tool for call in await run.get_tool_calls()))
        print("end:", await run.status(), result.success, result.final_message, result.final_state["draft"]["text"])


if __name__ == "__main__":
    asyncio.run(main())
