"""A dead letter of each kind is redriven, edited or not, and answered: once, also when it is cut off (law 8)."""

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import from_json

from pentad.contracts.commands import WakeUp
from pentad.contracts.dead_letters import DeadLetter
from pentad.contracts.ids import milliseconds
from pentad.contracts.streams import (
    ARCHIVE,
    DEAD,
    EXTRACT,
    INBOUND,
    INBOUND_DEAD,
    LEARN,
    REMEMBER,
    SESSION_WAKE,
    TASK_WAKE,
    TOOL_CALLS,
)
from pentad.services.gateway.domain.redrive import proposal
from pentad.services.gateway.edge.problems import ProblemError
from pentad.services.gateway.operator.dead_letters import LetterName, Letters, parse_name
from pentad.services.gateway.operator.redrives import Redrives
from pentad.services.gateway.tasks.queries import Queries
from pentad.services.router.handlers import RouterHandler
from pentad.services.task_runner.domain.after_answer import REDRIVEN
from pentad.services.task_runner.handlers import RunnerHandler
from pentad.shared.errors import OutageError
from pentad.shared.inbound.arrival import read_entry
from pentad.shared.inbound.ingress import RefusedEntries
from pentad.shared.keys import load, redrive_claim
from pentad.shared.models.ports import ChatRequest
from pentad.shared.store.store import Store
from pentad.shared.work.dead_letters import Failures
from pentad.shared.work.entry import Entry
from tests.integration.handlers.cut import Cut
from tests.integration.handlers.flow import SESSION, Flow, answer

ECHO = ("echo", '{"text":"x"}')
QUEUE = TOOL_CALLS.key(0, queue="default")
WORK = (EXTRACT.key(0), LEARN.key(0), REMEMBER.key(0), ARCHIVE.key(0), TASK_WAKE.key(0))


def script(request: ChatRequest) -> Any:
    """Calls the tool for "call", else answers."""
    last = request.messages[-1]
    return answer("", ECHO) if b'"user"' in last and b"call" in last else answer("done")


class Operator:
    """Who looks at dead letters and redrives them."""

    def __init__(self, flow: Flow) -> None:
        queries = Queries(flow.store, flow.records, 1)
        self.letters = Letters(flow.store, queries, 1)
        self.redriving = Redrives(flow.store, self.letters, queries, flow.settings)

    async def only(self) -> tuple[LetterName, DeadLetter]:
        """The one dead letter that there is."""
        (item,) = (await self.letters.page(10, None)).items
        name = parse_name(str(item["id"]))
        assert name is not None
        letter = await self.letters.read(name)
        assert letter is not None
        return name, letter

    async def refused(self, name: LetterName, edit: dict[str, Any] | None = None) -> str:
        """The refusal of a redrive."""
        with pytest.raises(ProblemError) as refused:
            await self.redriving.redrive(name, edit)
        return f"{refused.value.status} {refused.value.detail}"


async def told(store: Store, *kinds: str) -> list[dict[str, Any]]:
    found = [from_json(fields[1]) for _, fields in await store.call("XRANGE", SESSION.events, "-", "+")]
    return [event for event in found if event["type"] in kinds]


async def transcript(flow: Flow) -> list[str]:
    """Who said what in the one task: tools by their result, the model by its text or calls."""
    messages = await Queries(flow.store, flow.records, 1).transcript("default", (await flow.task()).task) or []
    return [f"{m['role']}: {m['content'] or len(m['tool_calls'])}" for m in messages]


async def prepared(store: Store, folder: Path, **settings: Any) -> tuple[Flow, Operator]:
    flow = await Flow(store, folder, script, **({"pentad_max_attempts": 1} | settings)).prepare()
    return flow, Operator(flow)


async def unrouted(flow: Flow) -> None:
    """A message that could not be routed."""
    await flow.store.call("HSET", SESSION.header, "done_at", "junk")
    await flow.say("hello")
    await flow.drive()
    await flow.store.call("HDEL", SESSION.header, "done_at")


