"""The registry of approval policies over HTTP, from Python and on the command line: it is the operator's."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

import pentad
from pentad.contracts.approvals import MAX_RULES
from pentad.services.gateway.operator.policies import PolicyRegistry
from pentad.shared.keys import POLICIES_REGISTRY
from pentad.shared.registries.registrations import REGISTERED_POLICIES
from pentad.shared.store.store import Store
from tests.integration.gateway.conftest import running
from tests.integration.gateway.test_graph_clients import command
from tests.integration.gateway.test_instructions import problem
from tests.support.waiting import PATIENCE_S

URL = "/v1/approval-policies"
MAIL: dict[str, Any] = {"name": "mail", "tool": "send_*", "then": "ask", "approvers": ["ann", "key"]}
SECRETS: dict[str, Any] = {"name": "secrets", "args": {"path": {"matches": "*.env"}}, "then": "deny"}


async def names(http: httpx2.AsyncClient) -> list[str]:
    found = (await http.get(URL)).json()
    assert found["next"] is None
    return [item["name"] for item in found["items"]]


async def test_a_policy_is_registered_replaced_listed_in_order_and_removed(
    store: Store, http: httpx2.AsyncClient
) -> None:
    made = await http.post(URL, json=MAIL)
    assert made.status_code == 201
    assert made.json() == MAIL | {"source": "registered", "order": 100, "reason": ""}
    assert (await http.post(URL, json=SECRETS | {"order": 200})).status_code == 201
    assert await names(http) == ["mail", "secrets"]
    assert (await http.post(URL, json=SECRETS | {"order": 5})).status_code == 200
    assert await names(http) == ["secrets", "mail"]
    assert (await http.delete(f"{URL}/mail")).status_code == 204
    assert await names(http) == ["secrets"]
    assert problem(await http.delete(f"{URL}/mail"), 404) == "there is no such policy"
    assert (await http.delete(f"{URL}/secrets")).status_code == 204
    assert await store.call("HLEN", POLICIES_REGISTRY) == 1, "nothing but the version is left"


async def test_a_policy_without_a_name_is_given_one_of_its_own(http: httpx2.AsyncClient) -> None:
    made = [(await http.post(URL, json={"tool": "a", "then": "ask"})).json()["name"] for _ in range(2)]
    assert len({*made}) == 2
    assert await names(http) == sorted(made)


async def test_those_of_the_file_are_marked_and_changed_there(redis_url: str, tmp_path: Path) -> None:
    (file := tmp_path / "p.json").write_text(json.dumps({"policies": [SECRETS | {"name": "z"}]}))
    async with (
        running(redis_url, pentad_data_dir=tmp_path, pentad_policies=file) as gateway,
        httpx2.AsyncClient(base_url=gateway.address, trust_env=False, timeout=PATIENCE_S) as http,
    ):
        await http.post(URL, json=MAIL)
        assert [(each["name"], each["source"]) for each in (await http.get(URL)).json()["items"]] == [
            ("z", "file"),
            ("mail", "registered"),
        ]
        assert "PENTAD_POLICIES" in problem(await http.post(URL, json=MAIL | {"name": "z"}), 409)
        assert "PENTAD_POLICIES" in problem(await http.delete(f"{URL}/z"), 409)
        gateway.use_policies(())
        assert await names(http) == ["mail"]


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b"", 400, ""),
        (b"[]", 400, ""),
        (b"{", 400, ""),
        (b"{}", 422, "then: Field required"),
        (b'{"then":"maybe"}', 422, "then: "),
        (b'{"then":["ask"]}', 422, "then: "),
        (b'{"then":"ask","name":7}', 422, "name: "),
        (b'{"then":"ask","name":"a/b"}', 422, "name: "),
        (b'{"then":"ask","name":"@version"}', 422, "name: "),
        (b'{"then":"ask","source":"file"}', 422, "source: "),
        (b'{"then":"ask","tool":{"a":1}}', 422, "tool: "),
        (b'{"then":"deny","approvers":["ann"]}', 422, "approvers: only a rule with then = ask"),
        (b'{"then":"deny","args":{"x":{"matches":"(a|b"}}}', 422, "args.x.matches: it is neither a glob"),
        (b'{"then":"deny","args":{"x":{"matches":"(\\\\w{999}){999}"}}}', 422, "args.x.matches: it is neither a glob"),
        (b'{"then":"deny","args":{"x":{"matches":"' + b"a" * 501 + b'"}}}', 422, "args.x.matches: "),
        (b'{"then":"deny","args":{"x":{"above":"1"}}}', 422, "args.x.above: "),
        (b'{"then":"deny","args":{"x":{"above":1e999}}}', 400, ""),
        (b'{"then":"deny","args":{"x":{"equals":"' + b"a" * 17_000 + b'"}}}', 422, "16,384 bytes"),
        (b'{"then":"deny","args":{"x":{"equals":' + b"[" * 9_999 + b"]" * 9_999 + b"}}}", 400, ""),
        (b'{"then":"deny","reason":"' + b"a" * 2_001 + b'"}', 422, "reason: "),
        (b'{"then":"deny","reason":"' + b"a" * 1_048_577 + b'"}', 413, ""),
        (b'{"then":"ask","expires_s":1e9}', 422, "expires_s: "),
        (b'{"then":"ask","order":true}', 422, "order: "),
        (
            b'{"then":"deny","args":{' + b",".join(b'"x%d":{"above":1}' % n for n in range(10_000)) + b"}}",
            422,
            "args: ",
        ),
    ],
)
async def test_a_body_that_is_no_policy_is_refused_by_its_field_and_changes_nothing(
    store: Store, http: httpx2.AsyncClient, body: bytes, status: int, says: str
) -> None:
    told = problem(await http.post(URL, content=body), status)
    assert len(told) < 1_100
    assert says in told
    assert not await store.call("EXISTS", POLICIES_REGISTRY)


async def test_there_is_an_end_to_how_many_can_be_registered(store: Store, http: httpx2.AsyncClient) -> None:
    rows = ((f"p{n}", f'{{"name":"p{n}","then":"ask"}}') for n in range(MAX_RULES))
    await store.call("HSET", POLICIES_REGISTRY, *(word for row in rows for word in row))
    assert "delete one" in problem(await http.post(URL, json=MAIL), 409)
    assert (await http.post(URL, json=MAIL | {"name": "p7"})).status_code == 200
    assert len(await names(http)) == MAX_RULES


@pytest.mark.parametrize("stored", [b"{", b'{"name":"b","then":"deny"}', b'{"name":"c","then":"deny","later":1}'])
async def test_what_was_registered_and_cannot_be_read_is_left_out_and_said(
    store: Store, http: httpx2.AsyncClient, caplog: pytest.LogCaptureFixture, stored: bytes
) -> None:
    name = f"of-{len(stored)}"  # another each time, for the log says the same only once in a while
    await store.call("HSET", POLICIES_REGISTRY, name, stored)
    await http.post(URL, json=MAIL)
    assert await names(http) == ["mail"]
    assert f"b'{name}' of the registered approval-policies is left out" in caplog.text


@pytest.mark.parametrize("name", ["%20", "@version", "%2e%2e", "x" * 200, "a%00b"])
async def test_what_is_no_name_is_not_found(http: httpx2.AsyncClient, name: str) -> None:
    problem(await http.delete(f"{URL}/{name}"), 404)


async def test_policies_are_the_operators(redis_url: str, tmp_path: Path) -> None:
    keys: dict[str, Any] = {"pentad_data_dir": tmp_path, "pentad_api_keys": "k:one", "pentad_admin_key": "boss"}
    async with (
        running(redis_url, **keys) as gateway,
        httpx2.AsyncClient(base_url=gateway.address, trust_env=False, timeout=PATIENCE_S) as http,
    ):
        for key, look, add, remove in ((None, 401, 401, 401), ("k", 403, 403, 403), ("boss", 200, 201, 204)):
            headers = {"authorization": f"Bearer {key}"} if key else {}
            assert (await http.get(URL, headers=headers)).status_code == look
            assert (await http.post(URL, json=MAIL, headers=headers)).status_code == add
            assert (await http.delete(f"{URL}/mail", headers=headers)).status_code == remove


async def test_of_operators_at_once_each_is_heard_or_told_to_try_again(store: Store, http: httpx2.AsyncClient) -> None:
    answers = await asyncio.gather(*(http.post(URL, json=MAIL | {"name": f"p{n}"}) for n in range(12)))
    heard = {each.json()["name"] for each in answers if each.status_code == 201}
    assert {each.status_code for each in answers} <= {201, 429}
    assert {*await names(http)} == heard


async def test_a_change_that_others_always_overtake_is_given_up(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async def overtaken(*_: Any) -> bool:
        return False

    monkeypatch.setattr(REGISTERED_POLICIES, "write", overtaken)
    with pytest.raises(Exception, match="try again"):
        await PolicyRegistry(store, ()).register(MAIL)


async def test_python_lists_adds_and_removes(redis_url: str, tmp_path: Path) -> None:
    async with (
        running(redis_url, pentad_data_dir=tmp_path, pentad_admin_key="boss") as gateway,
        pentad.connect(gateway.address, admin_key="boss") as agent,
        pentad.connect(gateway.address) as stranger,
    ):
        shown = await agent.management.register_policy(then="deny", tool="rm_*", reason="never")
        assert await agent.inspection.approval_policies() == [shown]
        with pytest.raises(pentad.Refused, match=r"args\.x: it tests nothing"):
            await agent.management.register_policy(then="ask", args={"x": {}})
        with pytest.raises(pentad.ClientError):
            await stranger.inspection.approval_policies()
        await agent.management.delete_policy(shown["name"])
        with pytest.raises(pentad.NotFound):
            await agent.management.delete_policy(shown["name"])


async def test_commands_list_add_and_remove(
    redis_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENTAD_ADMIN_KEY", "boss")
    (tmp_path / "p.toml").write_text(
        '[[policies]]\nname = "z"\nthen = "deny"\nargs.path.matches = "*.env"\norder = 1\n'
    )
    (tmp_path / "w.toml").write_text('[[policies]]\nname = "z"\nthen = "dny"\n')
    async with running(redis_url, pentad_data_dir=tmp_path, pentad_admin_key="boss") as gateway:
        code, out, _ = await command(gateway, capsys, "policies")
        assert (code, out) == (0, "no policies: docs/approvals.md says how to write one\n")
        code, out, _ = await command(gateway, capsys, "policies", "add", json.dumps(MAIL))
        assert (code, out) == (0, "mail is in effect within about a second\n")
        assert (await command(gateway, capsys, "policies", "add", str(tmp_path / "p.toml")))[0] == 0
        _, out, _ = await command(gateway, capsys, "policies")
        first, second = out.splitlines()[1:]
        assert first.split() == ["1", "z", "registered", "deny", "-", "path", "matches", '"*.env"']
        assert second.split() == ["100", "mail", "registered", "ask", "ann,", "key", "tool", "send_*"]
        _, out, _ = await command(gateway, capsys, "policies", "--json")
        assert [json.loads(line)["name"] for line in out.splitlines()] == ["z", "mail"]
        for wrong, says in (
            (str(tmp_path / "w.toml"), "policies[0] ('z').then"),
            (str(tmp_path / "none.toml"), "No such file"),
            ("{", "no JSON"),
            ('{"tool":"x"}', "then: "),
            ('{"then":"ask","self":1}', "self: Extra inputs"),
        ):
            code, _, err = await command(gateway, capsys, "policies", "add", wrong)
            assert (code != 0, says in err) == (True, True), err
            assert "Traceback" not in err
        assert await command(gateway, capsys, "policies", "remove", "mail") == (0, "mail is removed\n", "")
        code, _, err = await command(gateway, capsys, "policies", "remove", "mail")
        assert (code, "`pentad policies` lists them" in err) == (1, True)


async def test_an_operator_asks_what_the_policies_say_about_a_call(http: httpx2.AsyncClient) -> None:
    await http.post(URL, json=MAIL)
    await http.post(URL, json=SECRETS | {"order": 200, "reason": "they stay here"})

    async def said(**call: Any) -> dict[str, Any]:
        told: dict[str, Any] = (await http.post(f"{URL}/try", json=call)).json()
        return told

    asked = {"then": "ask", "policy": "mail", "reason": "", "approvers": ["ann", "key"], "effect": "unsafe"}
    assert await said(tool="send_mail", args={"to": "bob"}) == asked
    denied = {"then": "deny", "policy": "secrets", "reason": "they stay here", "effect": "pure"}
    assert await said(tool="send_mail", args={"path": "a/.env"}, effect="pure") == denied
    assert await said(tool="echo") == {"effect": "unsafe", "reason": ""}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"tool": "a b"},
        {"tool": 7},
        {"tool": "a", "args": []},
        {"tool": "a", "effect": "none"},
        {"tool": "a", "more": 1},
        {"tool": "a", "args": {"text": "x" * 70_000}},
        {"tool": "a", "tenant_id": ""},
    ],
)
async def test_a_question_that_cannot_be_read_is_refused(http: httpx2.AsyncClient, body: dict[str, Any]) -> None:
    assert problem(await http.post(f"{URL}/try", json=body), 422)
