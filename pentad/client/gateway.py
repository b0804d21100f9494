"""Connections to a gateway: where it is, one WebSocket, REST requests, and their failures in words."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from pentad.contracts.errors import ErrorCode
from pentad.contracts.tokens import TOKEN_PREFIX
from pentad.errors import (
    Busy,
    ClientError,
    Conflict,
    GatewayUnreachable,
    ModelCallFailed,
    NotAuthorized,
    NotFound,
    Refused,
    Unreadable,
)
from pentad.shared.addresses import is_loopback

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Response
    from websockets.asyncio.client import ClientConnection
    from websockets.exceptions import ConnectionClosed, InvalidStatus

SUBPROTOCOL = "pentad.v1"
MAX_FRAME = 64 * 1024 * 1024
"""Bytes of one frame from the gateway: a snapshot of a long session is large."""
OPEN_TIMEOUT_S = 10.0
_NO_UPGRADE = 426
"""Status with which a gateway answers a handshake whose headers a proxy has dropped."""
HINT = "start it with `make run` or give --url"
"""Advice when nobody answers at an address that the person has chosen."""
_FINAL_CODES = {1002, 1003, 1007, 1008, 1009, 1010}
"""Closed because of what we sent: the same again ends the same way."""


class Dropped(Exception):  # noqa: N818 - reads as what happened
    """The connection is gone, or was not let in just now: try again, after ``delay`` seconds when it said so."""

    def __init__(self, why: str, delay: float | None = None, *, answered: bool = True) -> None:
        super().__init__(why)
        self.delay = delay
        self.answered = answered
        """Whether anything listens at the address."""


@dataclass(frozen=True, slots=True)
class Address:
    """A gateway and the key to it. The key is never part of a text."""

    url: str
    api_key: str | None = field(default=None, repr=False)
    hint: str = HINT
    """Advice when nobody answers at this address."""
    key_hint: str = "set PENTAD_API_KEY to one of its PENTAD_API_KEYS"
    """Advice when the gateway refuses the key."""
    admin_key: str | None = field(default=None, repr=False)
    """The operator's key, for who has it."""

    @classmethod
    def parse(cls, url: str, api_key: str | None = None, hint: str = HINT, source: str = "") -> Address:
        """Raises ``ClientError``, which begins with ``source``, when it is not an http(s) address."""
        try:
            parts = urlsplit(url)
            valid = parts.scheme in ("http", "https") and bool(parts.hostname)
        except ValueError:  # half of an IPv6 address
            valid = False
        if not valid:
            raise ClientError(f"{source}{url!r} is not a gateway's address: write it as http://127.0.0.1:8080")
        return cls(url.rstrip("/"), api_key, hint)

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}

    @property
    def local(self) -> bool:
        """On this machine: no proxy of the environment may stand between."""
        return is_loopback(urlsplit(self.url).hostname or "")

    def events_url(self, session_id: str, after: str | None) -> str:
        """The WebSocket of a session's events after a cursor."""
        query = {"session_id": session_id} | ({"after": after} if after is not None else {})
        return "ws" + self.url.removeprefix("http") + "/v1/ws?" + urlencode(query)

    def unreachable(self, why: str = "") -> GatewayUnreachable:
        detail = f" ({why})" if why else ""
        return GatewayUnreachable(f"no gateway answers at {self.url}{detail}: {self.hint}")

    def unable(self, status: int, why: str) -> GatewayUnreachable:
        """The gateway is there and says itself that it cannot do this now."""
        later = "it goes on when that is mended"
        return GatewayUnreachable(f"the gateway at {self.url} answered {status}: {why}: {later}")

    def not_authorized(self) -> NotAuthorized:
        if self.api_key is not None and self.api_key.startswith(TOKEN_PREFIX):
            ended = "it has ended, or the API key that made it is gone: ask for another"
            return NotAuthorized(f"the gateway at {self.url} does not take this token: {ended}")
        what = "does not know this API key" if self.api_key else "wants an API key"
        return NotAuthorized(f"the gateway at {self.url} {what}: {self.key_hint}")

    def not_ours(self) -> Refused:
        return Refused(f"what answers at {self.url} is not a Pentad gateway: give --url or PENTAD_URL")

    def behind_a_proxy(self) -> Refused:
        return Refused(
            f"a proxy before {self.url} passes no WebSocket on: have it send the headers Upgrade and Connection "
            "(docs/deploy.md, behind a proxy)"
        )


