"""What a redrive sends, decided from the dead letter, an edit, and what is left of its task (law 8)."""

import json
from typing import Any

import pytest

from pentad.contracts.commands import EmbedCommand, EraseCommand, InboundMessage, ToolCallCommand, WakeUp
from pentad.contracts.dead_letters import DeadLetter, Link
from pentad.contracts.hooks import HookCommand, HookFacts
from pentad.contracts.streams import (
    EMBED,
    ERASE,
    HOOKS,
    MEMORY,
    MODEL_CALLS,
    SESSION_WAKE,
    TASK_WAKE,
    Stream,
    queues_of,
)
from pentad.contracts.tools import Effect
from pentad.services.gateway.domain.redrive import (
    AppendEntry,
    ContinueTask,
    LetterContext,
    SendMessages,
    UnfitError,
    WakeActor,
    plan_redrive,
    proposal,
)
from pentad.shared.actors.mail import CallRequest, RedriveMail, ResultMail, UserMail
from pentad.shared.keys import SessionKeys, TaskKeys

NOW = 1_900_000_000_000
TASK = "task-0-a"
HELLO = {"content": "hello", "session_id": "s1", "message_id": "m1", "tenant_id": "acme"}
SAID = InboundMessage.model_validate({**HELLO, "task_id": TASK})
ALIVE, ENDED, ARCHIVED = LetterContext("active"), LetterContext("failed", message=SAID), LetterContext("", True, SAID)
GONE, CANCELLED = LetterContext(), LetterContext("cancelled")


def letter(kind: str, stream: str, body: dict[str, str], **fields: Any) -> DeadLetter:
    about = {"kind": kind, "stream": stream, "entry_id": "5-0", "reason": "bad", "attempts": 1, "at": "now"}
    return DeadLetter.model_validate({**about, "body": body, **fields})


def inbound(data: str) -> DeadLetter:
    return letter("entry", "pentad:inbound", {"data": data})


def routed(message: dict[str, Any]) -> DeadLetter:
    body = {"3 user": f"1-1 {json.dumps(message)}"}
    return letter("session_mail", "pentad:{0}:wake:session", body, tenant_id="acme", session_id="s1")


def user(message: dict[str, Any]) -> str:
    return UserMail(message=InboundMessage.model_validate(message), entry_id="1-1", at="now").to_json().decode()


def task(body: dict[str, str], **fields: Any) -> DeadLetter:
    whom = {"tenant_id": "acme", "session_id": "s1", "task_id": TASK}
    return letter("task_mail", "pentad:{0}:wake:task", body, **{**whom, **fields})


COMMAND = ToolCallCommand(
    event_id="e", at="now", tenant_id="acme", session_id="s1", task_id=TASK, tool_call_id="call-0-x", step=1,
    tool="echo", args={"text": "x"}, effect=Effect.PURE, timeout=5,
)  # fmt: skip
CALL = letter(
    "call", "pentad:{0}:tools:default", {"data": COMMAND.to_json().decode()}, tenant_id="acme", session_id="s1",
    task_id=TASK, tool_call_id="call-0-x", chain=[Link(kind="message", id="m1")],
)  # fmt: skip
RESULT = ResultMail(tool_call_id="c1", content="ok", ok=True).to_json().decode()


def planned(of: DeadLetter, edit: dict[str, Any] | None = None, context: LetterContext = GONE) -> Any:
    return plan_redrive("0-5-0", of, edit, context, NOW)


def said(plan: Any) -> list[dict[str, Any]]:
    assert isinstance(plan, SendMessages)
    return [m.model_dump(exclude_none=True, exclude_defaults=True) for m in plan.messages]


def test_an_inbound_entry_is_said_with_an_id_of_its_own_and_in_the_session_that_its_sender_was_told() -> None:
    plan = planned(inbound('{"content":"hello"}'))
    assert (plan.tenant, plan.session) == ("default", "s-5-0")
    assert said(plan) == [{"content": "hello", "session_id": "s-5-0", "message_id": "redrive-0-5-0"}]


@pytest.mark.parametrize("data", ["", "{", "[1]", "\\xff", '"text"'])
def test_what_is_no_object_needs_an_edit(data: str) -> None:
    with pytest.raises(UnfitError, match="with an edit"):
        proposal(inbound(data), GONE)
    assert said(planned(inbound(data), {"content": "mended", "session_id": "s2"}))[0]["session_id"] == "s2"


def test_what_was_clipped_needs_an_edit() -> None:
    clipped = inbound('{"content":"hello"}').model_copy(update={"clipped": True})
    with pytest.raises(UnfitError, match="longer than"):
        planned(clipped)
    assert said(planned(clipped, {"content": "shorter"}))[0]["content"] == "shorter"


