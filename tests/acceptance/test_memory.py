"""What is taught in one conversation is found in another, and each anchor opens the very sentence."""

import json
from pathlib import Path

import pytest

from pentad.client.agent import Agent, connect
from pentad.contracts.memories import FoundMemory
from pentad.errors import NotFound
from pentad.shared.graph.knowledge import NodeKind
from pentad.shared.graph.merging import node_id
from pentad.shared.owners import Owner
from tests.acceptance.test_face import pentad
from tests.support.processes.up import Up
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance

KEYS = {"PENTAD_API_KEYS": "us-key:us,them-key:them", "PENTAD_MEMORY_SCOPE": "tenant"}
"""What is said without a user is shared here, as an operator may want it."""
SENTENCES = {
    "What is my cat called?": "Please note: my cat is called Mimi.",
    "When does the ferry to Bergen leave?": "The ferry to Bergen leaves at nine.",
    "我的妹妹住在哪里？": "我的妹妹住在成都。",
}
SECRET = "My locker code is swordfish."
SHARED_TASKS, ALL_TASKS = len(SENTENCES), len(SENTENCES) + 1


async def taught(agent: Agent) -> None:
    """Each sentence in a conversation of its own; the last one by a user with a name."""
    for sentence in SENTENCES.values():
        await agent.ask(sentence)
    await agent.ask(SECRET, user_id="ada")

    async def remembered() -> bool:
        stats = await agent.inspection.memory_stats()
        return stats.tasks == ALL_TASKS and (stats.nodes or 0) > ALL_TASKS

    await wait_until("all tasks to be remembered", remembered)


async def best(agent: Agent, question: str, user_id: str | None = None) -> FoundMemory:
    return (await agent.inspection.search_memory(question, user_id=user_id))[0]


async def forgotten(agent: Agent) -> bool:
    """What is remembered goes first, the task itself last."""
    remembered = (await agent.inspection.memory_stats()).tasks
    return (remembered, len(await agent.inspection.tasks())) == (SHARED_TASKS, SHARED_TASKS)


async def test_what_was_taught_is_found_in_a_new_session_and_by_nobody_else(tmp_path: Path) -> None:
    with Up(tmp_path, KEYS) as up:
        url = await up.ready()
        async with connect(url, "us-key") as us, connect(url, "them-key") as them:
            await taught(us)
            anchors = []
            for question, sentence in SENTENCES.items():
                hit = await best(us, question)
                opened = await us.inspection.expand(hit.anchor)
                assert (hit.content, opened.focus.content) == (sentence, sentence)
                assert opened.after
                anchors.append(hit.anchor)
            bergen = node_id(Owner("us"), NodeKind.ENTITY, "Bergen")
            [support] = (await us.inspection.memory_node(bergen)).supports
            assert "Bergen" in (await us.inspection.expand(support.anchor)).focus.content
            with pytest.raises(NotFound):
                await them.inspection.memory_node(bergen)
            assert (await best(us, "locker code", "ada")).content == SECRET
            for user in (None, "bob"):
                seen = await us.inspection.search_memory("locker code swordfish", limit=100, user_id=user)
                assert len({hit.task_id for hit in seen}) == SHARED_TASKS
                assert not any("swordfish" in hit.content for hit in seen)
            assert await them.inspection.search_memory("my cat is called Mimi", user_id="ada") == []
            assert (await them.inspection.memory_stats()).segments == 0
            await us.management.delete_user("ada")
            await wait_until("the secret to be forgotten, and its task to be gone", lambda: forgotten(us))
        found = pentad(up, "memory", "search", "ferry to Bergen", "--json", environment={"PENTAD_API_KEY": "us-key"})
        first = json.loads(found.stdout.splitlines()[0])
        shown = pentad(up, "memory", "expand", first["anchor"], environment={"PENTAD_API_KEY": "us-key"})
        known = pentad(up, "memory", "show", bergen, environment={"PENTAD_API_KEY": "us-key"})
        foreign = pentad(up, "memory", "expand", anchors[0], environment={"PENTAD_API_KEY": "them-key"})
    assert known.stdout.splitlines()[1] == "  Bergen"
    assert f"    {SENTENCES['When does the ferry to Bergen leave?']}" in shown.stdout
    assert (foreign.returncode, foreign.stdout, len(foreign.stderr.splitlines())) == (1, "", 1)
