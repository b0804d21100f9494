"""Requests to the gateway, their failures in words."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from pentad.errors import Busy, ClientError, Conflict, NotFound, Refused, Unreadable
from pentad.transport import Address, seconds

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Response

PAGE = 100
TIMEOUT_S = 30.0


class Rest:
    """The gateway's REST side. Opens its connections on first use."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._client: AsyncClient | None = None

    async def call(self, method: str, path: str, *, body: Mapping[str, Any] | None = None, **query: Any) -> Any:
        """The JSON answer, None when there is none. Raises ``ClientError``; absent query values are left out."""
        response = await self.request(method, path, body=body, **query)
        if response.is_success:
            return self._json(response)
        raise self._failure(response)

    async def request(self, method: str, path: str, *, body: Mapping[str, Any] | None = None, **query: Any) -> Response:
        """The answer whatever its status. Raises ``GatewayUnreachable``."""
        import httpx2

        params = {name: value for name, value in query.items() if value is not None}
        client = self._opened()
        try:
            try:
                return await client.request(method, path, params=params, json=body)
            except (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError):
                if method != "GET":
                    raise
                # A kept connection may have been closed under the request: a read may be asked again.
                return await client.request(method, path, params=params)
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

    def _failure(self, response: Response) -> ClientError:
        status, text = response.status_code, _problem(response)
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


def _problem(response: Response) -> str:
    """What an RFC 9457 problem document says, in one line."""
    try:
        problem = response.json()
        words = [str(problem[part]) for part in ("title", "detail") if problem.get(part)]
    except (ValueError, AttributeError, TypeError):
        words = []
    return ": ".join(dict.fromkeys(words)) or f"the gateway answered {response.status_code}"
