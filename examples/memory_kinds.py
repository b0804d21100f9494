"""Three kinds of memory: what is said now (working), what was said (episodic), what is known (semantic).

.venv/bin/python examples/memory_kinds.py
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pentad
from pentad.contracts.memories import FoundMemory


async def until_found(search: Callable[[], Awaitable[list[FoundMemory]]]) -> list[FoundMemory]:
    """The hits, as soon as there are some: what is written is found a moment later."""
    while True:
        with suppress(pentad.Busy):  # the memory has just been started
            if hits := await search():
                return hits
        await asyncio.sleep(0.1)


async def main() -> None:
    """Everything that the example shows."""
    async with pentad.start(pentad_recall_tokens=0) as agent:  # nothing is recalled by itself: this program asks
        alice = agent.session()
        memory = alice.memory

        # 1. Working memory is the conversation itself: what is said is there at once.
        await alice.ask("my cat is called Ada")
        [now] = await memory.working.retrieve("what is my cat called?", limit=1)
        print(f"{now.kind}: {now.content}")
        print(f"working: {(await memory.working.stats())['tasks']} task")

        # 2. Episodic memory has what was said in tasks that have ended; and what you add, as it was said elsewhere.
        kept = await memory.episodic.add("We met Mimi Solberg in Tromso.", at="2026-07-01T12:00:00Z")
        [met] = await until_found(lambda: memory.episodic.retrieve("where did we meet Mimi?", limit=1))
        print(f"{met.kind}: {met.content} ({met.at})")
        print(f"opened: {(await agent.inspection.expand(kept.anchor)).focus.content}")

        # 3. Semantic memory has what is known: each fact with what it rests on.
        known = await memory.semantic.add("The ferry to Tromso leaves at nine.", kind="fact", importance=0.8)
        [fact] = await memory.semantic.retrieve("when does the ferry leave?", limit=1)
        print(f"{fact.kind}: {fact.content} (rests on {known.supported_by} statement)")

        # 4. All of them: what is said now comes first.
        found = await memory.retrieve("Tromso, and my cat Ada", limit=5)
        print(f"together: {sorted({hit.kind for hit in found})}")
        print(f"nodes: {(await memory.stats())['semantic']['nodes'] > 0}")

        # 5. Each is cleared by itself. What is cleared from the working memory was said, and stays episodic.
        print(f"cleared: {await memory.working.clear()} task")
        print(f"said now: {await memory.working.retrieve('cat')}")
        await until_found(lambda: memory.episodic.retrieve("my cat", limit=1))
        await memory.semantic.clear(importance_below=0.9)
        print(f"known: {await memory.semantic.retrieve('ferry')}")
        await memory.episodic.clear()
        print(f"said: {await memory.episodic.retrieve('Mimi Solberg, ferry, cat')}")


if __name__ == "__main__":
    asyncio.run(main())
