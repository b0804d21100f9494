"""Clients have tasks, sessions and users of their own tenant erased, and nobody else's."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from pentad.contracts.commands import EraseCommand
from pentad.contracts.streams import ERASE
from pentad.services.gateway.app import GatewayService
from pentad.shared.keys import SessionKeys, TaskKeys, erased_user, session_index
from pentad.shared.store.store import Store
from tests.integration.gateway.conftest import running

US, THEM = ({"authorization": f"Bearer {tenant}-key"} for tenant in ("us", "them"))
TASK = TaskKeys(0, "us", "task-0-1")
SESSION = SessionKeys(0, "us", "s1")


@pytest.fixture
async def gateway(redis_url: str, tmp_path: Path) -> AsyncIterator[GatewayService]:
    async with running(redis_url, pentad_data_dir=tmp_path, pentad_api_keys="us-key:us,them-key:them") as service:
        yield service


@pytest.fixture(autouse=True)
async def kept(store: Store) -> None:
    """A task and its session."""
    await store.call("HSET", TASK.header, "status", "completed", "session", "s1")
    await store.call("HSET", SESSION.header, "last_in", "5-0")
    await store.call("RPUSH", SESSION.turns, "{}")
    await store.call("ZADD", session_index(0, "us"), 1, "s1")


async def asked(store: Store) -> list[tuple[str, str, str]]:
    """What an archiver is told."""
    found = await store.call("XRANGE", ERASE.key(0), "-", "+")
    commands = [EraseCommand.model_validate_json(fields[1]) for _, fields in found]
    return [(command.kind, command.tenant_id, command.name) for command in commands]


async def test_each_is_marked_and_an_archiver_is_told(http: httpx2.AsyncClient, store: Store) -> None:
    for address, said in (
        ("tasks/task-0-1", {"task_id": "task-0-1", "session_id": "s1"}),
        ("sessions/s1", {"session_id": "s1"}),
        ("sessions/s1", {"session_id": "s1"}),  # again: it is still known
        ("users/ada", {"user_id": "ada"}),
    ):
        answer = await http.delete(f"/v1/{address}", headers=US)
        assert (answer.status_code, answer.json()) == (202, said)
    assert await asked(store) == [
        ("task", "us", "task-0-1"), ("session", "us", "s1"), ("session", "us", "s1"), ("user", "us", "ada"),
    ]  # fmt: skip
    for mark in (TASK.erased, SESSION.erased, erased_user(0, "us", "ada")):
        assert 0 < await store.call("TTL", mark) <= 400 * 86_400
    assert await store.call("EXISTS", SESSION.header, SESSION.turns) == 0
    assert await store.call("ZCARD", session_index(0, "us")) == 0
    assert (await http.get("/v1/sessions/s1/messages", headers=US)).status_code == 404


@pytest.mark.parametrize(
    ("address", "status"),
    [("tasks/task-0-1", 404), ("tasks/task-0-2", 404), ("tasks/task-77-1", 404), ("tasks/..", 404),
     ("users/a%20b", 422),
     ("users/" + "u" * 200, 422), ("sessions/a%20b", 400)],
)  # fmt: skip
async def test_what_a_tenant_has_not_or_nobody_is_called_is_refused(
    http: httpx2.AsyncClient, store: Store, address: str, status: int
) -> None:
    assert (await http.delete(f"/v1/{address}", headers=THEM)).status_code == status
    assert await asked(store) == []
    assert await store.call("EXISTS", TASK.erased, SESSION.erased) == 0


async def test_a_session_that_only_a_memory_that_is_away_may_know_is_503(http: httpx2.AsyncClient) -> None:
    answer = await http.delete("/v1/sessions/long-ago", headers=US)
    assert answer.status_code == 503
    assert "archiver" in answer.json()["detail"]
