"""The registry of instructions over HTTP, from Python and on the command line: who may change it, and what stays."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from pentad.contracts.instructions import Instruction
from pentad.contracts.tools import ToolSpec
from pentad.shared.entry_file import MOST_ENTRIES
from pentad.shared.instructions.builtin import BUILT_IN
from pentad.shared.keys import INSTRUCTIONS_REGISTRY
from pentad.shared.presence.published import INSTRUCTIONS, TOOLS
from pentad.shared.store.store import Store
from tests.integration.gateway.conftest import running
from tests.support.waiting import PATIENCE_S

POET: dict[str, Any] = {"name": "poet", "description": "Writes poems.", "system_prompt": "Rhyme.", "tools": []}
COUNTER: dict[str, Any] = {
    "name": "counter",
    "system_prompt": "Count.",
    "output": "json",
    "output_schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
}


async def instructions(http: httpx2.AsyncClient) -> dict[str, dict[str, Any]]:
    found = (await http.get("/v1/instructions")).json()
    assert found["next"] is None
    return {item["name"]: item for item in found["items"]}


def problem(response: httpx2.Response, status: int) -> str:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    return str(response.json()["detail"])


async def test_an_instruction_is_registered_replaced_listed_and_removed(store: Store, http: httpx2.AsyncClient) -> None:
    made = await http.post("/v1/instructions", json=POET)
    assert (made.status_code, made.json()["source"], made.json()["warning"]) == (201, "registered", None)
    again = await http.post("/v1/instructions", json={**POET, "system_prompt": "Do not rhyme."})
    assert again.status_code == 200
    assert again.json()["version"] != made.json()["version"]
    found = await instructions(http)
    assert [*found] == sorted({*BUILT_IN, "poet"})
    for name, shown in found.items():
        assert (await http.get(f"/v1/instructions/{name}")).json() == shown
    assert problem(await http.get("/v1/instructions/nobody"), 404) == "there is no such instruction"
    assert (found["poet"]["system_prompt"], found["executor"]["source"]) == ("Do not rhyme.", "built_in")
    assert (await http.delete("/v1/instructions/poet")).status_code == 204
    problem(await http.delete("/v1/instructions/poet"), 404)
    assert await store.call("HLEN", INSTRUCTIONS_REGISTRY) == 1, "nothing but the version is left"


async def test_one_of_a_plugin_or_built_in_is_replaced_and_comes_back(store: Store, http: httpx2.AsyncClient) -> None:
    await INSTRUCTIONS.publish(store, [Instruction(name="poet", system_prompt="A plugin's.")])
    for name, before in (("executor", "built_in"), ("poet", "plugin")):
        said = problem(await http.delete(f"/v1/instructions/{name}"), 409)
        assert f"instruction {name} is" in said
        assert (await http.post("/v1/instructions", json={**POET, "name": name})).status_code == 201
        assert (await instructions(http))[name]["source"] == "registered"
        assert (await http.delete(f"/v1/instructions/{name}")).status_code == 204
        assert (await instructions(http))[name]["source"] == before


async def test_the_file_goes_before_what_is_registered(redis_url: str, tmp_path: Path) -> None:
    (file := tmp_path / "i.json").write_text(json.dumps({"instructions": [POET]}))
    async with (
        running(redis_url, pentad_data_dir=tmp_path, pentad_instructions=file) as gateway,
        httpx2.AsyncClient(base_url=gateway.address, trust_env=False, timeout=PATIENCE_S) as http,
    ):
        assert (await instructions(http))["poet"]["source"] == "file"
        assert "PENTAD_INSTRUCTIONS" in problem(await http.post("/v1/instructions", json=POET), 409)
        assert "PENTAD_INSTRUCTIONS" in problem(await http.delete("/v1/instructions/poet"), 409)
        assert (await http.post("/v1/instructions", json=COUNTER)).status_code == 201


async def test_the_model_that_it_names_must_be_there_and_then_stays(
    redis_url: str, tmp_path: Path, http: httpx2.AsyncClient
) -> None:
    with_model = {**POET, "model": "fast"}
    assert "no chat model fast" in problem(await http.post("/v1/instructions", json=with_model), 422)
    await http.post("/v1/models", json={"id": "vectors", "kind": "embedding", "protocol": "simple"})
    problem(await http.post("/v1/instructions", json={**POET, "model": "vectors"}), 422)
    await http.post("/v1/models", json={"id": "fast"})
    assert (await http.post("/v1/instructions", json=with_model)).status_code == 201
    assert "instruction poet asks it" in problem(await http.delete("/v1/models/fast"), 409)
    assert (await http.delete("/v1/instructions/poet")).status_code == 204
    (file := tmp_path / "i.json").write_text(json.dumps({"instructions": [with_model]}))
    async with (
        running(redis_url, pentad_data_dir=tmp_path, pentad_instructions=file) as gateway,
        httpx2.AsyncClient(base_url=gateway.address, trust_env=False, timeout=PATIENCE_S) as other,
    ):
        assert "instruction poet asks it" in problem(await other.delete("/v1/models/fast"), 409)
    assert (await http.delete("/v1/models/fast")).status_code == 204


async def test_tools_that_no_worker_has_are_told_and_not_refused(store: Store, http: httpx2.AsyncClient) -> None:
    spec = {"name": "echo", "description": "", "parameters": {}, "effect": "pure", "timeout": 1, "queue": "default"}
    await TOOLS.publish(store, [ToolSpec.model_validate(spec)])
    made = await http.post("/v1/instructions", json={**POET, "tools": ["echo", "sing", "dance"]})
    assert (made.status_code, made.json()["warning"]) == (201, "no worker has these tools now: dance, sing")
    assert (await http.post("/v1/instructions", json={**POET, "tools": ["echo"]})).json()["warning"] is None


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[]", 400),
        (b'{"name":"x","system_prompt":"' + b"y" * (1 << 20) + b'"}', 413),
        (b"{}", 422),
        (b'{"name":7,"system_prompt":"x"}', 422),
        (b'{"name":"a b","system_prompt":"x"}', 422),
        (b'{"name":"@version","system_prompt":"x"}', 422),
        (b'{"name":"x","system_prompt":""}', 422),
        (b'{"name":"x","system_prompt":"' + b"y" * 65_537 + b'"}', 422),
        (b'{"name":"x","system_prompt":"{{password}}"}', 422),
        (b'{"name":"x","system_prompt":"x","promt":"misspelled"}', 422),
        (b'{"name":"x","system_prompt":"x","' + b"z" * 100_000 + b'":1}', 422),
        (b'{"name":"x","system_prompt":"x","source":"file"}', 422),
        (b'{"name":"x","system_prompt":"x","tools":["no tool"]}', 422),
        (b'{"name":"x","system_prompt":"x","repairs":11}', 422),
        (b'{"name":"x","system_prompt":"x","on_message":"ignore"}', 422),
        (b'{"name":"x","system_prompt":"x","on_message":["queue"]}', 422),
        (b'{"name":"x","system_prompt":"x","output":"json"}', 422),
        (b'{"name":"x","system_prompt":"x","output_schema":{}}', 422),
        (b'{"name":"x","system_prompt":"x","output":"json","output_schema":{"type":"objekt"}}', 422),
        (b'{"name":"x","system_prompt":"x","output":"json","output_schema":{"$ref":"file:///etc/passwd"}}', 422),
        (b'{"name":"x","system_prompt":"x","output":"json","output_schema":{"a":"' + b"b" * 32_768 + b'"}}', 422),
        (b'{"name":"x","system_prompt":"x","output":"json","output_schema":' + b'{"a":' * 9999 + b"1}", 400),
    ],
)
async def test_a_body_that_is_no_instruction_is_refused_and_changes_nothing(
    store: Store, http: httpx2.AsyncClient, body: bytes, status: int
) -> None:
    said = problem(await http.post("/v1/instructions", content=body), status)
    assert len(said) < 1100
    assert not await store.call("EXISTS", INSTRUCTIONS_REGISTRY)


async def test_there_is_an_end_to_how_many_can_be_registered(store: Store, http: httpx2.AsyncClient) -> None:
    entry = '{{"name":"i{}","system_prompt":"x"}}'
    await store.call(
        "HSET", INSTRUCTIONS_REGISTRY, *(w for n in range(MOST_ENTRIES) for w in (f"i{n}", entry.format(n)))
    )
    assert "delete one" in problem(await http.post("/v1/instructions", json=POET), 409)
    assert (await http.post("/v1/instructions", json={**POET, "name": "i7"})).status_code == 200


@pytest.mark.parametrize("name", ["%20", "@version", "%2e%2e", "x" * 200, "a%00b"])
async def test_what_is_no_name_is_not_found(http: httpx2.AsyncClient, name: str) -> None:
    problem(await http.delete(f"/v1/instructions/{name}"), 404)


async def test_everybody_with_a_key_may_look_and_the_operator_alone_may_change(redis_url: str, tmp_path: Path) -> None:
    keys: dict[str, Any] = {"pentad_data_dir": tmp_path, "pentad_api_keys": "k:one", "pentad_admin_key": "boss"}
    async with (
        running(redis_url, **keys) as gateway,
        httpx2.AsyncClient(base_url=gateway.address, trust_env=False, timeout=PATIENCE_S) as http,
    ):
        for key, look, change in ((None, 401, 401), ("no", 401, 401), ("k", 200, 403), ("boss", 200, 201)):
            headers = {"authorization": f"Bearer {key}"} if key else {}
            assert (await http.get("/v1/instructions", headers=headers)).status_code == look
            assert (await http.post("/v1/instructions", json=POET, headers=headers)).status_code == change
            removed = await http.delete("/v1/instructions/poet", headers=headers)
            assert removed.status_code == (204 if change == 201 else change)


async def test_of_operators_at_once_each_is_heard_or_told_to_try_again(store: Store, http: httpx2.AsyncClient) -> None:
    bodies = [{**POET, "name": f"i{n}"} for n in range(12)]
    answers = await asyncio.gather(*(http.post("/v1/instructions", json=body) for body in bodies))
    heard = {a.json()["name"] for a in answers if a.status_code == 201}
    assert {a.status_code for a in answers} <= {201, 429}
    assert {*await instructions(http)} - {*BUILT_IN} == heard
