"""A person moves a message to another task: wholly or not at all, and what remains is well-formed for a model."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import from_json

from pentad.contracts.commands import WakeUp
from pentad.contracts.instructions import Instruction
from pentad.contracts.records import TaskRecord
from pentad.contracts.streams import ARCHIVE, SESSION_WAKE, TASK_WAKE
from pentad.services.archiver.handlers import record_of
from pentad.services.gateway.domain.move import MoveRequest
from pentad.services.gateway.edge.problems import ProblemError
from pentad.services.gateway.tasks.message_moves import MessageMoves
from pentad.services.gateway.tasks.queries import Queries
from pentad.shared.actors.headers import pairs, task_header
from pentad.shared.actors.session_header import session_header
from pentad.shared.actors.sessions import last_turns
from pentad.shared.digests.task_digest import digest_of
from pentad.shared.digests.wording import words_of
from pentad.shared.errors import OutageError
from pentad.shared.keys import TaskKeys, load
from pentad.shared.models.ports import ChatRequest
from pentad.shared.store.store import Store
from pentad.shared.work.entry import Entry
from tests.integration.handlers.cut import Cut
from tests.integration.handlers.flow import SESSION, Flow, answer
from tests.support.rebuilding import prompts_of
from tests.support.waiting import in_time

ECHO = ("echo", '{"text":"x"}')


def script(request: ChatRequest) -> Any:
    """Calls the tool for "call" and "twice", else says which messages it was asked with."""
    last = from_json(request.messages[-1])
    if last["role"] == "user" and last["content"] in ("call", "twice"):
        return answer("", *([ECHO] if last["content"] == "call" else [ECHO, ECHO]))
    said = [from_json(raw) for raw in request.messages[1:]]
    return answer("to " + " ".join(m["content"] for m in said if m["role"] == "user"))


class Mover:
    """A session with tasks, and a person who moves messages between them."""

    def __init__(self, flow: Flow) -> None:
        self.flow, self.store = flow, flow.store
        self.queries = Queries(flow.store, flow.records, 1)
        self.moving = MessageMoves(flow.store, self.queries)
        self.tools = flow._served[2]

    async def move(self, message: str, task: str, to: str = "new") -> None:
        await self.moving.move("default", task, MoveRequest(message, to))

    async def refused(self, message: str, task: str, to: str = "new") -> str:
        with pytest.raises(ProblemError) as refused:
            await self.move(message, task, to)
        return f"{refused.value.status} {refused.value.detail}"

    async def say(self, *contents: str, **fields: Any) -> None:
        """Say each and wait for its turn's end."""
        for content in contents:
            await self.flow.say(content, **fields)
            await self.flow.drive()

    async def two_tasks(self, one: str, other: str) -> list[str]:
        """Two tasks with a message each; the other one begins after the grace time of the first."""
        await self.say(one)
        await self.store.call("HSET", TaskKeys(0, "default", (await self.tasks())[0]).header, "ended_at", 1)
        await self.say(other)
        return await self.tasks()

    async def tasks(self) -> list[str]:
        """The tasks' ids in the order of their beginning."""
        found = await told(self.store, "task_start")
        return list(dict.fromkeys(event["task_id"] for event in found))

    async def header(self, task: str) -> dict[str, bytes]:
        return pairs(await self.store.call("HGETALL", TaskKeys(0, "default", task).header))

    async def status(self, task: str) -> str:
        header = await self.header(task)
        return f"{header['status'].decode()} {header.get('reason', b'').decode()}"

    async def transcript(self, task: str) -> list[str]:
        """Who said what: tools by their result, the model by its text or calls, exclusions by their positions."""
        messages = await self.queries.transcript("default", task) or []
        return [
            f"{m['role']}: {m.get('content') or m.get('positions') or len(m.get('tool_calls', ()))}" for m in messages
        ]

    async def record(self, task: str) -> TaskRecord:
        """What the archiver would write of it now."""
        keys = TaskKeys(0, "default", task)
        now, raw, log, steps, big = await self.store.run("whole", [keys.header, keys.log, keys.steps, keys.big], [])
        header = task_header("default", task, pairs(raw))
        assert header is not None
        return record_of(header, log, steps, pairs(big), now)


