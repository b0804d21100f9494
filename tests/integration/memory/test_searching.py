"""What was said in finished tasks is found by whom it belongs to, alike in every store; each anchor opens the words."""

from collections.abc import AsyncIterator
from contextlib import aclosing, nullcontext
from pathlib import Path
from typing import Any

import pytest

from pentad.contracts.memories import MemoryStats
from pentad.shared.embedder.embedder import HashingEmbedder
from pentad.shared.embedder.vectors import Requester
from pentad.shared.errors import MemoryOutageError, MemoryRefusedError
from pentad.shared.memory.child_vectors import ChildVectors
from pentad.shared.memory.ranking import MOST_FOUND, MemoryHit, MemoryQuestion
from pentad.shared.memory.search import MemorySearch
from pentad.shared.owners import Owner
from pentad.shared.recall.questions import MOST_CHARS
from pentad.shared.segments.anchors import anchor_of
from pentad.shared.segments.expansion import expanded
from pentad.shared.vectors.edge_vectors import EdgeVectors
from pentad.shared.vectors.qdrant_vectors import IN_MEMORY, QdrantVectors
from pentad.shared.vectors.vector_store import Vectors
from tests.support.remembering import remember
from tests.unit.segments.transcripts import HOSTILE, answered, said

ASKING = Requester(0, "acme", "memory")
ACME = Owner("acme")
NOW_MS = 1_900_000_000_000
TASKS: dict[str, list[dict[str, Any]]] = {
    "task-0-1": [said("Remember that my cat is called Mimi."), answered("I keep that in mind.")],
    "task-0-2": [said("My code is swordfish", user_id="ada"), answered("Kept, Ada.")],
    "task-0-3": [said("We met Mimi Solberg in Tromso"), answered("Nice.", step=2), said("The boat is green now")],
    "task-0-4": [said("Tromso is dark in winter, and full of reindeer"), answered("Take a lamp.")],
    "task-0-5": [said("我上周在里斯本收养了一只猫，叫米米。"), answered("记住了。")],
}


async def taught(vectors: Vectors) -> MemorySearch:
    for task, messages in TASKS.items():
        await remember(vectors, "acme", task, messages)
    await remember(vectors, "other", "task-0-9", [said("Our cat is called Tom")])
    return MemorySearch(vectors, HashingEmbedder())


@pytest.fixture(params=["embedded", "client"])
async def vectors(request: Any, tmp_path: Path) -> AsyncIterator[Vectors]:
    made = EdgeVectors(tmp_path / "vectors") if request.param == "embedded" else QdrantVectors(IN_MEMORY)
    yield made
    await made.aclose()


async def ask(memory: MemorySearch, text: str, owner: Owner = ACME, limit: int = 10) -> list[MemoryHit]:
    return await memory.search(MemoryQuestion(owner, text, limit, NOW_MS), ASKING)


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("What is my cat called?", "Remember that my cat is called Mimi."),
        ("which colour has the boat", "The boat is green now"),
        ("里斯本收养的猫叫什么？", "我上周在里斯本收养了一只猫，叫米米。"),
    ],
)
async def test_the_best_hit_says_it_and_its_anchor_opens_the_words(vectors: Vectors, question: str, words: str) -> None:
    best = (await ask(await taught(vectors), question))[0]
    assert best.payload.text == words
    anchor = anchor_of(best.payload.anchor)
    opened = expanded("acme", anchor, TASKS[anchor.task_id])
    assert (opened.focus.text, opened.focus.id) == (words, best.id)
    assert 0 < best.score <= 1
    assert {"words", "text"} <= best.parts.keys()


async def test_a_name_in_the_best_hit_leads_to_what_else_speaks_of_it(vectors: Vectors) -> None:
    hits = await ask(await taught(vectors), "What lives where we met Mimi Solberg?")
    linked = next(hit for hit in hits if "reindeer" in hit.payload.text)
    assert linked.parts["graph"] > 0
    assert hits.index(linked) < 3


async def test_what_belongs_to_others_is_never_found(vectors: Vectors) -> None:
    memory = await taught(vectors)
    ada, bob = Owner("acme", "ada"), Owner("acme", "bob")
    assert (await ask(memory, "my code swordfish", ada))[0].payload.owner == ada
    for owner in (bob, Owner("acme")):
        seen = await ask(memory, "my code swordfish", owner, MOST_FOUND)
        assert seen
        assert {hit.payload.owner for hit in seen} == {Owner("acme")}
    assert {hit.payload.owner.tenant for hit in await ask(memory, "cat called", Owner("other"), MOST_FOUND)} == {
        "other"
    }
    assert await ask(memory, "cat called", Owner("nobody")) == []


async def test_what_others_keep_changes_no_score(vectors: Vectors) -> None:
    memory = await taught(vectors)
    before = await ask(memory, "swordfish boat", Owner("acme", "bob"))
    await remember(vectors, "acme", "task-0-6", [said("swordfish " * 20, user_id="ada"), said("Boat", user_id="ada")])
    await remember(vectors, "other", "task-0-6", [said("The boat is a swordfish")])
    assert await ask(memory, "swordfish boat", Owner("acme", "bob")) == before