async def unread_inbound(flow: Flow, fields: dict[bytes, bytes]) -> None:
    """An inbound entry that nobody can read."""
    await RefusedEntries(flow.store, flow.settings).refuse(read_entry("7-1", fields, 1))


async def broken_task(flow: Flow, said: str) -> None:
    """A task whose mail could not be handled, mended since."""
    runner = flow._served.pop(1)
    await flow.say(said)
    await flow.drive()
    task = await flow.task()
    await flow.store.call("RPUSH", task.log, "junk")
    flow._served.insert(1, runner)
    await flow.drive()
    await flow.store.call("LREM", task.log, 1, "junk")


def command_of(task: str, call: str, **fields: object) -> bytes:
    named = {"tenant_id": "default", "session_id": "s1", "task_id": task, "tool_call_id": call}
    return json.dumps(named | fields).encode()


async def test_a_message_that_was_not_routed_is_answered_under_its_own_id(store: Store, tmp_path: Path) -> None:
    flow, operator = await prepared(store, tmp_path)
    await unrouted(flow)
    name, letter = await operator.only()
    assert (letter.kind, letter.session_id, [link.id for link in letter.chain]) == ("session_mail", "s1", ["u1"])
    sent = await operator.redriving.redrive(name, None)
    assert sent == {"id": str(name), "session_id": "s1", "message_ids": ["u1"]}
    await flow.drive()
    (routed,), (message,) = await told(store, "message_routed"), await told(store, "message")
    assert (routed["message_id"], message["correlation_id"], message["content"]) == ("u1", "u1", "done")
    assert await operator.refused(name) == f"409 dead letter {name} was redriven before"
    assert await store.call("HGET", load(0), "mail") in (None, b"0")
    assert await store.call("XLEN", DEAD.key(0)) == 0


@pytest.mark.parametrize("kind", ["message", "task"])
async def test_a_letter_of_mail_says_how_often_it_was_tried(store: Store, tmp_path: Path, kind: str) -> None:
    flow, operator = await prepared(store, tmp_path, pentad_max_attempts=2)
    await (unrouted(flow) if kind == "message" else broken_task(flow, "hello"))
    _, letter = await operator.only()
    assert letter.attempts == 2


@pytest.mark.parametrize("handler", [RouterHandler, RunnerHandler])
async def test_a_letter_of_mail_says_when_it_was_set_aside(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, handler: type[Any]
) -> None:
    """Not when its actor was taken, before all attempts and the pauses between."""
    flow, operator = await prepared(store, tmp_path, pentad_max_attempts=2)
    tried = list[int]()

    async def fail(*_: object) -> None:
        tried.append(await store.clock())
        raise ValueError("no")

    monkeypatch.setattr(handler, "serve", fail)
    await flow.say("hello")
    await flow.drive()
    _, letter = await operator.only()
    assert (len(tried), milliseconds(letter.at) >= tried[-1]) == (2, True)


async def test_a_letter_of_a_tasks_mail_goes_back_to_the_message_that_it_has(store: Store, tmp_path: Path) -> None:
    flow, operator = await prepared(store, tmp_path)
    await flow.say("hello")
    await flow.drive()
    await broken_task(flow, "and this?")
    _, letter = await operator.only()
    (mail,) = [json.loads(body)["message"] for body in letter.body.values()]
    assert (mail["content"], letter.chain[0].id) == ("and this?", mail["message_id"])


async def test_an_inbound_entry_is_mended_by_an_edit(store: Store, tmp_path: Path) -> None:
    flow, operator = await prepared(store, tmp_path)
    await unread_inbound(flow, {b"data": b'{"session_id":"s1","message_id":"m7"}'})
    name, letter = await operator.only()
    assert (str(name), letter.stream, letter.session_id) == (f"inbound-{name.entry}", INBOUND.key(), "s1")
    assert await operator.refused(name) == "409 it does not fit: content: Field required. Mend it with an edit"
    edit = {"session_id": "s1", "message_id": "m7", "content": "hello"}
    await operator.redriving.redrive(name, edit)
    await flow.drive()
    (message,) = await told(store, "message")
    assert (message["correlation_id"], message["content"]) == ("m7", "done")
    assert await store.call("XLEN", INBOUND_DEAD.key()) == 0


