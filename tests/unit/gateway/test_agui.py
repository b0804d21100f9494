"""A turn's events become a run that AG-UI's own schema and order accept, whatever order and attempts they come in."""

import random
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from ag_ui import core

from pentad.contracts.turns import TurnTracker
from pentad.services.gateway.domain.frames import UnreadableError
from pentad.services.gateway.protocols.agui.run_input import (
    ResumeEntry,
    answers_of,
    decision_of,
    read_run_input,
    text_of_answer,
)
from pentad.services.gateway.protocols.agui.translation import AguiRun, Out, messages_of

TASK, CHILD = "task-0-a", "task-0-b"
BODY: dict[str, Any] = {"threadId": "t", "runId": "r", "messages": [{"id": "u", "role": "user", "content": "hi"}]}


def event(kind: str, task: str = TASK, **fields: Any) -> dict[str, Any]:
    envelope = {"event_id": "e", "at": "2026-01-01T00:00:00.000Z", "tenant_id": "default", "session_id": "t"}
    return envelope | {"type": kind, "version": 1, "task_id": task, "correlation_id": "r"} | fields


def routed() -> dict[str, Any]:
    return event("message_routed", message_id="r", decision="new", confidence=1.0, reason="x")


def run_of(events: Iterable[Mapping[str, Any]]) -> list[Out]:
    run = AguiRun("t", "r", TurnTracker("r"), BODY["messages"])
    return [*run.begin(), *(out for each in events for out in run.after(each))]


def checked(outs: Iterable[Out]) -> list[str]:
    """The types of these events, each of which fits the schema, in an order that clients accept."""
    open_texts, open_steps, made = set[str](), set[str](), list[str]()
    for out in outs:
        kind = out["type"]
        getattr(core, f"{''.join(part.capitalize() for part in kind.split('_'))}Event").model_validate(out)
        made.append(kind)
        if kind in ("TEXT_MESSAGE_START", "REASONING_MESSAGE_START"):
            assert out["messageId"] not in open_texts
            open_texts.add(out["messageId"])
        elif kind in ("TEXT_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT"):
            assert out["messageId"] in open_texts
        elif kind in ("TEXT_MESSAGE_END", "REASONING_MESSAGE_END"):
            open_texts.remove(out["messageId"])
        elif kind == "STEP_STARTED":
            assert out["stepName"] not in open_steps
            open_steps.add(out["stepName"])
        elif kind == "STEP_FINISHED":
            open_steps.remove(out["stepName"])
        elif kind in ("RUN_FINISHED", "RUN_ERROR"):
            assert not open_texts
            assert not open_steps
    assert made.count("RUN_FINISHED") + made.count("RUN_ERROR") == 1
    assert made[-1] in ("RUN_FINISHED", "RUN_ERROR")
    return made


def delta(kind: str, text: str, offset: int = 0, step: int = 1, attempt: int = 1, task: str = TASK) -> dict[str, Any]:
    return event(kind, task, step=step, attempt=attempt, offset=offset, content=text)


def message(text: str, step: int = 1, attempt: int = 1, task: str = TASK) -> dict[str, Any]:
    return event("message", task, step=step, attempt=attempt, content=text)


END = event("task_end", status="completed", reason="", steps=1, usage={"input_tokens": 1, "output_tokens": 2})


def shown(outs: Iterable[Out], base: Iterable[Any] = ()) -> dict[str, str]:
    """The texts of a client that joins what it is sent, by id."""
    texts: dict[str, str] = {}
    for out in outs:
        if out["type"] == "MESSAGES_SNAPSHOT":
            texts = {m["id"]: m.get("content") or "" for m in out["messages"] if m["role"] == "assistant"}
        elif out["type"] == "TEXT_MESSAGE_CONTENT":
            texts[out["messageId"]] = texts.get(out["messageId"], "") + out["delta"]
    return {id_: text for id_, text in texts.items() if text}