async def told(store: Store, *kinds: str) -> list[dict[str, Any]]:
    found = [from_json(fields[1]) for _, fields in await store.call("XRANGE", SESSION.events, "-", "+")]
    return [event for event in found if event["type"] in kinds]


async def prepared(store: Store, folder: Path, model: Callable[[ChatRequest], Any] = script, **settings: Any) -> Mover:
    return Mover(await Flow(store, folder, model, **settings).prepare())


async def check_prompts(mover: Mover, task: str) -> list[list[str]]:
    """Every step's prompt is rebuilt from the record alone, to the same digest; returns their contents."""
    rebuilt = prompts_of(await mover.record(task))
    return [[m["content"] for m in p.messages[1:]] for p in rebuilt]


async def test_a_moved_message_is_answered_by_the_other_task_and_leaves_the_first_with_its_answer(
    store: Store, tmp_path: Path
) -> None:
    mover = await prepared(store, tmp_path)
    await mover.say("weather", "pasta", "and tomorrow")
    (first,) = await mover.tasks()
    await mover.move("u2", first)
    await mover.flow.drive()
    _, second = await mover.tasks()
    (moved,) = await told(store, "message_moved")
    assert (moved["message_id"], moved["from_task_id"], moved["to_task_id"]) == ("u2", first, second)
    assert (moved["task_id"], moved["correlation_id"], moved["emptied"]) == (first, "u2", False)
    assert (moved["effects"], moved["later_steps"]) == ([], [3])
    assert await mover.status(first) == "completed answered"
    assert (await mover.transcript(second))[-2:] == ["user: pasta", "assistant: to weather pasta"]
    *_, message = await told(store, "message")
    assert (message["task_id"], message["correlation_id"]) == (second, "u2")
    await mover.say("then", task_id=first)
    assert (await mover.transcript(first))[-3:] == [
        "exclusion: [2, 3]", "user: then", "assistant: to weather and tomorrow then"
    ]  # fmt: skip
    assert (await check_prompts(mover, first))[-2:] == [
        ["weather", "to weather", "pasta", "to weather pasta", "and tomorrow"],
        ["weather", "to weather", "and tomorrow", "to weather pasta and tomorrow", "then"],
    ]
    assert await store.call("HGET", load(0), "mail") in (None, b"0")


async def test_a_task_that_is_left_empty_ends_cancelled_and_takes_nothing_more(store: Store, tmp_path: Path) -> None:
    mover = await prepared(store, tmp_path)
    await mover.say("weather")
    (first,) = await mover.tasks()
    await mover.move("u1", first)
    await mover.flow.drive()
    (moved,) = await told(store, "message_moved")
    assert (moved["emptied"], await mover.status(first)) == (True, "cancelled moved")
    ends = await told(store, "task_end")
    assert [end["task_id"] for end in ends] == [first, moved["to_task_id"]]  # it had ended before: one end each
    await mover.say("and now")
    *_, routed = await told(store, "message_routed")
    assert routed["task_id"] == moved["to_task_id"]


async def test_the_sessions_last_turns_and_live_tasks_follow(store: Store, tmp_path: Path) -> None:
    mover = await prepared(store, tmp_path)
    await mover.say("weather", "pasta")
    (first,) = await mover.tasks()
    await mover.move("u2", first)
    await mover.flow.once(TASK_WAKE)
    _, second = await mover.tasks()
    turns = await last_turns(store, SESSION, 10)
    assert [(t.content, t.task_id) for t in turns] == [
        ("weather", first), ("to weather", first), ("pasta", second)
    ]  # fmt: skip
    session = session_header(pairs(await store.call("HGETALL", SESSION.header)))
    assert session.recent == (second, first)
    compared = digest_of(session.digests[first])
    assert compared is not None
    assert set(compared.known) == {*words_of("weather"), *words_of("to weather")}
    assert session.answers == {}
    assert await store.call("HGET", load(0), "mail") == b"1"
    await mover.flow.drive()
    assert await store.call("HGET", load(0), "mail") == b"0"