async def test_a_tasks_messages_are_said_to_it_again(store: Store, tmp_path: Path) -> None:
    flow, operator = await prepared(store, tmp_path)
    await broken_task(flow, "hello")
    assert await flow.status() == "failed"
    name, letter = await operator.only()
    assert (letter.kind, letter.task_id) == ("task_mail", (await flow.task()).task)
    edit = {"messages": [{"content": "hello again", "task_id": letter.task_id}]}
    await operator.redriving.redrive(name, edit)
    await flow.drive()
    assert await flow.status() == "completed"
    assert (await transcript(flow))[-2:] == ["user: hello again", "assistant: done"]


async def test_a_task_that_failed_over_a_result_goes_on_where_it_stopped(store: Store, tmp_path: Path) -> None:
    flow, operator = await prepared(store, tmp_path)
    runner = flow._served[1]
    await flow.say("call")
    await flow.once()
    flow._served.remove(runner)
    await flow.drive()
    task = await flow.task()
    await store.call("RPUSH", task.log, "junk")
    flow._served.insert(1, runner)
    await flow.drive()
    await store.call("LREM", task.log, 1, "junk")
    name, letter = await operator.only()
    assert list(letter.body) == ["2 result"]
    asked = flow.model.asked
    assert await operator.redriving.redrive(name, None) == {"id": str(name), "task_id": task.task}
    await flow.drive()
    assert (await flow.status(), flow.model.asked) == ("completed", asked + 1)
    assert await transcript(flow) == ["user: call", "assistant: 1", "tool: x", "assistant: done"]
    starts = await told(store, "task_start", "task_end")
    assert [event["type"] for event in starts] == ["task_start", "task_end", "task_start", "task_end"]


async def broken_call(flow: Flow) -> str:
    """A tool call whose entry nobody can read; returns its id. Its task has gone on with the error."""
    tools = flow._served.pop(2)
    await flow.say("call")
    await flow.drive()
    (call,) = await told(flow.store, "tool_call")
    name: str = call["tool_call_id"]
    ((entry_id, _),) = await flow.store.call("XRANGE", QUEUE, "-", "+")
    await flow.store.call("XDEL", QUEUE, entry_id)
    await flow.store.call("XADD", QUEUE, "*", "data", command_of((await flow.task()).task, name))
    reply = await flow.store.call("XREADGROUP", "GROUP", TOOL_CALLS.group or "", "x", "STREAMS", QUEUE, ">")
    entry_id, fields = reply[0][1][0]
    failures = Failures(flow.store, TOOL_CALLS, QUEUE, 0, tools[2])
    await failures.set_aside(Entry(QUEUE, entry_id.decode(), fields[1]), "nobody can read it", 1)
    flow._served.append(tools)
    await flow.drive()
    return name


async def test_a_tool_call_is_made_again_and_its_task_answers(store: Store, tmp_path: Path) -> None:
    flow, operator = await prepared(store, tmp_path)
    call = await broken_call(flow)
    assert await flow.status() == "completed"
    name, letter = await operator.only()
    assert (letter.kind, letter.tool_call_id) == ("call", call)
    context = await operator.letters.context_of(letter)
    assert (context.status, context.message and context.message.content) == ("completed", "call")
    await operator.redriving.redrive(name, {"tool": "echo", "args": {"text": "y"}})
    await flow.drive()
    assert await flow.status() == "completed"
    assert (await transcript(flow))[-3:] == ["assistant: 1", "tool: y", "assistant: done"]
    assert len(await told(store, "tool_result")) == 2
    (_, again) = await told(store, "tool_call")
    assert (again["args"], again["correlation_id"]) == ({"text": "y"}, "u1")