async def test_counts_are_of_the_whole_tenant(vectors: Vectors) -> None:
    memory = await taught(vectors)
    assert await memory.counts(Owner("acme", "bob"), ASKING) == MemoryStats(segments=11, tasks=5)
    assert await memory.counts(Owner("nobody"), ASKING) == MemoryStats(segments=0, tasks=0)


async def test_a_memory_that_was_never_written_is_empty(vectors: Vectors) -> None:
    memory = MemorySearch(vectors, HashingEmbedder())
    assert await ask(memory, "anything") == []
    assert await memory.counts(Owner("acme"), ASKING) == MemoryStats(segments=0, tasks=0)


@pytest.mark.parametrize(("text", "limit"), [("cat", 0), ("cat", MOST_FOUND + 1), ("", 5), ("?!", 5)])
async def test_questions_out_of_bounds_are_refused(vectors: Vectors, text: str, limit: int) -> None:
    with pytest.raises(MemoryRefusedError):
        await ask(await taught(vectors), text, limit=limit)


@pytest.mark.parametrize("text", HOSTILE)
async def test_hostile_questions_are_answered_or_refused(text: str, tmp_path: Path) -> None:
    async with aclosing(EdgeVectors(tmp_path / "vectors")) as vectors:
        await remember(vectors, "acme", "task-0-1", [said("cat")])
        memory, asks = MemorySearch(vectors, HashingEmbedder()), any(map(str.isalnum, text[:MOST_CHARS]))
        with nullcontext() if asks else pytest.raises(MemoryRefusedError, match="ask something"):
            assert len(await ask(memory, text)) == 1


async def test_a_store_that_is_away_is_an_outage(vectors: Vectors) -> None:
    memory = await taught(vectors)
    await vectors.aclose()
    with pytest.raises(MemoryOutageError):
        await ask(memory, "cat")


async def test_all_stores_give_the_same_hits_scores_and_anchors(tmp_path: Path) -> None:
    """Also the one that ranks in its own process."""
    answers = []
    for vectors in (EdgeVectors(tmp_path / "here"), ChildVectors(tmp_path / "child"), QdrantVectors(IN_MEMORY)):
        memory = await taught(vectors)
        questions = ("What is my cat called?", "Where did we meet Mimi Solberg?", "猫叫什么？", "swordfish")
        answers.append([await ask(memory, question, Owner("acme", "ada")) for question in questions])
        await vectors.aclose()
    assert answers[0] == answers[1] == answers[2]
    assert all(answers[0])


async def test_the_same_words_of_an_owner_are_one_hit_with_all_anchors_and_nothing_merges_across_owners(
    vectors: Vectors,
) -> None:
    ada, bob = Owner("acme", "ada"), Owner("acme", "bob")
    written = ["My cat is called Ada.", "my cat is called Ada!", "My  cat is called ADA"]
    for number, text in enumerate(written):
        at = f"2030-01-0{number + 1}T12:00:00.000Z"
        await remember(vectors, "acme", f"task-0-{number}", [said(text, user_id="ada", at=at)])
    for owner in ("bob", None):
        await remember(vectors, "acme", f"task-0-of-{owner}", [said(written[0], user_id=owner)])
    await remember(vectors, "acme", "task-0-not", [said("My cat is not called Ada.", user_id="ada")])
    memory = MemorySearch(vectors, HashingEmbedder())
    hits = await ask(memory, "what is my cat called?", ada)
    assert sorted(hit.payload.owner.user or "" for hit in hits) == ["", "ada", "ada"]
    [merged] = [hit for hit in hits if hit.also]
    tasks = [anchor_of(anchor).task_id for anchor in (merged.payload.anchor, *merged.also)]
    assert (sorted(tasks), merged.payload.owner) == (["task-0-0", "task-0-1", "task-0-2"], ada)
    assert tasks[1:] == sorted(tasks[1:], reverse=True), "the newest first"
    assert [hit.payload.owner.user for hit in await ask(memory, "what is my cat called?", bob) if hit.also] == []
    assert len(await ask(memory, "what is my cat called?", ada, limit=2)) == 2


async def test_a_thing_that_was_said_anew_seconds_later_is_found_as_it_is_now_first(vectors: Vectors) -> None:
    memory = await taught(vectors)
    older, newer = "My locker code is 4711.", "My locker code is 9302 now."
    for task, text, second in (("task-0-7", older, "01"), ("task-0-8", newer, "09")):
        at = f"2030-01-01T12:00:{second}.000Z"
        await remember(vectors, "acme", task, [said(text, at=at), answered("Kept.") | {"at": at}])
    hits = await ask(memory, "What is my locker code?")
    assert [hit.payload.text for hit in hits[:2]] == [newer, older]
    assert hits[0].parts["newer"] > 0, "it was found less well"
