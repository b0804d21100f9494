"""A2A 1.0: official clients hold conversations with tools, questions, approvals and void attempts."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.client import Client, ClientConfig, create_client
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskState,
)
from a2a.utils.errors import A2AError
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Value

from tests.support.javascript.packages import installed
from tests.support.models.replies import Reply, call, fail, say
from tests.support.processes.stage import Stage, new_session
from tests.support.processes.up import ROOT
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.acceptance


@pytest.fixture(params=["JSONRPC", "HTTP+JSON"])
def binding(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@asynccontextmanager
async def client(system: Stage, binding: str, *, streaming: bool = True) -> AsyncIterator[Client]:
    """The official client in Python, which finds all it needs in the card."""
    async with httpx.AsyncClient(timeout=PATIENCE_S, trust_env=False) as http:
        config = ClientConfig(httpx_client=http, supported_protocol_bindings=[binding], streaming=streaming)
        yield await create_client(system.url, client_config=config)


def message(text: str = "", *, data: Any = None, context: str = "", task: str = "", name: str = "") -> Message:
    parts = [Part(text=text)] if text else []
    if data is not None:
        parts.append(Part(data=ParseDict(data, Value())))
    return Message(message_id=name or new_session(), role=Role.ROLE_USER, parts=parts, context_id=context, task_id=task)


async def said(client: Client, sent: Message, **configuration: Any) -> list[StreamResponse]:
    request = SendMessageRequest(message=sent, configuration=SendMessageConfiguration(**configuration))
    return [update async for update in client.send_message(request)]


async def first_task(client: Client, sent: Message) -> Task:
    """Leave the stream of a message when its task comes, and return the task."""
    async for update in client.send_message(SendMessageRequest(message=sent)):
        return update.task
    raise AssertionError("the stream has ended without a task")


async def first_of(client: Client, sent: Message) -> str:
    """Leave the stream of a message when the first text comes, and return the task's id."""
    async for update in client.send_message(SendMessageRequest(message=sent)):
        if update.HasField("artifact_update"):
            return update.artifact_update.task_id
    raise AssertionError("the stream has ended without a text")


def joined(updates: list[StreamResponse]) -> dict[str, str]:
    """The texts of artifacts as a client joins them."""
    texts: dict[str, str] = {}
    for update in updates:
        if update.HasField("artifact_update"):
            piece = update.artifact_update
            text = "".join(part.text for part in piece.artifact.parts)
            texts[piece.artifact.artifact_id] = (
                texts.get(piece.artifact.artifact_id, "") if piece.append else ""
            ) + text
    return texts


def texts_of(task: Task) -> list[str]:
    return ["".join(part.text for part in artifact.parts) for artifact in task.artifacts]


