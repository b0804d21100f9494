"""Facts that people state are found by a model or by rule: never by both, and never by none."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pentad.contracts.commands import WakeUp
from pentad.contracts.streams import ARCHIVE, LEARN
from pentad.services.archiver.ended_tasks import EndedTasks
from pentad.services.archiver.extraction_model import ExtractionModel
from pentad.services.archiver.handlers import NO_MODEL, Archiving
from pentad.services.archiver.learning import Learning
from pentad.services.archiver.near_nodes import NearNodes
from pentad.shared.embedder.embedder import HashingEmbedder
from pentad.shared.graph.knowledge import NodeKind
from pentad.shared.keys import TaskKeys
from pentad.shared.models.offline.model import OfflineModel
from pentad.shared.models.ports import ChatModel
from pentad.shared.store.store import Store
from pentad.shared.work.entry import Entry
from tests.integration.memory.learned import extraction_model
from tests.integration.memory.remembered import TASK, end
from tests.integration.memory.test_extracting_together import Archive, facts, model, question_in

CAT, BOSS = "My cat is called Mimi.", "My boss is called Olav Hagen."
OFFLINE = OfflineModel()


class Life(Archive):
    """One task that ends, is learned from, archived and extracted from, each time with another model there."""

    async def end(self, *said: str) -> None:
        """The task ends after this; what it had said before is said."""
        await self.store.call("DEL", TASK.log, TASK.header)
        await end(self.store, [("user", text, "ada") for text in said], goal="g", user="ada")

    async def learn(self, chat: ChatModel | None, keys: TaskKeys = TASK) -> None:
        ended = EndedTasks(self.store, self.records, self.vectors)
        near = NearNodes(self.vectors, HashingEmbedder(), self.graph)
        learning = Learning(ended, self.graph, near, self._model(chat))
        await learning.handle(Entry(LEARN.key(0), "1-1", WakeUp(actor=keys.actor).to_json()))

    async def leave_redis(self, chat: ChatModel | None) -> None:
        entry = Entry(ARCHIVE.key(0), "1-1", WakeUp(actor=TASK.actor).to_json())
        await Archiving(self.store, self.records, 0, 60, self._model(chat)).handle(entry)

    async def found(self) -> list[str]:
        return await self.texts(kind=NodeKind.FACT)

    def _model(self, chat: ChatModel | None) -> ExtractionModel | None:
        return None if chat is None else extraction_model(self.store, chat)


@pytest.fixture
async def life(store: Store, tmp_path: Path) -> AsyncIterator[Life]:
    made = Life(store, tmp_path)
    yield made
    await made.aclose()


@pytest.mark.parametrize("chat", [OFFLINE, None])
async def test_without_a_model_they_are_known_at_the_tasks_end(life: Life, chat: ChatModel | None) -> None:
    await life.end(CAT)
    await life.learn(chat)
    assert await life.found() == [CAT]
    await life.leave_redis(chat)
    assert await life.extract(life.archiver(None), TASK) == [None]
    assert await life.found() == [CAT]
    assert (await life.answer(TASK))["problem"] == NO_MODEL


async def test_with_a_model_they_are_left_to_it(life: Life) -> None:
    await life.end(CAT)
    async with model() as (server, chat):
        await life.learn(chat)
        assert await life.found() == []
        await life.leave_redis(chat)
        assert await life.extract(life.archiver(chat), TASK) == [None]
        assert await life.found() == facts(CAT)
        await life.learn(chat)
        await life.learn(None)
    assert await life.found() == facts(CAT), "who learns late, and without a model, goes by the record"
    assert len(server.seen.chats) == 1


@pytest.mark.parametrize("gone", ["before the archive", "after it"])
async def test_a_model_that_is_gone_when_it_is_to_be_asked_leaves_them_to_the_rule(life: Life, gone: str) -> None:
    await life.end(CAT)
    async with model() as (server, chat):
        await life.learn(chat)
        await life.leave_redis(OFFLINE if gone == "before the archive" else chat)
        assert await life.extract(life.archiver(None), TASK) == [None]
        assert await life.found() == [CAT]
        assert await life.extract(life.archiver(chat), TASK) == [None]
    assert (await life.found(), server.seen.chats) == ([CAT], []), "what was decided stays"


async def test_a_model_that_comes_after_the_rule_says_nothing_twice(life: Life) -> None:
    await life.end(CAT)
    await life.learn(OFFLINE)
    await life.end(CAT, BOSS)
    async with model() as (server, chat):
        await life.learn(chat)
        await life.leave_redis(chat)
        for _ in range(2):
            assert await life.extract(life.archiver(chat), TASK) == [None]
    assert len(server.seen.chats) == 1
    assert await life.found() == sorted([CAT, *facts(BOSS)])
    assert (await life.graph.tally("acme")).edges >= 1, "what the model joins it joins to the rule's fact"
    [edge] = [each for each in await life.graph.edge_page("acme", 100) if each.type.value == "related_to"]
    nodes = {node.id: node.text for node in await life.graph.node_page("acme", 100)}
    assert {nodes[edge.source], nodes[edge.target]} == {CAT, *facts(BOSS)}


async def test_what_the_model_was_not_shown_is_found_by_rule(life: Life) -> None:
    many = [f"So it goes, {n} and {'so ' * 100}." for n in range(79)]
    await life.end(*many, CAT)
    async with model() as (server, chat):
        await life.learn(chat)
        await life.leave_redis(chat)
        assert await life.extract(life.archiver(chat), TASK) == [None]
    assert all(CAT not in json_of for json_of in map(str, map(question_in, server.seen.chats)))
    assert CAT in await life.found()


async def test_a_rebuild_finds_the_same_facts_by_the_same(store: Store, tmp_path: Path) -> None:
    async def rebuilt(name: str, chat: Any) -> list[str]:
        life = Life(store, tmp_path / name)
        await life.end(CAT)
        await life.learn(OFFLINE)
        await life.end(CAT, BOSS)
        await life.learn(chat)
        await life.leave_redis(chat)
        archiver = life.archiver(chat)
        await life.extract(archiver, TASK)
        before = await life.found()
        await life.graph.forget_tenant("acme")
        await archiver._learning.rebuild(TASK)
        await archiver.rebuild(TASK)
        after = await life.found()
        await life.aclose()
        assert after == before
        return after

    async with model() as (_, chat):
        assert await rebuilt("model", chat) == sorted([CAT, *facts(BOSS)])
    assert await rebuilt("offline", OFFLINE) == sorted([CAT, BOSS])


async def test_a_rebuild_before_the_model_was_asked_doubles_nothing(life: Life) -> None:
    await life.end(CAT)
    async with model() as (_, chat):
        await life.learn(chat)
        await life.leave_redis(chat)
        archiver = life.archiver(chat)
        await archiver._learning.rebuild(TASK)
        assert await life.found() == [CAT]
        assert await life.extract(archiver, TASK) == [None]
    assert await life.found() == [CAT]


async def test_a_late_writer_of_the_record_without_a_model_does_not_take_the_answer_away(life: Life) -> None:
    await life.end(CAT)
    async with model() as (_, chat):
        await life.learn(chat)
        await life.leave_redis(chat)
        late = await life.records.read("acme", TASK.task)
        await life.extract(life.archiver(chat), TASK)
    assert late is not None
    await life.records.write(late.model_copy(update={"extraction": {"problem": NO_MODEL}}))
    assert "value" in await life.answer(TASK)


async def test_forgotten_facts_stay_forgotten_though_no_model_has_said_them(life: Life) -> None:
    await life.end(CAT)
    await life.learn(OFFLINE)
    [node] = [each for each in await life.graph.node_page("acme", 100) if each.text == CAT]
    from pentad.shared.memory.forgetting import Forgetter

    await Forgetter(life.store, life.vectors, life.graph, 1).nodes("acme", [node])
    await life.leave_redis(OFFLINE)
    assert await life.extract(life.archiver(None), TASK) == [None]
    assert await life.found() == []