async def test_a_call_of_an_archived_task_asks_its_turns_message_again(store: Store, tmp_path: Path) -> None:
    flow, operator = await prepared(store, tmp_path, pentad_grace_s=0)
    await broken_call(flow)
    task = await flow.task()
    await flow.archiving.handle(Entry(ARCHIVE.key(0), "1-1", WakeUp(actor=task.actor).to_json()))
    assert await store.call("EXISTS", task.header) == 0
    name, _ = await operator.only()
    assert "archived" in await operator.refused(name, {"tool": "echo", "args": {}})
    await operator.redriving.redrive(name, None)
    await flow.drive()
    *_, routed = await told(store, "message_routed")
    assert (routed["message_id"], routed["decision"]) == ("u1", "new")
    *_, message = await told(store, "message")
    assert message["content"] == "done"


async def test_a_redrive_waits_for_the_tool_calls_that_are_open(store: Store, tmp_path: Path) -> None:
    flow, operator = await prepared(store, tmp_path)
    await broken_call(flow)
    tools = flow._served.pop(2)
    await flow.say("call again")
    await flow.drive()
    name, _ = await operator.only()
    await operator.redriving.redrive(name, {"tool": "echo", "args": {"text": "y"}})
    await flow.drive()
    flow._served.append(tools)
    await flow.drive()
    assert (await transcript(flow))[-6:] == [
        "user: call again", "assistant: 1", "tool: x", "assistant: 1", "tool: y", "assistant: done"
    ]  # fmt: skip
    assert await store.call("ZCARD", (await flow.task()).signals) == 0


async def test_a_cancelled_task_takes_no_redrive(store: Store, tmp_path: Path) -> None:
    flow, operator = await prepared(store, tmp_path)
    await broken_call(flow)
    await flow.say("call again")
    tools = flow._served.pop(2)
    await flow.drive()
    task = await flow.task()
    await flow.actors.post(task, "cancel", b"{}", ("active",), control="cancel")
    flow._served.append(tools)
    await flow.drive()
    name, _ = await operator.only()
    assert "nobody waits for it" in await operator.refused(name, {"tool": "echo", "args": {}})
    await operator.redriving.discard(name)
    assert await operator.refused(name) == (
        "404 there is no such dead letter: it may have been discarded, or dropped by age or number"
    )


CLAIMED = 4
"""The command that claims the letter of an inbound entry; the next sends."""
ACTS = 14
"""More commands than any redrive has."""


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("kind", ["message", "call", "inbound"])
async def test_cut_off_at_any_command_and_repeated_it_is_redriven_once(
    store: Store, tmp_path: Path, kind: str, after: bool
) -> None:
    counts = set()
    for at in range(1, ACTS + 1):
        await store.call("FLUSHALL")
        flow, operator = await prepared(store, tmp_path / str(at))
        edit = None
        if kind == "message":
            await unrouted(flow)
        elif kind == "call":
            await broken_call(flow)
            edit = {"tool": "echo", "args": {"text": "y"}}
        else:
            await unread_inbound(flow, {b"data": b'{"session_id":"s1","message_id":"m7"}'})
            edit = {"session_id": "s1", "content": "hello"}
        name, _ = await operator.only()
        before = len(await told(store, "message"))
        cut = Cut(store, at, after)
        with suppress(OutageError), cut:
            await operator.redriving.redrive(name, edit)
        assert at < ACTS or not cut.done, "ACTS is too small"
        await flow.drive()
        with suppress(ProblemError):
            await operator.redriving.redrive(name, edit)
        await flow.drive()
        assert (await operator.letters.page(10, None)).items == []
        counts.add(len(await told(store, "message")) - before)
    assert counts == {1}


