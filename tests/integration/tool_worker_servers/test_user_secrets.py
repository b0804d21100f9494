"""Secrets of users in connections to servers: nobody has another's, nobody sees one, no connection is shared."""

import asyncio
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pentad.contracts.tool_servers import ToolServer
from pentad.services.tool_worker.servers import connection_pool, served
from pentad.shared.secrets import user_secrets
from pentad.shared.secrets.secret_store import SecretOwner, SecretStore
from tests.integration.tool_worker_servers.conftest import Offer
from tests.support.mcp.entries import http_process, program
from tests.support.waiting import wait_until

TOKENS = {"alice": "alices-token", "bob": "bobs-token"}


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for secrets often."""
    monkeypatch.setattr(served, "_LOOK_S", 0.05)
    monkeypatch.setattr(user_secrets, "_FRESH_S", 0.05)


async def keep(folder: Path, **tokens: str) -> dict[str, Any]:
    """Keep the users' secrets; returns the settings that name the place."""
    store = SecretStore(str(folder / "secrets"))
    for user, token in tokens.items():
        await store.write(SecretOwner("default", user), "TOKEN", token)
    return {"pentad_secrets": str(folder / "secrets")}


@pytest.mark.parametrize("kind", ["stdio", "http"])
async def test_two_users_use_their_own_secrets_and_nobody_elses(kind: str, tmp_path: Path, offer: Offer) -> None:
    settings = await keep(tmp_path, **TOKENS)
    async with http_process("http", tmp_path) as process:
        remote = ToolServer(name="s", url=process.url, headers={"Authorization": "Bearer {{secret:TOKEN}}"})
        local = program("s", tmp_path, env={"TOKEN": "Bearer {{secret:TOKEN}}"})
        async with offer(local if kind == "stdio" else remote, **settings) as offering:
            await offering.until("s", "ready")
            assert offering.source.tools["s__who"].secrets == ["TOKEN"]
            said = await asyncio.gather(
                *(offering.call("s__who", user=user) for user in ("alice", "bob", "alice", "bob"))
            )
            assert [each.text for each in said] == ["Bearer [secret TOKEN]"] * 4, "not even to themselves"
            assert offering.report("s").connections == 2
            seen = [await token_seen(offering, user) for user in ("alice", "bob")]
            assert seen == ["alice", "bob"]


async def token_seen(offering: Any, user: str) -> str:
    """Return whose token the server sees; the answer does not show it."""
    for name, token in TOKENS.items():
        outcome = await offering.call("s__is_token", user=user, digest=str(len(token)))
        if outcome.text == f"yes {name[0]}":
            return name
    return "nobody"


async def test_a_user_without_the_secret_is_told_what_is_missing(tmp_path: Path, offer: Offer) -> None:
    settings = await keep(tmp_path, alice="alices-token")
    async with offer(program("s", tmp_path, env={"TOKEN": "{{secret:TOKEN}}"}), **settings) as offering:
        await offering.until("s", "ready")
        outcome = await offering.call("s__who", user="carol")
        assert outcome.kind == "error"
        assert "it needs the secret TOKEN, and user carol has none" in outcome.text
        assert "the secret TOKEN, and tenant default has none" in (await offering.call("s__who")).text


async def test_a_server_waits_for_the_first_who_has_its_secrets_and_says_so(tmp_path: Path, offer: Offer) -> None:
    settings = await keep(tmp_path)
    async with offer(program("s", tmp_path, env={"TOKEN": "{{secret:TOKEN}}"}), **settings) as offering:
        report = await offering.until("s", "no_secret")
        await wait_until("it says what it waits for", lambda: offering.report("s").error)
        assert "nobody has all of the secrets that it needs: TOKEN" in str(offering.report("s").error)
        assert (report.tools, offering.names) == (0, set())
        await keep(tmp_path, alice="alices-token")
        await offering.until("s", "ready")
        assert (await offering.call("s__who", user="alice")).text == "[secret TOKEN]"


