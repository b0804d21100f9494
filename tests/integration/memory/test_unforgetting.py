"""What a model had forgotten is hidden, and a person undoes it within a day; what a person forgets stays away."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pentad.contracts.streams import EXTRACT, LEARN, REMEMBER
from pentad.services.gateway.edge.problems import ProblemError
from pentad.services.gateway.memory.forgetting import ForgettingUndo
from pentad.services.tool_worker.builtins.memory_forget import OwnMemories
from pentad.shared.keys import UNDO_S, TaskKeys, erased_user, undoable
from pentad.shared.memory.forgotten import forgotten_of
from pentad.shared.memory.forgotten_notes import notes_of, write_handed_over
from pentad.shared.memory.task_graph import every_fact, ruled_facts
from pentad.shared.owners import Owner
from pentad.shared.plugins.context import ToolContext
from pentad.shared.store.store import Store
from pentad.shared.vectors.selection import Selection, Whose
from pentad.shared.work.entry import Entry
from tests.integration.memory.rebuilt import Archive
from tests.support.remembering import COLLECTION

OLD, OTHER = TaskKeys(0, "acme", "task-0-1"), TaskKeys(0, "acme", "task-0-2")
CAT, BOAT = "my cat is called Ada", "My boat is green"
TALK = [("user", CAT, "ada"), ("assistant", "What a fine name.", None), ("user", BOAT, "ada")]
ADA = Owner("acme", "ada")


class Memories(Archive):
    """A memory, a model that lets its user's memories be forgotten, and a person who undoes it."""

    async def by_model(self, text: str, user: str = "ada") -> str:
        """Have a model forget what says this; the anchor that it named."""
        (anchor, *_) = [point[0] for point in await self._anchors() if point[1] == text]
        own = OwnMemories(self.vectors, self.forgetter)
        await own.forget(ToolContext("call-0-1", "call-0-1", 1, "acme", user, "s1", "task-0-9"), anchor)
        await self.serve()
        return anchor

    async def undo(self, anchor: str, user: str | None = None, tenant: str = "acme") -> int:
        done = ForgettingUndo(self.store, self.records, self.vectors, self.noting, 1)
        restored = await done.undo(tenant, anchor, user)
        await self.serve()
        return restored

    async def refused(self, anchor: str, user: str | None = None, tenant: str = "acme") -> int:
        with pytest.raises(ProblemError) as refused:
            await self.undo(anchor, user, tenant)
        return refused.value.status

    async def serve(self) -> None:
        """What archivers were asked for, in its order."""
        handlers = ((REMEMBER, self.remembering), (LEARN, self.learning), (EXTRACT, self.extracting))
        for stream, handler in handlers:
            key = stream.key(0)
            for entry, fields in await self.store.call("XRANGE", key, "-", "+"):
                await handler.handle(Entry(key, entry.decode(), fields[1]))
            await self.store.call("DEL", key)

    async def all(self) -> tuple[list[tuple[str, str, str]], list[tuple[str, str]], int]:
        """Points, nodes and how many edges there are. Of what a task's node rests on one statement is enough."""
        nodes = [(node.id, node.text) for node in await self.graph.node_page("acme", 1000)]
        return (await self.contents())[0], nodes, (await self.graph.tally("acme")).edges

    async def _anchors(self) -> list[tuple[str, str]]:
        page = await self.vectors.scroll(COLLECTION, Selection(Owner("acme"), Whose.ALL), 1000)
        return sorted((point.payload.anchor, point.payload.text) for point in page.points if point.payload.anchor)


@pytest.fixture
async def memories(store: Store, tmp_path: Path) -> AsyncIterator[Memories]:
    made = Memories(store, tmp_path)
    await made.remembering.prepare()
    await made.graph.prepare()
    await made.archive(OLD, TALK)
    await made.archive(OTHER, [("user", "My cat is called ADA.", "ada"), ("user", CAT, "bob")])
    yield made
    await made.aclose()


async def test_what_a_model_had_forgotten_is_found_by_nobody_and_comes_back_whole(memories: Memories) -> None:
    before = await memories.all()
    anchor = await memories.by_model(CAT)
    assert sorted(await memories.texts()) != sorted(text for _, _, text in before[0] if text)
    assert (await memories.texts()).count(CAT) == 1, "bob's alone"
    assert 0 < await memories.store.call("TTL", undoable("acme", anchor)) <= UNDO_S
    assert await memories.undo(anchor) >= 2, "wherever ada has said it"
    assert await memories.all() == before
    assert await forgotten_of(memories.vectors, "acme", OLD.task) == frozenset()


async def test_it_is_undone_once_by_whom_it_belongs_to_and_not_after_the_day(memories: Memories) -> None:
    anchor = await memories.by_model(CAT)
    assert await memories.refused(anchor, user="bob") == 404
    assert await memories.refused(anchor, tenant="another") == 404
    assert await memories.refused("a1.something-else") == 404
    assert await memories.undo(anchor, user="ada")
    assert await memories.refused(anchor) == 404, "it is undone already"
    again = await memories.by_model(CAT)
    await memories.store.call("DEL", undoable("acme", again))  # as its time to live does
    assert await memories.refused(again) == 404
    assert (await memories.texts()).count(CAT) == 1


