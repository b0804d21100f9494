"""Tokens of those who have signed in to an MCP server: kept encrypted beside their secrets, renewed once for all.

A token belongs to the server's address: under a server of the same name elsewhere it is none.
"""

from collections import OrderedDict
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from time import monotonic, time

from pydantic import ValidationError

from pentad.contracts.envelope import Contract
from pentad.contracts.tool_servers import ToolServer
from pentad.services.tool_worker.servers.links import SignInError
from pentad.services.tool_worker.servers.oauth_client import GivenToken, OAuthClient, SignInRefusedError, TokenPlace
from pentad.shared.errors import OutageError
from pentad.shared.presence.sign_ins import SignIns
from pentad.shared.secrets.secret_store import SecretOwner, SecretStore
from pentad.shared.tool_servers.server_names import server_prefix

_FRESH_S = 5.0
"""Seconds for which a token that was read is known: so soon a person is signed out everywhere."""
_RENEWAL_LEAD_S = 30.0
"""Seconds before its end from which on a token is renewed; a tenth of its life for one that lives shortly."""
_MAX_KNOWN = 1_000
"""Owners whose tokens are remembered."""
_MAX_OWNERS = 1_000
"""Owners that are looked at for one who has signed in."""
_HIDDEN_TOKENS = 4
"""Tokens of one connection that are hidden in what its server says: the last ones."""


class UserToken(Contract):
    """A token of one owner, as it is kept."""

    url: str
    """Address of the MCP server."""
    place: TokenPlace
    access: str
    refresh: str | None = None
    scope: str | None = None
    ends_at: float | None = None
    """Time of its end, in seconds since the epoch; None: it does not say."""
    renew_at: float | None = None
    sign_in: str = ""
    """Digest of the state of the sign-in from which it comes."""

    def __repr_args__(self) -> list[tuple[str | None, object]]:
        """Show nothing that may be secret."""
        return [("url", self.url)]


