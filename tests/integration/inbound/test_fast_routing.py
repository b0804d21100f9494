"""A message that comes to a session with nothing to do is routed where it enters; every other one is posted."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from pentad.contracts.commands import InboundMessage
from pentad.services.router.fast_routing import FastRouting
from pentad.shared.actors.actors import Actors
from pentad.shared.actors.headers import pairs
from pentad.shared.actors.session_header import session_header
from pentad.shared.errors import OutageError
from pentad.shared.inbound.arrival import message_digest
from pentad.shared.inbound.fast_path import Source
from pentad.shared.keys import SessionKeys, TaskKeys, dedup, load, session_index
from pentad.shared.records.record_store import Records
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store
from tests.support.message_router import message_router_of

SESSION = SessionKeys(0, "default", "s1")
SETTINGS = Settings(pentad_grace_s=60)
LIMIT = 5
Touch = Callable[[Store], Awaitable[Any]]


async def live_task(store: Store) -> TaskKeys:
    """The session's live task that was spoken to last."""
    live, *_ = session_header(pairs(await store.call("HGETALL", SESSION.header))).recent
    return TaskKeys(0, "default", live)


class Entering:
    """The way in of one session's messages."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store = store
        self.message_router = message_router_of(store, Records(str(folder)), SETTINGS)
        self.fast_path = FastRouting(Actors(store, "router", 1000), self.message_router, LIMIT)
        self.meanwhile: Touch | None = None
        """Set: the questions are asked ahead, and this happens before the answers are used."""
        self._entries = 0

    async def say(self, content: str = "hi", entry: str = "", on: int | None = None, **fields: object) -> int | None:
        """One message; what `FastRouting.route` returns."""
        self._entries += 1
        entry = entry or f"{self._entries}-1"
        message = InboundMessage.model_validate({"content": content, "session_id": "s1", "message_id": entry} | fields)
        answers = None
        if self.meanwhile is not None:
            answers = await self.store.answers(self.fast_path.questions(SESSION))
            await self.meanwhile(self.store)
        source = Source("", self.store.connection if on is None else on, await self.store.clock(), answers)
        return await self.fast_path.route(SESSION, message, entry, source)

    async def task(self) -> TaskKeys:
        """The session's live task."""
        return await live_task(self.store)

    async def decisions(self) -> list[str]:
        """What clients were told, in order."""
        told = [fields[1] for _, fields in await self.store.call("XRANGE", SESSION.events, "-", "+")]
        return [d for event in told for d in ("new", "append", "reopen") if f'"decision":"{d}"'.encode() in event]


@pytest.fixture
async def entering(store: Store, tmp_path: Path) -> Entering:
    await store.call("PING")
    return Entering(store, tmp_path)


async def test_it_is_routed_without_a_mailbox_a_wake_up_or_a_lease(entering: Entering, store: Store) -> None:
    assert await entering.say() == 1
    task = await entering.task()
    assert await store.call("EXISTS", SESSION.messages, SESSION.wake) == 0
    assert await store.call("ZCARD", task.messages) == 1
    assert await store.call("XLEN", task.wake) == 1
    assert await store.call("HGET", load(0), "mail") == b"1"
    assert await store.call("HMGET", SESSION.header, "last_in", "v", "wake") == [b"1-1", b"1", b""]
    assert (
        await store.call("GET", dedup(0, "default", "s1", "1-1"))
        == f"1-1 {message_digest(InboundMessage(content='hi'))}".encode()
    )
    assert await store.call("ZRANGE", session_index(0, "default"), 0, -1) == [b"s1"]
    for key in (SESSION.header, SESSION.turns, session_index(0, "default")):
        assert 0 < await store.call("TTL", key) <= SETTINGS.session_ttl_s
    assert await entering.decisions() == ["new"]


async def test_what_follows_goes_where_the_same_decision_sends_it(entering: Entering, store: Store) -> None:
    await entering.say()
    assert await entering.say() == 2
    task = await entering.task()
    await store.call("HSET", task.header, "status", "completed", "ended_at", await store.clock())
    assert await entering.say() == 3
    await store.call("HSET", task.header, "status", "failed")
    assert await entering.say() == 4
    assert await entering.decisions() == ["new", "append", "reopen", "new"]
    assert await entering.task() != task


async def test_another_router_knows_the_sessions_tasks_too(entering: Entering, store: Store, tmp_path: Path) -> None:
    await entering.say()
    other = Entering(store, tmp_path)
    other._entries = 1
    assert await other.say() == 2
    assert await entering.decisions() == ["new", "append"]


