"""Signing in to one MCP server by OAuth: the question to a person, and how the call goes on once the person came back.

All that the call needs to go on lies in its own state, encrypted: another worker goes on, hours later.
"""

from dataclasses import replace
from secrets import token_urlsafe
from time import monotonic

from mcp.client.auth import PKCEParameters
from mcp.client.auth.utils import union_scopes
from pydantic import ValidationError

from pentad.contracts.envelope import Contract
from pentad.contracts.suspensions import MAX_STATE, Resumption, Suspension
from pentad.contracts.tool_servers import ServerSignIn, ToolServer
from pentad.services.tool_worker.servers.inputs import EMPTY_FORM
from pentad.services.tool_worker.servers.links import Challenge, SignInError
from pentad.services.tool_worker.servers.oauth_client import (
    AuthorizationServer,
    OAuthClient,
    SignInClient,
    SignInRefusedError,
    TokenPlace,
    own_client,
    page_address,
)
from pentad.services.tool_worker.servers.user_tokens import UserBearer, UserTokens, digest_of_state
from pentad.shared.clipping import plain
from pentad.shared.plugins.context import ToolContext
from pentad.shared.presence.sign_ins import CALLBACK_PATH, OpenSignIn, SignIns
from pentad.shared.secrets.secret_store import SecretKeys, SecretOwner, SecretStore
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store

_KNOWN_S = 600.0
"""Seconds for which it is known what an authorization server says of itself."""
_BEGINS = "sign-in:"
"""Begins the state of a call that waits for a sign-in; what a server has kept for a call begins otherwise."""
_SPARE_S = 60
"""Seconds for which a sign-in is known longer than a person may decide about its call."""
_MAX_WHY = 300
_NO_KEY = (
    "tokens are kept encrypted, and there is no key: set PENTAD_SECRET_KEY (openssl rand -base64 32) for the gateway "
    "and the tool-workers"
)
_NO_PLACE = "there is no place for tokens: set PENTAD_SECRETS for the gateway, task-runners, tool-workers and archivers"
_NO_ADDRESS = (
    "nobody knows at which address browsers reach the gateway: set PENTAD_PUBLIC_URL for the gateway and the "
    "tool-workers"
)


class AskAgainError(Exception):
    """A person did not come back with what the call needs. The text says why."""


class _KeptClient(Contract):
    """A client that was registered, as it is kept."""

    issuer: str
    redirect_uri: str
    client: SignInClient


class _Waiting(Contract):
    """A call that waits for a sign-in."""

    state: str
    verifier: str
    redirect_uri: str
    names_issuer: bool
    place: TokenPlace
    scope: str | None = None
    before: Resumption | None = None
    """Answer to the server itself with which the call goes on."""

    def __repr_args__(self) -> list[tuple[str | None, object]]:
        """Show nothing that may be secret."""
        return [("redirect_uri", self.redirect_uri)]


