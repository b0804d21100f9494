"""What is erased is gone everywhere, whatever it had become by then, and what others said stays."""

import json

import pytest
from pydantic_core import to_json

from pentad.contracts.dead_letters import DeadLetter
from pentad.contracts.streams import DEAD, INBOUND_DEAD, SESSION_WAKE
from pentad.services.gateway.edge.problems import ProblemError
from pentad.shared.keys import SessionKeys, TaskKeys, load, places
from pentad.shared.memory.forgotten_notes import restore_notes, write_handed_over
from pentad.shared.memory.statements import STATEMENT_LABEL, statement, statement_id
from pentad.shared.owners import Owner
from pentad.shared.store.store import Store
from tests.integration.erasing.erasable import Erasable
from tests.support.graph_export import exported

AT = "2026-01-02T03:04:05.000Z"
OTHER = SessionKeys(0, "default", "s2")


@pytest.mark.parametrize("kind", ["task", "session", "user"])
@pytest.mark.parametrize("state", ["ended", "remembered", "archived"])
async def test_no_trace_is_left_and_what_others_said_stays(world: Erasable, kind: str, state: str) -> None:
    task = await world.tell("my zebra is called Ada", user_id="ada")
    other = await world.tell("my boat is green", OTHER, user_id="bob")
    await world.bring_to(state, task, other)
    before = await world.traces("boat")
    assert await world.traces("zebra")
    await world.ask(kind, task)
    await world.erase()
    assert await world.traces("zebra") == []
    assert await world.left_of(task) == []
    assert [trace for trace in await world.traces(task.task) if trace.startswith("known")] == []
    assert bool(await exported(world.graph, "default")) == (state != "ended"), "what others said is known"
    assert await world.traces("boat") == before
    await world.ask(kind, task)  # it may be asked again, and nothing happens
    await world.erase()
    assert await world.traces("boat") == before


@pytest.mark.parametrize("kind", ["session", "user"])
@pytest.mark.parametrize("state", ["ended", "remembered", "archived"])
async def test_ids_of_other_systems_are_erased_whatever_they_are_made_of(
    world: Erasable, store: Store, kind: str, state: str
) -> None:
    """Erasing finds what ids with quotes, slashes the other way, braces and letters of other scripts have left."""
    session, user = SessionKeys(0, "default", 'slack:C"01\\{1}*'), 'auth0|a"b\\c+é'
    task = await world.tell("my zebra is called Ada", session, user_id=user, message_id="m:1")
    other = await world.tell("my boat is green", SessionKeys(0, "default", "slack:C"), user_id="auth0|a")
    await world.bring_to(state, task, other)
    for said in (json.dumps({"content": "zebra", "user_id": user}), to_json({"user_id": user, "content": "zebra"})):
        written = said if isinstance(said, str) else said.decode()
        await store.call("XADD", DEAD.key(0), "*", "data", letter(DEAD.key(0), written, session_id="s").to_json())
    before = await world.traces("boat")
    await (world.erasures.session(session) if kind == "session" else world.erasures.user("default", user))
    await world.erase()
    letters = [trace for trace in await world.traces("zebra") if trace == DEAD.key(0)]
    assert await world.traces("zebra") == ([] if kind == "user" else letters)
    assert await world.left_of(task) == []
    assert await world.traces("boat") == before


@pytest.mark.parametrize("kind", ["task", "session", "user"])
async def test_a_task_that_goes_on_is_cancelled_first_or_taken_as_it_is(world: Erasable, kind: str) -> None:
    await world.flow.say("my zebra is called Ada", user_id="ada")
    await world.flow.once(SESSION_WAKE)  # routed, and waiting for a runner that does not come in time
    (name,) = await world.tasks()
    task = TaskKeys(0, "default", name)
    assert await world.store.call("HGET", load(0), "mail") == b"1"
    await world.ask(kind, task)
    await world.erase()
    assert await world.traces("zebra") == []
    assert await world.store.call("HGET", load(0), "mail") == b"0"
    assert not await world.store.call("EXISTS", places(0))
    await world.flow.drive()
    assert (await world.traces("zebra"), await world.left_of(task)) == ([], [])


async def test_the_messages_of_a_paused_task_are_parked_no_more_when_it_is_erased(world: Erasable) -> None:
    await world.flow.say("my zebra is called Ada", user_id="ada")
    await world.flow.once(SESSION_WAKE)
    (name,) = await world.tasks()
    task = TaskKeys(0, "default", name)
    await world.flow.actors.post(task, "pause", b"{}", ("active",), control="pause")
    await world.flow.drive()
    assert await world.store.call("HGET", load(0), "parked:default/s1") == b"1"
    await world.ask("task", task)
    await world.erase()
    assert await world.store.call("HGETALL", load(0)) == [b"mail", b"0"]


async def test_a_session_that_is_called_as_statements_are_takes_none_of_them_along(world: Erasable) -> None:
    session = SessionKeys(0, "default", STATEMENT_LABEL)
    said = statement(
        statement_id(0, Owner("default"), "node", "boats are green"), Owner("default"), "boats are green", AT
    )
    await world.records.write(said)
    await world.tell("my zebra is called Ada", session)
    await world.erasures.session(session)
    await world.erase()
    assert await world.traces("zebra") == []
    assert await world.records.read("default", said.task.task_id) == said


async def test_a_session_begins_afresh(world: Erasable) -> None:
    await world.tell("my zebra is called Ada")
    await world.erasures.session(SessionKeys(0, "default", "s1"))
    fresh = await world.tell("my boat is green")
    await world.erase()
    assert await world.traces("zebra") == []
    assert await world.left_of(fresh) != []
    assert any("turns" in key for key in await world.traces("boat"))


