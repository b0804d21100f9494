"""What a gateway says of an inbound stream whose ids have run out, or lie ahead of the clock."""

from typing import Any

import httpx2
import pytest

from pentad.cli.main import main
from pentad.contracts.streams import INBOUND
from pentad.services.gateway.app import GatewayService
from pentad.shared.inbound import renewal
from pentad.shared.store.store import Store
from tests.integration.gateway.conftest import opened
from tests.support.waiting import wait_until

LAST = "18446744073709551615-18446744073709551615"


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewal, "_LOOK_EVERY_S", 0.05)


async def readiness(http: httpx2.AsyncClient) -> tuple[int, Any]:
    answer = await http.get("/readyz")
    return answer.status_code, answer.json()


async def test_an_exhausted_stream_is_a_503_that_says_what_to_do_until_it_is_renewed(
    redis_url: str, gateway: GatewayService, http: httpx2.AsyncClient, store: Store
) -> None:
    assert (await http.get("/readyz")).status_code == 200
    await store.call("XADD", INBOUND.key(), LAST, "data", '{"content":"hi","session_id":"s1"}')
    refused = await http.post("/v1/messages", json={"content": "x", "session_id": "s1"})
    assert (refused.status_code, refused.json()["code"], "in_doubt" in refused.json()) == (503, "busy", False)
    assert refused.json()["detail"].endswith("must run `pentad inbound renew`. Nothing was appended")
    async with opened(gateway.address) as client:
        await client.send(type="message", content="x", message_id="m1")
        answer = await client.receive()
    assert (answer["code"], answer["message_id"]) == ("busy", "m1")

    async def unready() -> bool:
        status, said = await readiness(http)
        return status == 503 and "no entry ids left" in (said["gateway.inbound"] or "")

    await wait_until("unreadiness", unready)
    await renewal.renew(store)
    assert (await http.post("/v1/messages", json={"content": "x", "session_id": "s1"})).status_code == 202
    await wait_until("readiness", lambda: _is(http, 200))


async def _is(http: httpx2.AsyncClient, status: int) -> bool:
    return (await readiness(http))[0] == status


async def test_a_stream_ahead_of_the_clock_is_named_and_goes_on(http: httpx2.AsyncClient, store: Store) -> None:
    await store.call("XADD", INBOUND.key(), "9999999999999-1", "data", '{"content":"hi","session_id":"s1"}')
    assert (await http.post("/v1/messages", json={"content": "x", "session_id": "s1"})).status_code == 202

    async def named() -> bool:
        status, said = await readiness(http)
        return status == 200 and "ahead of the clock" in said.get("gateway.inbound_ids", "")

    await wait_until("the note", named)


def test_the_command_renews_what_needs_it_and_says_what_it_did(
    redis_url: str, redis_server: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REDIS_URL", redis_url)
    assert main(["inbound", "renew"]) == 0
    assert capsys.readouterr().out == "the inbound stream is in step with the clock: nothing to do\n"
    redis_server.command("XADD", INBOUND.key(), LAST, "data", '{"content":"hi","session_id":"s1"}')
    redis_server.command("XGROUP", "CREATE", INBOUND.key(), "audit", "0")
    assert main(["inbound", "renew"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[1:] == [
        "it begins again: 1 message that waited went over, in order",
        "group audit is not ours and did not go over: make it again where it is served",
    ]
    assert redis_server.command("XLEN", INBOUND.key()) == b":1\r\n"
    assert main(["inbound", "renew"]) == 0
    assert "nothing to do" in capsys.readouterr().out


def test_without_a_redis_the_command_says_what_it_wants(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("REDIS_URL", raising=False)
    assert main(["inbound", "renew", "--data-dir", str(tmp_path)]) == 1
    assert "set REDIS_URL" in capsys.readouterr().err