@pytest.mark.parametrize("other", [2, 3], ids=["the message", "its answer"])
async def test_an_answer_of_the_same_millisecond_as_what_leaves_stays_among_the_last_turns(
    store: Store, tmp_path: Path, other: int
) -> None:
    mover = await prepared(store, tmp_path)
    await mover.say("weather", "pasta")
    (first,) = await mover.tasks()
    turns = await last_turns(store, SESSION, 10)
    together = turns[1].model_copy(update={"at": turns[other].at})
    await store.call("LSET", SESSION.turns, 1, together.to_json())
    await mover.move("u2", first)
    await mover.flow.once(TASK_WAKE)
    assert [t.content for t in await last_turns(store, SESSION, 10)] == ["weather", "to weather", "pasta"]


async def running(flow: Flow) -> "asyncio.Task[None]":
    """A step whose model call is under way."""
    flow.model.pause_s = 600
    asked = flow.model.asked
    keeper = asyncio.create_task(flow.keeper.run())
    step = asyncio.create_task(flow.drive())
    async with in_time():
        while flow.model.asked == asked:
            await asyncio.sleep(0)
    flow.model.pause_s = 0
    step.add_done_callback(lambda _: keeper.cancel())
    return step


@pytest.mark.parametrize("before", [(), ("weather",)], ids=["its only message", "after another"])
async def test_a_running_step_is_cut_first(store: Store, tmp_path: Path, before: tuple[str, ...]) -> None:
    mover = await prepared(store, tmp_path, pentad_lease_s=2)
    await mover.say(*before)
    await mover.flow.say("pasta")
    step = await running(mover.flow)
    (first,) = await mover.tasks()
    async with in_time():  # the model would take longer
        await mover.move(f"u{len(before) + 1}", first)
        await step
    await mover.flow.drive()
    end = [e for e in await told(store, "task_end") if e["task_id"] == first][-1]
    assert (end["status"], end["reason"]) == (("completed" if before else "cancelled"), "moved")
    assert await mover.status(first) == f"{end['status']} moved"
    _, second = await mover.tasks()
    assert (await mover.transcript(second))[-1].startswith("assistant: to ")
    assert len(await told(store, "task_end")) == len(await told(store, "task_start"))


async def with_open_calls(mover: Mover, *said: str, word: str = "twice") -> str:
    """A task that waits for a tool, which nobody runs; returns its id."""
    mover.flow._served.remove(mover.tools)
    await mover.say(*said)
    await mover.say(word)
    return (await mover.tasks())[0]


async def test_calls_of_the_moved_turn_are_given_up_and_leave_with_their_results(store: Store, tmp_path: Path) -> None:
    mover = await prepared(store, tmp_path)
    await mover.say("weather")
    first = await with_open_calls(mover)
    calls = [event["tool_call_id"] for event in await told(store, "tool_call")]
    await mover.move("u2", first)
    await mover.flow.once(TASK_WAKE)
    assert [e["tool_call_id"] for e in await told(store, "tool_result")] == calls
    assert (await mover.transcript(first))[-5:] == [
        "user: twice", "assistant: 2",
        "tool: error: its message was moved to another task",
        "tool: error: its message was moved to another task",
        "exclusion: [2, 3, 4, 5]",
    ]  # fmt: skip
    assert await mover.status(first) == "completed moved"
    assert await store.call("HLEN", TaskKeys(0, "default", first).calls) == 0
    await mover.say("then", task_id=first)
    assert (await check_prompts(mover, first))[-1] == ["weather", "to weather", "then"]


