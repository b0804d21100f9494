"""Coming back from signing in: the call goes on by itself, once, and the page gives nothing away."""

from typing import Any

import httpx2
import pytest

from pentad.services.gateway.app import GatewayService
from pentad.shared.keys import GATEWAY_ADDRESS, sign_in
from pentad.shared.presence.sign_ins import CALLBACK_PATH, CameBack, OpenSignIn, SignIns
from pentad.shared.store.store import Store
from tests.integration.gateway.conftest import running
from tests.integration.gateway.speaker import TASK, Speaker
from tests.integration.gateway.test_approvals import CALL, asks, decisions
from tests.integration.gateway.test_tokens import KEYS, rest
from tests.support.waiting import wait_until

STATE = "a-state-that-nobody-guesses"


async def asked(store: Store, tenant: str = "default", user: str | None = "alice") -> SignIns:
    """A call of the task has asked its user to sign in."""
    found = SignIns(store)
    await found.ask(STATE, OpenSignIn(tenant=tenant, user=user, task=TASK, call=CALL, server="s"), 600)
    return found


async def back(http: httpx2.AsyncClient, **given: Any) -> httpx2.Response:
    return await http.get(CALLBACK_PATH, params=given)


async def test_a_call_goes_on_when_its_person_comes_back(http: httpx2.AsyncClient, speaker: Speaker) -> None:
    keys, sign_ins = await asks(speaker, schema={}), await asked(speaker.store)
    for _ in range(2):  # the page is loaded again
        page = await back(http, state=STATE, code="c0de", iss="https://as.example")
        assert (page.status_code, "It goes on by itself" in page.text) == (200, True)
    assert await sign_ins.back(STATE) == CameBack(code="c0de", issuer="https://as.example")
    [decision] = await decisions(speaker, keys)
    assert (decision["approved"], decision["by"], decision.get("args")) == (True, "alice", None)
    assert 0 < await speaker.store.call("TTL", sign_in(STATE)[1]) <= 600


async def test_the_page_gives_nothing_away_and_runs_nothing(http: httpx2.AsyncClient, speaker: Speaker) -> None:
    await asks(speaker)
    await asked(speaker.store)
    for given in ({"state": STATE, "code": "<b>x"}, {"state": "<b>x", "code": "<b>x"}, {"error": "<b>x"}):
        page = await back(http, **given)
        assert "<b>x" not in page.text
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert page.headers["content-security-policy"].startswith("default-src 'none'; frame-ancestors 'none'")
        assert (page.headers["referrer-policy"], page.headers["cache-control"]) == ("no-referrer", "no-store")


async def test_who_declines_has_the_call_told_so(http: httpx2.AsyncClient, speaker: Speaker) -> None:
    keys = await asks(speaker)
    await asked(speaker.store)
    page = await back(http, state=STATE, error="access_denied", iss="https://as.example")
    assert "You have declined" in page.text
    [decision] = await decisions(speaker, keys)
    assert (decision["approved"], decision["reason"]) == (False, "the sign-in was declined")


async def test_a_second_who_comes_back_changes_nothing(http: httpx2.AsyncClient, speaker: Speaker) -> None:
    await asks(speaker)
    sign_ins = await asked(speaker.store)
    await back(http, state=STATE, code="first")
    page = await back(http, state=STATE, code="second")
    assert (page.status_code, "Somebody has come back" in page.text) == (409, True)
    kept = await sign_ins.back(STATE)
    assert kept is not None
    assert kept.code == "first"


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"state": "another", "code": "c"}, 404),
        ({"state": STATE}, 400),
        ({"code": "c"}, 400),
        ({"state": "s" * 129, "code": "c"}, 400),
        ({"state": STATE, "code": "c" * 4_097}, 400),
        ({"state": [STATE, STATE], "code": "c"}, 400),
        ({"state": STATE, "code": ["c", "d"]}, 400),
        ({"state": STATE, "code": "c", "iss": "i" * 2_001}, 400),
        ({"state": f"{STATE}\n", "code": "c"}, 400),
    ],
)
async def test_what_is_no_way_back_decides_nothing(
    given: dict[str, Any], status: int, http: httpx2.AsyncClient, speaker: Speaker
) -> None:
    keys = await asks(speaker)
    await asked(speaker.store)
    assert (await back(http, **given)).status_code == status
    assert await decisions(speaker, keys) == []


async def test_who_comes_back_after_the_call_has_ended_is_told_so(http: httpx2.AsyncClient, speaker: Speaker) -> None:
    keys = await asks(speaker)
    await asked(speaker.store)
    await speaker.store.call("HSET", keys.header, "status", "cancelled")
    page = await back(http, state=STATE, code="c")
    assert (page.status_code, "does not wait any more" in page.text) == (409, True)


async def test_who_comes_back_to_a_sign_in_that_was_closed_is_told_so(
    http: httpx2.AsyncClient, speaker: Speaker
) -> None:
    keys = await asks(speaker)
    sign_ins = await asked(speaker.store)
    await sign_ins.close(STATE)
    page = await back(http, state=STATE, code="c")
    assert (page.status_code, "open the newest link" in page.text) == (404, True)
    assert await decisions(speaker, keys) == []


async def test_where_others_must_decide_the_call_waits_for_them(http: httpx2.AsyncClient, speaker: Speaker) -> None:
    keys = await asks(speaker, approvers=["carol"])
    await asked(speaker.store)
    page = await back(http, state=STATE, code="c")
    assert (page.status_code, "Somebody who may decide" in page.text) == (200, True)
    assert await decisions(speaker, keys) == []


async def test_the_way_back_needs_no_key_and_is_the_only_one_that_does_not(redis_url: str) -> None:
    async with running(redis_url, pentad_api_keys=KEYS) as gateway, rest(gateway) as http:
        assert (await back(http, state="unknown", code="c")).status_code == 404
        assert (await http.get("/v1/approvals")).status_code == 401
        assert (await http.get(f"{CALLBACK_PATH}/more")).status_code == 401


async def test_a_gateway_of_this_machine_tells_its_address_unless_it_has_a_public_one(
    gateway: GatewayService, redis_url: str
) -> None:
    store = Store(redis_url)
    try:
        await wait_until("it is told", lambda: SignIns(store).gateway_address())
        assert await SignIns(store).gateway_address() == gateway.address
        await store.call("DEL", GATEWAY_ADDRESS)
        async with running(redis_url, pentad_public_url="https://agents.example.com") as public, rest(public) as http:
            assert (await http.get("/readyz")).status_code == 200
            assert await SignIns(store).gateway_address() is None
    finally:
        await store.close()