class Socket:
    """One open WebSocket. Raises ``Dropped`` where another try helps, ``ClientError`` where it does not."""

    def __init__(self, address: Address, connection: ClientConnection) -> None:
        self._address = address
        self._connection = connection

    async def send(self, frame: dict[str, Any]) -> None:
        """Send one JSON frame."""
        from websockets.exceptions import ConnectionClosed

        try:
            await self._connection.send(json.dumps(frame, ensure_ascii=False))
        except ConnectionClosed as closed:
            raise _judged_close(self._address, closed) from None

    async def receive(self) -> dict[str, Any]:
        """The next JSON frame."""
        from websockets.exceptions import ConnectionClosed

        try:
            frame = json.loads(await self._connection.recv())
        except ConnectionClosed as closed:
            raise _judged_close(self._address, closed) from None
        except ValueError:
            raise self._address.not_ours() from None
        if not isinstance(frame, dict):
            raise self._address.not_ours()
        return frame


@asynccontextmanager
async def opened(address: Address, session_id: str, after: str | None) -> AsyncIterator[Socket]:
    """A WebSocket on a session's events; closed on leaving. Raises like ``Socket``."""
    connection = await _dial(address, address.events_url(session_id, after))
    try:
        yield Socket(address, connection)
    finally:
        await connection.close()


async def _dial(address: Address, url: str) -> ClientConnection:
    from websockets.asyncio.client import connect
    from websockets.exceptions import InvalidHandshake, InvalidStatus
    from websockets.typing import Subprotocol

    # Awaited, so one attempt: only iterating makes the library retry. No compression: deltas are small.
    attempt = connect(
        url,
        additional_headers=address.headers,
        subprotocols=[Subprotocol(SUBPROTOCOL)],
        max_size=MAX_FRAME,
        compression=None,
        open_timeout=OPEN_TIMEOUT_S,
        close_timeout=1,
        proxy=None if address.local else True,
    )
    try:
        async with asyncio.timeout(OPEN_TIMEOUT_S):
            return await attempt
    except InvalidStatus as refused:
        raise _judged_status(address, refused) from None
    except EOFError:
        raise Dropped("the gateway hung up") from None
    except TimeoutError:
        raise Dropped(f"no answer within {OPEN_TIMEOUT_S:g} s", answered=False) from None
    except OSError as error:
        raise Dropped(error.strerror or str(error), answered=False) from None
    except InvalidHandshake as refused:
        # "did not receive a valid HTTP response" is also what a server that dies in the middle looks like.
        if isinstance(refused.__cause__, EOFError | OSError):
            raise Dropped("the gateway hung up") from None
        raise address.not_ours() from None


def _judged_status(address: Address, refused: InvalidStatus) -> Exception:
    status = refused.response.status_code
    if status in (401, 403):
        return address.not_authorized()
    if status == _NO_UPGRADE:
        return address.behind_a_proxy()
    if status == 429 or status >= 500:
        return Dropped(f"the gateway answered {status}", seconds(refused.response.headers.get("Retry-After")))
    return address.not_ours()


def _judged_close(address: Address, closed: ConnectionClosed) -> Exception:
    code = closed.rcvd.code if closed.rcvd else 1006
    reason = closed.rcvd.reason if closed.rcvd else ""
    if code == 4401:
        return address.not_authorized()
    if code in _FINAL_CODES or code >= 4000:
        return Refused(f"the gateway closed the connection: {reason or code}")
    return Dropped(f"the connection closed ({code})")


def seconds(text: str | None) -> float | None:
    """A ``Retry-After`` in seconds; None when missing or a date."""
    try:
        return max(0.0, float(text)) if text else None
    except ValueError:
        return None


PAGE = 100
TIMEOUT_S = 30.0


