"""A model forgets its user's own memories and no others, whatever it has read and whatever it writes."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pentad.contracts.tools import MEMORY_FORGET, Effect, ToolOutcome
from pentad.services.archiver.near_nodes import NearNodes
from pentad.services.tool_worker.builtins.catalogue import Builtins
from pentad.services.tool_worker.builtins.memory_forget import OwnMemories, forgetting_tool
from pentad.services.tool_worker.sources import ToolInvocation
from pentad.shared.embedder.embedder import HashingEmbedder
from pentad.shared.graph.knowledge import MemoryNode, NodeKind, Support
from pentad.shared.graph.merging import node_id
from pentad.shared.graph.sqlite_graph import SqliteGraph
from pentad.shared.keys import TaskKeys
from pentad.shared.memory.forgetting import Forgetter
from pentad.shared.memory.points import NODE_KIND, SEGMENT_KIND
from pentad.shared.memory.points import cut_task as cut
from pentad.shared.owners import Owner
from pentad.shared.plugins.context import ToolContext
from pentad.shared.segments.anchors import anchor_text
from pentad.shared.store.store import Store
from pentad.shared.vectors.edge_vectors import EdgeVectors
from tests.integration.memory.remembered import everything
from tests.support.remembering import remember
from tests.unit.segments.transcripts import HOSTILE, said

CAT = "my cat is called Ada"
TASKS = {
    "task-0-1": [said(CAT, user_id="ada"), said("the boat is green", user_id="bob")],
    "task-0-2": [said("My cat is called ADA.", user_id="ada"), said(CAT, user_id="bob"), said(CAT)],
    "task-0-3": [said("my cat is not called Ada", user_id="ada"), said("the ferry is blue")],
}


class Worker:
    """The tool over a memory of three tasks in session s1, and a fact that rests on the first words of one."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.vectors, self.graph = EdgeVectors(folder / "vectors"), SqliteGraph(folder / "graph.db")
        own = OwnMemories(self.vectors, Forgetter(store, self.vectors, self.graph, 1))
        self.tool = forgetting_tool(own)
        self._tools = Builtins({MEMORY_FORGET: self.tool}, quick=False)

    async def forget(self, user: str | None, session: str = "s1", tenant: str = "acme", **args: Any) -> ToolOutcome:
        context = ToolContext("call-0-1", "call-0-1", 1, tenant, user, session, "task-0-9")
        return await self._tools.run(ToolInvocation(MEMORY_FORGET, args, 5.0, context), lambda _text, _share: None)

    async def left(self) -> list[tuple[str | None, str]]:
        """Whose memories there are, and what they say."""
        points = [
            each.payload for each in await everything(self.vectors) if each.payload.kind in (SEGMENT_KIND, NODE_KIND)
        ]
        return sorted(((each.owner.user, each.text) for each in points), key=str)


def anchor(task: str, place: int) -> str:
    return anchor_text(cut("acme", task, "s1", TASKS[task]).segments[place].anchor)


@pytest.fixture
async def worker(store: Store, tmp_path: Path) -> AsyncIterator[Worker]:
    made = Worker(store, tmp_path)
    for task, messages in TASKS.items():
        await remember(made.vectors, "acme", task, messages)
    ada = Owner("acme", "ada")
    fact = node_id(ada, NodeKind.FACT, CAT)
    node = MemoryNode(fact, ada, NodeKind.FACT, CAT, 0.7, 1, (Support(anchor("task-0-1", 0), "task-0-1", "ada", 1),))
    await made.graph.upsert_nodes([node])
    await NearNodes(made.vectors, HashingEmbedder(), made.graph).write_points(
        TaskKeys(0, "acme", "task-0-1"), "s1", [node]
    )
    yield made
    await made.vectors.aclose()
    await made.graph.aclose()


async def test_it_goes_wherever_its_user_has_said_the_same_and_nowhere_else(worker: Worker) -> None:
    before = await worker.left()
    done = await worker.forget("ada", anchor=anchor("task-0-2", 0))
    assert (done.kind, done.text.startswith("Forgotten, in 3 places")) == ("ok", True)
    mine = [("ada", CAT), ("ada", CAT), ("ada", "My cat is called ADA.")]
    assert await worker.left() == [each for each in before if each not in mine]
    assert (await worker.graph.tally("acme")).nodes == 0
    again = await worker.forget("ada", anchor=anchor("task-0-2", 0))
    assert (again.kind, again.text) == ("ok", "It is forgotten already."), "a call that is made again has been made"


@pytest.mark.parametrize(
    ("user", "session", "tenant"),
    [("bob", "s1", "acme"), (None, "s1", "acme"), ("ada", "s1", "another"), ("eve", "s1", "acme")],
)
async def test_nobody_forgets_what_is_another_users(
    worker: Worker, user: str | None, session: str, tenant: str
) -> None:
    before = await worker.left()
    refused = await worker.forget(user, session, tenant, anchor=anchor("task-0-1", 0))
    assert (refused.kind, "no memory of this user" in refused.text) == ("error", True)
    assert await worker.left() == before


async def test_what_all_share_goes_only_from_the_conversation_in_which_nobody_in_particular_said_it(
    worker: Worker,
) -> None:
    before, shared = await worker.left(), anchor("task-0-3", 1)
    for user, session in (("ada", "s1"), (None, "s2")):
        assert (await worker.forget(user, session, anchor=shared)).kind == "error"
    assert await worker.left() == before
    assert (await worker.forget(None, "s1", anchor=shared)).kind == "ok"
    assert await worker.left() == [each for each in before if each != (None, "the ferry is blue")]


async def test_no_argument_makes_it_anothers_and_it_may_be_tried_again(worker: Worker) -> None:
    for more in ({"user_id": "ada"}, {"context": {"user_id": "ada"}}, {"tenant_id": "acme"}, {"anchors": ["a"]}):
        outcome = await worker.forget("bob", anchor=anchor("task-0-1", 0), **more)
        assert (outcome.kind, "unknown" in outcome.text) == ("error", True)
    assert worker.tool.spec.effect is Effect.IDEMPOTENT
    assert set(worker.tool.spec.parameters["properties"]) == {"anchor"}


@pytest.mark.parametrize("text", [*HOSTILE, "a1." + "A" * 600, "*", "a1.*", "task-0-1"])
async def test_what_is_no_anchor_forgets_nothing(worker: Worker, text: str) -> None:
    before = await worker.left()
    assert (await worker.forget("ada", anchor=text)).kind == "error"
    assert await worker.left() == before