async def test_a_conversation_with_tools_streams_and_is_kept(asking: Stage, binding: str) -> None:
    def script(request: dict[str, Any]) -> Reply:
        last = request["messages"][-1]
        if last["role"] == "tool":
            return say(f"it is {last['content']}", chunks=3, thinking="easy")
        return call(("calculator", {"expression": "6*7"}), text="let me see")

    async with asking.model(script), client(asking, binding) as agent:
        updates = await said(agent, message("what is 6*7?"))
        first = updates[0].task
        assert (first.status.state, list(first.artifacts)) == (TaskState.TASK_STATE_WORKING, [])
        assert updates[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED
        assert list(joined(updates).values()) == ["let me see", "it is 42"]
        told = [MessageToDict(u.status_update.metadata)["pentad"]["type"] for u in updates if u.status_update.metadata]
        assert {"message_routed", "tool_call", "tool_result"} <= set(told)
        kept = await agent.get_task(GetTaskRequest(id=first.id))
        assert texts_of(kept) == ["let me see", "it is 42"]
        assert [(each.role, each.parts[0].text) for each in kept.history] == [
            (Role.ROLE_USER, "what is 6*7?"),
            (Role.ROLE_AGENT, "let me see"),
            (Role.ROLE_AGENT, "it is 42"),
        ]
        assert [artifact.artifact_id for artifact in kept.artifacts] == list(joined(updates))
        listed = await agent.list_tasks(ListTasksRequest(context_id=first.context_id))
        assert [(task.id, len(task.artifacts)) for task in listed.tasks] == [(first.id, 0)]


async def test_a_question_is_answered_by_a_message_to_the_task(asking: Stage, binding: str) -> None:
    def script(request: dict[str, Any]) -> Reply:
        last = request["messages"][-1]
        if last["content"] == "book":
            return call(("ask_user", {"question": "For when?"}))
        return say(f"booked for {last['content']}")

    async with asking.model(script), client(asking, binding, streaming=False) as agent:
        [asked] = await said(agent, message("book"))
        waits = asked.task
        assert waits.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
        assert waits.status.message.parts[0].text == "For when?"
        sent = message("Monday", task=waits.id)
        [done] = await said(agent, sent)
        [again] = await said(agent, sent)
        assert (done.task.id, done.task.status.state) == (waits.id, TaskState.TASK_STATE_COMPLETED)
        assert texts_of(done.task)[-1] == "booked for Monday"
        assert again.task == done.task, "the same messageId is one message"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"approved": True, "args": {"text": "public"}}, "public"),
        ({"approved": True}, "secret"),
        ({"approved": False, "reason": "keep it"}, "keep it"),
    ],
)
async def test_a_call_that_waits_is_decided_by_a_data_part(
    asking: Stage, binding: str, answer: dict[str, Any], text: str
) -> None:
    def script(request: dict[str, Any]) -> Reply:
        last = request["messages"][-1]
        if last["role"] == "tool":
            return say(" ".join(str(m["content"]) for m in request["messages"] if m["role"] == "tool"))
        return call(("echo", {"text": "secret"}), ("get_time", {}))

    async with asking.model(script), client(asking, binding) as agent:
        updates = await said(agent, message("say it"))
        last = updates[-1].status_update
        assert last.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
        [about] = [MessageToDict(part.data) for part in last.status.message.parts if part.HasField("data")]
        assert (about["tool"], about["args"]) == ("echo", {"text": "secret"})
        wrong = message(data=answer | {"tool_call_id": "call-0-none"}, task=last.task_id)
        with pytest.raises(A2AError, match=r"no call|not found"):
            await said(agent, wrong)
        sent = message(data=answer | {"tool_call_id": about["tool_call_id"]}, task=last.task_id)
        done = await said(agent, sent)
        assert done[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED
        assert text in list(joined(done).values())[-1]
        [again] = [update for update in await said(agent, sent) if update.HasField("status_update")]
        assert again.status_update.status.state == TaskState.TASK_STATE_COMPLETED


async def test_a_void_attempt_is_replaced(asking: Stage, binding: str) -> None:
    replies = [say("half of an answer", chunks=4, delay=0.1, cut_after=3), say("the whole answer", chunks=2)]

    async with asking.model(lambda _: replies.pop(0)), client(asking, binding) as agent:
        updates = await said(agent, message("go"))
        assert list(joined(updates).values()) == ["the whole answer"]
        pieces = [update.artifact_update for update in updates if update.HasField("artifact_update")]
        assert any("half" in piece.artifact.parts[0].text for piece in pieces)
        assert [piece.append for piece in pieces].count(False) == 2


async def test_who_was_cut_off_subscribes_and_gets_the_whole_text(asking: Stage, binding: str) -> None:
    more = asyncio.Event()
    reply = say("one two three four", chunks=4, wait=more, wait_after=3)
    async with asking.model(lambda _: reply), client(asking, binding) as agent:
        task = await first_of(agent, message("count"))
        following = agent.subscribe(SubscribeToTaskRequest(id=task))
        shown = (await anext(following)).task
        more.set()
        rest = [each async for each in following]
        known = {artifact.artifact_id: artifact.parts[0].text for artifact in shown.artifacts}
        assert next(iter(known.values())).startswith("one")
        for piece in (each.artifact_update for each in rest if each.HasField("artifact_update")):
            before = known.get(piece.artifact.artifact_id, "") if piece.append else ""
            known[piece.artifact.artifact_id] = before + piece.artifact.parts[0].text
        assert list(known.values()) == ["one two three four"]
        assert rest[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED
        with pytest.raises(A2AError, match="has ended"):
            await anext(agent.subscribe(SubscribeToTaskRequest(id=shown.id)))


async def test_a_task_is_cancelled_once(asking: Stage, binding: str) -> None:
    never = asyncio.Event()
    async with (
        asking.model(lambda _: say("x y", chunks=2, wait=never)),
        client(asking, binding, streaming=False) as agent,
    ):
        [begun] = await said(agent, message("go"), return_immediately=True)
        assert begun.task.status.state in (TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING)
        ended = await agent.cancel_task(CancelTaskRequest(id=begun.task.id))
        assert ended.status.state == TaskState.TASK_STATE_CANCELED
        with pytest.raises(A2AError):
            await agent.cancel_task(CancelTaskRequest(id=begun.task.id))
        with pytest.raises(A2AError, match="has ended"):
            await said(agent, message("go on", task=begun.task.id))
        never.set()


async def test_a_message_that_only_asks_for_an_action_is_answered_by_a_message(asking: Stage, binding: str) -> None:
    never = asyncio.Event()
    async with asking.model(lambda _: say("x y", chunks=2, wait=never)), client(asking, binding) as agent:
        begun = await first_task(agent, message("count to a million"))
        [stopped] = await said(agent, message("stop", context=begun.context_id))
        assert stopped.message.role == Role.ROLE_AGENT
        assert stopped.message.parts[0].text
        never.set()


async def test_files_are_sent_and_made(asking: Stage, binding: str) -> None:
    seen: list[str] = []

    def script(request: dict[str, Any]) -> Reply:
        seen.append(str(request["messages"][-1]["content"]))
        return say("read")

    sent = message("what is in it?")
    sent.parts.append(Part(raw=b"42", filename="../n.txt", media_type="text/plain"))
    async with asking.model(script), client(asking, binding, streaming=False) as agent, asking.api() as api:
        [done] = await said(agent, sent)
        [file] = (await api.get(f"/v1/sessions/{done.task.context_id}/files"))["items"]
        assert (file["path"].rpartition("/")[2], file["size"]) == ("1-n.txt", 2)
        assert file["path"] in seen[0]
        name = message("again", context=done.task.context_id)
        name.parts.append(Part(url=f"{asking.url}/v1/sessions/{done.task.context_id}/files/{file['path']}"))
        await said(agent, name)
        assert "[Attached files: " + file["path"] in seen[1]
        sent.parts[1].raw = b"43"
        with pytest.raises(A2AError, match="another"):
            await said(agent, sent)


async def test_a_task_that_fails_says_why(asking: Stage, binding: str) -> None:
    async with asking.model(lambda _: fail(400, message="no such model")), client(asking, binding) as agent:
        updates = await said(agent, message("go"))
        status = updates[-1].status_update.status
        assert status.state == TaskState.TASK_STATE_FAILED
        assert "no such model" in status.message.parts[0].text
        unknown = message("go")
        unknown.metadata.update({"pentad": {"instruction": "nobody"}})
        with pytest.raises(A2AError, match="no instruction"):
            await said(agent, unknown)


async def test_a_client_of_version_0_3_is_served(asking: Stage) -> None:
    part = {"kind": "text", "text": "hi"}
    params = {"message": {"kind": "message", "messageId": "m1", "role": "user", "parts": [part]}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": params}
    async with (
        asking.model(lambda _: say("hello")),
        httpx.AsyncClient(base_url=asking.url, timeout=PATIENCE_S, trust_env=False) as http,
    ):
        card = (await http.get("/.well-known/agent-card.json")).json()
        assert card["url"] == f"{asking.url}/a2a"
        assert {skill["id"] for skill in card["skills"]} >= {"executor"}
        answered = (await http.post("/a2a", json=body)).json()["result"]
        assert (answered["kind"], answered["status"]["state"]) == ("task", "completed")
        streamed = await http.post("/a2a", json=body | {"method": "message/stream"})
        assert '"final":true' in streamed.text


@pytest.fixture(scope="module")
def packages() -> Path:
    folder = installed("@a2a-js/sdk@1.3.0")
    if folder is None:
        pytest.skip("the official client of A2A cannot be installed here: it needs node, npm and its registry")
    return folder


async def turns_of(packages: Path, system: Stage, binding: str, *turns: dict[str, Any]) -> list[dict[str, Any]]:
    """What the official client in JavaScript saw in these turns of one context."""
    script = packages / f"a2a_client-{new_session()}.mjs"
    script.write_text((ROOT / "tests" / "support" / "javascript" / "a2a_client.mjs").read_text())
    named = [turn | {"id": new_session()} for turn in turns]
    process = await asyncio.create_subprocess_exec(
        "node", str(script), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, cwd=packages
    )
    asked = {"url": system.url, "binding": binding, "turns": named}
    told, _ = await process.communicate(json.dumps(asked).encode())
    script.unlink()
    seen: list[dict[str, Any]] = json.loads(told)
    return seen


async def test_the_client_in_javascript_talks_decides_and_answers(asking: Stage, binding: str, packages: Path) -> None:
    def script(request: dict[str, Any]) -> Reply:
        last = request["messages"][-1]
        if last["role"] == "tool":
            return say(f"it says {last['content']}", chunks=2)
        if last["content"] == "book":
            return call(("ask_user", {"question": "For when?"}))
        return call(("echo", {"text": "hello"})) if last["content"] == "echo" else say(f"so: {last['content']}")

    async with asking.model(script):
        asked, answered, waits, decided = await turns_of(
            packages,
            asking,
            binding,
            {"say": "book"},
            {"say": "Monday", "answers": True},
            {"say": "echo"},
            {"data": {"approved": True}, "answers": True},
        )
    assert [each["error"] for each in (asked, answered, waits, decided)] == [None] * 4
    states = [each["kept"]["status"]["state"] for each in (asked, answered, waits, decided)]
    assert states == [TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_COMPLETED] * 2
    assert asked["updates"][-1]["value"]["status"]["message"]["parts"][0]["content"]["value"] == "For when?"
    assert [each["kept"]["artifacts"][-1]["parts"][0]["content"]["value"] for each in (answered, decided)] == [
        "so: Monday",
        "it says hello",
    ]