async def wait_here(store: Store) -> None:
    await store.call("HSET", SESSION.header, "wake", "1-1")


async def fill(store: Store) -> None:
    await store.call("HSET", load(0), "mail", LIMIT)


async def nothing(store: Store) -> None:
    pass


@pytest.mark.parametrize(
    ("touch", "fields"),
    [
        (wait_here, {}),
        (fill, {}),
        (nothing, {"task_id": "task-0-aaaaaaaaaaaaaaaaaaaa"}),
        (nothing, {"instruction": "unheard-of"}),
        (nothing, {"entry": "1-1"}),
        (nothing, {"entry": "0-9", "message_id": "other"}),
        (nothing, {"message_id": "1-1"}),
        (nothing, {"message_id": "1-1", "content": "another text"}),
    ],
    ids=[
        "mail waits",
        "shard full",
        "names a task",
        "refused",
        "moved before",
        "older",
        "said before",
        "another text under an id",
    ],
)
async def test_every_rarer_case_is_posted_and_nothing_is_written(
    entering: Entering, store: Store, touch: Touch, fields: dict[str, Any]
) -> None:
    await entering.say()
    await touch(store)
    before = await snapshot(store)
    assert await entering.say(**fields) is None
    assert {**before, b"last_in": b""} == {**await snapshot(store), b"last_in": b""}


async def snapshot(store: Store) -> dict[bytes, Any]:
    """All that could have been written."""
    header = await store.call("HGETALL", SESSION.header)
    found = dict(zip(header[::2], header[1::2], strict=True))
    task = await live_task(store)
    found[b"counts"] = [
        await store.call("XLEN", SESSION.events),
        await store.call("ZCARD", task.messages),
        await store.call("HGET", load(0), "mail"),
        await store.call("KEYS", "pentad:{0}:task:*"),
    ]
    return found


async def somebody_decides(store: Store) -> None:
    await store.call("HINCRBY", SESSION.header, "v", 1)


async def the_task_ends(store: Store) -> None:
    await store.call("HSET", (await live_task(store)).header, "status", "completed")


async def it_is_moved(store: Store) -> None:
    await store.call("HSET", SESSION.header, "last_in", "2-1", "in_gen", "")


@pytest.mark.parametrize("meanwhile", [wait_here, somebody_decides, the_task_ends, it_is_moved])
async def test_what_changes_between_the_look_and_the_commit_refuses_it(
    entering: Entering, store: Store, meanwhile: Touch, monkeypatch: pytest.MonkeyPatch
) -> None:
    await entering.say()
    write = entering.message_router.write

    async def late(*given: Any) -> str:
        task = await write(*given)
        await meanwhile(store)
        return task

    monkeypatch.setattr(entering.message_router, "write", late)
    assert await entering.say() is None
    assert await entering.decisions() == ["new"]
    assert await store.call("HGET", load(0), "mail") == b"1"


@pytest.mark.parametrize("meanwhile", [wait_here, somebody_decides, the_task_ends, it_is_moved])
async def test_what_changes_after_the_questions_were_asked_ahead_refuses_it(
    entering: Entering, store: Store, meanwhile: Touch
) -> None:
    await entering.say()
    entering.meanwhile = meanwhile
    assert await entering.say() is None
    assert await entering.decisions() == ["new"]
    assert await store.call("HGET", load(0), "mail") == b"1"


async def test_answers_that_were_asked_for_ahead_are_used(entering: Entering, monkeypatch: pytest.MonkeyPatch) -> None:
    entering.meanwhile = nothing
    assert await entering.say() == 1
    assert await entering.say() == 2
    assert await entering.decisions() == ["new", "append"]
    await entering.store.call("HSET", load(0), "mail", LIMIT)
    entering.meanwhile = empty  # what it would find if it asked itself
    assert await entering.say() is None


async def empty(store: Store) -> None:
    await store.call("HSET", load(0), "mail", 0)


async def test_it_goes_over_the_connection_on_which_it_was_read_or_not_at_all(entering: Entering) -> None:
    with pytest.raises(OutageError):
        await entering.say(on=entering.store.connection - 1)
    assert await entering.decisions() == []


async def test_a_decision_that_stumbles_is_left_to_the_session(
    entering: Entering, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def stumble(*given: object) -> None:
        raise ValueError("stumbled")

    monkeypatch.setattr(entering.message_router, "view", stumble)
    assert await entering.say() is None
    assert "is posted to its session" in caplog.text
