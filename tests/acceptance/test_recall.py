"""What is told in some tasks answers a question in another session, with anchors, and only to whom it belongs."""

import re
from pathlib import Path
from typing import Any

import pytest

from pentad.client.agent import Agent, connect
from pentad.contracts.quotes import quotes_in
from tests.support.processes.up import Up
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance

KEYS = {"PENTAD_API_KEYS": "us-key:us,them-key:them", "PENTAD_MEMORY_SCOPE": "tenant"}
"""What is said without a user is shared here, as an operator may want it."""
FACTS = {
    "what is my cat called?": "my cat is called Ada",
    "When does the ferry to Bergen leave?": "The ferry to Bergen leaves at nine.",
    "我的妹妹住在哪里？": "我的妹妹住在成都。",
}
CODE = "My locker code is swordfish."
ASKS_CODE = "what is my locker code?"
_SOURCE = re.compile(r"a1\.[\w-]+")


async def taught(agent: Agent) -> None:
    """Three facts in three tasks, and one of a user with a name."""
    for fact in FACTS.values():
        await agent.ask(fact)
    await agent.ask(CODE, user_id="ada")

    async def remembered() -> bool:
        return (await agent.inspection.memory_stats()).tasks == len(FACTS) + 1

    await wait_until("all tasks to be remembered", remembered, 20)


async def quoted(agent: Agent, session: str) -> list[str]:
    """What the session's one task began with."""
    (task,) = await agent.inspection.tasks(session_id=session)
    first: dict[str, Any] = (await agent.inspection.transcript(task.task_id)).messages[0]
    return [quote.text for quote in quotes_in(first["content"])] if first.get("origin") == "recalled" else []


async def test_three_facts_answer_in_new_sessions_and_each_anchor_opens_its_sentence(tmp_path: Path) -> None:
    with Up(tmp_path, KEYS) as up:
        url = await up.ready()
        async with connect(url, "us-key") as us, connect(url, "them-key") as them:
            await taught(us)
            for number, (question, fact) in enumerate(FACTS.items()):
                told = await us.ask(question, session_id=f"asks-{number}")
                assert fact in told
                (anchor,) = _SOURCE.findall(told)
                assert (await us.inspection.expand(anchor)).focus.content == fact
                foreign = await them.ask(question, session_id=f"asks-{number}")
                assert fact not in foreign
                assert await quoted(them, f"asks-{number}") == []
            assert CODE in await us.ask(ASKS_CODE, session_id="ada", user_id="ada")
            for user in ("bob", None):
                session = f"of-{user}"
                assert "swordfish" not in await us.ask(ASKS_CODE, session_id=session, user_id=user)
                assert CODE not in await quoted(us, session)
                assert FACTS["what is my cat called?"] in await us.ask(
                    "what is my cat called?", session_id=f"{session}-2"
                )