def test_a_turn_of_thoughts_texts_and_calls_is_a_run() -> None:
    call = event("tool_call", tool_call_id="c", tool="echo", args={"text": "x"})
    result = event("tool_result", tool_call_id="c", tool="echo", result="x")
    progress = event("tool_progress", tool_call_id="c", tool="echo", content="half", fraction=0.5)
    first = [delta("thinking", "hm"), delta("content", "let me"), message("let me see"), call, progress, result]
    outs = run_of([routed(), *first, delta("content", "done", step=2), message("done", 2), END])
    kinds = checked(outs)
    assert kinds[:2] == ["RUN_STARTED", "CUSTOM"]
    assert "REASONING_MESSAGE_CONTENT" in kinds
    assert shown(outs) == {f"{TASK}:1": "let me see", f"{TASK}:2": "done"}
    assert outs[-1]["usage"] == [{"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}]


def test_a_void_attempt_is_taken_back_and_tasks_beside_it_go_on() -> None:
    begun = event("task_start", CHILD, goal="g", parent_task_id=TASK)
    outs = run_of(
        [
            routed(),
            delta("content", "wrong"),
            begun,
            event("content", CHILD, step=1, attempt=1, offset=0, content="child ", parent_task_id=TASK),
            delta("content", "right", attempt=2),
            event("content", CHILD, step=1, attempt=1, offset=6, content="text", parent_task_id=TASK),
            event("message", CHILD, step=1, attempt=1, content="child text", parent_task_id=TASK),
            event("task_end", CHILD, status="completed", reason="", parent_task_id=TASK),
            message("right answer", attempt=2),
            END,
        ]
    )
    checked(outs)
    assert shown(outs) == {f"{TASK}:1": "right answer", f"{CHILD}:1": "child text"}
    assert {out["subagentRunId"] for out in outs if "subagentRunId" in out} == {CHILD}


def test_random_turns_are_accepted_and_show_what_was_said() -> None:
    for seed in range(300):
        rng = random.Random(seed)
        events, said = [routed()], dict[str, str]()
        for step in range(1, rng.randint(2, 4)):
            for attempt in range(1, rng.randint(2, 4)):
                text, at = f"step {step} attempt {attempt} " * rng.randint(1, 3), 0
                if rng.random() < 0.3:
                    events.append(delta("thinking", "hm", 0, step, attempt))
                while at < len(text) and rng.random() < 0.8:
                    size = rng.randint(1, 9)
                    if rng.random() < 0.9:  # else a hole
                        events.append(delta("content", text[at : at + size], at, step, attempt))
                    at += size
            events.append(message(text, step, attempt))
            said[f"{TASK}:{step}"] = text
        outs = run_of([*events, END])
        checked(outs)
        assert shown(outs) == said, seed


@pytest.mark.parametrize(
    ("last", "outcome"),
    [
        (event("task_end", status="cancelled", reason="by a person"), {"type": "cancelled"}),
        (event("task_end", status="failed", reason="model_error", detail="no"), None),
        (event("message_routed", message_id="r", decision="rejected", confidence=1.0, reason="no"), None),
        (event("error", code="busy", message="later", message_id="r"), None),
    ],
)
def test_each_end_is_an_end_of_the_run(last: dict[str, Any], outcome: Any) -> None:
    outs = run_of([routed() if last["type"] != "message_routed" else event("task_start", goal="g"), last])
    assert checked(outs)[-1] == ("RUN_FINISHED" if outcome else "RUN_ERROR")
    assert outs[-1].get("outcome") == outcome


def test_what_waits_for_a_person_interrupts_the_run() -> None:
    asks = event("approval_request", tool_call_id="c", tool="mail", args={"to": "x"}, effect="unsafe", args_digest="d")
    form = event(
        "approval_request", tool_call_id="f", tool="book", args={}, effect="pure", needs="input", form={"a": 1}
    )
    decided = event("approval", tool_call_id="c", approved=True)
    waits = event("task_status", status="waiting", reason="approval")
    outs = run_of([routed(), asks, form, decided, waits])
    checked(outs)
    [left] = outs[-1]["outcome"]["interrupts"]
    assert (left["id"], left["toolCallId"], left["responseSchema"]) == (f"{TASK}/f", "f", {"a": 1})
    outs = run_of([routed(), message("which?"), event("task_status", status="waiting", reason="question")])
    [asked] = outs[-1]["outcome"]["interrupts"]
    assert (asked["id"], asked["message"]) == (TASK, "which?")


def test_a_client_that_connects_again_gets_all_and_what_is_being_written() -> None:
    run = AguiRun("t", "r", TurnTracker("r"))
    for each in (routed(), message("first"), delta("content", "sec", step=2)):
        run.after(each)
    turns = [
        {"role": "user", "content": "hi", "message_id": "r"},
        {"role": "assistant", "content": "x", "task_id": TASK},
    ]
    outs = [*run.resumed(messages_of(turns, "r", TASK)), *run.after(message("second", 2)), *run.after(END)]
    checked(outs)
    assert shown(outs) == {f"{TASK}:1": "first", f"{TASK}:2": "second"}
    assert [m["content"] for m in next(out for out in outs if "messages" in out)["messages"]] == ["hi", "first"]


@pytest.mark.parametrize(
    "more",
    [
        {"threadId": "a b"},
        {"runId": ""},
        {"runId": 7},
        {"messages": "hi"},
        {"messages": [None] * 10_001},
        {"resume": [{"interruptId": "a"}]},
        {"resume": [{"interruptId": "a", "status": "maybe"}]},
        {"resume": [{"interruptId": "a" * 401, "status": "resolved"}]},
    ],
)
def test_what_is_no_input_of_a_run_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(UnreadableError):
        read_run_input(BODY | more)


@pytest.mark.parametrize(
    "more",
    [
        {"messages": []},
        {"messages": [{"role": "user", "content": ""}]},
        {"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": 7}]}]},
        {"forwardedProps": {"pentad": {"tenant_id": "acme"}}},
        {"forwardedProps": {"pentad": [1]}},
    ],
)
def test_what_is_no_message_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(UnreadableError):
        read_run_input(BODY | more).message()