class SignIn:
    """Signs persons in to one server. ``trusted``: see `OAuthClient`."""

    def __init__(self, server: ToolServer, settings: Settings, store: Store, *, trusted: bool) -> None:
        self._server, self._settings = server, settings
        self._asks: ServerSignIn = server.oauth or ServerSignIn()
        self._secrets = SecretStore.of(settings)
        self._sign_ins = SignIns(store)
        self._client = OAuthClient(str(server.url), settings.pentad_web_allow, trusted=trusted)
        self.tokens = UserTokens(server, self._secrets, self._sign_ins, self._client)
        self._known: dict[str, tuple[float, AuthorizationServer]] = {}

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def bearer(self, owner: SecretOwner, *, fresh: bool = False) -> UserBearer | None:
        """Return the right of an owner; None for one who has not signed in. Raises ``OutageError``."""
        return None if await self.tokens.find(owner, fresh=fresh) is None else self.tokens.bearer(owner)

    async def discover(self, challenge: Challenge) -> AuthorizationServer:
        """Return where persons sign in. Raises ``SignInError``, and ``NoSignInError`` where they cannot."""
        key = f"{challenge.resource_metadata} {challenge.scope}"
        found = self._known.get(key)
        if found is None or monotonic() - found[0] > _KNOWN_S:
            self._known.clear()
            self._known[key] = found = monotonic(), await self._client.discover(challenge, self._asks.scope)
        return found[1]

    @staticmethod
    def is_of(resumed: Resumption | None) -> bool:
        """Return whether a call goes on after a sign-in."""
        return resumed is not None and resumed.needs == "input" and resumed.state.startswith(_BEGINS)

    # Asking

    async def ask(
        self, context: ToolContext, challenge: Challenge, before: Resumption | None = None, why: str = ""
    ) -> Suspension:
        """Return the question to a person. ``before``: the answer with which the call would go on.

        Raises ``SignInError``, and ``OutageError``.
        """
        keys, redirect_uri = self._keys(), await self._redirect_uri()
        server = await self.discover(challenge)
        client = await self._client_of(context.tenant_id, server, redirect_uri)
        owner, proof, state = owner_of(context), PKCEParameters.generate(), token_urlsafe(32)
        held = await self.tokens.find(owner)
        scope = server.scope if held is None else union_scopes(held.scope, server.scope)
        server = replace(server, scope=scope)
        address = page_address(server, client.client_id, redirect_uri, state, proof.code_challenge)
        waiting = _Waiting(
            state=state,
            verifier=proof.code_verifier,
            redirect_uri=redirect_uri,
            names_issuer=server.names_issuer,
            scope=scope,
            place=TokenPlace(
                issuer=server.issuer, endpoint=server.token_endpoint, resource=server.resource, client=client
            ),
            before=before,
        )
        asked = OpenSignIn(
            tenant=context.tenant_id,
            user=context.user_id,
            task=context.task_id,
            call=context.tool_call_id,
            server=self._server.name,
        )
        await self._sign_ins.ask(state, asked, round(self._settings.pentad_approval_s) + _SPARE_S)
        begins = f"{plain(why, _MAX_WHY)}. " if why else ""
        message = f"{begins}Sign in to {plain(self._server.name, 100)} (open {address}, then go on)"
        return Suspension(needs="input", message=message, form=EMPTY_FORM, state=self._sealed(keys, waiting, context))

    def _sealed(self, keys: SecretKeys, waiting: _Waiting, context: ToolContext) -> str:
        """Return what the call needs to go on, for it alone. A server's state that has no room is asked for again."""
        place = self._place(context)
        state = _BEGINS + keys.seal(waiting.to_json(), place).decode()
        if len(state) > MAX_STATE:
            return self._sealed(keys, waiting.model_copy(update={"before": None}), context)
        return state

    async def _client_of(self, tenant: str, server: AuthorizationServer, redirect_uri: str) -> SignInClient:
        """Return the client that the entry names, else one that is registered once for the tenant."""
        secrets, asks = self._place_of_secrets(), self._asks
        if asks.client_id is not None:
            values = {name: await secrets.read(SecretOwner(tenant), name) for name in asks.secrets}
            if missing := [name for name, value in values.items() if value is None]:
                raise SignInError(f"its client needs the secret {missing[0]} of tenant {tenant}: POST /v1/secrets")
            given = {name: value for name, value in values.items() if value is not None}
            return own_client(server, asks.client_id, asks.secret_with(given))
        owner, name = SecretOwner(tenant), f"client.{self.tokens.name}"
        async with self._sign_ins.token_lock(f"{owner.folder}/{name}"):
            raw = await secrets.read(owner, name)
            try:
                kept = None if raw is None else _KeptClient.model_validate_json(raw)
            except ValidationError:
                kept = None
            if kept is not None and (kept.issuer, kept.redirect_uri) == (server.issuer, redirect_uri):
                return kept.client
            client = await self._client.register(server, redirect_uri)
            made = _KeptClient(issuer=server.issuer, redirect_uri=redirect_uri, client=client)
            try:
                await secrets.write(owner, name, made.to_json().decode())
            except ValueError as error:
                raise SignInError(f"the client cannot be kept: {error}") from None
            return client

    async def _redirect_uri(self) -> str:
        address = self._settings.pentad_public_url or await self._sign_ins.gateway_address()
        if address is None:
            raise SignInError(_NO_ADDRESS)
        return address.rstrip("/") + CALLBACK_PATH

    def _place_of_secrets(self) -> SecretStore:
        if self._secrets is None:
            raise SignInError(_NO_PLACE)
        return self._secrets

    def _keys(self) -> SecretKeys:
        keys = self._place_of_secrets().keys
        if keys is None:
            raise SignInError(_NO_KEY)
        return keys

    def _place(self, context: ToolContext) -> str:
        """Return what the state of a call is sealed with: it opens for no other call, user or server."""
        parts = (owner_of(context).folder, context.task_id, context.tool_call_id, str(self._server.url))
        return "\n".join(("sign-in", *parts))

    # Going on

    async def finish(self, context: ToolContext, resumed: Resumption) -> Resumption | None:
        """Keep the token of a person who came back; return the answer with which the call itself goes on.

        It may be done again, after a crash. Raises ``AskAgainError``, ``SignInError`` for a person who has declined and
        for what does not change by asking, and ``OutageError``.
        """
        waiting = self._opened(resumed.state, context)
        if not resumed.accepted:
            await self._sign_ins.close(waiting.state)
            raise SignInError("the person has declined to sign in")
        owner, sign_in = owner_of(context), digest_of_state(waiting.state)
        held = await self.tokens.find(owner, fresh=True)
        if held is None or held.sign_in != sign_in:
            code = await self._code(waiting)
            place = waiting.place
            try:
                given = await self._client.exchange(place, code, waiting.verifier, waiting.redirect_uri)
            except SignInRefusedError as error:
                await self._sign_ins.close(waiting.state)
                raise AskAgainError(f"the sign-in did not succeed: {error}") from None
            await self.tokens.keep(owner, place, given, sign_in, waiting.scope)
        await self._sign_ins.close(waiting.state)
        return waiting.before

    def _opened(self, state: str, context: ToolContext) -> _Waiting:
        opened = self._keys().open(state.removeprefix(_BEGINS).encode(), self._place(context))
        try:
            if opened is not None:
                return _Waiting.model_validate_json(opened)
        except ValidationError:
            pass
        raise AskAgainError("what was kept of the sign-in cannot be read any more")

    async def _code(self, waiting: _Waiting) -> str:
        """Return the code with which the person came back. Raises ``AskAgainError``, and ``SignInError``."""
        back = await self._sign_ins.back(waiting.state)
        if back is None:
            await self._sign_ins.close(waiting.state)
            raise AskAgainError("nobody has come back from the page to sign in, or it was too long ago")
        issuer = waiting.place.issuer
        if back.issuer != issuer and (back.issuer is not None or waiting.names_issuer):
            await self._sign_ins.close(waiting.state)
            raise SignInError("the code is of another authorization server than was asked: nothing was sent to it")
        if back.error:
            await self._sign_ins.close(waiting.state)
            raise SignInError(f"the page to sign in has said {plain(back.error, 100)!r}")
        return back.code


def owner_of(context: ToolContext) -> SecretOwner:
    """Return whose token a call uses: its user's; for a call of no user, the tenant's, which no user has."""
    return SecretOwner(context.tenant_id, context.user_id)
