"""A turn's events become updates that a client joins to what was said, whatever attempts and holes they come with."""

import random
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from a2a.types.a2a_pb2 import Message, Part, Role, SendMessageRequest, TaskArtifactUpdateEvent, TaskState
from google.protobuf.json_format import MessageToDict, ParseDict

from pentad.contracts.turns import TurnTracker
from pentad.services.gateway.domain.frames import UnreadableError
from pentad.services.gateway.protocols.a2a.message_input import A2aMessage, read_message_of, session_of_message
from pentad.services.gateway.protocols.a2a.task_view import TranscriptTail, state_of, statuses_of, text_of_step
from pentad.services.gateway.protocols.a2a.translation import A2aRun, Update

TASK, CHILD = "task-0-a", "task-0-b"
ADDRESS = "http://agents.test"


def event(kind: str, task: str = TASK, **fields: Any) -> dict[str, Any]:
    envelope = {"event_id": "e", "at": "2026-01-01T00:00:00.000Z", "tenant_id": "default", "session_id": "s"}
    return envelope | {"type": kind, "version": 1, "task_id": task, "correlation_id": "m"} | fields


def delta(text: str, offset: int = 0, step: int = 1, attempt: int = 1, task: str = TASK) -> dict[str, Any]:
    return event("content", task, step=step, attempt=attempt, offset=offset, content=text)


def message(text: str, step: int = 1, attempt: int = 1, task: str = TASK) -> dict[str, Any]:
    return event("message", task, step=step, attempt=attempt, content=text)


ROUTED = event("message_routed", message_id="m", decision="new", confidence=1.0, reason="x")
END = event("task_end", status="completed", reason="", steps=1)


def run_of(events: Iterable[Mapping[str, Any]]) -> tuple[A2aRun, list[Update]]:
    run, made = A2aRun("s", TurnTracker("m"), ADDRESS), list[Update]()
    for each in events:
        if (known := run.concerns(each)) is not None:
            made += run.after(known)
    return run, made


def joined(updates: Iterable[Update]) -> dict[str, str]:
    """The texts of a client that joins what it is sent."""
    texts: dict[str, str] = {}
    for update in updates:
        if isinstance(update, TaskArtifactUpdateEvent):
            name, text = update.artifact.artifact_id, "".join(part.text for part in update.artifact.parts)
            texts[name] = texts.get(name, "") + text if update.append else text
    return {name: text for name, text in texts.items() if text}


def test_random_turns_show_what_was_said() -> None:
    for seed in range(300):
        rng = random.Random(seed)
        events, said = [ROUTED], dict[str, str]()
        for step in range(1, rng.randint(2, 5)):
            for attempt in range(1, rng.randint(2, 4)):
                text = "".join(rng.choice("ab ") for _ in range(rng.randint(0, 12)))
                at = 0
                while at < len(text):
                    size = rng.randint(1, 4)
                    if rng.random() < 0.8:  # else a hole
                        events.append(delta(text[at : at + size], at, step, attempt))
                    at += size
            events.append(message(text, step, attempt))
            said[f"step-{step}"] = text
        run, updates = run_of([*events, END])
        assert joined(updates) == {name: text for name, text in said.items() if text}, seed
        assert run.end is not None


def test_after_a_gap_a_text_is_sent_whole() -> None:
    run, before = run_of([ROUTED, delta("one ")])
    run.after_gap()
    after = list[Update]()
    for each in (delta("three", 8), message("one two three")):
        known = run.concerns(each)
        assert known is not None
        after += run.after(known)
    assert joined(before) == {"step-1": "one "}
    assert joined(after) == {"step-1": "one two three"}


def test_texts_of_started_tasks_are_not_those_of_the_task() -> None:
    events = [
        ROUTED,
        event("task_start", CHILD, goal="g", parent_task_id=TASK),
        event("content", CHILD, step=1, attempt=1, offset=0, content="child", parent_task_id=TASK),
        event("message", CHILD, step=1, attempt=1, content="child", parent_task_id=TASK),
        event("task_end", CHILD, status="completed", reason="", parent_task_id=TASK),
        message("mine", 2),
    ]
    run, updates = run_of(events)
    assert (joined(updates), run.over) == ({"step-2": "mine"}, False)
    assert {update.task_id for update in updates if not isinstance(update, TaskArtifactUpdateEvent)} == {TASK}


def test_files_of_tools_are_artifacts_with_their_address() -> None:
    kept = {"path": "artifacts/c/a b.png", "media_type": "image/png", "size": 3}
    _, updates = run_of([ROUTED, event("tool_result", tool_call_id="c", tool="draw", result="x", artifacts=[kept])])
    [file] = [update.artifact for update in updates if isinstance(update, TaskArtifactUpdateEvent)]
    assert file.parts[0].url == f"{ADDRESS}/v1/sessions/s/files/artifacts/c/a%20b.png"
    assert (file.parts[0].filename, file.parts[0].media_type) == ("a b.png", "image/png")


