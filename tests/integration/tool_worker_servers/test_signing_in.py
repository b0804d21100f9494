"""Signing in to MCP servers by OAuth: who is asked, how the call goes on, and whose token is used."""

import asyncio
import time
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from pentad.contracts.suspensions import Resumption, Suspension
from pentad.contracts.tool_servers import ServerSignIn, ToolServer
from pentad.contracts.tools import ToolOutcome
from pentad.services.tool_worker.servers import served, user_tokens
from pentad.services.tool_worker.sources import ToolInvocation
from pentad.shared.plugins.context import ToolContext
from pentad.shared.presence.sign_ins import CameBack, SignIns
from pentad.shared.registries.registrations import REGISTERED_SERVERS
from pentad.shared.store.store import Store
from tests.integration.tool_worker_servers.conftest import Offer, Offering
from tests.support.mcp.sign_in_server import SignInServer, page_in, redirect_of
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
        """Make a call, sign in, and have the call go on. When it has ended well, the server's tools are known soon."""
        id_, asked = await self.asked(tool, **args)
        await self.comes_back(asked)
        outcome = await self.call(tool, going_on(asked), id_, **args)
        if outcome.ok:
            await wait_until("the server's tools are known", lambda: self._offering.names - {"s__sign_in"})
        return outcome


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


async def test_a_server_that_names_no_scopes_is_signed_in_to(
    place: SignInServer, tmp_path: Path, offer: Offer, store: Store
) -> None:
    place.resource_metadata = {"scopes_supported": None}
    async with offer(entry(place), **settings(tmp_path)) as offering:
        await until_it_asks(offering)
        assert (await Person(offering, store, "alice").signs_in()).ok


async def test_two_users_sign_in_each_and_never_use_anothers_token(
    place: SignInServer, tmp_path: Path, offer: Offer, store: Store
) -> None:
    async with offer(entry(place), **settings(tmp_path)) as offering:
        await until_it_asks(offering)
        alice, bob = Person(offering, store, "alice"), Person(offering, store, "bob")
        await alice.signs_in()
        assert (await bob.signs_in("s__add", a=1, b=2)).text == "3"
        assert [await account(alice), await account(bob)] == ["yes a", "yes b"]
        nobody = Person(offering, store, None)
        await nobody.asked("s__add", a=1, b=1)
        elsewhere = Person(offering, store, "alice", tenant="other")
        await elsewhere.asked("s__add", a=1, b=1)
        assert len(place.registered) == 2, "one client for each tenant"


async def test_a_call_goes_on_in_another_worker_after_everything_was_restarted(
    place: SignInServer, tmp_path: Path, offer: Offer, store: Store
) -> None:
    async with offer(entry(place), **settings(tmp_path)) as offering:
        await until_it_asks(offering)
        alice = Person(offering, store, "alice")
        id_, asked = await alice.asked("s__sign_in")
    await alice.comes_back(asked)
    async with offer(entry(place), **settings(tmp_path)) as offering:
        await until_it_asks(offering)
        assert "Its tools: s__add" in (await alice.call("s__sign_in", going_on(asked), id_, offering)).text


async def test_a_call_that_went_on_before_a_crash_goes_on_again(
    place: SignInServer, tmp_path: Path, offer: Offer, store: Store
) -> None:
    async with offer(entry(place), **settings(tmp_path)) as offering:
        await until_it_asks(offering)
        alice = Person(offering, store, "alice")
        id_, asked = await alice.asked("s__sign_in")
        await alice.comes_back(asked)
        async with never_closed():
            for _ in range(2):
                assert (await alice.call("s__sign_in", going_on(asked), id_)).ok
        assert len(place.exchanged) == 1, "a server may take a code that comes twice for a stolen one"


@asynccontextmanager
async def never_closed() -> AsyncIterator[None]:
    """Crash after a token is kept, and before the sign-in is over."""

    async def close(_: SignIns, __: str) -> None: ...

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SignIns, "close", close)
        yield