async def test_effects_that_happened_are_named(store: Store, tmp_path: Path) -> None:
    mover = await prepared(store, tmp_path)
    await mover.say("call")
    (first,) = await mover.tasks()
    (call,) = await told(store, "tool_call")
    key = TaskKeys(0, "default", first).log
    raw = await store.call("LINDEX", key, 1)
    await store.call("LSET", key, 1, raw.replace(b'"echo"', b'"pay"'))  # a tool that no worker knows any more
    await mover.move("u1", first)
    await mover.flow.drive()
    (moved,) = await told(store, "message_moved")
    assert moved["effects"] == [{"tool_call_id": call["tool_call_id"], "tool": "pay", "effect": "unsafe"}]


async def test_an_answer_to_several_messages_stays_for_the_others(store: Store, tmp_path: Path) -> None:
    mover = await prepared(store, tmp_path)
    await mover.flow.say("weather")
    await mover.flow.say("pasta")
    for _ in range(2):
        await mover.flow.once(SESSION_WAKE)
    await mover.flow.drive()
    first = (await mover.tasks())[0]
    await mover.move("u2", first)
    await mover.flow.drive()
    (moved,) = await told(store, "message_moved")
    assert moved["later_steps"] == [1]
    assert await mover.transcript(first) == [
        "user: weather", "user: pasta", "assistant: to weather pasta", "exclusion: [1]"
    ]  # fmt: skip


async def test_a_message_that_no_step_has_read_leaves_no_trace_in_prompts(store: Store, tmp_path: Path) -> None:
    mover = await prepared(store, tmp_path)
    first = await with_open_calls(mover, "weather", word="call")
    await mover.say("pasta", deadline="2099-01-01T00:00:00Z")
    await mover.move("u3", first)
    await mover.flow.drive()
    _, second = await mover.tasks()
    assert "user: pasta" not in await mover.transcript(first)
    header = await mover.header(first)
    assert (header["status"], header["deadline"]) == (b"active", b"0")
    assert int((await mover.header(second)).get("deadline", b"0")) == 0  # its turn has ended
    assert (await mover.transcript(second))[-1].startswith("assistant: to weather")
    assert await store.call("HGET", load(0), "mail") == b"0"
    assert [t.task_id for t in await last_turns(store, SESSION, 10) if t.message_id == "u3"] == [second]


async def test_a_turn_that_is_not_answered_goes_on_without_the_message_that_came_into_it(
    store: Store, tmp_path: Path
) -> None:
    mover = await prepared(store, tmp_path)
    router, runner, tools = mover.flow._served
    first = await with_open_calls(mover, word="call")
    await mover.say("twice")
    mover.flow._served = [tools]
    await mover.flow.once()
    mover.flow._served = [router, runner]
    await mover.flow.drive()
    assert await mover.transcript(first) == ["user: call", "assistant: 1", "tool: x", "user: twice", "assistant: 2"]
    await mover.move("u2", first)
    await mover.flow.drive()
    assert await mover.status(first) == "completed answered"
    assert (await mover.transcript(first))[-2:] == ["exclusion: [3, 4, 5, 6]", "assistant: to call"]
    assert [e["correlation_id"] for e in await told(store, "message") if e["task_id"] == first] == ["u1"]
    assert (await check_prompts(mover, first))[-1] == ["call", None, "x"]


