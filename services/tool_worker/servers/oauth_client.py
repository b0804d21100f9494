"""The client of an MCP server's authorization server: what that says of itself, and codes exchanged for tokens.

Each step is one request, because a person comes between them, for hours, and another worker may go on. The forms are
the SDK's. Nothing here is kept.
"""

import base64
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal
from urllib.parse import quote, urlencode, urlsplit

from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    build_protected_resource_metadata_discovery_urls,
    get_client_metadata_scopes,
    issuers_match,
)
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url
from pydantic import AnyUrl, ValidationError
from pydantic_core import from_json

from pentad.contracts.envelope import Contract
from pentad.contracts.plain_json import values_in
from pentad.services.tool_worker.servers.links import Challenge, SignInError
from pentad.shared.addresses import is_loopback
from pentad.shared.clipping import plain
from pentad.shared.immutable import immutable
from pentad.shared.outbound.address_guard import AddressGuard, OutboundError, RefusedAddressError
from pentad.shared.outbound.outside_client import OutsideAnswer, OutsideClient

REQUEST_S = 15.0
"""Seconds that one request to an authorization server may take."""
_MAX_ANSWER_BYTES, _MAX_ANSWER_VALUES = 256 * 1024, 5_000
"""Bytes and JSON values of an answer that is read."""
_MAX_ENDPOINT = 1_500
"""Characters of an address that metadata names."""
_MAX_PAGE_ADDRESS = 3_500
"""Characters of the address that a person is asked to open."""
_MAX_TOKEN = 6_000
"""Characters of a token."""
_MAX_LIFE_S = 10 * 365 * 86_400
"""Seconds that a token is believed to live at most."""
_SHOWN = 150
_GRANTS = ["authorization_code", "refresh_token"]
_WORD = re.compile(r"[a-z_]{1,64}")
_TOKEN = re.compile(r"[\x21-\x7e]+")
_REFUSALS = frozenset({"invalid_grant", "invalid_client", "unauthorized_client", "invalid_target", "invalid_scope"})
"""Errors that say that a code or a refresh token is of no use any more, and not that something is out of order."""

ClientMethod = Literal["none", "client_secret_basic", "client_secret_post"]
"""How a client says who it is when it asks for a token."""
_METHODS: tuple[ClientMethod, ...] = ("none", "client_secret_basic", "client_secret_post")


class NoSignInError(SignInError):
    """A server does not say where a person can sign in. The text says what to do."""


class SignInRefusedError(SignInError):
    """The authorization server takes a code or a refresh token no more: a person has to sign in again."""


class SignInClient(Contract):
    """The client as an authorization server knows it."""

    client_id: str
    client_secret: str | None = None
    method: ClientMethod = "none"

    def __repr_args__(self) -> list[tuple[str | None, object]]:
        return [("client_id", self.client_id)]


class TokenPlace(Contract):
    """Where tokens for a server are had, and for whom they are meant."""

    issuer: str
    endpoint: str
    """Address that exchanges codes and refresh tokens for tokens."""
    resource: str
    """The server, as the tokens name it."""
    client: SignInClient


@immutable
class AuthorizationServer:
    """An authorization server as its metadata describe it."""

    issuer: str
    page: str
    """Address of the page on which a person signs in."""
    token_endpoint: str
    registration_endpoint: str | None
    methods: tuple[ClientMethod, ...]
    """Ways for a client to say who it is, of those that are known here."""
    resource: str
    scope: str | None
    names_issuer: bool
    """Whether it names itself to those who come back."""


@immutable
class GivenToken:
    """A token as an authorization server gives it. Its ``repr`` shows nothing of it."""

    access: str
    refresh: str | None
    lives_s: int | None
    scope: str | None

    def __repr__(self) -> str:
        return "GivenToken()"


