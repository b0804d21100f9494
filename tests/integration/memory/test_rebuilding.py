"""A lost memory is rebuilt from the records and the tasks in Redis; what a person had forgotten does not come back."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pentad.contracts.records import TranscriptMeta
from pentad.services.archiver import rebuilding
from pentad.shared.actors.transcript import entry
from pentad.shared.errors import MemoryOutageError
from pentad.shared.graph.knowledge import NodeKind
from pentad.shared.graph.merging import node_id
from pentad.shared.keys import FORGOTTEN_NOTES, MEMORY_REBUILD_LEASE, TaskKeys
from pentad.shared.memory.forgotten import FORGOTTEN, forgotten_of, write_notes
from pentad.shared.memory.forgotten_notes import export_notes, write_handed_over
from pentad.shared.memory.rebuild_progress import RebuildStage
from pentad.shared.memory.statements import is_statement
from pentad.shared.owners import Owner
from pentad.shared.store.store import Store
from pentad.shared.vectors.points import Point
from pentad.shared.vectors.selection import Selection, Whose
from tests.integration.memory.rebuilt import Archive
from tests.integration.memory.remembered import AT, TASK, end
from tests.support.slow import rarely

LIVE = [("user", "I met Mimi Solberg in Tromso", "ada"), ("assistant", "What did she tell you?", None)]
OLD, OTHER, FOREIGN = (
    TaskKeys(0, tenant, task) for tenant, task in (("acme", "task-0-2"), ("acme", "task-0-3"), ("zed", "task-0-4"))
)
CAT, BOAT, DOG = "my cat is called Ada", "my boat is green", "my dog is called Bruno"
ADA = Owner("acme", "ada")


@pytest.fixture
async def archive(store: Store, tmp_path: Path) -> AsyncIterator[Archive]:
    """Three archived tasks of two tenants, of which nobody has an API key, and one that is in Redis still."""
    made = Archive(store, tmp_path)
    await end(store, LIVE)
    await made.write(TASK)
    await made.archive(OLD, [("user", CAT, "ada"), ("assistant", "A fine name.", None)])
    await made.archive(OTHER, [("user", BOAT, "bob"), ("user", f"Remember that {DOG}, in Oslo", "ada")])
    await made.archive(FOREIGN, [("user", f"In Paris, {DOG}", "eve")])
    yield made
    await made.aclose()


@pytest.mark.parametrize("lost", [("vectors",), ("graph",), ("vectors", "graph")], ids=" and ".join)
async def test_what_was_lost_is_there_again_of_every_tenant(archive: Archive, lost: tuple[str, ...]) -> None:
    before = await archive.contents("acme", "zed")
    await archive.again(*lost)
    assert await archive.contents("acme", "zed") != before
    now = await archive.rebuild()
    assert await archive.contents("acme", "zed") == before
    assert (now.stage, now.total, now.done, now.failed, now.left_out) == (RebuildStage.ENDED, 4, 4, 0, 0)
    assert now.ended_at >= now.started_at


async def test_stores_that_are_emptied_under_a_running_archiver_are_filled_by_it(archive: Archive) -> None:
    """It believes nothing of what it knows of them."""
    before = await archive.contents("acme", "zed")
    for each in await archive.vectors.collections():
        await archive.vectors.drop(each.name)
    for tenant in ("acme", "zed"):
        await archive.graph.forget_tenant(tenant)
    assert (await archive.rebuild()).failed == 0
    assert await archive.contents("acme", "zed") == before


async def test_a_rebuild_of_a_whole_memory_changes_nothing_and_may_be_repeated(archive: Archive) -> None:
    before = await archive.contents("acme", "zed")
    for _ in range(2):
        assert (await archive.rebuild()).has_ended
        assert await archive.contents("acme", "zed") == before
    assert not await archive.rebuilding.step(), "one that has ended is not gone on with"


@pytest.mark.parametrize("steps", rarely(range(1, 9), 1, 4, 8))
async def test_killed_in_the_middle_another_archiver_goes_on(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    monkeypatch.setattr(rebuilding, "_TASKS_PER_PAGE", 1)
    before = await archive.contents("acme", "zed")
    await archive.again("vectors", "graph")
    begun = await archive.rebuild(steps)
    assert not begun.has_ended
    await archive.again()
    assert not await archive.rebuilding.step(), "the one before may be at work still"
    await archive.store.call("DEL", MEMORY_REBUILD_LEASE)  # it has ended by itself
    ended = await archive.rebuild()
    assert (ended.id, ended.stage, ended.done, ended.failed) == (begun.id, RebuildStage.ENDED, 4, 0)
    assert await archive.contents("acme", "zed") == before


async def test_a_page_that_a_kill_has_cut_off_is_done_again(archive: Archive) -> None:
    before = await archive.contents("acme", "zed")
    await archive.again("vectors", "graph")
    upsert, calls = archive.graph.upsert_edges, 0

    async def dies(edges: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise MemoryOutageError("away")
        await upsert(edges)

    archive.graph.upsert_edges = dies  # type: ignore[method-assign]
    with pytest.raises(MemoryOutageError):
        await archive.rebuild()
    assert (await archive.rebuild()).has_ended
    assert await archive.contents("acme", "zed") == before


async def test_what_a_person_had_forgotten_stays_forgotten(archive: Archive) -> None:
    """Also when the store that knew of it is lost: what was said, what is known, what was added, what was deleted."""
    node, other = await archive.add_node("The ferry leaves at nine"), await archive.add_node("The ferry is blue")
    await archive.add_node("The harbour is closed")
    known = node_id(ADA, NodeKind.ENTITY, "Mimi Solberg")
    await archive.forget(CAT)
    await archive.forget("The ferry leaves at nine")
    await archive.forgetter.nodes("acme", await archive.graph.nodes(ADA, [known]))
    await archive.noting.remove_node(Owner("acme"), other)
    await archive.write(OLD)
    left = await archive.contents("acme", "zed")
    assert CAT not in await archive.texts()
    await archive.again("vectors", "graph")
    assert (await archive.rebuild()).failed == 0
    assert await archive.contents("acme", "zed") == left
    assert "The harbour is closed" in await archive.texts()
    assert not await archive.graph.nodes(ADA, [known, node, other])
    assert await forgotten_of(archive.vectors, "acme", OLD.task)


async def test_what_was_forgotten_under_an_earlier_version_stays_so_too(archive: Archive) -> None:
    """It is noted in the store of vectors alone: an archiver writes it beside the records once."""
    await archive.forget(CAT)
    await archive.store.call("DEL", FORGOTTEN_NOTES)
    await export_notes(archive.store, archive.records, archive.vectors)
    await archive.again("vectors", "graph")
    await archive.rebuild()
    assert CAT not in await archive.texts()


async def test_what_is_known_again_after_it_was_forgotten_is_rebuilt(archive: Archive) -> None:
    ferry = "The ferry leaves at nine"
    await archive.add_node(ferry)
    await archive.forget(ferry)
    await write_handed_over(archive.store, archive.records)
    node = await archive.add_node(ferry)
    await archive.again("vectors", "graph")
    await archive.rebuild()
    assert ferry in await archive.texts()
    assert await archive.graph.nodes(Owner("acme"), [node])


async def test_what_an_earlier_version_has_let_be_known_again_is_rebuilt(archive: Archive) -> None:
    """It has left the note where it was."""
    ferry = "The ferry leaves at nine"
    await archive.add_node(ferry)
    await archive.forget(ferry)
    noted = (await archive.vectors.scroll(FORGOTTEN, Selection(Owner("acme"), Whose.ALL), 9)).points
    await archive.add_node(ferry)
    await write_notes(archive.vectors, [Point(note.id, note.payload) for note in noted])
    await archive.store.call("DEL", FORGOTTEN_NOTES)
    await export_notes(archive.store, archive.records, archive.vectors)
    await archive.again("vectors", "graph")
    await archive.rebuild()
    assert ferry in await archive.texts()


async def test_a_task_that_was_erased_is_noted_nowhere(archive: Archive) -> None:
    await archive.forget(CAT)
    await write_handed_over(archive.store, archive.records)
    assert await archive.records.forgotten_tasks("acme") == [OLD.task]
    await archive.records.remove("acme", OLD.task)
    assert await archive.records.forgotten_tasks("acme") == []
    await archive.forget(f"Remember that {DOG}, in Oslo")
    await archive.store.call("HSET", OTHER.erased, "at", str(1 << 60))
    await write_handed_over(archive.store, archive.records)
    assert await archive.records.forgotten_tasks("acme") == []
    assert not await archive.store.call("EXISTS", FORGOTTEN_NOTES)


async def test_what_was_added_by_hand_is_rebuilt_as_it_was_told(archive: Archive) -> None:
    ferry = await archive.add_node("The ferry leaves at nine", user_id="ada", importance=0.8, metadata={"from": "crm"})
    await archive.add_node("The ferry leaves at nine", user_id="ada", importance=0.9)
    later = await archive.add_node("The ferry leaves at ten", user_id="ada", true_from="2026-01-01T00:00:00Z")
    await archive.add_edge(later, ferry, "contradicts", user_id="ada", weight=1, metadata={"why": "timetable"})
    await archive.add_episode("We met Olga Berg in Bodo", user_id="ada", at="2026-07-01T12:00:00Z")
    before = await archive.contents()
    await archive.again("vectors", "graph")
    now = await archive.rebuild()
    assert await archive.contents() == before
    assert (now.failed, now.left_out) == (0, 0)
    [node] = await archive.graph.nodes(ADA, [ferry])
    assert (node.importance, node.metadata and node.metadata.json) == (0.9, '{"from":"crm"}')
    assert node.true_until is not None


async def test_of_what_an_earlier_version_has_added_nodes_are_rebuilt_and_edges_are_told(
    archive: Archive,
) -> None:
    """Its records say the words alone; the id of a node's statement tells the kind."""
    ferry = await archive.add_node("The ferry leaves at nine", importance=0.8)
    blue = await archive.add_node("Which colour has it?", kind="question")
    await archive.add_edge(ferry, blue, "related_to")
    for name in filter(is_statement, await archive.records.names("acme")):
        record = await archive.records.read("acme", name)
        assert record is not None
        await archive.records.write(record.model_copy(update={"materials": {}}))
    await archive.again("vectors", "graph")
    now = await archive.rebuild()
    assert (now.failed, now.left_out) == (0, 1)
    nodes = await archive.graph.nodes(Owner("acme"), [ferry, blue])
    assert {(node.id, node.kind, node.importance) for node in nodes} == {
        (ferry, NodeKind.FACT, 0.5),
        (blue, NodeKind.QUESTION, 0.5),
    }
    assert {"The ferry leaves at nine", "Which colour has it?"} <= set(await archive.texts())


