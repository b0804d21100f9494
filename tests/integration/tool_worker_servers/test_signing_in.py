"""Signing in to MCP servers by OAuth: who is asked, how the call goes on, and whose token is used."""

from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from pentad.contracts.suspensions import Resumption, Suspension
from pentad.contracts.tool_servers import ToolServer
from pentad.contracts.tools import ToolOutcome
from pentad.services.tool_worker.servers import served
from pentad.services.tool_worker.sources import ToolInvocation
from pentad.shared.plugins.context import ToolContext
from pentad.shared.presence.sign_ins import CameBack, SignIns
from pentad.shared.store.store import Store
from tests.integration.tool_worker_servers.conftest import Offer, Offering
from tests.support.mcp.sign_in_server import SignInServer, redirect_of
from tests.support.waiting import wait_until

KEY = b64encode(bytes(range(32))).decode()
PUBLIC = "https://agents.example.com"


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for those who have signed in often."""
    monkeypatch.setattr(served, "_LOOK_S", 0.05)


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[SignInServer]:
    async with SignInServer(tmp_path).running() as server:
        yield server


def settings(folder: Path, **more: Any) -> dict[str, Any]:
    """Return the settings with which tokens can be kept."""
    return {
        "pentad_secrets": str(folder / "secrets"),
        "pentad_secret_key": KEY,
        "pentad_public_url": PUBLIC,
        **more,
    }


def entry(place: SignInServer, **more: Any) -> ToolServer:
    return ToolServer(name="s", url=place.url, **more)


class Person:
    """A user who makes calls, and signs in where a call asks to."""

    def __init__(self, offering: Offering, store: Store, user: str | None, tenant: str = "default") -> None:
        self._offering, self._sign_ins, self.user, self._tenant = offering, SignIns(store), user, tenant
        self._calls = 0

    async def call(
        self, tool: str, resumed: Resumption | None = None, id_: str = "", offering: Offering | None = None, **args: Any
    ) -> ToolOutcome:
        """Make one attempt of a call."""
        self._calls += 1
        context = ToolContext(
            tenant_id=self._tenant, user_id=self.user, task_id="t1", tool_call_id=id_ or f"{self.user}-{self._calls}"
        )
        invocation = ToolInvocation(tool, args, 30, context, resumed=resumed)
        return await (offering or self._offering).source.run(invocation, lambda _, __: None)

    async def asked(self, tool: str, **args: Any) -> tuple[str, Suspension]:
        """Make a call that asks to sign in; return its id and the question."""
        id_ = f"{self.user}-{self._calls + 1}"
        outcome = await self.call(tool, id_=id_, **args)
        assert outcome.suspension is not None, outcome
        assert outcome.suspension.message.startswith("Sign in to s (open http://127.0.0.1"), outcome.suspension.message
        return id_, outcome.suspension

    async def comes_back(self, asked: Suspension, account: str | None = None) -> None:
        """Sign in at the page, and have the gateway keep with what the browser comes back."""
        location = await redirect_of(asked.message, account or str(self.user))
        assert location.startswith(f"{PUBLIC}/v1/oauth/callback?"), location
        given = parse_qs(urlsplit(location).query)
        back = CameBack(code=given.get("code", [""])[0], issuer=given["iss"][0], error=given.get("error", [""])[0])
        assert (await self._sign_ins.came_back(given["state"][0], back))[0] == "kept"

    async def signs_in(self, tool: str = "s__sign_in", **args: Any) -> ToolOutcome:
        """Make a call, sign in, and have the call go on."""
        id_, asked = await self.asked(tool, **args)
        await self.comes_back(asked)
        return await self.call(tool, going_on(asked), id_, **args)


def going_on(asked: Suspension, *, accepted: bool = True) -> Resumption:
    return Resumption(needs="input", accepted=accepted, content={} if accepted else None, state=asked.state)


async def until_it_asks(offering: Offering) -> None:
    await wait_until("it can be signed in", lambda: "s__sign_in" in offering.names)


async def account(person: Person, offering: Offering | None = None) -> str:
    """Return the first letter of the account whose token the server sees."""
    said = "asked"
    for length in range(17, 26):
        outcome = await person.call("s__is_token", digest=str(length), offering=offering)
        if outcome.text.startswith("yes"):
            said = outcome.text
    return said


async def test_the_first_call_asks_a_person_and_goes_on_with_the_tools_of_the_server(
    place: SignInServer, tmp_path: Path, offer: Offer, store: Store
) -> None:
    async with offer(entry(place), **settings(tmp_path)) as offering:
        report = await offering.until("s", "signed_out")
        assert offering.names == {"s__sign_in"}
        assert "nobody has signed in: a call of s__sign_in asks a person to" in str(report.error)
        alice = Person(offering, store, "alice")
        outcome = await alice.signs_in()
        assert outcome.ok, outcome
        assert "Its tools: s__add" in outcome.text
        await offering.until("s", "ready")
        assert {"s__add", "s__sign_in"} <= offering.names
        assert await account(alice) == "yes a"
        assert (await alice.call("s__who")).text == "Bearer [token]"


async def test_two_users_sign_in_each_and_never_use_anothers_token(
    place: SignInServer, tmp_path: Path, offer: Offer, store: Store
) -> None:
    async with offer(entry(place), **settings(tmp_path)) as offering:
        await until_it_asks(offering)
        alice, bob = Person(offering, store, "alice"), Person(offering, store, "bob")
        await alice.signs_in()
        await wait_until("the tools are known", lambda: "s__add" in offering.names)
        assert (await bob.signs_in("s__add", a=1, b=2)).text == "3"
        assert [await account(alice), await account(bob)] == ["yes a", "yes b"]
        nobody = Person(offering, store, None)
        await nobody.asked("s__add", a=1, b=1)
        elsewhere = Person(offering, store, "alice", tenant="other")
        await elsewhere.asked("s__add", a=1, b=1)
        assert len(place.registered) == 2, "one client for each tenant"
