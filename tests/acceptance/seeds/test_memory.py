"""Memory of the documents, by public calls against a whole system: what is kept, found, walked and quoted."""

import json
from pathlib import Path
from typing import Any

import pytest

import pentad
from pentad.shared.settings import load_settings
from tests.acceptance.seeds.rows import shown
from tests.acceptance.seeds.systems import system
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance


def record_of(folder: Path, task_id: str) -> Any:
    """Return the JSON of the one file that a task's record is."""
    [record] = [path for path in folder.rglob("*.json") if path.stem == task_id]
    return json.loads(record.read_bytes())


async def memory_answers(agent: pentad.Agent) -> None:
    """Wait until the memory is open: on a busy machine that takes longer than a first call waits for it."""

    async def answers() -> bool:
        try:
            await agent.management.add_node("concept", "Patience", user_id="bob")
        except pentad.GatewayUnreachable:
            return False
        return True

    await wait_until("the memory to be open", answers)


async def test_what_was_said_is_found_and_opened_as_in_the_documents(tmp_path: Path) -> None:
    async with system(tmp_path, pentad_grace_s=1) as (agent, script, _):
        ada = agent.session("seeds", user_id="ada")
        turn = ada.turn("My cat is called Tom and lives in Lisbon.")
        assert [event async for event in turn]
        assert turn.task_id is not None

        async def found() -> bool:
            try:
                return bool(await ada.inspection.search_memory("what is my cat called?"))
            except pentad.GatewayUnreachable:  # on a busy machine the memory may need longer than a search waits
                return False

        await wait_until("the cat to be remembered", found)
        with shown("`longTerm.retrieve(query)`"):
            for strategy in ("bfs", "dfs", "astar"):
                hits = await ada.inspection.search_memory("what is my cat called?", strategy=strategy)
                assert hits[0].content == "My cat is called Tom and lives in Lisbon."
        with shown("`recall(query)` → `relevantNodes`, `relatedTasks`"):
            recalled = await ada.inspection.recall("what is my cat called?")
            assert [task.task_id for task in recalled.tasks] == [turn.task_id]
            assert recalled.tasks[0].task is not None
            assert recalled.tasks[0].task.goal.startswith("My cat")
        with shown("`MemoryAnchor`"):
            place = pentad.anchor_of(recalled.hits[0].anchor)
            assert (place.task_id, place.position, place.segment) == (turn.task_id, 0, 0)
            assert (place.type, bool(place.at)) == ("user_message", True)
        with shown("`expand(anchor, contextWindow)`"):
            opened = await agent.inspection.expand(recalled.hits[0].anchor, window=1, whole=True)
            assert opened.focus.content == "My cat is called Tom and lives in Lisbon."
            assert [piece.content for piece in opened.after] == ["good day"]
            assert opened.whole is not None
            assert [step.step for step in opened.whole.steps] == [1]
        with shown("`getMemoryStats`"):
            stats = await agent.inspection.memory_stats()
            assert (stats.tasks, stats.segments >= 1) == (1, True)
        with shown("`LowerMemory`"):

            async def archived() -> bool:
                return (await agent.inspection.task(turn.task_id or "")).archived_at is not None

            await wait_until("its record", archived)
            transcript = await agent.inspection.transcript(turn.task_id)
            assert [message["content"] for message in transcript.messages][-1] == "good day"
            assert [task.task_id for task in await agent.inspection.tasks(since="2020-01-01T00:00:00Z")] == [
                turn.task_id
            ]
            assert await agent.inspection.tasks(until="2020-01-01T00:00:00Z") == []
        with shown("a record is a JSON file"):
            assert record_of(tmp_path, turn.task_id)["task"]["goal"].startswith("My cat")
        with shown("knowledge is the new task's first *system* message"):
            await ada.ask("Where does my cat Tom live?", task_id="new")
            [quoting] = [m for m in script.asked[-1]["messages"] if "lives in Lisbon" in str(m["content"])]
            assert quoting["role"] == "user"


async def test_what_is_known_is_kept_and_walked_as_in_the_documents(tmp_path: Path) -> None:
    async with system(tmp_path) as (agent, _, _):
        manage, inspect = agent.management, agent.inspection
        await memory_answers(agent)
        with shown("`KnowledgeNode` `concept fact procedure question answer`"):
            kinds = ("concept", "fact", "procedure", "question", "answer")
            made = [await manage.add_node(kind, f"A {kind} about tides", user_id="ada") for kind in kinds]
            assert [node.kind for node in made] == [*kinds]
        ids = [node.id for node in made]
        with shown("`KnowledgeEdge`"):
            types = ("related_to", "followed_by", "derived_from", "part_of")
            edges = [await manage.add_edge(ids[n], ids[n + 1], kind, user_id="ada") for n, kind in enumerate(types)]
            assert [edge.type for edge in edges] == [*types]
            against = await manage.add_edge(ids[4], ids[0], "contradicts", user_id="ada")
            assert against.type == "contradicts"
        with shown("`addNode`, `addEdge`, `getNode`, `getNeighbors`"):
            assert (await inspect.memory_node(ids[1], user_id="ada")).text == "A fact about tides"
            near = await inspect.memory_neighbours(ids[1], depth=1, user_id="ada")
            assert {node.id for node in near.nodes} == {*ids[:3]}
        with shown("`source {taskId, timestamp}`"):
            node = await inspect.memory_node(ids[1], user_id="ada")
            assert node.source is not None
            assert (node.source.by_hand, bool(node.source.at)) == (True, True)
            assert [each.at for each in node.supports] == [node.source.at]
        with shown("`traverse(start, strategy, maxDepth)`"):
            for strategy in ("bfs", "dfs", "astar"):
                walked = await inspect.memory_neighbours(ids[1], strategy=strategy, depth=3, user_id="ada")
                assert {node.id for node in walked.nodes} == {*ids}
        with shown("all relations are judged by the model (002, option A)"):
            one = await manage.add_node("fact", "Tides follow the Moon", user_id="ada")
            assert (await manage.add_node("fact", "Tides follow the Moon", user_id="ada")).id == one.id
        with shown("`WorkingMemory`, `EpisodicMemory`, `SemanticMemory`, `MemoryManager` (004)"):
            kept = agent.session("seeds", user_id="ada").memory
            await kept.add("I like the sea", kind="episodic", user_id="ada")
            await kept.add("The sea is salty", kind="semantic", user_id="ada")
            await kept.add("hello sea", kind="working")

            async def all_found() -> bool:
                try:
                    hits = await kept.retrieve("the sea", user_id="ada")
                except pentad.GatewayUnreachable:
                    return False
                return {"I like the sea", "The sea is salty", "hello sea"} <= {hit.content for hit in hits}

            await wait_until("all three kinds", all_found)
            assert {*await kept.stats()} == {"working", "episodic", "semantic"}
            assert await kept.clear("semantic", user_id="ada") >= 1


def test_the_stores_are_chosen_by_the_documents_variables() -> None:
    with shown("Qdrant and Neo4j by their variables"):
        named = {"QDRANT_URL": "https://q.example", "QDRANT_API_KEY": "k", "NEO4J_URI": "bolt://n.example"}
        named |= {"NEO4J_USERNAME": "neo", "NEO4J_PASSWORD": "p"}
        settings = load_settings(named)
        assert (settings.qdrant_url, settings.neo4j_uri) == ("https://q.example", "bolt://n.example")
        assert settings.neo4j_username == "neo"
        assert load_settings({}).qdrant_url is None