async def test_what_a_model_has_extracted_is_written_again_and_nobody_is_asked(archive: Archive) -> None:
    """Also an edge to what was extracted from a task that comes later."""
    said = [("user", "The ferry to Bergen leaves at nine.", "ada"), ("assistant", "I keep that in mind.", None)]
    fact = {"id": "a", "kind": "fact", "text": "Ferries to Bergen leave at nine.", "importance": 0.9, "segments": [1]}
    town = {"id": "b", "kind": "concept", "text": "Bergen has a ferry.", "importance": 0.5, "segments": [1]}
    last, first = TaskKeys(0, "acme", "task-0-9"), TaskKeys(0, "acme", "task-0-5")
    for keys, value, near in (
        (last, {"nodes": [town], "edges": []}, []),
        (first, {"nodes": [fact], "edges": [{"from": "a", "to": "k1", "type": "related_to", "segments": [1]}]}, [town]),
    ):
        await archive.archive(keys, said)
        record = await archive.records.read("acme", keys.task)
        assert record is not None
        shown = [
            {
                "id": node_id(ADA, NodeKind.CONCEPT, str(each["text"])),
                "user": "ada",
                "kind": "concept",
                "text": each["text"],
            }
            for each in near
        ]
        segments = [segment async for segment in _segments(archive, keys)]
        kept = {"value": value, "near": shown, "same": {}, "model": "m", "segments": segments, "at": AT}
        await archive.records.write(record.model_copy(update={"extraction": kept}))
        await archive.extracting.rebuild(keys)
    before = await archive.contents()
    assert any('"related_to"' in line for line in before[1])
    await archive.again("vectors", "graph")
    assert (await archive.rebuild()).failed == 0
    assert await archive.contents() == before