async def test_another_secret_makes_another_connection(tmp_path: Path, offer: Offer) -> None:
    settings = await keep(tmp_path, alice="alices-token")
    async with offer(program("s", tmp_path, env={"TOKEN": "{{secret:TOKEN}}"}), **settings) as offering:
        await offering.until("s", "ready")
        assert (await offering.call("s__is_token", user="alice", digest="12")).text == "yes a"
        await keep(tmp_path, alice="alices-new-token")
        await wait_until("the new one is used", _Uses(offering, "16").look)


class _Uses:
    """Whether calls of alice are made with a token of this length."""

    def __init__(self, offering: Any, digest: str) -> None:
        self._offering, self._digest = offering, digest

    async def look(self) -> bool:
        outcome = await self._offering.call("s__is_token", user="alice", digest=self._digest)
        return bool(outcome.text == "yes a")


async def test_connections_are_bounded_and_idle_ones_make_room(
    tmp_path: Path, offer: Offer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_pool, "MAX_CONNECTIONS", 2)
    settings = await keep(tmp_path, **TOKENS, carol="carols-token")
    async with http_process("http", tmp_path) as process:
        server = ToolServer(name="s", url=process.url, headers={"Authorization": "{{secret:TOKEN}}"})
        async with offer(server, **settings) as offering:
            await offering.until("s", "ready")
            for user in ("alice", "bob", "carol", "bob"):
                assert (await offering.call("s__add", user=user, a=1, b=1)).text == "2"
                assert offering.report("s").connections <= 2
            held = asyncio.create_task(offering.call("s__hold", user="bob", name="go"))
            await wait_until("it has begun", lambda: (tmp_path / "ledger").exists() and "begun go" in _ledger(tmp_path))
            refused = await offering.call("s__add", user="carol", a=1, b=1)
            assert "is used by 2 others at this moment" in refused.text
            (tmp_path / "go").touch()
            assert (await held).kind == "ok"


def _ledger(folder: Path) -> str:
    return (folder / "ledger").read_text()


async def test_a_secret_is_in_no_log_no_error_and_no_report(
    tmp_path: Path, offer: Offer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "pentad")
    settings = await keep(tmp_path, alice="hunter2-hunter2")
    code = "import os,sys; print('bad', os.environ['TOKEN'], file=sys.stderr); sys.exit(3)"
    server = ToolServer(name="s", command=sys.executable, args=("-c", code), env={"TOKEN": "{{secret:TOKEN}}"})
    async with offer(server, **settings) as offering:
        report = await offering.until("s", "failing")
        assert report.said == "bad [secret TOKEN]"
        assert "hunter2" not in str(offering.source.reports()) + _texts(caplog.records)


def _texts(records: Sequence[logging.LogRecord]) -> str:
    return " ".join(record.getMessage() for record in records)


async def test_a_secret_that_cannot_stand_in_a_header_is_told_by_its_name(tmp_path: Path, offer: Offer) -> None:
    settings = await keep(tmp_path, alice="hunter2\r\nX-Evil: 1")
    server = ToolServer(name="s", url="http://127.0.0.1:9", headers={"Authorization": "{{secret:TOKEN}}"})
    async with offer(server, **settings) as offering:
        await wait_until("it says what is wrong", lambda: offering.report("s").error)
        report = offering.report("s")
        assert "the secret TOKEN has characters that cannot stand where it is needed" in str(report.error)
        assert "hunter2" not in str(report)


async def test_a_users_connection_that_nobody_uses_is_closed(
    tmp_path: Path, offer: Offer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_pool, "_IDLE_S", 0.1)
    settings = await keep(tmp_path, **TOKENS)
    async with http_process("http", tmp_path) as process:
        server = ToolServer(name="s", url=process.url, headers={"Authorization": "{{secret:TOKEN}}"})
        async with offer(server, **settings) as offering:
            await offering.until("s", "ready")
            assert (await offering.call("s__add", user="bob", a=1, b=1)).text == "2"
            await wait_until("only that of the list is left", lambda: offering.report("s").connections == 1)
            assert (await offering.call("s__add", user="bob", a=1, b=1)).text == "2"
