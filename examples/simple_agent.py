"""An agent loop with tools (the document 001): a prompt, two tools, callbacks, a tool that fails, a second turn.

    .venv/bin/python examples/simple_agent.py

The model is asked, its tool calls are made at once and their results told to it, until it answers.
"""

import asyncio

import pentad

WEATHER = {"Beijing": 22, "Shanghai": 28}


@pentad.tool(effect="pure")
async def get_weather(city: str) -> str:
    """Weather of a city.

    Args:
        city: Name of the city, in English.
    """
    return f"{WEATHER.get(city, 25)} degrees in {city}"


@pentad.instruction(tools=["calculator", "get_weather"], tool_rounds=10)
def helper() -> str:
    """Calculates, and knows the weather."""
    return "You are a helpful assistant. Use your tools, then sum up their results in plain words."


async def main() -> None:
    """Everything that the example shows."""
    async with pentad.start() as agent:
        # 1. A run to its end, told as it happens.
        said: list[str] = []
        answer = await agent.run(
            "helper",
            "calculate (15+27)*3-42/6",
            on_text=said.append,
            on_tool_start=lambda call: print(f"calling {call.tool} {call.args}"),
            on_tool_end=lambda end: print(f"result: {end.result}"),
            on_complete=lambda answer: print(f"complete: {answer}"),
        )
        print(f"streamed in pieces: {''.join(said) == answer}")

        # 2. A conversation remembers: each turn goes on with the same task.
        chat = agent.session()
        turn = chat.turn("get_weather in Beijing", instruction="helper")
        async for event in turn:
            if isinstance(event.event, pentad.MessageEvent):
                print(event.event.content)
        print(await chat.ask("and in Shanghai?", task_id=turn.task_id))

        # 3. A tool that fails ends nothing: the model is told why, and goes on.
        print(await chat.ask("and what is 1/0?", task_id=turn.task_id))
        for line in (await agent.inspection.transcript(turn.task_id or "")).messages:
            print(f"  {line['role']}: {line.get('content') or 'calls a tool'}")


if __name__ == "__main__":
    asyncio.run(main())