def entry(id_: str, status: str = "resolved", payload: Any = None) -> ResumeEntry:
    return ResumeEntry.model_validate({"interruptId": id_, "status": status, "payload": payload})


@pytest.mark.parametrize("ids", [["a/b", "c/d"], ["../x"], ["a/b/c"], ["a/"], [""], ["a", "a/b"], []])
def test_answers_are_those_of_one_run(ids: list[str]) -> None:
    with pytest.raises(UnreadableError):
        answers_of([entry(each) for each in ids])


@pytest.mark.parametrize(
    ("status", "payload", "approved", "args"),
    [
        ("resolved", None, True, None),
        ("resolved", True, True, None),
        ("resolved", False, False, None),
        ("resolved", {"seats": 3}, True, {"seats": 3}),
        ("resolved", {"approved": True, "args": {"a": 1}}, True, {"a": 1}),
        ("cancelled", {"approved": True, "args": {"a": 1}}, False, None),
        ("cancelled", None, False, None),
    ],
)
def test_a_payload_is_read_as_a_decision(status: str, payload: Any, approved: bool, args: Any) -> None:
    read = decision_of(entry("a/b", status, payload))
    assert (read.approved, read.args) == (approved, args)


@pytest.mark.parametrize("payload", ["yes", 7, [1], {"approved": "yes"}, {"approved": True, "tenant": "x"}])
def test_a_payload_that_is_no_decision_is_refused(payload: Any) -> None:
    with pytest.raises(UnreadableError):
        decision_of(entry("a/b", "resolved", payload))


@pytest.mark.parametrize("payload", [None, 7, "", {"text": "x"}, "x" * 70_000])
def test_a_payload_that_is_no_answer_is_refused(payload: Any) -> None:
    with pytest.raises(UnreadableError):
        text_of_answer(entry("a", "resolved", payload))