class UserTokens:
    """Tokens for one server. Raises ``OutageError`` when the store of secrets does not answer."""

    def __init__(self, server: ToolServer, secrets: SecretStore | None, sign_ins: SignIns, client: OAuthClient) -> None:
        self._server, self._sign_ins, self._client = server, sign_ins, client
        self._secrets = secrets if secrets is not None and secrets.keys is not None else None
        self.name = f"oauth.{server_prefix(server.name)}"
        """Name of the secret that a token is."""
        self._known: OrderedDict[str, tuple[float, UserToken | None]] = OrderedDict()

    async def find(self, owner: SecretOwner, *, fresh: bool = False) -> UserToken | None:
        """Return the token of an owner; None for one who has not signed in. ``fresh``: as it is kept now."""
        if self._secrets is None:
            return None
        known = self._known.get(owner.folder)
        if known is not None and not fresh and monotonic() - known[0] <= _FRESH_S:
            return known[1]
        raw = await self._secrets.read(owner, self.name)
        token = None
        with suppress(ValidationError):
            token = None if raw is None else UserToken.model_validate_json(raw)
        if token is not None and token.url != self._server.url:
            token = None
        self._note(owner, token)
        return token

    async def first_owner(self) -> SecretOwner | None:
        """Return the first who has signed in, tenants before users; None while nobody has."""
        if self._secrets is None:
            return None
        for owner in (await self._secrets.owners())[:_MAX_OWNERS]:
            if await self._secrets.has(owner, self.name):
                with suppress(OutageError):  # no key opens it: another's may be readable
                    if await self.find(owner) is not None:
                        return owner
        return None

    async def keep(
        self, owner: SecretOwner, place: TokenPlace, given: GivenToken, sign_in: str, scope: str | None
    ) -> UserToken:
        """Keep the token with which a person has signed in; ``scope``: what was asked for.

        Raises ``SignInError`` for one that is too large.
        """
        given = replace(given, scope=given.scope or scope)
        async with self._sign_ins.token_lock(self._lock(owner)):
            return await self._write(owner, place, given, sign_in)

    async def renew(self, owner: SecretOwner, used: str) -> UserToken | None:
        """Return another token than the one ``used``, which the server refuses, or which ends.

        Of several workers one renews it, and the others take what that has got. None: a person has to sign in again,
        and what was kept is removed. Raises ``SignInError`` where it cannot be renewed for now.
        """
        async with self._sign_ins.token_lock(self._lock(owner)):
            token = await self.find(owner, fresh=True)
            if token is None or token.access != used:
                return token
            try:
                if token.refresh is None:
                    raise SignInRefusedError("it cannot be renewed")
                given = await self._client.refresh(token.place, token.refresh)
            except SignInRefusedError:
                assert self._secrets is not None
                await self._secrets.remove(owner, self.name)
                self._note(owner, None)
                return None
            if not await self._has(owner):  # signed out, or erased, meanwhile
                self._note(owner, None)
                return None
            given = replace(given, scope=given.scope or token.scope)
            return await self._write(owner, token.place, given, token.sign_in)

    async def _has(self, owner: SecretOwner) -> bool:
        return self._secrets is not None and await self._secrets.has(owner, self.name)

    def bearer(self, owner: SecretOwner) -> "UserBearer":
        """Return the right of an owner, for one connection."""
        return UserBearer(self, owner)

    async def _write(self, owner: SecretOwner, place: TokenPlace, given: GivenToken, sign_in: str) -> UserToken:
        now, lives = time(), given.lives_s
        token = UserToken(
            url=str(self._server.url),
            place=place,
            access=given.access,
            refresh=given.refresh,
            scope=given.scope,
            ends_at=None if lives is None else now + lives,
            renew_at=None if lives is None or given.refresh is None else now + lives - min(_RENEWAL_LEAD_S, lives / 10),
            sign_in=sign_in,
        )
        assert self._secrets is not None
        try:
            await self._secrets.write(owner, self.name, token.to_json().decode())
        except ValueError as error:
            raise SignInError(f"the token cannot be kept: {error}") from None
        self._note(owner, token)
        return token

    def _note(self, owner: SecretOwner, token: UserToken | None) -> None:
        self._known[owner.folder] = monotonic(), token
        self._known.move_to_end(owner.folder)
        if len(self._known) > _MAX_KNOWN:
            self._known.popitem(last=False)

    def _lock(self, owner: SecretOwner) -> str:
        return f"{owner.folder}/{self.name}"


class UserBearer:
    """The right of one owner at one server: the `Bearer` of a connection."""

    def __init__(self, tokens: UserTokens, owner: SecretOwner) -> None:
        self._tokens, self._owner = tokens, owner
        self._sent: OrderedDict[str, None] = OrderedDict()

    async def token(self) -> str | None:
        try:
            found = await self._tokens.find(self._owner)
            if found is not None and found.renew_at is not None and time() >= found.renew_at:
                found = await self._renewed_early(found)
        except OutageError as error:
            raise SignInError(str(error)) from None
        return None if found is None else self._noted(found.access)

    async def renewed(self, used: str | None) -> str | None:
        if used is None:
            return None
        try:
            found = await self._tokens.renew(self._owner, used)
        except OutageError as error:
            raise SignInError(str(error)) from None
        return None if found is None else self._noted(found.access)

    def hidden(self) -> Collection[str]:
        return tuple(self._sent)

    async def _renewed_early(self, found: UserToken) -> UserToken | None:
        """Renew a token that ends; one that has not ended yet is good while its authorization server is away."""
        try:
            return await self._tokens.renew(self._owner, found.access)
        except SignInError:
            if found.ends_at is not None and time() < found.ends_at:
                return found
            raise

    def _noted(self, token: str) -> str:
        self._sent[token] = None
        if len(self._sent) > _HIDDEN_TOKENS:
            self._sent.popitem(last=False)
        return token


class NoBearer:
    """The right of who has not signed in: requests go without a token, and the server may ask for one."""

    async def token(self) -> str | None:
        return None

    async def renewed(self, used: str | None) -> str | None:
        return None

    def hidden(self) -> Collection[str]:
        return ()


def digest_of_state(state: str) -> str:
    """Return what tells a sign-in from others, and does not give its state away."""
    return sha256(state.encode()).hexdigest()
