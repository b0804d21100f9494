"""AG-UI 1.0: the official client holds conversations with tools, interruptions and void attempts."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from httpx2 import AsyncClient

from tests.support.javascript.packages import installed
from tests.support.models.replies import Reply, call, fail, say
from tests.support.processes.stage import Stage, new_session
from tests.support.processes.up import ROOT
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.acceptance
_CLIENT = ROOT / "tests" / "support" / "javascript" / "agui_client.mjs"


@pytest.fixture(scope="module")
def packages() -> Path:
    folder = installed("@ag-ui/client@1.0.0")
    if folder is None:
        pytest.skip("the official client of AG-UI cannot be installed here: it needs node, npm and its registry")
    return folder


async def run(packages: Path, system: Stage, *runs: dict[str, Any]) -> list[dict[str, Any]]:
    """What the official client saw in these runs of one thread."""
    script = packages / "agui_client.mjs"
    script.write_text(_CLIENT.read_text())
    asked = {"url": system.url, "thread": new_session(), "runs": runs}
    process = await asyncio.create_subprocess_exec(
        "node", str(script), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, cwd=packages
    )
    told, _ = await process.communicate(json.dumps(asked).encode())
    seen: list[dict[str, Any]] = json.loads(told)
    return seen


def kinds(run: dict[str, Any]) -> list[str]:
    return [event["type"] for event in run["events"]]


async def test_the_official_client_sees_tools_texts_and_the_end(asking: Stage, packages: Path) -> None:
    def script(request: dict[str, Any]) -> Reply:
        last = request["messages"][-1]
        if last["role"] == "tool":
            return say(f"it is {last['content']}", chunks=3, thinking="easy")
        return call(("calculator", {"expression": "6*7"}), text="let me see")

    async with asking.model(script):
        first, second = await run(packages, asking, {"run": "r1", "say": "what is 6*7?"}, {"run": "r2", "say": "again"})
    assert (first["error"], second["error"]) == (None, None)
    assert kinds(first)[0] == "RUN_STARTED"
    assert first["events"][-1]["outcome"] == {"type": "success"}
    assert first["events"][-1]["usage"][0]["totalTokens"] > 0
    roles = [(m["role"], m.get("content")) for m in first["messages"]]
    assert roles[0] == ("user", "what is 6*7?")
    assert ("assistant", "let me see") in roles
    assert ("tool", "42") in roles
    assert roles[-1] == ("assistant", "it is 42")
    assert ("reasoning", "easy") in roles
    [asked] = [c for m in first["messages"] for c in m.get("toolCalls", ())]
    assert asked["function"] == {"name": "calculator", "arguments": '{"expression":"6*7"}'}
    assert [m["content"] for m in second["messages"] if m["role"] == "user"] == ["what is 6*7?", "again"]
    assert next(e["name"] for e in second["events"] if e["type"] == "CUSTOM") == "pentad.message_routed"


async def test_a_pages_own_tool_is_called_and_its_result_goes_on_with_the_turn(asking: Stage, packages: Path) -> None:
    tools = [{"name": "get_place", "description": "Where the user is", "parameters": {"type": "object"}}]

    def script(request: dict[str, Any]) -> Reply:
        results = [m["content"] for m in request["messages"] if m["role"] == "tool"]
        if request["messages"][-1]["role"] == "tool":
            return say(f"so: {', '.join(results)}")
        return (
            call(("get_place", {"exact": True}), ("calculator", {"expression": "6*7"})) if not results else say("yes")
        )

    async with asking.model(script) as model:
        first, second, third = await run(
            packages,
            asking,
            {"run": "r1", "say": "where am I, and 6*7?", "tools": tools},
            {"run": "r2", "results": {"get_place": "in Berlin"}, "tools": tools},
            {"run": "r3", "say": "sure?", "tools": tools},
        )
    assert [each["error"] for each in (first, second, third)] == [None, None, None]
    assert [each["events"][-1]["outcome"] for each in (first, second, third)] == [{"type": "success"}] * 3
    started = [event["toolCallName"] for event in first["events"] if event["type"] == "TOOL_CALL_START"]
    assert started == ["get_place", "calculator"]
    assert [event["content"] for event in first["events"] if event["type"] == "TOOL_CALL_RESULT"] == ["42"]
    assert second["messages"][-1]["content"] == "so: in Berlin, 42"
    results = [m["content"] for m in second["messages"] if m["role"] == "tool"]
    assert sorted(results) == ["42", "in Berlin"], "its own result is not told to the client again"
    assert third["messages"][-1]["content"] == "yes"
    assert len(model.chats) == 3
    assert "get_place" in {tool["function"]["name"] for tool in model.chats[2]["tools"]}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"approved": True, "args": {"text": "public"}}, "public"),
        ({"approved": False, "reason": "keep it"}, "keep it"),
        (True, "secret"),
        (None, "refused"),
    ],
)
async def test_a_call_that_waits_for_approval_interrupts_the_run(
    asking: Stage, packages: Path, answer: Any, said: str
) -> None:
    def script(request: dict[str, Any]) -> Reply:
        last = request["messages"][-1]
        if last["role"] == "tool":
            return say(" ".join(str(m["content"]) for m in request["messages"] if m["role"] == "tool"))
        return call(("echo", {"text": "secret"}), ("get_time", {}))

    async with asking.model(script):
        first, second = await run(packages, asking, {"run": "r1", "say": "say it"}, {"run": "r2", "resume": [answer]})
    [asked] = first["interrupts"]
    assert (asked["reason"], asked["toolCallId"]) == ("approval", asked["id"].partition("/")[2])
    assert asked["metadata"]["tool"] == "echo"
    assert asked["responseSchema"]["required"] == ["approved"]
    assert first["events"][-1]["outcome"]["type"] == "interrupt"
    assert (first["error"], second["error"]) == (None, None)
    assert second["events"][-1]["outcome"] == {"type": "success"}
    assert said in second["messages"][-1]["content"]


async def test_a_question_is_answered_by_the_next_run(asking: Stage, packages: Path) -> None:
    def script(request: dict[str, Any]) -> Reply:
        last = request["messages"][-1]
        if last["content"] == "book":
            return call(("ask_user", {"question": "For when?"}))
        return say(f"booked for {last['content']}")

    async with asking.model(script):
        first, second = await run(packages, asking, {"run": "r1", "say": "book"}, {"run": "r2", "resume": ["Monday"]})
    [asked] = first["interrupts"]
    assert (asked["reason"], asked["message"]) == ("question", "For when?")
    assert (first["error"], second["error"]) == (None, None)
    assert second["messages"][-1]["content"] == "booked for Monday"


async def test_a_void_attempt_leaves_no_text_behind(asking: Stage, packages: Path) -> None:
    replies = [say("half of an answer", chunks=4, delay=0.1, cut_after=3), say("the whole answer", chunks=2)]

    def script(request: dict[str, Any]) -> Reply:
        return replies.pop(0)

    async with asking.model(script):
        [seen] = await run(packages, asking, {"run": "r1", "say": "go"})
    assert seen["error"] is None
    assert "MESSAGES_SNAPSHOT" in kinds(seen)
    assert [m["content"] for m in seen["messages"]] == ["go", "the whole answer"]


async def test_a_run_that_fails_is_an_error_of_the_client(asking: Stage, packages: Path) -> None:
    async with asking.model(lambda _: fail(400, message="no such model")):
        [seen] = await run(packages, asking, {"run": "r1", "say": "go"})
    assert seen["events"][-1]["type"] == "RUN_ERROR"
    assert "no such model" in seen["events"][-1]["message"]


async def test_a_client_that_was_cut_off_takes_the_run_up_where_it_was(asking: Stage) -> None:
    thread, more = new_session(), asyncio.Event()
    reply = say("one two three four", chunks=4, wait=more, wait_after=2)
    body = {"threadId": thread, "runId": "r1", "messages": [{"id": "u", "role": "user", "content": "count"}]}
    async with (
        asking.model(lambda _: reply),
        AsyncClient(base_url=asking.url, trust_env=False, timeout=PATIENCE_S) as http,
    ):
        seen, cursor = [], ""
        async with http.stream("POST", "/agui", json=body) as response:
            async for line in response.aiter_lines():
                cursor = line.removeprefix("id: ") if line.startswith("id: ") else cursor
                if line.startswith("data: "):
                    seen.append(json.loads(line.removeprefix("data: ")))
                if seen and seen[-1]["type"] == "TEXT_MESSAGE_CONTENT":
                    break
        more.set()
        told = await http.get(f"/agui/runs/r1?threadId={thread}&after={cursor}")
        again = [json.loads(line[6:]) for line in told.text.splitlines() if line.startswith("data: ")]
        repeated = await http.post("/agui", json=body)
        missing = await http.get(f"/agui/runs/r2?threadId={thread}")
    assert [event["type"] for event in again[:2]] == ["RUN_STARTED", "MESSAGES_SNAPSHOT"]
    assert [m["content"] for m in again[1]["messages"]] == ["count"]
    text = "".join(event["delta"] for event in again if event["type"] == "TEXT_MESSAGE_CONTENT")
    assert text == "one two three four"
    assert again[-1]["outcome"] == {"type": "success"}
    assert repeated.text.count('"RUN_FINISHED"') == 1
    assert missing.status_code == 404


async def told_by(http: AsyncClient, body: dict[str, Any], until: str = "RUN_FINISHED") -> tuple[list[Any], str]:
    """The events of a run up to one of this type, and the cursor of the last one that has any."""
    seen, cursor = list[Any](), ""
    async with http.stream("POST", "/agui", json=body) as response:
        assert response.status_code == 200, await response.aread()
        async for line in response.aiter_lines():
            cursor = line.removeprefix("id: ") if line.startswith("id: ") else cursor
            if line.startswith("data: "):
                seen.append(json.loads(line.removeprefix("data: ")))
            if seen and seen[-1]["type"] == until:
                break
    return seen, cursor


def in_stream(text: str) -> list[Any]:
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]


def text_in(events: list[Any]) -> str:
    return "".join(event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT")


async def test_a_run_that_a_decision_has_begun_is_taken_up_by_its_id(asking: Stage) -> None:
    thread, more = new_session(), asyncio.Event()

    def script(request: dict[str, Any]) -> Reply:
        if request["messages"][-1]["role"] == "tool":
            return say("one two three four", chunks=4, wait=more, wait_after=2)
        return call(("echo", {"text": "secret"}), text="let me see")

    said = {"threadId": thread, "runId": "r1", "messages": [{"id": "u", "role": "user", "content": "say it"}]}
    async with asking.model(script), AsyncClient(base_url=asking.url, trust_env=False, timeout=PATIENCE_S) as http:
        first, _ = await told_by(http, said)
        [asked] = first[-1]["outcome"]["interrupts"]
        answer = {"interruptId": asked["id"], "status": "resolved", "payload": True}
        decided = {"threadId": thread, "runId": "r2", "messages": said["messages"], "resume": [answer]}
        seen, cursor = await told_by(http, decided, "TEXT_MESSAGE_CONTENT")
        more.set()
        again = in_stream((await http.get(f"/agui/runs/r2?threadId={thread}&after={cursor}")).text)
        whole = in_stream((await http.get(f"/agui/runs/r2?threadId={thread}")).text)
        repeated, _ = await told_by(http, decided)
        late = await http.post("/agui", json=decided | {"runId": "r3", "resume": [answer | {"payload": False}]})
        unknown = await http.get(f"/agui/runs/r3?threadId={thread}")
        foreign = await http.get(f"/agui/runs/r2?threadId={new_session()}")
    assert seen[0]["runId"] == "r2"
    assert [event["type"] for event in again[:2]] == ["RUN_STARTED", "MESSAGES_SNAPSHOT"]
    assert [m["content"] for m in again[1]["messages"] if m["role"] == "user"] == ["say it"]
    for events in (again, whole, repeated):
        assert text_in(events) == "one two three four"
        assert events[-1]["outcome"] == {"type": "success"}
        assert {event["runId"] for event in events if "runId" in event} == {"r2"}
    assert late.status_code == 409
    assert unknown.status_code == 404, "a run whose decision was refused"
    assert foreign.status_code == 404


async def test_a_snapshot_of_a_run_that_a_decision_has_begun_has_each_text_once(asking: Stage) -> None:
    thread = new_session()

    def script(request: dict[str, Any]) -> Reply:
        if request["messages"][-1]["role"] == "tool":
            return say("it is said")
        return call(("echo", {"text": "secret"}))

    said = {"threadId": thread, "runId": "r1", "messages": [{"id": "u", "role": "user", "content": "say it"}]}
    async with asking.model(script), AsyncClient(base_url=asking.url, trust_env=False, timeout=PATIENCE_S) as http:
        first, _ = await told_by(http, said)
        [asked] = first[-1]["outcome"]["interrupts"]
        answer = {"interruptId": asked["id"], "status": "resolved", "payload": True}
        _, cursor = await told_by(
            http, {"threadId": thread, "runId": "r2", "messages": [], "resume": [answer]}, "STEP_FINISHED"
        )
        again = in_stream((await http.get(f"/agui/runs/r2?threadId={thread}&after={cursor}")).text)
    texts = [m["content"] for m in again[1]["messages"] if m["role"] in ("user", "assistant") and m.get("content")]
    assert texts == ["say it", "it is said"]


async def test_a_message_while_a_call_waits_interrupts_its_run_with_that_call(asking: Stage) -> None:
    """The official client allows no such run; others may."""
    thread = new_session()

    def script(request: dict[str, Any]) -> Reply:
        return call(("echo", {"text": "secret"}))

    async def interrupts(http: AsyncClient, run_id: str, text: str) -> list[str]:
        said = [{"id": run_id, "role": "user", "content": text}]
        told = await http.post("/agui", json={"threadId": thread, "runId": run_id, "messages": said})
        last = json.loads(told.text.strip().rpartition("data: ")[2])
        return [each["toolCallId"] for each in last["outcome"]["interrupts"]]

    async with asking.model(script), AsyncClient(base_url=asking.url, trust_env=False, timeout=PATIENCE_S) as http:
        first = await interrupts(http, "r1", "say it")
        assert len(first) == 1
        assert await interrupts(http, "r2", "use the other words") == first
