"""The registry of models over HTTP, from Python and on the command line: who may change it, and what stays."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import jsonschema_rs
import pytest

import pentad
from pentad.cli.main import main
from pentad.contracts.instructions import Instruction
from pentad.contracts.models import ModelHealth
from pentad.services.gateway.app import GatewayService
from pentad.services.gateway.edge.problems import ProblemError
from pentad.services.gateway.operator.models import ModelRegistry
from pentad.shared.entry_file import MOST_ENTRIES
from pentad.shared.keys import MODELS_REGISTRY
from pentad.shared.models.configured_models import configured_models
from pentad.shared.presence.announcements import report_health
from pentad.shared.presence.published import INSTRUCTIONS
from pentad.shared.registries.registrations import REGISTERED_MODELS
from pentad.shared.settings import load_settings
from pentad.shared.store.store import Store
from tests.integration.gateway.conftest import running
from tests.support.processes.running import beside
from tests.support.waiting import PATIENCE_S, wait_until

FILE = {
    "models": [
        {
            "id": "main",
            "endpoint": "http://h:1/v1",
            "default": True,
            "fallbacks": ["spare"],
            "api_key_env": "H_API_KEY",
        },
        {"id": "spare", "endpoint": "http://h:2/v1"},
    ]
}
NEW = {"id": "new", "endpoint": "http://h:3/v1", "model": "m3"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "models.json"
    path.write_text(json.dumps(FILE))
    return path


async def models(http: httpx2.AsyncClient) -> dict[str, dict[str, Any]]:
    found = (await http.get("/v1/models")).json()
    assert found["next"] is None
    return {item["id"]: item for item in found["items"]}


def problem(response: httpx2.Response, status: int) -> str:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    return str(response.json()["detail"])


async def test_without_a_file_there_is_what_the_environment_says(http: httpx2.AsyncClient) -> None:
    found = await models(http)
    assert {name: (m["kind"], m["protocol"], m["source"]) for name, m in found.items()} == {
        "default": ("llm", "offline", "environment"),
        "default-embedding": ("embedding", "simple", "environment"),
    }
    nothing: dict[str, Any] = {
        "state": "unknown",
        "since": None,
        "error": None,
        "refused": False,
        "learned": [],
        "context_tokens": None,
        "processes": 0,
    }
    assert found["default"]["health"] == nothing


async def test_what_is_learned_of_a_model_is_told_as_the_openapi_document_says(
    store: Store, http: httpx2.AsyncClient
) -> None:
    """Promise: the health of a model, with what was learned of it in each process, is documented as it is told."""
    document = (await http.get("/openapi.json")).json()
    listed = document["paths"]["/v1/models"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    schema = listed["properties"]["items"]["items"]["allOf"][1]["properties"]["health"]
    check = jsonschema_rs.validator_for(schema | {"additionalProperties": False})
    told = {"kind": "llm", "state": "ok", "since": "2030-01-31T12:00:00.000Z"}

    def learned(*lines: str) -> list[ModelHealth]:
        return [ModelHealth.model_validate(told | {"id": "default", "learned": lines})]

    async def health() -> dict[str, Any]:
        found: dict[str, Any] = (await models(http))["default"]["health"]
        check.validate(found)
        return found

    assert (await health())["learned"] == []
    async with (
        beside(report_health(store, "one", lambda _: learned("seed is not sent to it", "no tools are offered to it"))),
        beside(report_health(store, "two", lambda _: learned("seed is not sent to it"))),
    ):

        async def both() -> bool:
            return bool((await health())["processes"] == 2)

        await wait_until("both processes to tell", both)
        assert (await health())["learned"] == ["seed is not sent to it", "no tools are offered to it"]


async def test_the_smallest_window_that_a_process_knows_is_told(store: Store, http: httpx2.AsyncClient) -> None:
    """Promise: who plans prompts by the health of a model stays within what each process may ask it for."""
    await http.post("/v1/models", json={**NEW, "context_tokens": 64_000})
    told = {"id": "new", "kind": "llm", "state": "ok", "since": "2030-01-31T12:00:00.000Z"}

    def knowing(window: int | None) -> list[ModelHealth]:
        return [ModelHealth.model_validate(told | {"context_tokens": window})]

    async with (
        beside(report_health(store, "one", lambda _: knowing(64_000))),
        beside(report_health(store, "two", lambda _: knowing(8_192))),
        beside(report_health(store, "three", lambda _: knowing(None))),
    ):

        async def all_three() -> bool:
            return bool((await models(http))["new"]["health"]["processes"] == 3)

        await wait_until("the processes to tell", all_three)
        found = (await models(http))["new"]
    assert (found["context_tokens"], found["health"]["context_tokens"]) == (64_000, 8_192)


async def test_a_model_is_registered_replaced_listed_and_removed(store: Store, http: httpx2.AsyncClient) -> None:
    made = await http.post("/v1/models", json=NEW)
    assert (made.status_code, made.json()["model"], made.json()["source"]) == (201, "m3", "registered")
    again = await http.post("/v1/models", json={**NEW, "model": "m4"})
    assert (again.status_code, again.json()["model"]) == (200, "m4")
    for name, shown in (await models(http)).items():
        assert (await http.get(f"/v1/models/{name}")).json() == shown
    assert (await models(http))["new"]["model"] == "m4"
    for name in ("nobody", "a b", "x" * 300):
        assert problem(await http.get(f"/v1/models/{name}"), 404) == "there is no such model"
    assert (await http.delete("/v1/models/new")).status_code == 204
    problem(await http.delete("/v1/models/new"), 404)
    assert "new" not in await models(http)
    assert await store.call("HLEN", MODELS_REGISTRY) == 1, "nothing but the version is left"


async def test_the_file_goes_before_what_is_registered(redis_url: str, tmp_path: Path, file: Path) -> None:
    async with (
        running(redis_url, pentad_data_dir=tmp_path, pentad_models=file) as gateway,
        httpx2.AsyncClient(base_url=gateway.address, trust_env=False, timeout=PATIENCE_S) as http,
    ):
        assert [m["source"] for m in (await models(http)).values()] == ["environment", "file", "file"]
        assert "PENTAD_MODELS" in problem(await http.post("/v1/models", json={"id": "main"}), 409)
        assert "main is the default" in problem(await http.post("/v1/models", json={**NEW, "default": True}), 409)
        assert "removed there" in problem(await http.delete("/v1/models/main"), 409)
        assert (await http.post("/v1/models", json={**NEW, "fallbacks": ["main", "spare"]})).status_code == 201


async def test_one_in_use_cannot_be_removed_and_who_uses_it_is_said(http: httpx2.AsyncClient) -> None:
    await http.post("/v1/models", json=NEW)
    await http.post("/v1/models", json={"id": "top", "fallbacks": ["new"], "default": True})
    assert problem(await http.delete("/v1/models/new"), 409) == "model new is in use: model top falls back to it"
    assert "default of kind llm" in problem(await http.delete("/v1/models/top"), 409)
    assert "top is the default" in problem(await http.post("/v1/models", json={"id": "x", "default": True}), 409)
    embedding = {"id": "new", "kind": "embedding", "protocol": "openai"}
    assert "in use as llm" in problem(await http.post("/v1/models", json=embedding), 409)
    assert (await http.post("/v1/models", json={"id": "top"})).status_code == 200
    assert (await http.delete("/v1/models/new")).status_code == 204
    assert (await models(http))["default"]["source"] == "environment", "the environment's is the default again"


async def test_an_instruction_that_names_a_model_keeps_it(store: Store, http: httpx2.AsyncClient) -> None:
    await http.post("/v1/models", json=NEW)
    await INSTRUCTIONS.publish(store, [Instruction(name="poet", system_prompt="Rhyme.", model="new")])
    assert "instruction poet asks it" in problem(await http.delete("/v1/models/new"), 409)


@pytest.mark.parametrize("name", ["default", "default-embedding"])
async def test_the_environments_models_are_not_for_the_registry_to_change(http: httpx2.AsyncClient, name: str) -> None:
    assert "environment" in problem(await http.post("/v1/models", json={"id": name}), 409)
    assert "environment" in problem(await http.delete(f"/v1/models/{name}"), 409)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[]", 400),
        (b'{"id":"m","begin_s":Infinity}', 400),
        (b'{"id":"m","x":"' + b"y" * (1 << 20) + b'"}', 413),
        (b"{}", 422),
        (b'{"id":7}', 422),
        (b'{"id":"a b"}', 422),
        (b'{"id":"m","api_key":"sk-geheim"}', 422),
        (b'{"id":"m","api_key_env":"PENTAD_ADMIN_KEY"}', 422),
        (b'{"id":"m","api_key_env":"AWS_SECRET"}', 422),
        (b'{"id":"m","endpoint":"http://me:sk-geheim@h"}', 422),
        (b'{"id":"m","endpoint":"http://h?key=sk-geheim"}', 422),
        (b'{"id":"m","parameters":{"messages":[]}}', 422),
        (b'{"id":"m","fallbacks":["gone"]}', 422),
        (b'{"id":"m","protocol":"anthropic"}', 422),
        (b'{"id":"m","' + b"z" * 100_000 + b'":1}', 422),
        (b'{"id":"m","parameters":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}", 400),
    ],
)
async def test_a_body_that_is_no_entry_is_refused_and_changes_nothing(
    store: Store, http: httpx2.AsyncClient, body: bytes, status: int
) -> None:
    said = problem(await http.post("/v1/models", content=body), status)
    assert "sk-geheim" not in said
    assert len(said) < 1100
    assert not await store.call("EXISTS", MODELS_REGISTRY)


async def test_there_is_an_end_to_how_many_can_be_registered(store: Store, http: httpx2.AsyncClient) -> None:
    entries = [word for n in range(MOST_ENTRIES) for word in (f"m{n}", f'{{"id":"m{n}"}}')]
    await store.call("HSET", MODELS_REGISTRY, *entries)
    assert "delete one" in problem(await http.post("/v1/models", json=NEW), 409)
    assert (await http.post("/v1/models", json={"id": "m7", "model": "other"})).status_code == 200


@pytest.mark.parametrize("name", ["%20", "@version", "%2e%2e", "x" * 200, "a%00b"])
async def test_what_is_no_id_is_not_found(http: httpx2.AsyncClient, name: str) -> None:
    problem(await http.delete(f"/v1/models/{name}"), 404)


async def test_everybody_with_a_key_may_look_and_the_operator_alone_may_change(redis_url: str, tmp_path: Path) -> None:
    keys: dict[str, Any] = {"pentad_data_dir": tmp_path, "pentad_api_keys": "k:one", "pentad_admin_key": "boss"}
    async with (
        running(redis_url, **keys) as gateway,
        httpx2.AsyncClient(base_url=gateway.address, trust_env=False, timeout=PATIENCE_S) as http,
    ):
        for key, look, change in ((None, 401, 401), ("no", 401, 401), ("k", 200, 403), ("boss", 200, 201)):
            headers = {"authorization": f"Bearer {key}"} if key else {}
            assert (await http.get("/v1/models", headers=headers)).status_code == look
            assert (await http.post("/v1/models", json=NEW, headers=headers)).status_code == change
            assert (await http.delete("/v1/models/new", headers=headers)).status_code == (
                204 if change == 201 else change
            )


async def test_two_operators_at_once_make_no_two_defaults(store: Store, http: httpx2.AsyncClient) -> None:
    bodies = [{"id": f"m{n}", "default": True} for n in range(12)]
    answers = await asyncio.gather(*(http.post("/v1/models", json=body) for body in bodies))
    assert sorted({a.status_code for a in answers} - {429}) == [201, 409]
    assert sum(a.status_code == 201 for a in answers) == 1


async def test_a_change_is_checked_against_what_is_there_when_it_is_written(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever was overtaken each time is told to try again, and has changed nothing."""
    registry = ModelRegistry(store, configured_models(load_settings({})), ())

    async def overtaken(*_: object) -> bool:
        return False

    monkeypatch.setattr(REGISTERED_MODELS, "write", overtaken)
    with pytest.raises(ProblemError) as busy:
        await registry.register(NEW)
    assert (busy.value.status, busy.value.retry_after) == (429, 1.0)


