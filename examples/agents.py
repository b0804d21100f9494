"""Agents of three ways to work, as objects (the document 004), and memory by its kinds.

    .venv/bin/python examples/agents.py

Each is a thin face over tasks: what an agent has said survives this program, and ``pentad task ID`` shows each step.
"""

import asyncio

import pentad


@pentad.tool(effect="pure")
async def area(side: float) -> float:
    """Area of a square.

    Args:
        side: Length of a side, in metres.
    """
    return side * side


async def main() -> None:
    """Everything that the example shows."""
    async with pentad.start() as system:
        # 1. A conversation without tools. It is a list that can be read, added to and cleared.
        simple = pentad.agents.SimpleAgent("talker", agent=system, user_id="ada")
        simple.add_message("my cat is called Tom")
        print("simple:", (await simple.run("hello")).partition(",")[0])
        print("simple:", " ".join((await simple.run("what is my cat called?")).split()))
        print("history:", [line["role"] for line in await simple.get_history()])
        simple.clear_history()
        print("cleared:", await simple.get_history())

        # 2. Thought, action, observation, as text: for models that cannot call tools, too.
        react = pentad.agents.ReActAgent("counter", agent=system, system_prompt="You count.", tools=["calculator"])
        print("react:", await react.run("what is (15+27)*3-42/6?"))

        # 3. A plan first, then its steps, each with its tools, then a summary (which the offline model cannot write).
        plans = pentad.agents.PlanSolveAgent("planner", agent=system, tools=[area])
        await plans.run("area of 4")
        [task] = [task for task in await system.inspection.tasks() if task.instruction == "planner"]
        path = await system.inspection.path(task.task_id)
        print("plan and solve:", " -> ".join(visit.node for visit in path.path))

        # 4. Memory by kind: what is said now, what was said, what is known.
        memory = system.session(user_id="ada").memory
        await memory.semantic.add("Tom the cat likes fish.", kind="fact", user_id="ada")
        print("known:", [hit.content for hit in await memory.semantic.retrieve("what does Tom like?", limit=1)])


if __name__ == "__main__":
    asyncio.run(main())
