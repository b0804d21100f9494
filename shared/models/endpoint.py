"""A model server through its official client: connections, authentication, quick retries, failures."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from dataclasses import replace
from ipaddress import ip_address
from time import time
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit
from urllib.request import getproxies

from pydantic_core import from_json

from pentad.shared.addresses import shown_place
from pentad.shared.models.loose_values import MAX_VALUES, parse_object
from pentad.shared.models.model_failures import error_in, from_status, message_in, shortened
from pentad.shared.models.model_keys import OPENAI_URL
from pentad.shared.models.official_clients import OfficialClient, openai_client
from pentad.shared.models.ports import ModelFailed, ModelMisconfigured, ModelUnavailable
from pentad.shared.models.stated_delay import stated_delay

if TYPE_CHECKING:
    import httpx2

    from pentad.shared.models.direct_http import Repeat

MAX_ANSWER_BYTES = 64 * 1024 * 1024
"""Bytes that one answer may have."""
MAX_LISTING_BYTES = 4 * 1024 * 1024
"""Bytes that a list of models may have."""
_QUICK_RETRIES = (0.15, 0.5)
"""Seconds before each quick retry, to which jitter is added: the caller waits through longer outages."""
_MAX_RETRY_WAIT_S = 1.0
"""Seconds within which a request is quickly tried again: neither a wait nor all tries together may take longer."""
_MIN_SECRET_CHARS = 8
"""Characters from which an API key is hidden in texts: a shorter one (`k`, `ollama`) is a word, and no secret."""
CONNECT_S = 5.0
"""Seconds that it may take to connect."""


class Endpoint:
    """One model server. `official` imports its client (0.6 s of CPU and more) at the first call or by `warm()`, not
    before.

    `direct` tells whether to speak through our own transport; None means: where no proxy is on the way.
    """

    def __init__(
        self,
        base_url: str | None,
        api_key: str | None,
        *,
        connect_s: float = CONNECT_S,
        max_connections: int = 1000,
        direct: bool | None = None,
        official: Callable[[], OfficialClient] = openai_client,
    ) -> None:
        self._base_url = base_url or OPENAI_URL
        self._api_key = api_key or "none"
        self._connect_s = connect_s
        self._max_connections = max_connections
        self._direct = _is_direct(self._base_url) if direct is None else direct
        self._import = official
        self._official: OfficialClient
        self._client: Any = None
        self._http: httpx2.AsyncClient
        self._built: dict[tuple[str, bool], Repeat] = {}
        self._options: Any = None
        self._warming = threading.Lock()
        self.place = shown_place(self._base_url)

    def warm(self) -> None:
        """Import the client and make it. This blocks for about a second the first time: call it in a thread."""
        self._ready()

    async def open(self, path: str, body: bytes | None, once: bool = False) -> httpx2.Response:
        """Send a request and return the response of status 200, whose body is still to be read. It is a GET without a
        body, else a POST.

        A server that cannot answer just now is asked at most twice more within about a second, unless ``once``. Raises
        `ModelRefused` or `ModelUnavailable`.
        """
        client = self._client
        if client is None:
            client = await asyncio.to_thread(self._ready)
        now = asyncio.get_running_loop().time
        began = now()
        for wait in () if once else _QUICK_RETRIES:
            try:
                return await self._once(client, path, body)
            except ModelUnavailable as error:
                asked = error.retry_after or 0.0
                if error.refusal is not None or asked > _MAX_RETRY_WAIT_S or now() - began > _MAX_RETRY_WAIT_S:
                    raise
                await asyncio.sleep(max(asked, wait * random.uniform(0.5, 1.5)))
        return await self._once(client, path, body)

    async def fetch(
        self, path: str, body: bytes | None, max_bytes: int | None = None, max_values: int = MAX_VALUES
    ) -> dict[str, Any]:
        """Return the JSON object that the server answers. Raises `ModelRefused` or `ModelUnavailable`.

        At most ``max_bytes`` of it are read, `MAX_LISTING_BYTES` by default. An object of more than ``max_values``
        values is refused.
        """
        import httpx2

        from pentad.shared.models.response_body import check_encoding, read_at_most

        response = await self.open(path, body)
        read_at_most(response, max_bytes or MAX_LISTING_BYTES)
        try:
            check_encoding(response, self.place)
            data = await response.aread()
        except httpx2.HTTPError as error:
            raise self.broken(error) from None
        finally:
            await response.aclose()
        try:
            return parse_object(data, max_values=max_values)
        except ValueError:
            raise ModelMisconfigured(f"{self.place}{path} did not answer with JSON; check the base URL") from None

    def broken(self, error: Exception) -> ModelFailed:
        """Return the failure that a broken or impossible connection means."""
        import httpx2

        why = self.redacted(_root_cause(error))
        if isinstance(error.__cause__ or error, httpx2.UnsupportedProtocol):
            return ModelMisconfigured(f"cannot ask {self.place}: {why}")
        return ModelUnavailable(f"no connection to the model server at {self.place} ({why}); check the base URL")

    def redacted(self, text: str) -> str:
        """Return the text without the API key: servers like to repeat it in their errors."""
        return text if len(self._api_key) < _MIN_SECRET_CHARS else text.replace(self._api_key, "***")

    async def aclose(self) -> None:
        """Close the connections. Safe to call twice; a later call opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _ready(self) -> Any:
        with self._warming:
            client = self._client or self._make()
            self._client = client
            return client

    def _make(self) -> Any:
        import httpx2

        self._official = self._import()
        # Time limits are the caller's, by cancelling: it knows the first byte from a stall.
        timeout = httpx2.Timeout(None, connect=self._connect_s)
        self._options = {"timeout": timeout, "max_retries": 0, "headers": {"Accept-Encoding": "identity"}}
        self._http, self._built = self._carrier(), {}
        return self._official.make(
            base_url=self._base_url, api_key=self._api_key, http_client=self._http, max_retries=0
        )

    def _carrier(self) -> httpx2.AsyncClient:
        import httpx2

        from pentad.shared.models.direct_http import IDLE_S, MAX_IDLE_CONNECTIONS, DirectClient
        from pentad.shared.models.response_body import bound_error

        # Proxies of the environment are for the world outside: a local server is always asked directly.
        trust_env = not _is_local(self._base_url)
        if self._direct:
            return DirectClient(self._max_connections, urlsplit(self._base_url).scheme, trust_env)
        limits = httpx2.Limits(
            max_connections=self._max_connections,
            max_keepalive_connections=MAX_IDLE_CONNECTIONS,
            keepalive_expiry=IDLE_S,
        )
        hooks: Any = {"response": [bound_error]}
        return httpx2.AsyncClient(
            verify=httpx2.create_ssl_context(),  # SSL_CERT_FILE counts for a local server too
            trust_env=trust_env,
            limits=limits,
            follow_redirects=True,
            event_hooks=hooks,
        )

    async def _once(self, client: Any, path: str, body: bytes | None) -> httpx2.Response:
        """Send one request, without a retry.

        The official client builds the first request of each kind, and what it built is sent again with other bodies.
        Building it anew costs half a millisecond, a fifth of a turn (docs/decisions/0007).
        """
        import httpx2

        official = self._official
        built = self._built.get((path, body is None))
        try:
            if built is None:
                return await self._first(client, path, body)
            response = await built(body)
            if response.is_success:
                return response
            await response.aread()
        except official.status_error as error:
            raise self._failed(cast(Any, error).response) from None
        except (official.connection_error, httpx2.HTTPError) as error:
            raise self.broken(error) from None
        except (official.any_error, httpx2.InvalidURL, httpx2.StreamError) as error:
            why = self.redacted(str(error))
            raise ModelMisconfigured(f"cannot ask {self.place}: {why}; check the settings") from None
        raise self._failed(response)

    async def _first(self, client: Any, path: str, body: bytes | None) -> httpx2.Response:
        import httpx2

        kind: dict[str, Any] = {"cast_to": httpx2.Response, "options": self._options, "stream": True}
        kind["stream_cls"] = self._official.stream
        sent = client.get(path, **kind) if body is None else client.post(path, content=body, **kind)
        response: httpx2.Response = await sent
        self._built[path, body is None] = self._repeating((response.history or [response])[0].request)
        return response

    def _repeating(self, first: httpx2.Request) -> Repeat:
        from pentad.shared.models.direct_http import DirectClient, again

        http, request = self._http, again(first, None)  # the first body may be large, and is not wanted again
        if isinstance(http, DirectClient):
            return http.repeating(request)
        return lambda body: http.send(again(request, body), stream=True)

    def _failed(self, response: httpx2.Response) -> ModelFailed:
        said = _said(response)
        error = error_in(said)
        text = self.redacted(message_in(error) or str(said or response.reason_phrase))
        if response.history:
            text += f" (the request was sent on to {shown_place(str(response.url))})"
        delay = stated_delay(response.headers, said, text, time())
        failure = from_status(response.status_code, text, delay, self.place, error)
        return self.cleaned(failure)

    def cleaned(self, failure: ModelFailed) -> ModelFailed:
        """Return the failure without the API key in its texts."""
        failure.args = (self.redacted(str(failure)),)
        if failure.refusal is not None:
            failure.refusal = replace(failure.refusal, words=self.redacted(failure.refusal.words))
        return failure


def _said(response: httpx2.Response) -> object:
    """Return the body of a refusal: as JSON where it can be read, else as text."""
    from pentad.shared.models.response_body import strange_encoding

    if strange_encoding(response):
        return ""
    try:
        return from_json(response.content)
    except ValueError:
        return response.text


def _is_direct(url: str) -> bool:
    return _is_local(url) or not getproxies()


def _is_local(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _root_cause(error: BaseException) -> str:
    cause = error
    while (deeper := cause.__cause__ or cause.__context__) is not None:
        cause = deeper
    return shortened(str(cause) or type(cause).__name__)