class OAuthClient:
    """Speaks with the authorization server of one MCP server. Raises ``SignInError`` for all that goes wrong.

    ``allowed``: hosts that may lead inside. ``trusted``: the operator's own file names the server. One that leads
    inside itself may have its authorization server there, too; one of the internet may not lead a worker inside.
    """

    def __init__(self, url: str, allowed: tuple[str, ...], *, trusted: bool) -> None:
        self._url, self._allowed, self._trusted = url, allowed, trusted
        self._http: OutsideClient | None = None

    async def aclose(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.aclose()

    async def discover(self, challenge: Challenge, scope: str | None) -> AuthorizationServer:
        """Return the authorization server of the MCP server. ``scope``: what is asked for; None: what these two name.

        Raises ``NoSignInError`` where there is none.
        """
        _endpoint("the server", self._url)
        found = await self._resource_metadata(challenge)
        resource = resource_url_from_server_url(self._url)
        if found is not None and not check_resource_allowed(resource, str(found.resource)):
            raise SignInError(f"the server's metadata are those of another, {_shown(str(found.resource))}")
        named = None if found is None else str(found.authorization_servers[0])
        metadata = await self._server_metadata(named)
        supported = metadata.code_challenge_methods_supported
        if supported is not None and "S256" not in supported:
            raise SignInError(f"{_shown(str(metadata.issuer))} does not take PKCE with S256, without which codes leak")
        given = metadata.token_endpoint_auth_methods_supported
        methods = tuple(each for each in _METHODS if each in (given or ("client_secret_basic",)))
        asked = scope or get_client_metadata_scopes(challenge.scope, found, metadata, _GRANTS)
        registration = metadata.registration_endpoint
        return AuthorizationServer(
            issuer=str(metadata.issuer),
            page=_endpoint("the page to sign in", str(metadata.authorization_endpoint)),
            token_endpoint=_endpoint("the address for tokens", str(metadata.token_endpoint)),
            registration_endpoint=None
            if registration is None
            else _endpoint("the address for registration", str(registration)),
            methods=methods,
            resource=resource if found is None else str(found.resource),
            scope=None if asked is None else plain(asked, 1_000),
            names_issuer=metadata.authorization_response_iss_parameter_supported is True,
        )

    async def register(self, server: AuthorizationServer, redirect_uri: str) -> SignInClient:
        """Register a client at an authorization server."""
        if server.registration_endpoint is None:
            raise SignInError(
                f"{_shown(server.issuer)} registers no clients by itself: register one there, with the redirect URI "
                f"{redirect_uri}, and give its client_id (and client_secret) in `oauth` of the server's entry"
            )
        asked = OAuthClientMetadata(
            redirect_uris=[AnyUrl(redirect_uri)],
            client_name="Pentad",
            token_endpoint_auth_method=_best_method(server),
            grant_types=_GRANTS,
            scope=server.scope,
            application_type="native" if is_loopback(urlsplit(redirect_uri).hostname or "") else "web",
        )
        body = asked.model_dump_json(exclude_none=True).encode()
        answer = await self._post(server.registration_endpoint, body, "application/json", {})
        if answer.status not in (200, 201):
            raise SignInError(f"{_shown(server.issuer)} did not register a client: {_words_of(answer)}")
        try:
            made = OAuthClientInformationFull.model_validate(_parsed(answer))
        except ValidationError:
            raise SignInError(f"{_shown(server.issuer)} answered a registration with what is none") from None
        method = made.token_endpoint_auth_method or ("none" if made.client_secret is None else "client_secret_basic")
        if method not in _METHODS or (method != "none" and made.client_secret is None):
            raise SignInError(
                f"{_shown(server.issuer)} registered a client that cannot say who it is: {plain(method, 50)}"
            )
        return SignInClient(client_id=made.client_id, client_secret=made.client_secret, method=method)

    async def exchange(self, place: TokenPlace, code: str, verifier: str, redirect_uri: str) -> GivenToken:
        """Exchange a code for a token. Raises ``SignInRefusedError`` for a code that is not taken."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": verifier,
        }
        return await self._token(place, form, (code, verifier))

    async def refresh(self, place: TokenPlace, refresh: str) -> GivenToken:
        """Exchange a refresh token for a new token. Raises ``SignInRefusedError`` for one that is not taken."""
        given = await self._token(place, {"grant_type": "refresh_token", "refresh_token": refresh}, (refresh,))
        return given if given.refresh is not None else replace(given, refresh=refresh)

    # Requests

    async def _resource_metadata(self, challenge: Challenge) -> ProtectedResourceMetadata | None:
        for url in build_protected_resource_metadata_discovery_urls(challenge.resource_metadata, self._url):
            found = await self._document(url)
            if found is not None:
                try:
                    return ProtectedResourceMetadata.model_validate(found)
                except ValidationError:
                    raise SignInError(f"{_shown(url)} is no metadata of a server that can be used") from None
        return None

    async def _server_metadata(self, named: str | None) -> OAuthMetadata:
        """Return the metadata of the authorization server that is named; where none is, of the MCP server's own."""
        for url in build_oauth_authorization_server_metadata_discovery_urls(named, self._url):
            document = await self._document(url)
            if document is None:
                continue
            try:
                found = OAuthMetadata.model_validate(document)
            except ValidationError:
                raise SignInError(f"{_shown(url)} is no metadata of an authorization server that can be used") from None
            issuer = str(found.issuer)
            expected = _origin(self._url) if named is None else named
            if not issuers_match(_origin(issuer) if named is None else issuer, expected):
                raise SignInError(f"the metadata of {_shown(expected)} are those of another, {_shown(issuer)}")
            return found
        if named is None:
            raise NoSignInError(
                "the server wants to know who asks, and names no place to sign in: see headers of its entry"
            )
        raise SignInError(f"{_shown(named)} says nothing of itself: it has no metadata of an authorization server")

    async def _token(self, place: TokenPlace, form: Mapping[str, str], hidden: tuple[str, ...]) -> GivenToken:
        client, headers = place.client, dict[str, str]()
        form = {**form, "client_id": client.client_id, "resource": place.resource}
        if client.client_secret is not None and client.method == "client_secret_basic":
            pair = f"{quote(client.client_id, safe='')}:{quote(client.client_secret, safe='')}"
            headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        elif client.client_secret is not None and client.method == "client_secret_post":
            form["client_secret"] = client.client_secret
        answer = await self._post(
            place.endpoint, urlencode(form).encode(), "application/x-www-form-urlencoded", headers
        )
        if answer.status != 200:
            said = _words_of(answer)
            if 400 <= answer.status < 500 and said in _REFUSALS:
                raise SignInRefusedError(f"{_shown(place.issuer)} does not take it any more: {said}")
            raise SignInError(f"{_shown(place.issuer)} gave no token: {said}")
        try:
            given = OAuthToken.model_validate(_parsed(answer))
        except ValidationError:
            raise SignInError(f"{_shown(place.issuer)} answered with what is no token") from None
        for each in (given.access_token, given.refresh_token):
            if each is not None and (len(each) > _MAX_TOKEN or _TOKEN.fullmatch(each) is None):
                raise SignInError(
                    f"{_shown(place.issuer)} gave a token that cannot be sent: it is too long, or no ASCII"
                )
        lives = given.expires_in
        lives = None if lives is None else min(max(lives, 0), _MAX_LIFE_S)
        return GivenToken(given.access_token, given.refresh_token, lives, given.scope)

    async def _document(self, url: str) -> dict[str, Any] | None:
        """Return the JSON object at an address; None where there is none. A redirect is not followed."""
        http = await self._client()
        try:
            answer = _bounded(await http.get(_endpoint("an address", url), accept="application/json", redirects=0))
        except SignInError:
            raise
        except OutboundError as error:
            raise SignInError(str(error)) from None
        found = _parsed(answer) if answer.status == 200 else None
        return found if isinstance(found, dict) else None

    async def _post(self, url: str, body: bytes, kind: str, headers: Mapping[str, str]) -> OutsideAnswer:
        """Send a body, which no redirect carries on."""
        http = await self._client()
        given = {"content-type": kind, "accept": "application/json", **headers}
        try:
            return _bounded(await http.post(_endpoint("an address", url), body, given))
        except SignInError:
            raise
        except OutboundError as error:
            raise SignInError(str(error)) from None

    async def _client(self) -> OutsideClient:
        if self._http is None:
            allowed = None if self._trusted and await self._leads_inside() else self._allowed
            self._http = OutsideClient(allowed, timeout_s=REQUEST_S)
        return self._http

    async def _leads_inside(self) -> bool:
        parts = urlsplit(self._url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            await AddressGuard().addresses(parts.hostname or "", port)
        except RefusedAddressError:
            return True
        except OutboundError:
            return False
        return False


def page_address(server: AuthorizationServer, client_id: str, redirect_uri: str, state: str, challenge: str) -> str:
    """Return the address at which a person signs in. Raises ``SignInError`` for one that is too long."""
    query = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": redirect_uri,
        "state": state,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
        "resource": server.resource,
    }
    if server.scope:
        query["scope"] = server.scope
        if "offline_access" in server.scope.split():
            query["prompt"] = "consent"
    address = f"{server.page}{'&' if '?' in server.page else '?'}{urlencode(query)}"
    if len(address) > _MAX_PAGE_ADDRESS:
        raise SignInError(f"the address to sign in has more than {_MAX_PAGE_ADDRESS:,} characters")
    return address


def own_client(server: AuthorizationServer, client_id: str, client_secret: str | None) -> SignInClient:
    """Return the client that an entry names, as the authorization server wants to hear of it."""
    method: ClientMethod = "none"
    if client_secret is not None:
        method = "client_secret_post" if server.methods == ("client_secret_post",) else "client_secret_basic"
    return SignInClient(client_id=client_id, client_secret=client_secret, method=method)


def _best_method(server: AuthorizationServer) -> ClientMethod:
    if not server.methods:
        raise SignInError(f"{_shown(server.issuer)} takes no client that says who it is as this one can")
    return server.methods[0]


def _endpoint(what: str, url: str) -> str:
    """Return an address to which secrets may be sent. Raises ``SignInError``."""
    try:
        parts = urlsplit(url)
        wrong = not parts.hostname or parts.port == 0 or "@" in parts.netloc or bool(parts.fragment)
    except ValueError:
        wrong, parts = True, urlsplit("")
    if wrong or len(url) > _MAX_ENDPOINT or not url.isascii() or not url.isprintable() or " " in url:
        raise SignInError(f"{what} is no address that can be used: {_shown(url)}")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        raise SignInError(f"{what} is not of https: {_shown(url)}; only on this machine may it be of http")
    return url


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _bounded(answer: OutsideAnswer) -> OutsideAnswer:
    """Return an answer that may be read. Raises ``SignInError`` for one that is too large."""
    large = answer.is_cut or len(answer.body) > _MAX_ANSWER_BYTES
    if large or values_in(answer.body, _MAX_ANSWER_VALUES) > _MAX_ANSWER_VALUES:
        raise SignInError(
            f"the answer of {_shown(answer.url)} is larger than {_MAX_ANSWER_BYTES:,} bytes or "
            f"{_MAX_ANSWER_VALUES:,} values"
        )
    return answer


def _parsed(answer: OutsideAnswer) -> object:
    try:
        return from_json(answer.body, allow_inf_nan=False)
    except ValueError:
        return None


def _words_of(answer: OutsideAnswer) -> str:
    """Return the error that an answer names; other words of it could repeat what was sent."""
    found = _parsed(answer)
    word = found.get("error") if isinstance(found, dict) else None
    return word if isinstance(word, str) and _WORD.fullmatch(word) else f"HTTP {answer.status}"


def _shown(url: str) -> str:
    """Return an address without its query, in which secrets may stand."""
    return plain(url.partition("?")[0], _SHOWN)