async def test_a_turn_that_goes_on_again_has_no_tools_of_the_client_whose_message_has_left(
    store: Store, tmp_path: Path
) -> None:
    offered = list[tuple[str, bool]]()

    def noting(request: ChatRequest) -> Any:
        said = [m["content"] for m in map(from_json, request.messages) if m["role"] == "user"]
        offered.append((" ".join(said), b"get_place" in (request.tools or b"")))
        return script(request)

    mover = await prepared(store, tmp_path, noting)
    router, runner, tools = mover.flow._served
    first = await with_open_calls(mover, word="call")
    await mover.say("twice", tools=[{"name": "get_place"}])
    mover.flow._served = [tools]
    await mover.flow.once()
    mover.flow._served = [router, runner]
    await mover.flow.drive()
    assert offered == [("call", False), ("call twice", True)]
    await mover.move("u2", first)
    await mover.flow.drive()
    assert sorted(offered[2:]) == [("call", False), ("call twice", True)], "they go with their message"


async def test_to_a_task_that_has_ended_it_is_reopened(store: Store, tmp_path: Path) -> None:
    mover = await prepared(store, tmp_path)
    await mover.say("weather")
    await mover.move("u1", (await mover.tasks())[0])
    await mover.flow.drive()
    second = (await mover.tasks())[1]
    await mover.say("pasta", "rice", task_id=second)
    await mover.move("u2", second)
    await mover.flow.drive()
    third = (await mover.tasks())[2]
    await mover.move("u3", second, third)
    await mover.flow.drive()
    assert (await mover.transcript(third))[-1] == "assistant: to weather pasta rice"
    compared = digest_of(session_header(pairs(await store.call("HGETALL", SESSION.header))).digests[third])
    assert compared is not None
    assert compared.said == words_of("rice")
    assert set(words_of("pasta")) < set(compared.known)
    kinds = [e["type"] for e in await told(store, "task_start", "task_end") if e["task_id"] == third]
    assert kinds == ["task_start", "task_end"] * 2
    await mover.move("u3", third, second)  # and back
    await mover.flow.drive()
    assert (await mover.transcript(second))[-2:] == ["user: rice", "assistant: to weather rice"]
    assert await check_prompts(mover, second)


async def test_what_is_done_or_asked_already_is_asked_again_without_harm(store: Store, tmp_path: Path) -> None:
    mover = await prepared(store, tmp_path)
    await mover.say("weather", "pasta")
    (first,) = await mover.tasks()
    for _ in range(3):
        await mover.move("u2", first)
    assert await store.call("ZCARD", TaskKeys(0, "default", first).signals) == 1
    await mover.flow.drive()
    for _ in range(2):
        await mover.move("u2", first)
    await mover.flow.drive()
    assert len(await told(store, "message_moved")) == 1
    assert len(await mover.tasks()) == 2
    second = (await mover.tasks())[1]
    assert await mover.refused("u2", first, "task-0-x") == (
        f"409 message u2 is in task {first} no more: move it from task {second}"
    )
    await mover.move("u2", first, second)


async def test_what_cannot_be_moved_is_refused_with_the_reason(store: Store, tmp_path: Path) -> None:
    mover = await prepared(store, tmp_path, pentad_grace_s=0.001)
    first, other = await mover.two_tasks("weather", "other")
    assert await mover.refused("u9", first) == f"404 task {first} has no message 'u9'"
    assert await mover.refused("u1", other) == f"404 task {other} has no message 'u1'"  # it began with that
    assert await mover.refused("u1", "task-0-nope") == "404 there is no task 'task-0-nope'"
    assert await mover.refused("u1", first, first) == "409 the message is in this task already"
    assert await mover.refused("u1", first, "task-0-nope") == "404 there is no task 'task-0-nope'"
    await store.call("HSET", TaskKeys(0, "default", other).header, "session", "s2")
    assert "belongs to another session" in await mover.refused("u1", first, other)
    await store.call("HSET", TaskKeys(0, "default", other).header, "session", "s1", "status", "cancelled")
    assert "was cancelled" in await mover.refused("u1", first, other)
    await mover.flow.archiving.handle(Entry(ARCHIVE.key(0), "1-1", WakeUp(actor=f"default/{first}").to_json()))
    assert await mover.refused("u1", first) == f"409 task {first} is archived: its messages stay"
    assert "is archived" in await mover.refused("u2", other, first)
    assert await told(store, "message_moved") == []