async def test_how_a_model_does_is_shown_where_it_does_worst(store: Store, http: httpx2.AsyncClient) -> None:
    def tells(state: str) -> list[ModelHealth]:
        said = {"id": "default", "kind": "llm", "state": state, "since": "2030-01-31T12:00:00.000Z", "error": "away"}
        return [ModelHealth.model_validate({**said, "model": "gpt-9", "place": "http://theirs/v1"})]

    async with (
        beside(report_health(store, "one", lambda _: tells("failing"))),
        beside(report_health(store, "two", lambda _: tells("open"))),
    ):
        await wait_until("both", lambda: _heard(http, 2))
        shown = (await models(http))["default"]
    assert (shown["health"]["state"], shown["health"]["error"]) == ("open", "away")
    assert (shown["model"], shown["endpoint"]) == ("gpt-9", "http://theirs/v1"), "as the runners have it"


async def _heard(http: httpx2.AsyncClient, processes: int) -> bool:
    return bool((await models(http))["default"]["health"]["processes"] == processes)


async def test_from_python_with_both_keys(redis_url: str, tmp_path: Path) -> None:
    keys: dict[str, Any] = {"pentad_data_dir": tmp_path, "pentad_api_keys": "k:one", "pentad_admin_key": "boss"}
    async with running(redis_url, **keys) as gateway:
        async with pentad.connect(gateway.address, "k", admin_key="boss") as agent:
            shown = await agent.management.register_model("new", endpoint="http://h/v1", prices={"input": 1})
            assert (shown["id"], shown["prices"]) == ("new", {"input": 1.0, "output": 0.0})
            assert [m["id"] for m in await agent.inspection.models()] == ["default", "default-embedding", "new"]
            assert await agent.inspection.tasks() == []
            await agent.management.register_model("top", fallbacks=["new"])
            with pytest.raises(pentad.Conflict, match="top falls back to it"):
                await agent.management.delete_model("new")
            with pytest.raises(pentad.Refused, match="there is no chat model gone"):
                await agent.management.register_model("x", fallbacks=["gone"])
            await agent.management.delete_model("top")
            await agent.management.delete_model("new")
            with pytest.raises(pentad.NotFound):
                await agent.management.delete_model("new")
        async with pentad.connect(gateway.address, "k") as agent:
            with pytest.raises(pentad.Refused, match="admin key"):
                await agent.management.register_model("new")


async def test_the_command_lists_them(
    http: httpx2.AsyncClient, gateway: GatewayService, capsys: pytest.CaptureFixture[str]
) -> None:
    await http.post("/v1/models", json=NEW)
    await http.post("/v1/models", json={"id": "top", "fallbacks": ["new"], "default": True, "model": "\x1b[31mred"})
    assert await asyncio.to_thread(main, ["models", "--url", gateway.address]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["MODEL", "KIND", "FROM", "STATE", "ASKS", "THEN", "WHY"]
    assert [line.split()[:2] for line in lines] == [
        ["default-embedding", "embedding"],
        ["new", "llm"],
        ["top", "(default)"],
    ]
    assert "m3 at http://h:3/v1" in lines[1]
    assert "\x1b" not in "".join(lines)
    assert await asyncio.to_thread(main, ["models", "--json", "--url", gateway.address]) == 0
    assert [json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()] == [
        "default-embedding",
        "new",
        "top",
    ]