async def test_for_a_while_a_letter_belongs_to_who_redrives_it(store: Store, tmp_path: Path) -> None:
    flow, operator = await prepared(store, tmp_path)
    await unread_inbound(flow, {b"data": b"{"})
    name, _ = await operator.only()
    claim = redrive_claim(name.stream, name.entry)
    first, second = ({"session_id": session, "content": session} for session in ("s1", "s2"))
    with suppress(OutageError), Cut(store, CLAIMED, after=True):
        await operator.redriving.redrive(name, first)
    assert 0 < await store.call("TTL", claim) <= 60
    assert "look again in a minute" in await operator.refused(name, second)
    with pytest.raises(ProblemError, match="look again in a minute"):
        await operator.redriving.discard(name)
    await store.call("DEL", claim)  # the minute is over
    assert (await operator.redriving.redrive(name, second))["session_id"] == "s2"


async def test_what_was_sent_before_it_was_cut_off_is_not_sent_with_another_edit(store: Store, tmp_path: Path) -> None:
    flow, operator = await prepared(store, tmp_path)
    await unread_inbound(flow, {b"data": b"{"})
    name, _ = await operator.only()
    with suppress(OutageError), Cut(store, CLAIMED + 1, after=True):
        await operator.redriving.redrive(name, {"session_id": "s1", "content": "first"})
    await store.call("DEL", redrive_claim(name.stream, name.entry))
    assert await operator.redriving.redrive(name, {"session_id": "s2", "content": "second"}) == {
        "id": str(name), "repeated": True
    }  # fmt: skip
    await flow.drive()
    assert len(await told(store, "message")) == 1
    assert await store.call("EXISTS", "pentad:{0}:session:default:s2") == 0


async def test_a_message_that_was_accepted_meanwhile_is_not_said_twice(store: Store, tmp_path: Path) -> None:
    flow, operator = await prepared(store, tmp_path)
    await unread_inbound(flow, {b"data": b'{"session_id":"s1","message_id":"u1"}'})
    await flow.say("hello")  # its producer has sent u1 again, mended
    await flow.drive()
    name, _ = await operator.only()
    edit = {"session_id": "s1", "message_id": "u1", "content": "hello"}
    assert "accepted meanwhile" in await operator.refused(name, edit)
    await operator.redriving.redrive(name, edit | {"message_id": "u2"})
    await flow.drive()
    assert [event["correlation_id"] for event in await told(store, "message")] == ["u1", "u2"]
    assert await store.call("TTL", SESSION.header) > 0


@pytest.mark.parametrize("bound", [{"budget": {"steps": 0}}, {"deadline": "2020-01-01T00:00:00Z"}])
async def test_a_redriven_call_outlives_the_end_or_pause_of_the_turn_that_it_meets(
    store: Store, tmp_path: Path, bound: dict[str, Any]
) -> None:
    """Whether a message or the redrive comes first: the call is made."""
    flow, operator = await prepared(store, tmp_path)
    await broken_call(flow)
    runner = flow._served.pop(1)
    name, _ = await operator.only()
    await operator.redriving.redrive(name, {"tool": "echo", "args": {"text": "y"}})
    await flow.say("and now", **bound)
    await flow.drive()
    flow._served.insert(1, runner)
    await flow.drive()
    if await flow.status() == "waiting":
        await flow.say("go on")
        await flow.drive()
    assert "tool: y" in await transcript(flow)
    assert await flow.status() == "completed"
    assert await store.call("ZCARD", (await flow.task()).signals) == 0


async def test_a_redriven_call_is_no_step_of_the_turn_that_it_meets(store: Store, tmp_path: Path) -> None:
    flow, operator = await prepared(store, tmp_path)
    await broken_call(flow)
    runner = flow._served.pop(1)
    name, _ = await operator.only()
    await operator.redriving.redrive(name, {"tool": "echo", "args": {"text": "y"}})
    await flow.say("and now", budget={"steps": 1})
    await flow.drive()
    flow._served.insert(1, runner)
    await flow.drive()
    assert (await flow.status(), (await transcript(flow))[-2:]) == ("completed", ["tool: y", "assistant: done"])