async def test_a_task_that_goes_away_meanwhile_is_told_and_nothing_is_moved(store: Store, tmp_path: Path) -> None:
    mover = await prepared(store, tmp_path)
    await mover.say("weather", "pasta")
    (first,) = await mover.tasks()
    await mover.move("u2", first)
    await mover.flow.drive()
    second = (await mover.tasks())[1]
    await mover.move("u1", first, second)
    await store.call("HSET", TaskKeys(0, "default", second).header, "status", "cancelled")
    before = await mover.transcript(first)
    await mover.flow.drive()
    (error,) = await told(store, "error")
    assert (error["code"], error["task_id"]) == ("not_allowed", first)
    assert "was cancelled" in error["message"]
    assert await mover.transcript(first) == before


async def test_a_cancel_beside_a_move_is_obeyed_too(store: Store, tmp_path: Path) -> None:
    mover = await prepared(store, tmp_path)
    first = await with_open_calls(mover, "weather", word="call")
    await mover.flow.say("pasta")
    await mover.flow.once()
    await mover.move("u3", first)
    await mover.flow.actors.post(TaskKeys(0, "default", first), "cancel", b"{}", ("active",), control="cancel")
    await mover.flow.drive()
    assert await mover.status(first) == "cancelled cancelled"
    second = (await mover.tasks())[1]
    assert await mover.status(second) == "completed answered"


async def test_a_move_outlives_the_end_that_crosses_it(store: Store, tmp_path: Path) -> None:
    """The runner has read the mail, and ends the turn, before it sees that somebody moves its message."""
    mover = await prepared(store, tmp_path)
    await mover.flow.say("weather")
    await mover.flow.once(SESSION_WAKE)
    commit = mover.flow.actors.commit

    async def late(*args: Any) -> Any:
        mover.flow.actors.commit = commit  # type: ignore[method-assign]
        await mover.move("u1", (await mover.tasks())[0])
        return await commit(*args)

    mover.flow.actors.commit = late  # type: ignore[assignment]
    await mover.flow.drive()
    (moved,) = await told(store, "message_moved")
    assert await mover.status(moved["from_task_id"]) == "cancelled moved"
    assert await mover.status(moved["to_task_id"]) == "completed answered"


async def test_old_contexts_without_a_mark_are_nobodys_messages(store: Store, tmp_path: Path) -> None:
    mover = await prepared(store, tmp_path)
    _, second = await mover.two_tasks("weather", "pasta")
    key = TaskKeys(0, "default", second).log
    for n, raw in enumerate(await store.call("LRANGE", key, 0, -1)):
        await store.call("LSET", key, n, raw.replace(b',"origin":"context"', b""))
    assert "has no message" in await mover.refused("u1", second)
    await mover.move("u2", second)
    await mover.flow.drive()
    assert await mover.status(second) == "cancelled moved"


ACTS = 14
"""More commands than a move has, of the gateway or of the runner."""


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("state", ["answered", "open", "waiting"])
async def test_cut_off_at_any_command_it_is_done_or_not_begun(
    store: Store, tmp_path: Path, state: str, after: bool
) -> None:
    """First the request is cut off and asked again, then the runner that carries it out."""
    for at in range(1, ACTS + 1):
        await store.call("FLUSHALL")
        mover = await prepared(store, tmp_path / str(at))
        message = await _begun(mover, state)
        first = (await mover.tasks())[0]
        cut = Cut(store, at, after)
        with suppress(OutageError, ProblemError), cut:
            await mover.move(message, first)
        assert at < ACTS or not cut.done, "ACTS is too small"
        await mover.move(message, first)
        cut = Cut(store, at, after)
        with suppress(OutageError), cut:
            await mover.flow.once(TASK_WAKE)
        assert at < ACTS or not cut.done, "ACTS is too small"
        moved = bool(await told(store, "message_moved"))
        holders = [turn.task_id for turn in await last_turns(store, SESSION, 20) if turn.message_id == message]
        assert [holder != first for holder in holders] == [moved]
        mover.flow._served[2:] = [mover.tools]
        await _recovered(mover)
        assert len(await told(store, "message_moved")) == 1
        second = (await mover.tasks())[1]
        assert [t.task_id for t in await last_turns(store, SESSION, 20) if t.message_id == message] == [second]
        assert await mover.status(second) == "completed answered"
        assert len(await mover.tasks()) == 2
        assert await store.call("HGET", load(0), "mail") in (None, b"0")
        await check_prompts(mover, first)