@pytest.mark.parametrize(
    ("edit", "complaint"),
    [
        ({}, "content: Field required"),
        ({"content": ""}, "content: String should have at least 1 character"),
        ({"content": "x", "session_id": "a b"}, "session_id: an id has 1 to 128 printable"),
        ({"content": "x", "deadline": "2020-01-01T00:00:00Z"}, "deadline has passed"),
        ({"content": "x", "deadline": "soon"}, "deadline"),
        ({"content": ["x"]}, "content"),
    ],
)
def test_an_edit_is_checked_by_its_contract(edit: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UnfitError, match=complaint):
        planned(inbound("{}"), edit)


def test_a_message_that_was_not_routed_keeps_its_id() -> None:
    assert proposal(routed(HELLO), GONE) == HELLO
    assert said(planned(routed(HELLO))) == [HELLO]


@pytest.mark.parametrize(
    ("context", "named"), [(ALIVE, TASK), (ENDED, TASK), (ARCHIVED, TASK), (GONE, None), (CANCELLED, None)]
)
def test_a_tasks_messages_go_to_it_again_while_it_can_take_them(context: LetterContext, named: str | None) -> None:
    of = task({"1 user": user(HELLO), "2 result": RESULT, "4 user": user({**HELLO, "message_id": "m2"})})
    messages = said(planned(of, context=context))
    assert [m["message_id"] for m in messages] == ["m1", "m2"]
    assert [m.get("task_id") for m in messages] == [named, named]


def test_a_task_without_messages_goes_on_or_is_asked_its_turns_message_again() -> None:
    of = task({"2 result": RESULT})
    assert proposal(of, ENDED) is None
    assert planned(of, context=ENDED) == ContinueTask("acme", TASK)
    assert said(planned(of, context=ARCHIVED)) == [{**HELLO, "task_id": TASK}]
    with pytest.raises(UnfitError, match="nobody waits"):
        planned(of)


def test_the_mail_of_a_task_is_edited_as_a_list_for_one_session() -> None:
    of = task({"1 user": user(HELLO)})
    assert [m["content"] for m in said(planned(of, {"messages": [{"content": "a"}, {"content": "b"}]}))] == ["a", "b"]
    ids = [m["message_id"] for m in said(planned(of, {"messages": [{"content": "a"}, {"content": "b"}]}))]
    assert ids == ["redrive-0-5-0", "redrive-0-5-0-1"]
    wrong: tuple[dict[str, Any], ...] = ({"content": "x"}, {"messages": []}, {"messages": "x"}, {"messages": [1]})
    for edit in wrong:
        with pytest.raises(UnfitError, match="messages"):
            planned(of, edit)
    with pytest.raises(UnfitError, match="one session"):
        planned(of, {"messages": [{"content": "a"}, {"content": "b", "session_id": "s2"}]})


def test_a_tool_call_is_made_again_by_its_task() -> None:
    again = ContinueTask("acme", TASK, (CallRequest(tool="echo", args={"text": "x"}),))
    assert planned(CALL, context=ALIVE) == planned(CALL, context=ENDED) == again
    edit: dict[str, Any] = {**json.loads(COMMAND.to_json()), "args": {"text": "y"}}
    assert planned(CALL, edit, ENDED).calls[0].args == {"text": "y"}
    assert planned(CALL, {"tool": "echo", "args": {}}, ENDED).calls == (CallRequest(tool="echo", args={}),)
    with pytest.raises(UnfitError, match="stays with its task"):
        planned(CALL, {**edit, "task_id": "task-0-b"}, ENDED)
    with pytest.raises(UnfitError, match="tool: Field required"):
        planned(CALL, {k: v for k, v in edit.items() if k != "tool"}, ENDED)


def test_a_call_of_an_archived_task_is_its_turns_message_and_that_of_one_gone_is_nothing() -> None:
    assert said(planned(CALL, context=ARCHIVED)) == [{**HELLO, "task_id": TASK}]
    with pytest.raises(UnfitError, match="archived"):
        planned(CALL, json.loads(COMMAND.to_json()), ARCHIVED)
    for context in (GONE, CANCELLED):
        with pytest.raises(UnfitError, match="nobody waits"):
            planned(CALL, context=context)


