"""One program, nothing else: a tool, a prompt, a question, what the agent does about it, and a follow-up.

    .venv/bin/python examples/run_loop.py

Without a model's address in the environment the offline stand-in answers.
"""

import asyncio

import pentad
from pentad.contracts.events import MessageEvent, TaskEnd, TaskStart, Thinking, ToolCallEvent, ToolResultEvent


@pentad.tool(effect="pure")
async def weather(city: str) -> str:
    """Weather of a city right now.

    Args:
        city: Name of the city, in English.
    """
    return f"{city}: 21 degrees, clear"


@pentad.instruction(tools=["weather", "calculator"])
def guide() -> str:
    """Knows the weather."""
    return "You are a helpful travel guide."


async def main() -> None:
    """Everything that the example shows."""
    async with pentad.start(pentad_step_limit=10) as agent:  # model calls that a turn may take
        trip = agent.session()
        task_id = ""

        # 1. Ask, and see each thing that happens.
        async for event in trip.send("weather in Shanghai?", instruction="guide"):
            match event:
                case TaskStart():
                    task_id = event.task_id or ""
                    print(f"start: {event.goal}")
                case Thinking():
                    print(f"thinking: {event.content}")
                case ToolCallEvent():
                    print(f"calling {event.tool} {event.args}")
                case ToolResultEvent():
                    print(f"result: {event.result}")
                case MessageEvent():
                    print(event.content)
                case TaskEnd():
                    print(f"end: {event.status}, {event.steps} steps")

        # 2. What is said later belongs to the same task when it names it; without a name, routing finds it.
        print(await trip.ask("and in Beijing?", task_id=task_id))

        # 3. All of it is one transcript.
        transcript = await agent.inspection.transcript(task_id)
        print("transcript: " + ", ".join(message["role"] for message in transcript.messages))


if __name__ == "__main__":
    asyncio.run(main())
