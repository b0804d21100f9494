"""The MCP server: the official clients of both eras hold conversations with tools, questions and approvals."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError
from mcp_types import CallToolResult, ElicitRequestFormParams, ElicitResult

from tests.support.javascript.packages import installed
from tests.support.models.replies import Reply, call, say
from tests.support.processes.cluster import Cluster
from tests.support.processes.stage import Stage, new_session
from tests.support.processes.up import ROOT
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance
_SCRIPT = ROOT / "tests" / "support" / "javascript" / "mcp_client.mjs"
_ERAS = ("auto", "legacy")


def model(request: dict[str, Any]) -> Reply:
    """Answer as the last message asks for."""
    last = request["messages"][-1]
    text = str(last["content"])
    if last["role"] == "tool":
        return say(f"it is {text}")
    if "6*7" in text:
        return call(("calculator", {"expression": "6*7"}))
    if "say secret" in text:
        return call(("echo", {"text": "secret"}))
    if "book" in text:
        return call(("ask_user", {"question": "For when?"}))
    return say('{"grade":"good"}' if "essay" in text else f"heard {text}")


class Person:
    """The person before a client: what it was asked, and what it answers."""

    def __init__(self, *answers: ElicitResult) -> None:
        self.asked: list[ElicitRequestFormParams] = []
        self._answers = list(answers)

    async def __call__(self, context: Any, params: Any) -> ElicitResult:
        self.asked.append(params)
        return self._answers.pop(0)


@asynccontextmanager
async def connected(url: str, era: Any, person: Person | None = None) -> AsyncIterator[Client]:
    async with Client(f"{url}/mcp", mode=era, elicitation_callback=person) as client:
        yield client


def text_of(result: CallToolResult) -> str:
    return str(result.content[0].text)  # type: ignore[union-attr]


@pytest.mark.parametrize("era", _ERAS)
async def test_a_conversation_with_tools_and_progress(asking: Stage, era: str) -> None:
    told: list[str | None] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    session = new_session()
    async with asking.model(model), connected(asking.url, era) as client:
        sent = {"content": "what is 6*7?", "session_id": session, "message_id": "m1"}
        first = await client.call_tool("send", sent, progress_callback=on_progress)
        repeated = await client.call_tool("send", sent)
        again = await client.call_tool("send", {"content": "and now?", "session_id": session})
        wrong = await client.call_tool("send", sent | {"content": "another text"})
    assert not first.is_error
    assert text_of(first).startswith("it is 42\n")
    assert first.structured_content["status"] == "completed"
    assert told[0] == f"message m1 of session {session}"
    assert told[2:4] == ["calls calculator", "calculator has answered"]
    assert repeated.structured_content == first.structured_content
    assert again.structured_content["answer"] == "heard and now?"
    assert (wrong.is_error, "another" in text_of(wrong)) == (True, True), text_of(wrong)


@pytest.mark.parametrize("era", _ERAS)
async def test_instructions_are_tools_with_their_schemas(asking: Stage, era: str) -> None:
    async with asking.model(model), connected(asking.url, era) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        graded = await client.call_tool("run__grade", {"input": "an essay"})
        by_name = await client.call_tool("run", {"name": "simple", "input": "hello"})
        unknown = await client.call_tool("run", {"name": "nobody", "input": "hello"})
        with pytest.raises(MCPError, match="no tool 'fly'"):
            await client.call_tool("fly", {})
        misspelt = await client.call_tool("run", {"name": "simple", "input": "hello", "sesion_id": "s"})
    assert tools["run__grade"].description == "Grades a text."
    schema = tools["run__grade"].output_schema or {}
    assert schema["properties"]["data"]["required"] == ["grade"]
    assert schema["$defs"] == {"Grade": {"enum": ["good", "bad"]}}
    assert not {"run__router", "run__memory_archiver"} & set(tools)
    assert graded.structured_content["data"] == {"grade": "good"}
    assert by_name.structured_content["answer"] == "heard hello"
    refused = [(each.is_error, text_of(each)) for each in (unknown, misspelt)]
    assert [failed for failed, _ in refused] == [True] * 2
    assert "nobody" in refused[0][1]
    assert "sesion_id: not known here" in refused[1][1]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"approved": True}, "it is secret"),
        ({"approved": True, "args": '{"text": "public"}'}, "public"),
        ({"approved": False, "reason": "keep it"}, "keep it"),
        (None, "refused"),
    ],
)
async def test_an_approval_is_asked_of_the_person(asking: Stage, answer: Any, said: str) -> None:
    given = ElicitResult(action="decline") if answer is None else ElicitResult(action="accept", content=answer)
    person = Person(given)
    async with asking.model(model), connected(asking.url, "auto", person) as client:
        result = await client.call_tool("send", {"content": "say secret"})
    assert 'echo({"text":"secret"})' in person.asked[0].message
    assert said in text_of(result)
    assert result.structured_content["status"] == "completed"


async def test_a_question_is_asked_of_the_person(asking: Stage) -> None:
    person = Person(ElicitResult(action="accept", content={"answer": "Monday"}))
    async with asking.model(model), connected(asking.url, "auto", person) as client:
        result = await client.call_tool("run__executor", {"input": "book a table"})
    assert person.asked[0].message == "For when?"
    assert result.structured_content["answer"] == "heard Monday"


async def test_a_person_who_closes_the_question_has_not_decided(asking: Stage) -> None:
    person = Person(ElicitResult(action="cancel"))
    async with asking.model(model), connected(asking.url, "auto", person) as client:
        closed = await client.call_tool("send", {"content": "say secret"})
        ids = {name: closed.structured_content[name] for name in ("session_id", "message_id")}
        [waiting] = closed.structured_content["waiting"]
        decided = {"task_id": waiting["task_id"], "tool_call_id": waiting["tool_call_id"], "approved": True}
        other = await client.call_tool("decide", decided | {"args_digest": "0" * 64})
        assert not (await client.call_tool("decide", decided)).is_error
        state = await client.call_tool("run_state", ids)
    assert len(person.asked) == 1
    assert (other.is_error, "other arguments" in text_of(other)) == (True, True)
    assert state.structured_content["answer"] == "it is secret"


async def test_a_client_without_a_way_back_is_told_in_words(asking: Stage) -> None:
    async with asking.model(model), connected(asking.url, "legacy") as client:
        asked = await client.call_tool("send", {"content": "say secret"})
        [waiting] = asked.structured_content["waiting"]
        assert waiting["tool_call_id"] in text_of(asked)
        decided = {"task_id": waiting["task_id"], "tool_call_id": waiting["tool_call_id"], "approved": True}
        await client.call_tool("decide", decided)
        ids = {name: asked.structured_content[name] for name in ("session_id", "message_id")}
        ended = await client.call_tool("run_state", ids)
        question = await client.call_tool("send", {"content": "book"})
        ids = {name: question.structured_content[name] for name in ("session_id", "task_id")}
        booked = await client.call_tool("send", ids | {"content": "Monday"})
    assert ended.structured_content["answer"] == "it is secret"
    assert text_of(question).startswith("For when?\n")
    assert booked.structured_content["answer"] == "heard Monday"


@pytest.mark.parametrize("era", _ERAS)
async def test_memory_is_noted_found_and_opened(asking: Stage, era: str) -> None:
    async with connected(asking.url, era) as client:
        noted = await client.call_tool("memory_note", {"text": f"The ferry of {era} leaves at nine."})
        found = await client.call_tool("memory_search", {"query": f"when does the ferry of {era} leave?"})
        hit = found.structured_content["hits"][0]
        opened = await client.call_tool("memory_expand", {"anchor": hit["anchor"]})
        refused = await client.call_tool("memory_search", {"query": "", "limit": 5})
    assert not noted.is_error
    assert hit["content"] == f"The ferry of {era} leaves at nine."
    assert opened.structured_content["focus"]["content"] == f"The ferry of {era} leaves at nine."
    assert refused.is_error


@pytest.mark.parametrize("era", _ERAS)
async def test_files_of_sessions_are_resources(asking: Stage, era: str) -> None:
    session = f"{new_session()}-{era}"
    async with (
        asking.model(model),
        connected(asking.url, era) as client,
        httpx2.AsyncClient(base_url=asking.url, trust_env=False) as http,
    ):
        await client.call_tool("send", {"content": "hi", "session_id": session})
        files = {"notes/a b.md": b"# hello", "image.png": b"\x89PNG\x00", "big.txt": bytes(1 << 21)}
        for path, data in files.items():
            assert (await http.put(f"/v1/sessions/{session}/files/{path}", content=data)).status_code == 200
        listed = {each.uri: each for each in (await client.list_resources()).resources if session in each.uri}
        assert sorted(each.name for each in listed.values()) == ["big.txt", "image.png", "notes/a b.md"]
        read = {each.name: each.uri for each in listed.values()}
        [text] = (await client.read_resource(read["notes/a b.md"])).contents
        [image] = (await client.read_resource(read["image.png"])).contents
        assert (text.mime_type, text.text) == ("text/markdown", "# hello")  # type: ignore[union-attr]
        assert (image.mime_type, image.blob) == ("image/png", "iVBORwA=")  # type: ignore[union-attr]
        for refused in (read["big.txt"], f"pentad-files://sessions/{session}/../x", "pentad-files://sessions/x", "x:y"):
            with pytest.raises(Exception, match=r"bytes|path|form|file"):
                await client.read_resource(refused)
        [template] = (await client.list_resource_templates()).resource_templates
        assert template.uri_template == "pentad-files://sessions/{session_id}/{+path}"


@pytest.fixture(scope="module")
def packages() -> Path:
    folder = installed("@modelcontextprotocol/sdk@1.32.2", "@modelcontextprotocol/client@2.4.0")
    if folder is None:
        pytest.skip("the official clients of MCP cannot be installed here: they need node, npm and its registry")
    return folder


@pytest.mark.parametrize("era", ["2025", "2026"])
async def test_the_official_clients_in_javascript(asking: Stage, packages: Path, era: str) -> None:
    session = new_session()
    script = packages / "mcp_client.mjs"
    script.write_text(_SCRIPT.read_text())
    calls = [
        {"name": "send", "arguments": {"content": "what is 6*7?", "session_id": session}},
        {"name": "send", "arguments": {"content": "say secret", "session_id": session}},
        {"name": "run__grade", "arguments": {"input": "an essay"}},
    ]
    approves = [{"action": "accept", "content": {"approved": True}}]
    asked = {"era": era, "url": asking.url, "calls": calls, "answers": approves}
    async with asking.model(model), httpx2.AsyncClient(base_url=asking.url, trust_env=False) as http:
        await http.put(f"/v1/sessions/{session}/files/a.txt", content=b"hello")
        process = await asyncio.create_subprocess_exec(
            "node",
            str(script),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=packages,
        )
        out, err = await process.communicate(json.dumps(asked).encode())
    assert process.returncode == 0, err.decode()
    seen = json.loads(out)
    first, second, third = (each["structuredContent"] for each in seen["results"])
    assert {"run", "send", "run_state", "decide", "memory_search", "run__grade"} <= set(seen["tools"])
    assert first["answer"] == "it is 42"
    assert "calls calculator" in seen["progress"]
    assert third["data"] == {"grade": "good"}
    assert seen["read"]["text"] == "hello"
    if era == "2026":
        assert (second["status"], second["answer"], len(seen["questions"])) == ("completed", "it is secret", 1)
    else:
        assert (second["status"], second["waiting"][0]["tool"], seen["questions"]) == ("waiting", "echo", [])


@pytest.mark.parametrize("era", _ERAS)
async def test_a_long_run_is_told_after_its_gateway_was_killed(cluster: Cluster, era: str) -> None:
    """The client loses its connection and comes back to the other gateway with the same ids: nothing runs twice."""
    first, second = cluster.gateways
    go, session, begun = asyncio.Event(), new_session(), asyncio.Event()
    asked = {"name": "simple", "input": "think long", "session_id": session, "message_id": "m1"}
    prompts: list[Any] = []

    def script(request: dict[str, Any]) -> Reply:
        prompts.append(request)
        begun.set()
        return say("one two three", chunks=3, wait=go, wait_after=1)

    async with cluster.model(script):
        short = await _called(first, era, asked | {"wait": 0})
        assert short.structured_content["status"] in ("accepted", "running")
        lost = asyncio.create_task(_called(first, era, asked))
        await begun.wait()
        gateway = cluster.system.named("gateway")[0]
        assert gateway.running is not None
        gateway.running.kill()
        with pytest.raises((MCPError, httpx2.HTTPError, ExceptionGroup)):
            await lost
        running = asyncio.create_task(_called(second, era, asked))
        go.set()
        ended = await running
        await asyncio.to_thread(cluster.system.restart, gateway)
        await cluster.all_ready()
        state = await _called(gateway.url, era, {"session_id": session, "message_id": "m1"}, "run_state")
    assert ended.structured_content["answer"] == state.structured_content["answer"] == "one two three"
    assert len(prompts) == 1


async def _called(url: str, era: Any, args: dict[str, Any], tool: str = "run") -> CallToolResult:
    async with connected(url, era) as client:
        return await client.call_tool(tool, args)


async def test_a_question_is_answered_at_another_gateway(cluster: Cluster) -> None:
    """The state that a client hands back is all that a gateway needs; handed back twice, it is one answer."""
    first, second = cluster.gateways
    session = new_session()
    asked = {"content": "book a table", "session_id": session}
    params: dict[str, Any] = {"name": "send", "arguments": asked}
    async with cluster.model(model):
        question = await _posted(first, params)
        assert question["resultType"] == "input_required"
        said = {"answer": {"action": "accept", "content": {"answer": "Monday"}}}
        resumed = params | {"inputResponses": said, "requestState": question["requestState"]}
        answers = [await _posted(url, resumed) for url in (second, first)]
    assert [each["structuredContent"]["answer"] for each in answers] == ["heard Monday"] * 2
    assert answers[0]["structuredContent"]["message_id"] == answers[1]["structuredContent"]["message_id"]


async def test_the_holder_of_a_token_is_asked_only_what_the_token_may_answer(asking: Stage) -> None:
    session = new_session()
    async with asking.model(model), asking.api() as api:
        for may in (["read", "send"], ["read", "send", "approve"]):
            given = await api.post("/v1/tokens", {"session_id": session, "may": may}, status=200)
            sent = {"name": "send", "arguments": {"content": f"say secret {len(may)}"}}
            result = await _posted(asking.url, sent, given["token"])
            if "approve" in may:
                assert result["resultType"] == "input_required"
            else:
                assert result["structuredContent"]["waiting"][0]["tool"] == "echo"


async def _posted(url: str, params: dict[str, Any], token: str = "") -> dict[str, Any]:
    """Return the result of a tool call of 2026, posted by hand."""
    about = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params | {"_meta": about}}
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": params["name"],
    }
    if token:
        headers["authorization"] = f"Bearer {token}"
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as http:
        answer = await http.post(f"{url}/mcp", json=body, headers=headers)
    data = answer.text if "json" in answer.headers["content-type"] else answer.text.rpartition("\ndata: ")[2]
    result: dict[str, Any] = json.loads(data)["result"]
    return result


async def test_what_takes_longer_than_the_caller_waits_goes_on(asking: Stage) -> None:
    go = asyncio.Event()
    async with (
        asking.model(lambda _: say("at last", chunks=2, wait=go, wait_after=1)),
        connected(asking.url, "auto") as client,
    ):
        begun = await client.call_tool("run__simple", {"input": "think", "wait": 0.05})
        ids = {name: begun.structured_content[name] for name in ("session_id", "message_id")}
        waiting = asyncio.create_task(client.call_tool("run_state", ids))

        async def runs() -> bool:
            return bool(
                (await client.call_tool("run_state", ids | {"wait": 0})).structured_content["status"] == "running"
            )

        await wait_until("it runs", runs)
        go.set()
        ended = await waiting
    assert "run_state" in text_of(begun)
    assert ended.structured_content["answer"] == "at last"


async def test_a_run_is_cancelled(asking: Stage) -> None:
    reply = say("never", chunks=2, wait=asyncio.Event(), wait_after=1)
    async with asking.model(lambda _: reply), connected(asking.url, "auto") as client:
        begun = await client.call_tool("run__simple", {"input": "think", "wait": 0.05})
        ids = {name: begun.structured_content[name] for name in ("session_id", "message_id")}

        async def task() -> str:
            state = await client.call_tool("run_state", ids | {"wait": 0})
            return str(state.structured_content.get("task_id", ""))

        await wait_until("its task is known", task)
        asked = await client.call_tool("cancel", {"task_id": await task()})
        ended = await client.call_tool("run_state", ids)
    assert not asked.is_error
    assert (ended.is_error, ended.structured_content["status"]) == (True, "cancelled")