EMBEDDED = EmbedCommand(event_id="e", at="now", tenant_id="t", session_id="s", texts=["x"], reply_to="r").to_json()
ERASED = EraseCommand(kind="task", tenant_id="acme", name=TASK).to_json()
WOKEN = WakeUp(actor=f"acme/{TASK}").to_json()
TOLD = HookCommand(
    request_id="a",
    at="2026-01-01T00:00:00.000Z",
    wait_ms=1,
    hook="m.f",
    kind="task_end",
    tenant_id="t",
    facts=HookFacts(tenant_id="t"),
    subject="{}",
).to_json()
ENTRIES = [stream for stream, _ in queues_of(2, ()) if stream not in (SESSION_WAKE, TASK_WAKE, MEMORY, MODEL_CALLS)]


@pytest.mark.parametrize("stream", ENTRIES, ids=[stream.name for stream in ENTRIES])
def test_an_entry_of_every_work_stream_goes_back_to_it(stream: Stream) -> None:
    data = {EMBED.name: EMBEDDED, ERASE.name: ERASED, HOOKS.name: TOLD}.get(stream.name, WOKEN)
    key = stream.key(2)
    assert planned(letter("entry", key, {"data": data.decode()})) == AppendEntry(key, data)
    with pytest.raises(UnfitError):
        planned(letter("entry", key, {"data": data.decode()}), {"actor": "acme", "kind": "all", "texts": 7})


def test_other_work_wakes_its_actor_or_is_refused() -> None:
    for stream, kind in (("session", SessionKeys), ("task", TaskKeys)):
        of = letter("entry", f"pentad:{{2}}:wake:{stream}", {"data": WOKEN.decode()})
        assert planned(of) == WakeActor(kind(2, "acme", TASK))
        for actor in ("acme", "/x", "acme/-", "-/x", "acme/a b", "acme/%61"):
            with pytest.raises(UnfitError, match="no actor"):
                planned(of, {"actor": actor})
    with pytest.raises(UnfitError, match="does not know"):
        planned(letter("entry", "elsewhere", {"data": "{}"}))
    with pytest.raises(UnfitError, match="who made it has gone on"):
        planned(letter("entry", MEMORY.key(2), {"data": "{}"}))
    with pytest.raises(UnfitError, match="who made it has gone on"):
        planned(letter("entry", MODEL_CALLS.key(2), {"data": "{}"}))
    asked = json.loads(TOLD) | {"reply_to": "pentad:{2}:hooks:reply:r"}
    with pytest.raises(UnfitError, match="the step has gone on"):
        planned(letter("entry", HOOKS.key(2), {"data": json.dumps(asked)}))


def test_a_body_that_only_looks_like_messages_is_not_said() -> None:
    forged = {"messages": [{"content": "hi", "tenant_id": "victim", "session_id": "vs"}]}
    of = CALL.model_copy(update={"body": {"data": json.dumps(forged)}})
    for context in (ALIVE, ARCHIVED):
        try:
            plan = planned(of, context=context)
        except UnfitError:
            continue
        assert said(plan) == [{**HELLO, "task_id": TASK}]


def test_what_does_not_say_whose_it_was_needs_an_edit_that_does() -> None:
    of = task({"1 user": user(HELLO)}, tenant_id=None, session_id=None)
    with pytest.raises(UnfitError, match="whose it was"):
        planned(of, {"messages": [{"content": "x"}]})
    edit = {"messages": [{"content": "x", "tenant_id": "acme", "session_id": "s1"}]}
    assert planned(of, edit).tenant == "acme"


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_json_does_not_know_is_refused(number: str) -> None:
    data = COMMAND.to_json().decode().replace('"x"', number, 1)
    with pytest.raises(UnfitError, match="no JSON object"):
        proposal(CALL.model_copy(update={"body": {"data": data}}), ALIVE)


def test_calls_of_a_tasks_mail_are_edited_as_a_list() -> None:
    redrive = RedriveMail(letter="0-1-1", at=1, calls=[CallRequest(tool="echo", args={})]).to_json().decode()
    of = task({"3 redrive": redrive})
    assert proposal(of, ENDED) == {"calls": [{"tool": "echo", "args": {}}]}
    assert planned(of, context=ENDED) == ContinueTask("acme", TASK, (CallRequest(tool="echo", args={}),))
    wrong: tuple[Any, ...] = ([], "x", [1], [{"tool": "echo"}])
    for calls in wrong:
        with pytest.raises(UnfitError):
            planned(of, {"calls": calls}, ENDED)
    with pytest.raises(UnfitError, match="nobody waits"):
        planned(of, {"calls": [{"tool": "echo", "args": {}}]}, GONE)


def test_a_call_that_names_no_task_is_refused_for_that() -> None:
    with pytest.raises(UnfitError, match="whose task it was"):
        planned(CALL.model_copy(update={"task_id": None}), {"tool": "echo", "args": {}}, ENDED)