async def _segments(archive: Archive, keys: TaskKeys) -> AsyncIterator[str]:
    """As a model was shown them."""
    task = await archive.extracting._ended.read(keys)
    assert task is not None
    for segment in task.remaining.task.segments:
        yield segment.id


async def test_a_task_that_cannot_be_read_is_named_and_the_others_are_rebuilt(archive: Archive) -> None:
    (archive.folder / "records" / "acme" / f"{OLD.task}.json").write_text("{")
    await archive.again("vectors")
    now = await archive.rebuild()
    assert (now.has_ended, now.done, now.failed) == (True, 4, 1)
    assert now.failures.startswith(f"acme/{OLD.task}: the record of task {OLD.task} cannot be read")
    assert BOAT in await archive.texts()


async def test_a_task_that_goes_on_is_left_to_its_end(archive: Archive) -> None:
    await archive.store.call("HSET", TASK.header, "status", "active")
    await archive.store.call("RPUSH", TASK.log, entry({"role": "user", "content": "and more"}, TranscriptMeta(at="")))
    await archive.again("vectors", "graph")
    assert (await archive.rebuild()).failed == 0
    assert LIVE[0][1] not in await archive.texts()


async def test_where_nothing_is_kept_there_is_nothing_to_rebuild(store: Store, tmp_path: Path) -> None:
    archive = Archive(store, tmp_path)
    now = await archive.rebuild()
    assert (now.has_ended, now.total, now.done) == (True, 0, 0)
    await archive.aclose()


async def test_a_rebuild_says_what_it_waits_for(archive: Archive) -> None:
    await archive.rebuilds.start()
    await archive.rebuilding.step()
    await archive.rebuilding._wait_for("Qdrant is away")
    now = await archive.rebuilds.read()
    assert now is not None
    assert now.waits_for == "Qdrant is away"
    assert (await archive.rebuild()).waits_for == ""
