"""Approvals over REST, WebSocket, Python and the command line: the list, the decision, and what is refused."""

import asyncio
import json
from typing import Any

import httpx2
import pytest

from pentad.cli.chat_commands import decide, understood
from pentad.cli.main import main
from pentad.client.agent import Agent
from pentad.client.gateway import Address
from pentad.contracts.approvals import digest_of_args
from pentad.contracts.commands import ToolCallCommand
from pentad.contracts.errors import ErrorCode
from pentad.contracts.tools import Effect
from pentad.errors import Conflict, NotFound, Refused
from pentad.services.gateway.app import GatewayService
from pentad.shared.actors.approvals import KeptRequest, kept_request, waits_in_index
from pentad.shared.keys import TaskKeys, approvals
from tests.integration.gateway.conftest import opened, running
from tests.integration.gateway.speaker import AT, TASK, Speaker
from tests.integration.gateway.test_tokens import KEYS, rest, token_for

CALL = "call-0-a"
URL = f"/v1/tasks/{TASK}/approvals/{CALL}"
ARGS = {"to": "ada"}
SCHEMA = {
    "type": "object",
    "properties": {"to": {"type": "string", "minLength": 2}},
    "required": ["to"],
    "additionalProperties": False,
}


async def asks(
    speaker: Speaker, call: str = CALL, left_ms: int = 60_000, schema: Any = None, approvers: list[str] | None = None
) -> TaskKeys:
    """A call of the task waits for a decision, as the task-runner writes it."""
    keys, now = await speaker.task(status="waiting", reason="approval"), await speaker.store.clock()
    command = ToolCallCommand(
        event_id="e", at=AT, tenant_id=speaker.keys.tenant, session_id=speaker.keys.session, task_id=TASK,
        tool_call_id=call, step=1, tool="send_mail", args=ARGS, effect=Effect.UNSAFE, timeout=60,
    )  # fmt: skip
    until, digest = now + left_ms, digest_of_args(ARGS)
    request = KeptRequest(
        command=command, queue="default", parameters=schema or SCHEMA, args_digest=digest, reason="why", asked_at=now,
        expires_at=until, approvers=approvers,
    )  # fmt: skip
    await speaker.store.call("HSET", keys.big, kept_request(call), request.to_json())
    await speaker.store.call("HSET", keys.calls, call, f"asks {until} {digest}")
    await speaker.store.call("ZADD", approvals(0, keys.tenant), until, waits_in_index(TASK, call))
    return keys


async def decisions(speaker: Speaker, keys: TaskKeys) -> list[dict[str, Any]]:
    """The decisions that the task was told of."""
    mail = await speaker.store.call("ZRANGE", keys.signals, 0, -1)
    return [json.loads(each.split(b" approval ", 1)[1]) for each in mail]


async def test_calls_that_wait_are_listed_until_they_are_decided_about(
    http: httpx2.AsyncClient, speaker: Speaker
) -> None:
    await asks(speaker)
    (shown,) = (await http.get("/v1/approvals")).json()["items"]
    names = ("task_id", "session_id", "tool_call_id", "tool", "args", "effect")
    assert [shown[name] for name in names] == [TASK, "s1", CALL, "send_mail", ARGS, "unsafe"]
    assert (shown["args_digest"], shown["reason"]) == (digest_of_args(ARGS), "why")
    await http.post(URL, json={"approved": True})
    assert (await http.get("/v1/approvals")).json() == {"items": [], "next": None}