async def test_what_a_person_forgets_is_gone_at_once_for_good(memories: Memories) -> None:
    (anchor,) = [name for name, text in await memories._anchors() if text == BOAT]
    await memories.forget(BOAT)
    assert await memories.refused(anchor) == 404
    assert BOAT not in await memories.texts()


async def test_a_rebuild_within_the_day_keeps_it_hidden_and_it_can_still_be_undone(memories: Memories) -> None:
    before = await memories.all()
    anchor = await memories.by_model(CAT)
    hidden = await memories.all()
    await memories.again("vectors", "graph")
    await memories.rebuild()
    assert await memories.all() == hidden
    await memories.undo(anchor)
    assert await memories.all() == before


@pytest.mark.parametrize("noted_between", [True, False])
async def test_what_was_undone_comes_back_with_a_rebuild_too(memories: Memories, noted_between: bool) -> None:
    before = await memories.all()
    anchor = await memories.by_model(CAT)
    if noted_between:
        await write_handed_over(memories.store, memories.records)
        assert await notes_of(memories.records, "acme", OLD.task)
    await memories.undo(anchor)
    await write_handed_over(memories.store, memories.records)
    assert await notes_of(memories.records, "acme", OLD.task) == []
    await memories.again("vectors", "graph")
    await memories.rebuild()
    assert await memories.all() == before


async def test_a_backup_of_before_the_undoing_is_told_of_it_by_a_rebuild(memories: Memories) -> None:
    before = await memories.all()
    anchor = await memories.by_model(CAT)
    await memories.aclose()
    shutil.copytree(memories.folder / "vectors", memories.folder / "backup")
    memories.open()
    await memories.undo(anchor)
    await memories.aclose()
    shutil.rmtree(memories.folder / "vectors")
    (memories.folder / "backup").rename(memories.folder / "vectors")
    memories.open()
    assert await forgotten_of(memories.vectors, "acme", OLD.task)
    await memories.rebuild()
    assert await memories.all() == before
    assert await forgotten_of(memories.vectors, "acme", OLD.task) == frozenset()


async def test_forgotten_again_after_it_was_undone_it_stays_away(memories: Memories) -> None:
    anchor = await memories.by_model(CAT)
    await memories.undo(anchor)
    await write_handed_over(memories.store, memories.records)
    await memories.forget(CAT)
    hidden = await memories.texts()
    assert CAT not in hidden
    await memories.again("vectors", "graph")
    await memories.rebuild()
    assert await memories.texts() == hidden


async def test_what_a_person_has_added_by_hand_comes_back_as_it_was(memories: Memories) -> None:
    await memories.add_node("The ferry leaves at nine", user_id="ada", importance=0.8, metadata={"from": "crm"})
    before = await memories.all()
    anchor = await memories.by_model("The ferry leaves at nine")
    assert "The ferry leaves at nine" not in await memories.texts()
    assert await memories.undo(anchor) == 1
    assert await memories.all() == before


@pytest.mark.parametrize("mark", [OLD.erased, erased_user(0, "acme", "ada")])
async def test_what_was_erased_meanwhile_is_undone_by_nobody(memories: Memories, mark: str) -> None:
    anchor = await memories.by_model(BOAT)
    await memories.store.call("HSET", mark, "at", await memories.store.clock())
    await memories.store.call("EXPIRE", mark, 100)
    assert await memories.refused(anchor) == 404


async def test_what_a_model_has_extracted_comes_back_from_its_answer_in_the_record(memories: Memories) -> None:
    record = await memories.records.read("acme", OLD.task)
    task = await memories.extracting._ended.read(OLD)
    assert record is not None
    assert task is not None
    text = "Ada has a green boat."
    fact = {"id": "a", "kind": "concept", "text": text, "importance": 0.9, "segments": [3]}
    segments = [segment.id for segment in task.remaining.task.segments]
    ruled = {segment: node.id for segment, node in ruled_facts(task.remaining.task, every_fact)}
    kept = {"value": {"nodes": [fact], "edges": []}, "near": [], "same": {}, "model": "m", "segments": segments}
    kept["ruled"] = ruled
    await memories.records.write(record.model_copy(update={"extraction": kept}))
    await memories.extracting.rebuild(OLD)
    before = await memories.all()
    assert text in await memories.texts()
    anchor = await memories.by_model(text)
    assert text not in await memories.texts()
    await memories.undo(anchor)
    assert await memories.all() == before


async def test_edges_that_were_added_by_hand_come_back_with_the_next_rebuild(memories: Memories) -> None:
    ferry = await memories.add_node("The ferry leaves at nine", user_id="ada")
    harbour = await memories.add_node("The harbour is closed", user_id="ada")
    await memories.add_edge(harbour, ferry, "related_to", user_id="ada")
    before = await memories.all()
    await memories.undo(await memories.by_model("The ferry leaves at nine"))
    await memories.rebuild()
    assert await memories.all() == before