class Rest:
    """The gateway's REST side. Opens its connections on first use."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._client: AsyncClient | None = None

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        timeout_s: float = TIMEOUT_S,
        **query: Any,
    ) -> Any:
        """The JSON answer, None when there is none. Raises ``ClientError``; absent query values are left out.

        ``timeout_s``: seconds of silence after which there is no answer.
        """
        response = await self.request(method, path, body=body, timeout_s=timeout_s, **query)
        if response.is_success:
            return self._json(response)
        raise self._failure(response)

    def check(self, response: Response) -> None:
        """Raise ``ClientError`` for an answer that is a refusal."""
        if not response.is_success:
            raise self._failure(response)

    async def text(self, path: str, **query: Any) -> str:
        """The answer of a GET as text. Raises ``ClientError``."""
        response = await self.request("GET", path, **query)
        if response.is_success:
            return response.text
        raise self._failure(response)

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        content: bytes | AsyncIterator[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
        **query: Any,
    ) -> Response:
        """The answer whatever its status. ``content``: a body that is no JSON. Raises ``GatewayUnreachable``."""
        import httpx2

        params = {name: value for name, value in query.items() if value is not None}
        client = self._opened()
        sent: dict[str, Any] = {"json": body} if content is None else {"content": content}
        sent["headers"] = headers
        try:
            try:
                return await client.request(method, path, params=params, timeout=timeout_s, **sent)
            except (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError):
                if method != "GET":
                    raise
                # A kept connection may have been closed under the request: a read may be asked again.
                return await client.request(method, path, params=params, headers=headers)
        except httpx2.TimeoutException:
            raise self._address.unreachable(f"nothing within {timeout_s:g} s") from None
        except httpx2.TransportError as error:
            raise self._address.unreachable(str(error)) from None

    async def events(
        self, method: str, path: str, body: Mapping[str, Any]
    ) -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
        """The server-sent events of an answer, each with its kind. Leaving them ends the request.

        Raises ``ClientError``.
        """
        import httpx2

        kind = ""
        try:
            async with self._opened().stream(method, path, json=body) as response:
                if not response.is_success:
                    await response.aread()
                    raise self._failure(response)
                async for line in response.aiter_lines():
                    if line.startswith("event: "):
                        kind = line.removeprefix("event: ")
                    elif line.startswith("data: "):
                        yield kind, self._object(line.removeprefix("data: "))
        except httpx2.TimeoutException:
            raise self._address.unreachable(f"nothing within {TIMEOUT_S:g} s") from None
        except httpx2.TransportError as error:
            raise self._address.unreachable(str(error)) from None

    async def pages(self, path: str, limit: int | None, **query: Any) -> AsyncIterator[dict[str, Any]]:
        """The items of a list, page after page, up to ``limit``. A page may be empty and yet not be the last."""
        cursor, left = None, limit
        while left is None or left > 0:
            page = await self.call("GET", path, limit=min(left or PAGE, PAGE), cursor=cursor, **query)
            for item in page["items"][:left]:
                yield item
            left = None if left is None else left - len(page["items"])
            cursor = page.get("next")
            if not cursor:
                return

    async def aclose(self) -> None:
        """Close the connections. Safe to call twice."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    def _opened(self) -> AsyncClient:
        if self._client is None:
            import httpx2

            self._client = httpx2.AsyncClient(
                base_url=self._address.url,
                headers=self._address.headers,
                timeout=TIMEOUT_S,
                verify=httpx2.create_ssl_context(),  # SSL_CERT_FILE counts on this machine too
                trust_env=not self._address.local,
            )
        return self._client

    def _json(self, response: Response) -> Any:
        try:
            return response.json() if response.content else None
        except ValueError:
            raise self._address.not_ours() from None

    def _object(self, text: str) -> dict[str, Any]:
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise self._address.not_ours()
        return found

    def _failure(self, response: Response) -> ClientError:
        status, text = response.status_code, _problem(response)
        if _code(response) == ErrorCode.MODEL_ERROR:
            return ModelCallFailed(text, seconds(response.headers.get("Retry-After")))
        if status in (401, 403):
            return self._address.not_authorized() if status == 401 else Refused(text)
        if status == 404:
            return NotFound(text)
        if status == 409:
            return Conflict(text)
        if status == 410:
            return Unreadable(text)
        if status == 429:
            after = seconds(response.headers.get("Retry-After"))
            return Busy(f"the gateway is busy: try again {'later' if after is None else f'in {after:g} s'}", after)
        if status >= 500 and response.headers.get("content-type", "").startswith("application/problem+json"):
            return self._address.unable(status, text)
        if status >= 500:
            return self._address.unreachable(f"it answered {status}: {text}")
        return Refused(text)


def _code(response: Response) -> str | None:
    """Return the error code of an RFC 9457 problem document."""
    try:
        code = response.json().get("code")
    except (ValueError, AttributeError):
        return None
    return code if isinstance(code, str) else None


def _problem(response: Response) -> str:
    """Return the text of an RFC 9457 problem document, in one line."""
    try:
        problem = response.json()
        words = [str(problem[part]) for part in ("title", "detail") if problem.get(part)]
    except (ValueError, AttributeError, TypeError):
        words = []
    return ": ".join(dict.fromkeys(words)) or f"the gateway answered {response.status_code}"