async def test_the_list_has_pages_and_leaves_out_what_is_over(http: httpx2.AsyncClient, speaker: Speaker) -> None:
    for n in range(5):
        await asks(speaker, f"call-0-{n}", 60_000 + n)
    await asks(speaker, "call-0-late", 0)
    keys = await asks(speaker, "call-0-gone")
    await speaker.store.call("HDEL", keys.big, kept_request("call-0-gone"))
    await asks(speaker, "call-0-damaged")
    await speaker.store.call("HSET", keys.big, kept_request("call-0-damaged"), "{")
    seen, cursor = [], ""
    for _ in range(6):
        page = (await http.get(f"/v1/approvals?limit=2{cursor}")).json()
        seen += [each["tool_call_id"] for each in page["items"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert seen == [f"call-0-{n}" for n in (4, 3, 2, 1, 0)]


async def test_a_decision_is_mail_and_an_event_once(http: httpx2.AsyncClient, speaker: Speaker) -> None:
    keys = await asks(speaker)
    body = {"approved": True, "args": {"to": "eve"}, "reason": "she asked", "args_digest": digest_of_args(ARGS)}
    first = await http.post(URL, json=body)
    assert first.status_code == 200, first.text
    decided = {"task_id": TASK, "tool_call_id": CALL, "approved": True, "by": "key:default", "args": {"to": "eve"}}
    assert {**first.json(), "at": ""} == decided | {"reason": "she asked", "at": ""}
    assert (await http.post(URL, json=body)).json() == first.json()
    other = await http.post(URL, json={"approved": False})
    assert (other.status_code, other.json()["code"]) == (409, ErrorCode.NOT_ALLOWED)
    assert await decisions(speaker, keys) == [
        {"tool_call_id": CALL, "approved": True, "by": "key:default", "reason": "she asked", "args": {"to": "eve"}}
    ]
    events = [json.loads(fields[1]) for _, fields in await speaker.store.call("XRANGE", speaker.keys.events, "-", "+")]
    assert [(e["type"], e["by"], e["args"]) for e in events] == [("approval", "key:default", {"to": "eve"})]


@pytest.mark.parametrize(
    ("url", "body", "status", "says"),
    [
        (URL, {}, 422, "approved:"),
        (URL, {"approved": "yes"}, 422, "approved:"),
        (URL, {"approved": 1}, 422, "approved:"),
        (URL, {"approved": True, "args": []}, 422, "args:"),
        (URL, {"approved": True, "args": {"to": "x"}}, 422, "args: to:"),
        (URL, {"approved": True, "args": {"to": 5}}, 422, "args: to:"),
        (URL, {"approved": True, "args": {"cc": "x" * 1000}}, 422, "args:"),
        (URL, {"approved": True, "args": {"to": "x" * 65_536}}, 422, "65536 bytes"),
        (URL, {"approved": False, "args": {"to": "eve"}}, 422, "leave them out"),
        (URL, {"approved": True, "reason": "x" * 2_001}, 422, "reason:"),
        (URL, {"approved": True, "reason": {"a": 1}}, 422, "reason:"),
        (URL, {"approved": True, "args_digest": "abc"}, 422, "args_digest:"),
        (URL, {"approved": True, "args_digest": "0" * 64}, 409, "other arguments"),
        (URL, {"approved": True, "by": "root"}, 422, "by: not known"),
        (URL, "yes", 400, "object"),
        (f"/v1/tasks/{TASK}/approvals/call-0-b", {"approved": True}, 404, "waits for an approval"),
        (f"/v1/tasks/{TASK}/approvals/a%20b", {"approved": True}, 404, "no such call"),
        ("/v1/tasks/task-0-nope/approvals/call-0-a", {"approved": True}, 404, "no task"),
        ("/v1/tasks/task-9-nope/approvals/call-0-a", {"approved": True}, 404, "no task"),
    ],
)
async def test_what_is_no_decision_decides_nothing_and_says_why(
    http: httpx2.AsyncClient, speaker: Speaker, url: str, body: object, status: int, says: str
) -> None:
    keys = await asks(speaker)
    refused = await http.post(url, json=body)
    assert (refused.status_code, says in refused.json()["detail"]) == (status, True), refused.text
    assert len(refused.content) < 2_000
    assert await decisions(speaker, keys) == []
    assert len((await http.get("/v1/approvals")).json()["items"]) == 1


async def test_a_decision_that_comes_too_late_is_refused(http: httpx2.AsyncClient, speaker: Speaker) -> None:
    keys = await asks(speaker, left_ms=0)
    late = await http.post(URL, json={"approved": True})
    assert (late.status_code, "time to decide" in late.json()["detail"]) == (409, True)
    assert await decisions(speaker, keys) == []


async def test_arguments_are_not_changed_where_no_schema_can_check_them(
    http: httpx2.AsyncClient, speaker: Speaker
) -> None:
    await asks(speaker, schema={"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"})
    refused = await http.post(URL, json={"approved": True, "args": {"to": "eve"}})
    assert (refused.status_code, "too large to check" in refused.json()["detail"]) == (422, True)
    assert (await http.post(URL, json={"approved": True})).status_code == 200


async def test_a_frame_decides_as_a_request_does(gateway: GatewayService, speaker: Speaker) -> None:
    keys = await asks(speaker)
    async with opened(gateway.address) as client:
        for wrong in (
            {"task_id": TASK},
            {"task_id": 1, "tool_call_id": CALL},
            {"task_id": TASK, "tool_call_id": "a b"},
        ):
            await client.send(type="approve", approved=True, **wrong)
            assert (await client.receive())["code"] == ErrorCode.BAD_MESSAGE
        await client.send(type="approve", task_id=TASK, tool_call_id=CALL, approved=False, reason="no")
        event = await client.receive()
        assert (event["type"], event["approved"], event["reason"]) == ("approval", False, "no")
        await client.send(type="approve", task_id=TASK, tool_call_id=CALL, approved=True)
        assert (await client.receive())["code"] == ErrorCode.NOT_ALLOWED
    assert len(await decisions(speaker, keys)) == 1


async def test_a_token_decides_for_its_session_alone_and_its_user_is_who_decided(
    redis_url: str, speaker: Speaker
) -> None:
    acme = Speaker(speaker.store, tenant="acme")
    await asks(acme)
    async with running(redis_url, pentad_api_keys=KEYS) as service:
        async with rest(service, await token_for(service, may=["read", "send"])) as http:
            assert (await http.post(URL, json={"approved": True})).status_code == 403
            assert (await http.get("/v1/approvals")).status_code == 403
        async with rest(service, await token_for(service, session_id="s2", may=["approve"])) as http:
            assert (await http.post(URL, json={"approved": True})).status_code == 404
            assert (await http.get("/v1/approvals")).json()["items"] == []
        async with rest(service, await token_for(service, user_id="alice", may=["approve"])) as http:
            assert len((await http.get("/v1/approvals")).json()["items"]) == 1
            assert (await http.post(URL, json={"approved": True})).json()["by"] == "alice"


async def test_only_the_approvers_of_a_call_decide_by_their_token_or_where_it_is_named_by_the_key(
    redis_url: str, speaker: Speaker
) -> None:
    acme = Speaker(speaker.store, tenant="acme")
    await asks(acme, approvers=["alice"])
    await asks(acme, "call-0-key", approvers=["key"])
    of_key = URL.replace(CALL, "call-0-key")
    async with running(redis_url, pentad_api_keys=KEYS) as service:
        async with rest(service, "ka") as http:
            shown = (await http.get("/v1/approvals")).json()["items"]
            assert {each["tool_call_id"]: each["approvers"] for each in shown} == {
                CALL: ["alice"],
                "call-0-key": ["key"],
            }
            refused = await http.post(URL, json={"approved": False})
            assert (refused.status_code, refused.json()["code"]) == (403, ErrorCode.NOT_ALLOWED)
            assert "an API key is not among them: send the token of one" in refused.json()["detail"]
        for user in ("bob", "key", None):
            asked: dict[str, Any] = {"may": ["approve"]} | ({} if user is None else {"user_id": user})
            async with rest(service, await token_for(service, **asked)) as http:
                for url in (URL, of_key):
                    refused = await http.post(url, json={"approved": False})
                    assert (refused.status_code, "this token's user is not" in refused.json()["detail"]) == (403, True)
        async with rest(service, await token_for(service, user_id="alice", may=["approve"])) as http:
            assert (await http.post(of_key, json={"approved": True})).status_code == 403
            assert (await http.post(URL, json={"approved": True})).json()["by"] == "alice"
        async with rest(service, "ka") as http:
            assert (await http.post(of_key, json={"approved": True})).json()["by"] == "key:acme"


async def test_python_lists_allows_and_refuses(gateway: GatewayService, speaker: Speaker) -> None:
    await asks(speaker)
    async with Agent(Address.parse(gateway.address)) as agent:
        (waiting,) = await agent.inspection.approvals()
        with pytest.raises(Refused, match="args: to"):
            await agent.management.approve(TASK, CALL, args={"to": 5})
        decided = await agent.management.approve(TASK, CALL, args={"to": "eve"}, args_digest=waiting.args_digest)
        assert (decided.approved, decided.args) == (True, {"to": "eve"})
        with pytest.raises(Conflict, match="approved with other arguments by key:default before"):
            await agent.management.refuse(TASK, CALL, reason="no")
        with pytest.raises(NotFound):
            await agent.inspection.approval(CALL)


async def test_a_line_of_a_chat_decides_about_the_only_call_or_the_named_one(
    gateway: GatewayService, speaker: Speaker
) -> None:
    async with Agent(Address.parse(gateway.address)) as agent:
        agent.session_id = "s1"
        with pytest.raises(Refused, match="no call waits"):
            await decide(agent, understood("/approve"))
        keys = await asks(speaker)
        await asks(speaker, "call-0-b")
        with pytest.raises(Refused, match="several calls wait: name one of call-0-"):
            await decide(agent, understood("/refuse"))
        with pytest.raises(NotFound, match="no call call-0-c waits"):
            await decide(agent, understood("/approve call-0-c"))
        turn = await decide(agent, understood("/approve call-0-b"))
        assert turn.task_id == TASK
        with pytest.raises(Refused, match="call-0-b was approved before, by key:default at "):
            await decide(agent, understood("/approve call-0-b"))
        with pytest.raises(Conflict, match="call-0-b was approved by key:default before: the first decision counts"):
            await decide(agent, understood("/refuse call-0-b"))
        await decide(agent, understood("/refuse too dear"))
    told = [(d["tool_call_id"], d["approved"], d["reason"]) for d in await decisions(speaker, keys)]
    assert told == [("call-0-b", True, ""), (CALL, False, "too dear")]


async def test_commands_list_allow_and_refuse(
    gateway: GatewayService, speaker: Speaker, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = await asks(speaker)
    await asks(speaker, "call-0-b")
    await speaker.task("task-0-newer", status="completed", created=9_000)  # which knows nothing of these calls

    async def command(*words: str) -> tuple[int, str]:
        code = await asyncio.to_thread(main, [*words, "--url", gateway.address])
        return code, capsys.readouterr().out

    async def failing(*words: str) -> tuple[int, str, str]:
        code = await asyncio.to_thread(main, [*words, "--url", gateway.address])
        said = capsys.readouterr()
        return code, said.out, said.err

    code, out = await command("approvals")
    assert code == 0
    assert "call-0-a" in out
    assert 'send_mail(to="ada")' in out
    assert await command("approve", CALL, "--edit", '{"to":"eve"}') == (0, "call-0-a is approved\n")
    assert await command("refuse", "call-0-b", "--reason", "no") == (0, "call-0-b is refused\n")
    assert [(d["approved"], d["reason"], d.get("args")) for d in await decisions(speaker, keys)] == [
        (True, "", {"to": "eve"}), (False, "no", None),
    ]  # fmt: skip
    assert await command("approvals") == (0, "no call waits for an approval\n")
    code, out = await command("refuse", "call-0-b")
    assert (code, out.partition(" at ")[0]) == (0, "call-0-b was refused before, by key:default")
    for call, how in ((CALL, "approved with other arguments"), ("call-0-b", "refused")):
        code, _, err = await failing("approve", call)
        assert (code, f"{call} was {how} by key:default before: the first decision counts" in err) == (1, True)
    assert (await failing("approve", "call-0-z"))[0] == 1
    assert len(await decisions(speaker, keys)) == 2, "asking decided something"