@pytest.mark.parametrize(
    ("end", "state"),
    [
        (END, TaskState.TASK_STATE_COMPLETED),
        (END | {"status": "failed", "reason": "why", "detail": "how"}, TaskState.TASK_STATE_FAILED),
        (END | {"status": "cancelled"}, TaskState.TASK_STATE_CANCELED),
        (event("task_status", status="waiting", reason="question"), TaskState.TASK_STATE_INPUT_REQUIRED),
    ],
)
def test_each_end_has_its_state(end: dict[str, Any], state: TaskState) -> None:
    run, _ = run_of([ROUTED, message("For when?"), end])
    update = run.ended([], "2026-01-01T00:00:00.000Z")
    assert update.status.state == state
    words = [part.text for part in update.status.message.parts]
    assert words == {"failed": ["why: how"], "waiting": ["For when?"]}.get(end.get("status", ""), [])


def test_every_status_has_one_state_and_a_list_finds_it_by_that() -> None:
    for status in ("pending", "active", "waiting", "stale", "completed", "failed", "cancelled"):
        assert status in statuses_of(state_of(status))
    assert statuses_of(TaskState.TASK_STATE_AUTH_REQUIRED) == []


def test_what_was_moved_away_or_quoted_is_not_shown() -> None:
    entries: list[dict[str, Any]] = [
        {"role": "user", "content": "before", "origin": "context"},
        {"role": "user", "content": "moved", "message_id": "m1"},
        {"role": "user", "content": "stays", "message_id": "m2"},
        {"role": "exclusion", "positions": [11], "to": "new", "to_task_id": "t"},
    ]
    assert [entry["content"] for _, entry in TranscriptTail(10, entries).said()] == ["stays"]
    assert TranscriptTail(10, entries).until("m1").entries == entries[:2]


def test_an_answer_that_was_asked_for_again_is_not_shown() -> None:
    entries: list[dict[str, Any]] = [
        {"role": "assistant", "content": "no JSON", "step": 1},
        {"role": "user", "content": "again", "origin": "repair"},
        {"role": "assistant", "content": "{}", "step": 2},
    ]
    assert [entry["content"] for _, entry in TranscriptTail(5, entries).said()] == ["{}"]


def test_a_question_that_cannot_be_read_is_left_out() -> None:
    broken = {"function": {"name": "ask_user", "arguments": "{"}}
    assert text_of_step({"role": "assistant", "content": "Well.", "tool_calls": [broken]}) == "Well."


def read(*parts: Part, context: str = "s", **fields: Any) -> A2aMessage:
    sent = Message(message_id="m", role=Role.ROLE_USER, parts=parts, context_id=context, **fields)
    return read_message_of(SendMessageRequest(message=sent), ADDRESS)


def data(value: Any) -> Part:
    part = Part()
    ParseDict({"data": value}, part)
    return part


def test_parts_become_text_files_and_decisions() -> None:
    got = read(Part(text="look"), Part(raw=b"x", filename="/etc/../a.png"), data({"n": 3, "f": 0.5}))
    assert got.content == 'look\n{"f":0.5,"n":3}'
    assert (got.paths, got.files[0].data) == ((got.files[0].path,), b"x")
    assert got.files[0].path.startswith("a2a/")
    assert got.files[0].path.endswith("/1-a.png")
    assert read(Part(raw=b"x", media_type="image/png")).files[0].path.endswith("/0-file.png")
    decided = read(data({"approved": True, "tool_call_id": "c", "args": {"n": 3}})).decisions[0]
    assert (decided.call, decided.asked.args) == ("c", {"n": 3})
    assert isinstance((decided.asked.args or {})["n"], int)


def test_the_address_of_a_file_here_is_its_path_and_any_other_is_text() -> None:
    here = f"{ADDRESS}/v1/sessions/s/files/a%20b.txt"
    assert read(Part(text="x"), Part(url=here)).paths == ("a b.txt",)
    assert read(Part(text="x"), Part(url=here), context="other").paths == ()
    assert read(Part(url="https://example.com/a", filename="a")).content == "File: a https://example.com/a"


@pytest.mark.parametrize(
    "part",
    [
        Part(url="javascript:alert(1)"),
        Part(url="http://"),
        Part(url="http://[x"),
        Part(url="https://example.com/" + "a" * 2_000),
        data({"approved": "yes"}),
        data({"approved": True, "more": 1}),
        data({"approved": True, "tool_call_id": "a b/c"}),
        data({"approved": True, "tool_call_id": 7}),
        Part(),
    ],
)
def test_parts_that_cannot_be_read_are_refused(part: Part) -> None:
    with pytest.raises(UnreadableError):
        read(part)


def test_a_session_without_a_name_is_that_of_its_message() -> None:
    assert session_of_message("m") == session_of_message("m") != session_of_message("n")
    asked = MessageToDict(SendMessageRequest(message=Message(message_id="m")))
    assert asked["message"]["messageId"] == "m"
