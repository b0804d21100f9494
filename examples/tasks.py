"""Several tasks in one conversation: which message goes where, and what a person can do about each.

.venv/bin/python examples/tasks.py
"""

import asyncio

import pentad
from pentad.contracts.events import MessageRouted


@pentad.tool(effect="pure", timeout=600)
async def report(topic: str) -> str:
    """Writes a long report about a topic."""
    await asyncio.sleep(300)
    return f"All about {topic}."


async def until(session: pentad.Agent, status: str) -> str:
    """Watch the list of tasks until the newest one has this status; its id."""
    async for tasks in session.observe():
        if tasks and tasks[0].status == status:
            break
    return tasks[0].task_id


async def routed(session: pentad.Agent, text: str) -> tuple[str, str]:
    """Say something and tell which task got it; the ids of the message and of the task."""
    found = ("", "")
    async for event in session.send(text):
        if isinstance(event, MessageRouted):
            print(f"{text} -> {event.decision} ({event.stage})")
            found = (event.message_id, event.task_id or "")
    return found


async def main() -> None:
    """Everything that the example shows."""
    async with pentad.start() as agent:
        alice = agent.session()

        # 1. Each message finds its task.
        _, sums = await routed(alice, "what is 6*7?")
        await routed(alice, "By the way, please tell me the current time in Tokyo.")
        message, wrong = await routed(alice, "and times 2?")

        # 2. That was not the clock's: a person moves it, and the right task answers.
        async for _ in await alice.move(message, sums, wrong):
            pass
        print(f"moved: {(await agent.inspection.transcript(sums)).messages[-1]['content']}")

        # 3. A task that takes long is paused, resumed and cancelled. Others go on meanwhile.
        working = asyncio.create_task(routed(alice, "Please write a report about green tea."))
        task = await until(alice, "active")
        await agent.management.pause_task(task)
        await working  # its turn ends here: the task waits for a person
        print(f"meanwhile: {await alice.ask('what is 2**10?', task_id=sums)}")
        await agent.management.resume_task(task)
        await until(alice, "active")
        await agent.management.cancel_task(task)
        await until(alice, "cancelled")

        # 4. What has ended is archived after a while, or at once. Its record answers from then on.
        await agent.management.archive_task(task)
        print(f"statuses: {[found.status for found in await agent.inspection.tasks(session_id=alice.session_id)]}")

    # 5. Without routing: what names no task goes to the one that was spoken to last.
    async with pentad.start(pentad_route="explicit") as agent:
        bob = agent.session()
        await routed(bob, "what is 6*7?")
        await routed(bob, "By the way, please tell me the current time in Tokyo.")


if __name__ == "__main__":
    asyncio.run(main())