async def _begun(mover: Mover, state: str) -> str:
    """A task with a message to be moved: answered, with open calls, or still in its mailbox."""
    if state == "answered":
        await mover.say("weather", "pasta")
        return "u2"
    await with_open_calls(mover, "weather")
    if state == "open":
        return "u2"
    await mover.flow.say("pasta")
    await mover.flow.once()
    return "u3"


async def _recovered(mover: Mover) -> None:
    """Another runner takes over what the one that was cut off has left pending."""
    key, group = TASK_WAKE.key(0), TASK_WAKE.group or ""
    runner = mover.flow._served[1][2]
    for _ in range(20):
        pending = await mover.store.call("XPENDING", key, group, "-", "+", 10)
        if not pending and not await mover.flow.once():
            return
        for entry, *_ in pending:
            for _, fields in await mover.store.call("XCLAIM", key, group, "flow", 0, entry):
                await runner.handle(Entry(key, entry.decode(), fields[1]))
    raise AssertionError("there is always something left to do")


async def test_messages_beyond_a_handlings_reach_are_found(store: Store, tmp_path: Path) -> None:
    mover = await prepared(store, tmp_path)
    first = await with_open_calls(mover, "weather", word="call")
    for n in range(300):
        await mover.flow.say(f"more {n}")
        await mover.flow.once(SESSION_WAKE)
    last = f"u{mover.flow._entries}"
    await mover.move(last, first)
    await mover.flow.once(TASK_WAKE)
    (moved,) = await told(store, "message_moved")
    assert moved["message_id"] == last
    assert await store.call("ZCARD", TaskKeys(0, "default", first).messages) == 299


async def test_what_a_moved_message_leaves_unanswered_is_not_the_new_tasks_to_do(store: Store, tmp_path: Path) -> None:
    mover = await prepared(store, tmp_path)
    mover.flow._served.remove(mover.tools)  # the first task's call stays open
    await mover.say("call")
    (first,) = await mover.tasks()
    await mover.flow.say("hello", task_id=first, message_id="m-hello")
    await mover.flow.drive()
    await mover.move("m-hello", first)
    await mover.flow.drive()
    _, second = await mover.tasks()
    assert await mover.transcript(second) == [
        "user: call", "assistant: [Another task has been given this.]", "user: hello", "assistant: to call hello"
    ]  # fmt: skip


async def test_a_new_task_runs_the_version_that_the_message_was_said_to_although_its_instruction_was_deleted(
    store: Store, tmp_path: Path
) -> None:
    asked: list[str] = []

    def poem(request: ChatRequest) -> Any:
        asked.append(from_json(request.messages[0])["content"])
        return answer("a poem")

    poet = Instruction(name="poet", system_prompt="Rhyme.")
    there = Mover(await Flow(store, tmp_path, poem, instructions=[poet]).prepare())
    await there.say("one", "two", instruction="poet")
    del there.flow.instructions["poet"]
    [task] = await there.tasks()
    await there.move("u2", task)
    await there.flow.drive()
    assert len(await there.tasks()) == 2
    assert [prompt.partition("\n")[0] for prompt in asked] == ["Rhyme."] * 3
