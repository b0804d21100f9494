"""Nothing comes back: whoever is killed in the middle, whoever writes late, whatever is delivered again."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pentad.contracts.dead_letters import DeadLetter
from pentad.contracts.streams import DEAD, INBOUND, SESSION_WAKE, TASK_WAKE, TOOL_CALLS
from pentad.services.gateway.edge.problems import ProblemError
from pentad.services.gateway.operator.dead_letters import LetterName, Letters, parse_name
from pentad.services.gateway.operator.redrives import Redrives
from pentad.services.gateway.tasks.queries import Queries
from pentad.shared.errors import OutageError
from pentad.shared.keys import TaskKeys, load, places
from pentad.shared.models.ports import ChatRequest, ModelAnswer
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store
from tests.integration.erasing.erasable import Erasable
from tests.integration.handlers.cut import Cut
from tests.integration.handlers.flow import answer
from tests.support.graph_export import exported
from tests.support.slow import rarely

KINDS = pytest.mark.parametrize("kind", ["task", "session", "user"])


async def archived(world: Erasable) -> TaskKeys:
    """A task that is remembered and has a record, and a second one in Redis."""
    task = await world.tell("my zebra is called Ada", user_id="ada")
    await world.remember(task)
    await world.learn(task)
    await world.archive(task)
    return task


class Dies:
    """Lets writes of stores other than Redis be killed, before them or after them."""

    def __init__(self, world: Erasable, at: int, after: bool) -> None:
        self._left, self._after = at, after
        self._writes = [(world.vectors, "delete"), (world.records, "remove"), (world.records, "naming")]
        self._writes += [(world.graph, "forget_task"), (world.graph, "forget_user")]

    @contextmanager
    def here(self) -> Iterator[None]:
        real = [(thing, name, getattr(thing, name)) for thing, name in self._writes]
        for thing, name, write in real:
            setattr(thing, name, self._through(write))
        try:
            yield
        finally:
            for thing, name, write in real:
                setattr(thing, name, write)

    @property
    def done(self) -> bool:
        return self._left <= 0

    def _through(self, write: Callable[..., Awaitable[Any]]) -> Any:
        async def killed(*args: Any) -> Any:
            self._left -= 1
            if self._left == 0 and not self._after:
                raise OutageError("killed before")
            found = await write(*args)
            if self._left == 0:
                raise OutageError("killed after")
            return found

        return killed


@KINDS
@pytest.mark.parametrize("after", rarely([False, True], True))
async def test_killed_at_any_command_a_redelivery_completes(world: Erasable, kind: str, after: bool) -> None:
    at, done = 0, False
    while not done:
        at += 1
        await world.store.call("FLUSHDB")
        await world.flow.prepare()
        task = await archived(world)
        if kind != "task":
            await world.tell("the zebra again", user_id="ada")
        await world.ask(kind, task)
        (entry,) = await world.asked()
        cut = Cut(world.store, at, after)
        try:
            with cut:
                await world.erasing.handle(entry)
        except OutageError:
            await world.erasing.handle(entry)
        done = not cut.done
        assert await world.traces("zebra") == [], f"killed at command {at}"
    assert at > 10


@KINDS
@pytest.mark.parametrize("after", [False, True])
async def test_killed_at_any_write_of_another_store_a_redelivery_completes(
    world: Erasable, kind: str, after: bool
) -> None:
    at, done = 0, False
    while not done:
        at += 1
        task = await archived(world)
        await world.ask(kind, task)
        entry = (await world.asked())[-1]
        dies = Dies(world, at, after)
        try:
            with dies.here():
                await world.erasing.handle(entry)
        except OutageError:
            await world.erasing.handle(entry)
        done = not dies.done
        assert await world.traces("zebra") == [], f"killed at write {at}"
        assert await exported(world.graph, "default") == []
    assert at > 2


class Meanwhile:
    """Lets something happen before the n-th command of a store."""

    def __init__(self, store: Store, at: int, happens: Callable[[], Awaitable[None]]) -> None:
        self._store, self._left, self._happens = store, at, happens

    @contextmanager
    def here(self) -> Iterator[None]:
        self._real: dict[str, Any] = {"run": self._store.run, "call": self._store.call}
        for name in self._real:
            setattr(self._store, name, self._through(name))
        try:
            yield
        finally:
            self._restore()

    @property
    def done(self) -> bool:
        return self._left <= 0

    def _restore(self) -> None:
        for name, real in self._real.items():
            setattr(self._store, name, real)

    def _through(self, name: str) -> Any:
        async def command(*args: Any, **more: Any) -> Any:
            self._left -= 1
            if self._left == 0:
                self._restore()
                await self._happens()
            return await self._real[name](*args, **more)

        return command


@KINDS
@pytest.mark.parametrize("late", ["archive", "remember", "learn"])
async def test_what_an_archiver_writes_late_is_taken_back(world: Erasable, kind: str, late: str) -> None:
    """The erasing runs whole between any two commands of an archiver that has read the task before."""
    at, done = 0, False
    while not done:
        at += 1
        await world.store.call("FLUSHDB")
        await world.flow.prepare()
        task = await world.tell("my zebra is called Ada", user_id="ada")

        async def erased(task: TaskKeys = task) -> None:
            await world.ask(kind, task)
            await world.erase()

        meanwhile = Meanwhile(world.store, at, erased)
        writing = {"archive": world.archive, "remember": world.remember, "learn": world.learn}[late]
        with meanwhile.here():
            await writing(task)
        done = not meanwhile.done
        if not done:
            assert await world.traces("zebra") == [], f"erased before command {at}"
            await writing(task)  # delivered again
            assert await world.traces("zebra") == []
            assert await exported(world.graph, "default") == []
        else:
            await erased()
    assert at > 2


async def test_a_record_that_a_killed_archiver_has_left_goes_with_its_redelivery(world: Erasable) -> None:
    task = await archived(world)
    record = await world.records.read("default", task.task)
    await world.ask("task", task)
    await world.erase()
    assert record is not None
    await world.records.write(record)  # by one that was paused meanwhile, and killed before it looked
    await world.archive(task)
    assert await world.traces("zebra") == []


@pytest.mark.parametrize("kind", ["session", "user"])
async def test_a_message_that_was_accepted_before_is_dropped_and_a_later_one_is_not(
    world: Erasable, store: Store, kind: str
) -> None:
    before = (await store.call("XADD", INBOUND.key(), "*", "data", "{}")).decode()
    await world.tell("my zebra is called Ada", user_id="ada")
    await world.ask(kind, TaskKeys(0, "default", ""))
    await world.erase()
    assert await deliver(world, before, "the zebra once more", "ada") == b"old"
    later = (await store.call("XADD", INBOUND.key(), "*", "data", "{}")).decode()
    if kind == "user":
        assert await deliver(world, later, "of another", "bob", "s3") == b"new"
    assert await deliver(world, later, "afresh", "ada", "s1" if kind == "session" else "s4") == b"new"
    assert await world.traces("zebra") == []


async def deliver(world: Erasable, entry: str, content: str, user: str, session: str = "s1") -> bytes:
    """An inbound entry enters its session, as the ingress has it enter; the outcome."""
    outcomes = await world.flow.ingested(content, entry, session, user_id=user)
    return bytes(outcomes[0])


async def test_a_message_that_waits_in_a_session_goes_while_a_router_decides_on_it(
    world: Erasable, store: Store
) -> None:
    """Erased between any two commands of the router: what it was about to begin is not begun, or goes too."""
    at, done = 0, False
    while not done:
        at += 1
        await store.call("FLUSHDB")
        await world.flow.prepare()
        await world.flow.say("the zebra waits", user_id="ada")
        await world.flow.say("the boat waits", user_id="bob")

        async def erased() -> None:
            await world.ask("user", TaskKeys(0, "default", ""))
            await world.erase()

        meanwhile = Meanwhile(store, at, erased)
        with meanwhile.here():
            await world.flow.once(SESSION_WAKE)
        done = not meanwhile.done
        if not done:
            assert await world.traces("zebra") == [], f"erased before command {at}"
            assert await store.call("HGET", load(0), "mail") == b"1"
            assert await world.traces("boat") != []
    assert at > 3


async def test_a_late_result_of_a_tool_brings_nothing_back(store: Store, tmp_path: Path) -> None:
    def script(request: ChatRequest) -> ModelAnswer:
        return answer("", ("echo", '{"text":"zebra"}'))

    world = await Erasable(store, tmp_path, script).prepare()
    await world.flow.say("echo the zebra", user_id="ada")
    await world.flow.once(SESSION_WAKE)
    await world.flow.once(TASK_WAKE)
    (name,) = await world.tasks()
    task = TaskKeys(0, "default", name)
    assert await store.call("HGET", places(0), "default") == b"1"
    assert await store.call("XLEN", TOOL_CALLS.key(0, queue="default")) == 1
    await world.ask("session", task)
    await world.erase()
    assert not await store.call("EXISTS", places(0)), "its place is free again"
    await world.flow.drive()
    await store.call("XTRIM", TOOL_CALLS.key(0, queue="default"), "MAXLEN", 0)  # consumed, and cut by housekeeping
    assert await world.traces("zebra") == []
    await world.aclose()


async def test_a_redrive_that_was_begun_before_sends_nothing(world: Erasable, store: Store) -> None:
    """Erased between any two commands of it: it finds no letter, is refused, or what it has sent goes."""
    at, done, refused = 0, False, list[str]()
    while not done:
        at += 1
        name = await a_letter(world, at)

        async def erased() -> None:
            await world.ask("user", TaskKeys(0, "default", ""))
            await world.erase()

        queries = Queries(store, world.records, 1)
        letters = Letters(store, queries, 1)
        meanwhile = Meanwhile(store, at, erased)
        try:
            with meanwhile.here():
                await Redrives(store, letters, queries, Settings()).redrive(name, None)
        except ProblemError as error:
            refused.append(error.detail)
        done = not meanwhile.done
        if not done:
            assert await world.traces("zebra") == [], f"erased before command {at}"
    assert any("erased meanwhile" in detail for detail in refused)


async def a_letter(world: Erasable, number: int) -> LetterName:
    """A dead letter with a message of the user."""
    said = f'{{"content":"the zebra","session_id":"s1","message_id":"m{number}","user_id":"ada"}}'
    about = {"kind": "entry", "stream": INBOUND.key(), "entry_id": "1-1", "reason": "r", "attempts": 1, "at": "now"}
    letter = DeadLetter.model_validate(about | {"tenant_id": "default", "session_id": "s1", "body": {"data": said}})
    entry: bytes = await world.store.call("XADD", DEAD.key(0), "*", "data", letter.to_json())
    name = parse_name(f"0-{entry.decode()}")
    assert name is not None
    return name