async def test_a_redrive_that_was_set_aside_itself_is_redriven_with_its_call(store: Store, tmp_path: Path) -> None:
    flow, operator = await prepared(store, tmp_path)
    await broken_call(flow)
    task = await flow.task()
    await store.call("RPUSH", task.log, "junk")
    name, _ = await operator.only()
    await operator.redriving.redrive(name, {"tool": "echo", "args": {"text": "y"}})
    await flow.drive()
    assert await flow.status() == "failed"
    await store.call("LREM", task.log, 1, "junk")
    name, letter = await operator.only()
    assert proposal(letter, await operator.letters.context_of(letter)) == {
        "calls": [{"tool": "echo", "args": {"text": "y"}}]
    }
    await operator.redriving.redrive(name, None)
    await flow.drive()
    assert (await transcript(flow))[-2:] == ["tool: y", "assistant: done"]


@pytest.mark.parametrize("depth", [100, 190, 198, 250, 5000])
async def test_arguments_that_are_nested_too_deeply_are_refused_before_they_break_the_task(
    store: Store, tmp_path: Path, depth: int
) -> None:
    flow, operator = await prepared(store, tmp_path)
    await broken_call(flow)
    name, _ = await operator.only()
    args: Any = "x"
    for _ in range(depth):
        args = [args]
    with suppress(ProblemError):
        await operator.redriving.redrive(name, {"tool": "echo", "args": {"text": args}})
    await flow.drive()
    assert await flow.status() == "completed"


async def test_wake_ups_and_other_work_go_back(store: Store, tmp_path: Path) -> None:
    flow, operator = await prepared(store, tmp_path)
    await flow.say("hello")
    await flow.drive()
    task = await flow.task()
    woken = WakeUp(actor=task.actor).to_json().decode()
    about = {"entry_id": "5-0", "reason": "bad", "attempts": 1, "at": "now", "kind": "entry", "body": {"data": woken}}
    for stream in (*WORK, SESSION_WAKE.key(0)):
        await store.call("XADD", DEAD.key(0), "*", "data", json.dumps({"stream": stream, **about}))
    waiting = [await store.call("XLEN", key) for key in WORK]
    session, *others = [parse_name(str(i["id"])) for i in (await operator.letters.page(10, None)).items][
        : len(WORK) + 1
    ]
    assert session is not None
    assert "to be woken" in await operator.refused(session)  # there is no session of that name
    for name in others:
        assert name is not None
        await operator.redriving.redrive(name, None)
    added = [await store.call("XLEN", key) for key in WORK]
    assert [now - then for now, then in zip(added, waiting, strict=True)] == [1] * len(WORK)
    await flow.drive()


async def test_what_is_redriven_does_not_draw_the_conversation_to_itself(store: Store, tmp_path: Path) -> None:
    flow, operator = await prepared(store, tmp_path)
    await broken_call(flow)
    old = await flow.task()
    await store.call("HSET", old.header, "ended_at", 1)  # its grace time is over
    tools = flow._served.pop(2)
    await flow.say("call")
    await flow.drive()
    *_, routed = await told(store, "message_routed")
    name, _ = await operator.only()
    await operator.redriving.redrive(name, {"tool": "echo", "args": {"text": "y"}})
    await flow.drive()
    await flow.say("and now?")
    await flow.drive()
    *_, last = await told(store, "message_routed")
    assert last["task_id"] == routed["task_id"] != old.task
    flow._served.append(tools)
    await flow.drive()


async def test_the_mark_of_a_redriven_call_is_no_name_that_a_model_can_take(store: Store, tmp_path: Path) -> None:
    flow = await Flow(
        store, tmp_path, lambda _: replace(answer("", ECHO), model=REDRIVEN), pentad_step_limit=3
    ).prepare()
    await flow.say("hello")
    await flow.drive()
    assert (await flow.status(), flow.model.asked) == ("failed", 3)