async def test_dead_letters_of_what_is_erased_go(world: Erasable, store: Store) -> None:
    task = await world.tell("my zebra is called Ada", user_id="ada")
    said = '{"content":"zebra","session_id":"s1","user_id":"ada"}'
    letters = [
        letter(DEAD.key(0), "zebra", session_id="s1", task_id=task.task),
        letter(INBOUND_DEAD.key(), said, session_id="s9"),
        letter(DEAD.key(0), "boat of another session", session_id="s2"),
    ]
    for each in letters:
        await store.call("XADD", each.stream, "*", "data", each.to_json())
    foreign = letters[0].model_copy(update={"tenant_id": "others", "body": {"data": "not ours"}})
    await store.call("XADD", DEAD.key(0), "*", "data", foreign.to_json())
    await world.erasures.user("default", "ada")
    await world.erase()
    assert await world.traces("zebra") == []
    assert [len(await store.call("XRANGE", key, "-", "+")) for key in (DEAD.key(0), INBOUND_DEAD.key())] == [2, 0]


def letter(stream: str, body: str, **whom: str) -> DeadLetter:
    """A dead letter of this tenant."""
    about = {"kind": "entry", "stream": stream, "entry_id": "1-1", "reason": "r", "attempts": 1, "at": "2030-01-31"}
    return DeadLetter.model_validate(about | {"tenant_id": "default", "body": {"data": body}} | whom)


async def test_what_a_tenant_has_not_is_not_found(world: Erasable) -> None:
    task = await world.tell("my boat is green")
    for name in ("task-0-unknown", "task-9-x", "no task", "x" * 5000):
        with pytest.raises(ProblemError, match="there is no task"):
            await world.erasures.task("default", name)
    with pytest.raises(ProblemError, match="there is no task"):
        await world.erasures.task("others", task.task)
    with pytest.raises(ProblemError, match="no such session"):
        await world.erasures.session(SessionKeys(0, "others", "s1"))
    with pytest.raises(ProblemError, match="a user id"):
        await world.erasures.user("default", "a b")
    assert await world.asked() == []


async def test_of_a_task_of_two_users_the_erased_ones_memories_go_and_stay_away(world: Erasable, store: Store) -> None:
    task = await world.tell("my zebra is called Ada", user_id="ada")
    await world.flow.say("and my boat is green", user_id="bob", task_id=task.task)
    await world.flow.drive()
    await world.remember(task)
    assert any(trace.startswith("point") for trace in await world.traces("zebra"))
    await world.erasures.user("default", "ada")
    await world.erase()
    for _ in range(2):
        assert not any(trace.startswith("point") for trace in await world.traces("zebra"))
        assert any(trace.startswith("point") for trace in await world.traces("boat"))
        await world.remember(task)


async def test_what_an_erased_user_has_said_in_a_task_that_stays_is_noted_for_longer_than_the_mark_lasts(
    world: Erasable, store: Store
) -> None:
    """A memory that is rebuilt from the record after that does not have it either."""
    task = await world.tell("my zebra is called Ada", user_id="ada")
    await world.flow.say("my boat is green", task_id=task.task, user_id="bob")
    await world.flow.drive()
    await world.bring_to("archived", task)
    await world.erasures.user("default", "ada")
    await world.erase()
    await write_handed_over(store, world.records)
    assert not [trace for trace in await world.traces("zebra") if trace.startswith("point")]
    for key in await store.call("KEYS", "*:erased"):
        await store.call("DEL", key)
    await restore_notes(world.records, world.vectors, "default", task.task)
    await world.remembering.rebuild(task)
    assert not [trace for trace in await world.traces("zebra") if trace.startswith("point")]
    assert [trace for trace in await world.traces("boat") if trace.startswith("point")]


async def test_a_user_of_many_archived_tasks_is_erased_in_batches(world: Erasable) -> None:
    task = await world.tell("my zebra is called Ada", user_id="ada")
    other = await world.tell("my boat is green", OTHER, user_id="bob")
    for each in (task, other):
        await world.archive(each)
    record, boat = await world.records.read("default", task.task), await world.traces("boat")
    assert record is not None
    for number in range(120):  # more than are read at once, and more than are erased at once
        name = f"task-0-more{number}"
        await world.records.write(record.model_copy(update={"task": record.task.model_copy(update={"task_id": name})}))
    damaged = world.folder / "records" / "default" / "task-0-damaged.json"
    damaged.write_text('{"user_id":"ada", "zebra')
    await world.erasures.user("default", "ada")
    await world.erase()
    assert await world.traces("zebra") == []
    assert await world.records.names("default") == [other.task]
    assert await world.traces("boat") == boat


async def test_a_session_of_many_live_tasks_is_erased_and_its_neighbours_are_not(world: Erasable, store: Store) -> None:
    await world.tell("my boat is green", OTHER)
    before = await world.traces("boat")
    for number in range(40):  # more than are told of, and erased, at once
        task = TaskKeys(0, "default", f"task-0-many{number}")
        await store.call("HSET", task.header, "status", "completed", "session", "s1", "created", 1)
        await store.call("RPUSH", task.log, b'{"at":""}\n{"role":"user","content":"zebra"}')
    await world.tell("the zebra")
    await world.erasures.session(SessionKeys(0, "default", "s1"))
    await world.erase()
    assert await world.traces("zebra") == []
    assert await world.traces("boat") == before