async def test_an_ended_token_is_renewed_once_by_two_workers_at_once(
    place: SignInServer, tmp_path: Path, offer: Offer, store: Store
) -> None:
    async with (
        offer(entry(place), **settings(tmp_path)) as first,
        offer(entry(place), **settings(tmp_path)) as second,
    ):
        await until_it_asks(first)
        alice = Person(first, store, "alice")
        await alice.signs_in()
        for each in (first, second):
            await each.until("s", "ready")
            assert (await alice.call("s__add", offering=each, a=1, b=1)).text == "2"
        place.hold_refresh = asyncio.Event()
        place.end_access("alice")
        both = [asyncio.create_task(alice.call("s__add", offering=each, a=2, b=2)) for each in (first, second)]
        await wait_until("one of them renews it", lambda: place.refreshes)
        place.hold_refresh.set()
        assert [each.text for each in await asyncio.gather(*both)] == ["4", "4"]
        assert len(place.refreshes) == 1


async def test_a_token_is_renewed_before_it_ends(
    place: SignInServer, tmp_path: Path, offer: Offer, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with offer(entry(place), **settings(tmp_path)) as offering:
        await until_it_asks(offering)
        alice = Person(offering, store, "alice")
        await alice.signs_in()
        later = time.time() + 3_590
        monkeypatch.setattr(user_tokens, "time", lambda: later)
        assert (await alice.call("s__add", a=1, b=1)).text == "2"
        assert len(place.refreshes) == 1
        assert (await alice.call("s__add", a=1, b=1)).text == "2"
        assert len(place.refreshes) == 1


async def test_who_was_signed_out_at_the_server_is_asked_again(
    place: SignInServer, tmp_path: Path, offer: Offer, store: Store
) -> None:
    async with offer(entry(place), **settings(tmp_path)) as offering:
        await until_it_asks(offering)
        alice, bob = Person(offering, store, "alice"), Person(offering, store, "bob")
        await alice.signs_in()
        await offering.until("s", "ready")
        await bob.signs_in("s__add", a=1, b=1)
        place.revoke("bob")
        assert (await bob.signs_in("s__add", a=2, b=2)).text == "4"
        place.gives_refresh = False
        place.revoke("alice")
        assert (await alice.signs_in("s__add", a=3, b=3)).text == "6"
        place.revoke("alice")
        assert (await alice.signs_in("s__add", a=4, b=4)).text == "8", "a token without a refresh token likewise"


async def test_a_connection_that_was_refused_is_made_anew_once_the_person_is_back(
    place: SignInServer, tmp_path: Path, offer: Offer, store: Store
) -> None:
    async with offer(entry(place), **settings(tmp_path)) as offering:
        await until_it_asks(offering)
        await Person(offering, store, "alice").signs_in()
        await Person(offering, store, "bob").signs_in()
    place.revoke("bob")
    async with offer(entry(place), **settings(tmp_path)) as offering:
        await offering.until("s", "ready")
        assert (await Person(offering, store, "bob").signs_in("s__add", a=1, b=1)).text == "2"


async def test_an_authorization_server_that_is_away_is_told_and_nobody_is_asked_again(
    place: SignInServer, tmp_path: Path, offer: Offer, store: Store
) -> None:
    async with offer(entry(place), **settings(tmp_path)) as offering:
        await until_it_asks(offering)
        alice = Person(offering, store, "alice")
        await alice.signs_in()
        await offering.until("s", "ready")
        place.end_access("alice")
        place.token_status = 503
        outcome = await alice.call("s__add", a=1, b=1)
        assert outcome.kind == "error"
        assert "gave no token: server_error" in outcome.text
        place.token_status = 200
        await offering.until("s", "ready")
        assert (await alice.call("s__add", a=1, b=1)).text == "2"


async def test_an_authorization_server_that_hangs_does_not_hold_a_call(
    place: SignInServer, tmp_path: Path, offer: Offer, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "_SIGN_IN_S", 0.3)
    place.hold_registration = asyncio.Event()
    async with offer(entry(place), **settings(tmp_path)) as offering:
        await until_it_asks(offering)
        alice = Person(offering, store, "alice")
        assert "to sign in took longer than 0.3 s: try again later" in (await alice.call("s__sign_in")).text
        place.hold_registration.set()
        await alice.asked("s__sign_in")


async def test_who_is_signed_out_here_is_asked_again(
    place: SignInServer, tmp_path: Path, offer: Offer, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_tokens, "_FRESH_S", 0.0)
    async with offer(entry(place), **settings(tmp_path)) as offering:
        await until_it_asks(offering)
        alice = Person(offering, store, "alice")
        await alice.signs_in()
        await offering.until("s", "ready")
        secrets = alice_secrets(tmp_path)
        assert [each.name for each in secrets.iterdir()] == ["oauth.s"]
        kept = (secrets / "oauth.s").read_bytes()
        assert kept.startswith(b"pentad-secret:1:")
        assert b"alice-access" not in kept
        (secrets / "oauth.s").unlink()
        await alice.asked("s__add", a=1, b=1)


def alice_secrets(folder: Path) -> Path:
    return folder / "secrets" / "default" / "alice"


async def test_a_call_of_another_user_does_not_go_on_with_what_somebody_came_back_with(
    place: SignInServer, tmp_path: Path, offer: Offer, store: Store
) -> None:
    async with offer(entry(place), **settings(tmp_path)) as offering:
        await until_it_asks(offering)
        alice, bob = Person(offering, store, "alice"), Person(offering, store, "bob")
        id_, asked = await alice.asked("s__sign_in")
        await alice.comes_back(asked)
        stolen = await bob.call("s__sign_in", going_on(asked), id_)
        assert stolen.suspension is not None
        assert "what was kept of the sign-in cannot be read any more. Sign in to s" in stolen.suspension.message
        other_call = await alice.call("s__sign_in", going_on(asked), "another")
        assert other_call.suspension is not None
        assert (await alice.call("s__sign_in", going_on(asked), id_)).ok


async def test_who_goes_on_without_having_been_at_the_page_is_asked_again(
    place: SignInServer, tmp_path: Path, offer: Offer, store: Store
) -> None:
    async with offer(entry(place), **settings(tmp_path)) as offering:
        await until_it_asks(offering)
        alice = Person(offering, store, "alice")
        id_, asked = await alice.asked("s__sign_in")
        again = (await alice.call("s__sign_in", going_on(asked), id_)).suspension
        assert again is not None
        assert again.message.startswith(
            "nobody has come back from the page to sign in, or it was too long ago. Sign in"
        )
        assert page_in(again.message) != page_in(asked.message)
        await alice.comes_back(again)
        assert (await alice.call("s__sign_in", going_on(again), id_)).ok


async def test_a_code_that_is_not_taken_has_the_person_asked_again(
    place: SignInServer, tmp_path: Path, offer: Offer, store: Store
) -> None:
    async with offer(entry(place), **settings(tmp_path)) as offering:
        await until_it_asks(offering)
        alice = Person(offering, store, "alice")
        id_, asked = await alice.asked("s__sign_in")
        await alice.comes_back(asked)
        place.codes.clear()
        again = (await alice.call("s__sign_in", going_on(asked), id_)).suspension
        assert again is not None
        assert "the sign-in did not succeed" in again.message
        assert "invalid_grant. Sign in to s" in again.message


async def test_who_declines_ends_the_call_in_words(
    place: SignInServer, tmp_path: Path, offer: Offer, store: Store
) -> None:
    async with offer(entry(place), **settings(tmp_path)) as offering:
        await until_it_asks(offering)
        alice = Person(offering, store, "alice")
        id_, asked = await alice.asked("s__sign_in")
        outcome = await alice.call("s__sign_in", going_on(asked, accepted=False), id_)
        assert (outcome.kind, outcome.text) == (
            "error",
            "s__sign_in was not called: the person has declined to sign in",
        )


@pytest.mark.parametrize(
    ("back", "why"),
    [
        (CameBack(code="c", issuer="https://evil.example"), "the code is of another authorization server"),
        (CameBack(code="c"), "the code is of another authorization server"),
        (CameBack(error="temporarily_unavailable"), "the page to sign in has said 'temporarily_unavailable'"),
    ],
)
async def test_what_does_not_come_from_the_page_that_was_asked_is_sent_nowhere(
    back: CameBack, why: str, place: SignInServer, tmp_path: Path, offer: Offer, store: Store
) -> None:
    async with offer(entry(place), **settings(tmp_path)) as offering:
        await until_it_asks(offering)
        alice = Person(offering, store, "alice")
        id_, asked = await alice.asked("s__sign_in")
        given = back.model_copy(update={"issuer": place.origin}) if back.error else back
        state = parse_qs(urlsplit(page_in(asked.message)).query)["state"][0]
        await SignIns(store).came_back(state, given)
        outcome = await alice.call("s__sign_in", going_on(asked), id_)
        assert outcome.kind == "error"
        assert why in outcome.text


@pytest.mark.parametrize(
    ("lacks", "why"),
    [
        (
            {"pentad_secret_key": None},
            "set PENTAD_SECRET_KEY (openssl rand -base64 32) for the gateway and the tool-work",
        ),
        ({"pentad_secrets": None}, "there is no place for tokens: set PENTAD_SECRETS"),
        ({"pentad_public_url": None}, "set PENTAD_PUBLIC_URL for the gateway and the tool-workers"),
    ],
)
async def test_what_is_missing_to_sign_in_is_said_with_what_to_do(
    lacks: dict[str, Any], why: str, place: SignInServer, tmp_path: Path, offer: Offer, store: Store
) -> None:
    async with offer(entry(place), **settings(tmp_path, **lacks)) as offering:
        await until_it_asks(offering)
        outcome = await Person(offering, store, "alice").call("s__sign_in")
        assert outcome.kind == "error"
        assert why in outcome.text


HOSTILE: dict[str, tuple[dict[str, Any], str]] = {
    "huge": ({"body": b'{"x": "' + b"y" * 3_000_000 + b'"}'}, "is larger than 262,144 bytes or 5,000 values"),
    "many values": ({"body": b"[" + b"1," * 20_000 + b"1]"}, "is larger than 262,144 bytes or 5,000 values"),
    "redirect": (
        {"body": b"", "status": 302, "headers": {"location": "http://169.254.169.254/"}},
        "it has no metadata of an authorization server",
    ),
    "another issuer": ({"issuer": "https://evil.example"}, "are those of another, https://evil.example"),
    "javascript": (
        {"authorization_endpoint": "javascript:alert(1)"},
        "no metadata of an authorization server that can be",
    ),
    "http page": ({"authorization_endpoint": "http://evil.example/a"}, "the page to sign in is not of https"),
    "http tokens": ({"token_endpoint": "http://evil.example/t"}, "the address for tokens is not of https"),
    "a password": (
        {"token_endpoint": "https://u:p@evil.example/t"},
        "the address for tokens is no address that can be",
    ),
    "no PKCE": ({"code_challenge_methods_supported": ["plain"]}, "does not take PKCE with S256"),
    "long": ({"authorization_endpoint": "https://h.example/" + "x" * 3_000}, "the page to sign in is no address that"),
    "no registration": (
        {"registration_endpoint": None},
        "give its client_id (and client_secret) in `oauth` of the server",
    ),
    "no method": (
        {"token_endpoint_auth_methods_supported": ["tls_client_auth"]},
        "takes no client that says who it is",
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
async def test_metadata_that_lead_astray_are_not_followed(
    kind: str, place: SignInServer, tmp_path: Path, offer: Offer, store: Store
) -> None:
    place.metadata, why = HOSTILE[kind]
    async with offer(entry(place, oauth=ServerSignIn()), **settings(tmp_path)) as offering:
        await until_it_asks(offering)
        outcome = await Person(offering, store, "alice").call("s__sign_in")
        assert outcome.kind == "error"
        assert why in outcome.text
        assert len(outcome.text) < 500


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (
            {"resource": "https://other.example/mcp"},
            "the server's metadata are those of another, https://other.example/mcp",
        ),
        ({"authorization_servers": ["http://169.254.169.254/x"]}, "is not of https"),
        ({"authorization_servers": []}, "is no metadata of a server that can be used"),
    ],
)
async def test_metadata_of_the_server_itself_do_not_lead_astray(
    fields: dict[str, Any], why: str, place: SignInServer, tmp_path: Path, offer: Offer, store: Store
) -> None:
    place.resource_metadata = fields
    async with offer(entry(place), **settings(tmp_path)) as offering:
        await wait_until("it says what is wrong", lambda: why in str(offering.report("s").error))
        assert offering.report("s").condition == "failing"
        assert offering.names == set()


async def test_a_client_that_the_entry_names_is_not_registered(
    place: SignInServer, tmp_path: Path, offer: Offer, store: Store
) -> None:
    sign_in = ServerSignIn(client_id="secret-client", client_secret="{{secret:CLIENT}}", scope="all")
    async with offer(entry(place, oauth=sign_in), **settings(tmp_path)) as offering:
        await until_it_asks(offering)
        alice = Person(offering, store, "alice")
        assert "its client needs the secret CLIENT of tenant default" in (await alice.call("s__sign_in")).text
        (tmp_path / "secrets" / "default").mkdir(parents=True)
        (tmp_path / "secrets" / "default" / "CLIENT").write_text("hunter2")
        assert (await alice.signs_in()).ok
        assert place.registered == []
        assert set(place.scope_of.values()) == {"all"}
        place.end_access("alice")
        assert (await alice.call("s__add", a=1, b=1)).text == "2", "also the renewal says who it is"


async def test_a_client_is_registered_once_for_all_users_and_workers(
    place: SignInServer, tmp_path: Path, offer: Offer, store: Store
) -> None:
    async with (
        offer(entry(place), **settings(tmp_path)) as first,
        offer(entry(place), **settings(tmp_path)) as second,
    ):
        for each in (first, second):
            await until_it_asks(each)
        people = [Person(each, store, user) for each in (first, second) for user in ("alice", "bob")]
        await asyncio.gather(*(each.asked("s__sign_in") for each in people))
        [asked] = place.registered
        assert (asked["redirect_uris"], asked["client_name"]) == ([f"{PUBLIC}/v1/oauth/callback"], "Pentad")


async def test_a_server_that_lists_its_tools_to_all_asks_when_one_is_called(
    place: SignInServer, tmp_path: Path, offer: Offer, store: Store
) -> None:
    place.open_list = True
    async with offer(entry(place), **settings(tmp_path)) as offering:
        await offering.until("s", "ready")
        assert "s__add" in offering.names
        assert "s__sign_in" not in offering.names
        alice, bob = Person(offering, store, "alice"), Person(offering, store, "bob")
        assert (await alice.signs_in("s__add", a=1, b=2)).text == "3"
        assert await account(alice) == "yes a"
        await bob.asked("s__add", a=1, b=1)


async def test_a_token_that_is_not_for_a_call_has_the_person_asked_for_more(
    place: SignInServer, tmp_path: Path, offer: Offer, store: Store
) -> None:
    async with offer(entry(place), **settings(tmp_path)) as offering:
        await until_it_asks(offering)
        alice = Person(offering, store, "alice")
        await alice.signs_in()
        await offering.until("s", "ready")
        place.wanted_scope = "write"
        id_, asked = await alice.asked("s__add", a=1, b=1)
        assert parse_qs(urlsplit(page_in(asked.message)).query)["scope"] == ["read write"]
        await alice.comes_back(asked)
        assert (await alice.call("s__add", going_on(asked), id_, a=1, b=1)).text == "2"
        place.wanted_scope = "everything"
        outcome = await alice.signs_in("s__add", a=1, b=1)
        assert outcome.text == "2"


async def test_an_answer_to_the_server_itself_is_kept_while_the_person_signs_in(
    place: SignInServer, tmp_path: Path, offer: Offer, store: Store
) -> None:
    async with offer(entry(place), **settings(tmp_path)) as offering:
        await until_it_asks(offering)
        alice = Person(offering, store, "alice")
        await alice.signs_in()
        await offering.until("s", "ready")
        form = (await alice.call("s__book", id_="b", city="Rome")).suspension
        assert form is not None
        assert form.message == "How many seats?"
        place.revoke("alice")
        answer = Resumption(needs="input", content={"seats": 3}, state=form.state)
        asked = (await alice.call("s__book", answer, "b", city="Rome")).suspension
        assert asked is not None
        await alice.comes_back(asked)
        assert (await alice.call("s__book", going_on(asked), "b", city="Rome")).text == "3 seats to Rome"


async def test_a_token_is_not_sent_to_a_server_of_the_same_name_elsewhere(
    place: SignInServer, tmp_path: Path, offer: Offer, store: Store
) -> None:
    async with offer(entry(place), **settings(tmp_path)) as offering:
        await until_it_asks(offering)
        await Person(offering, store, "alice").signs_in()
    async with (
        SignInServer(tmp_path).running() as other,
        offer(entry(other, oauth=ServerSignIn()), **settings(tmp_path)) as offering,
    ):
        await until_it_asks(offering)
        other.access = dict(place.access)
        await Person(offering, store, "alice").asked("s__sign_in")


async def test_a_registered_server_leads_no_worker_inside(
    place: SignInServer, tmp_path: Path, offer: Offer, store: Store
) -> None:
    """The server itself is allowed; that its authorization server is another host inside is not."""
    place.resource_metadata = {"authorization_servers": ["https://127.0.0.2:9/"]}
    read = await REGISTERED_SERVERS.read(store)
    await REGISTERED_SERVERS.write(store, read, "s", entry(place))
    async with offer(**settings(tmp_path, pentad_web_allow=(f"127.0.0.1:{place.port}",))) as offering:
        await wait_until("it is served", lambda: any(each.name == "s" for each in offering.source.reports()))
        why = "127.0.0.2 leads to an address that is loopback"
        await wait_until("it says what is wrong", lambda: why in str(offering.report("s").error))


async def test_a_server_that_wants_a_key_and_no_person_fails_as_before(
    place: SignInServer, tmp_path: Path, offer: Offer
) -> None:
    refused = {"body": b"", "status": 404}
    place.metadata = place.resource_metadata = refused
    async with offer(entry(place), **settings(tmp_path)) as offering:
        why = "the server wants to know who asks, and names no place to sign in: see headers of its entry"
        await wait_until("it says what is wrong", lambda: why in str(offering.report("s").error))
        assert offering.report("s").condition == "failing"
        assert offering.names == set()


async def test_tokens_and_codes_are_in_no_log_and_no_report(
    place: SignInServer, tmp_path: Path, offer: Offer, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    async with offer(entry(place), **settings(tmp_path)) as offering:
        await until_it_asks(offering)
        alice = Person(offering, store, "alice")
        id_, asked = await alice.asked("s__sign_in")
        await alice.comes_back(asked)
        outcome = await alice.call("s__sign_in", going_on(asked), id_)
        place.end_access("alice")
        said = [(await alice.call("s__who")).text, (await alice.call("s__fail", text="no")).text, outcome.text]
        logged = " ".join(
            each.getMessage() for each in caplog.records if each.name.startswith(("pentad", "mcp", "client"))
        )
        seen = f"{said} {offering.source.reports()} {logged} {asked.state}"
        for secret in (*place.access, *place.refresh, "alice-access", "alice-refresh", "code-1-of-alice"):
            assert secret not in seen


async def test_owners_of_the_tenant_and_of_a_user_are_apart(
    place: SignInServer, tmp_path: Path, offer: Offer, store: Store
) -> None:
    """A call of no user uses the tenant's token, which no user has, unlike other secrets of the tenant."""
    async with offer(entry(place), **settings(tmp_path)) as offering:
        await until_it_asks(offering)
        nobody = Person(offering, store, None)
        id_, asked = await nobody.asked("s__sign_in")
        await nobody.comes_back(asked, "xavier")
        assert (await nobody.call("s__sign_in", going_on(asked), id_)).ok
        assert await account(nobody) == "yes x"
        await Person(offering, store, "alice").asked("s__add", a=1, b=1)
