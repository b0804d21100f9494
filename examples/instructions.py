"""A model and instructions of one's own in a running system: registered, run by name, followed, removed again.

    .venv/bin/python examples/instructions.py http://127.0.0.1:8080 http://127.0.0.1:11434/v1

The first address is the gateway's, the second that of any OpenAI-compatible endpoint.
"""

import asyncio
import sys

import pentad
from pentad.contracts.events import MessageEvent, TaskEnd, TaskStart, ToolCallEvent

MOOD = {
    "type": "object",
    "properties": {"mood": {"enum": ["good", "bad"]}, "why": {"type": "string"}},
    "required": ["mood", "why"],
    "additionalProperties": False,
}


async def main(url: str, model_url: str) -> None:
    """Everything that the example shows."""
    agent = pentad.connect(url, user_id="ida")
    # 1. Models and instructions, while the system runs.
    await agent.management.register_model("small", endpoint=model_url, parameters={"temperature": 0.7})
    await agent.management.register_model("letters", kind="embedding", endpoint=model_url, model="text-embedding")
    await agent.management.register_instruction(
        "mood",
        system_prompt="Say how the writer feels.",
        model="small",
        tools=[],
        output="json",
        output_schema=MOOD,
    )
    await agent.management.register_instruction("helper", system_prompt="Be brief.", tools=["calculator"])

    # 2. Send a message, follow what comes of it.
    async for event in agent.send("what is 6*7?", instruction="helper"):
        match event:
            case TaskStart():
                print(f"task started: {event.task_id}")
            case ToolCallEvent():
                print(f"calling {event.tool}")
            case MessageEvent():
                print(event.content)
            case TaskEnd():
                print(f"task {event.status}")

    # 3. Run an instruction: its data, or all that is known of the run.
    mood = await agent.run("mood", "What a day! The sun is out.")
    print(f"mood: {mood['mood']}")
    run = await agent.execute("helper", "what is 2+2?")
    print(f"{run.status} with {len(run.tool_calls)} tool call(s): {run.content}")

    # 4. What runs, and what can be run.
    print(f"active tasks: {len(await agent.inspection.tasks(status='active'))}")
    print("models: " + ", ".join(model["id"] for model in await agent.inspection.models()))
    print("instructions: " + ", ".join(each["name"] for each in await agent.inspection.instructions()))

    # 5. What a user said is found from the user's other conversations, a moment after its task has ended.
    while not (found := [hit for hit in await agent.inspection.search_memory("what is 6*7?") if "6*7" in hit.content]):
        await asyncio.sleep(0.2)
    print(f"remembered: {found[0].content}")

    # 6. Tidy up; `async with pentad.connect(url) as agent` shuts down by itself.
    for name in ("mood", "helper"):
        await agent.management.delete_instruction(name)
    for model_id in ("small", "letters"):
        await agent.management.delete_model(model_id)
    await agent.shutdown()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
