"""Who may come in: API keys, and on the open loopback gateway only pages and names of this machine."""

import hmac
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import urlsplit

from pentad.contracts.ids import DEFAULT_TENANT
from pentad.services.gateway.problems import ProblemError
from pentad.shared.settings import is_loopback

PROTOCOL = "pentad.v1"
_KEY_PROTOCOL = "bearer."

Headers = Iterable[tuple[bytes, bytes]]


class Access:
    """The rules of one gateway. Without keys there is one open tenant."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        self._keys = [(key.encode(), tenant) for key, tenant in keys.items()]

    def check_site(self, headers: Headers) -> None:
        """Refuse what another site's page, or a name that was bound to this machine, sends (403)."""
        if self._keys:
            return
        for name, value in headers:
            text = value.decode("latin-1")
            if name == b"host" and not is_loopback(_host_in(f"//{text}")):
                raise ProblemError(403, "this gateway is open to this machine only: use http://127.0.0.1")
            if name == b"origin" and not is_loopback(_host_in(text)):
                raise ProblemError(403, "pages of other sites may not talk to this gateway")

    def tenant(self, headers: Headers, protocols: Sequence[str] = ()) -> str:
        """The tenant behind a request. Raises ``ProblemError`` (401)."""
        if not self._keys:
            return DEFAULT_TENANT
        offered = [p.removeprefix(_KEY_PROTOCOL) for p in protocols if p.startswith(_KEY_PROTOCOL)]
        for name, value in headers:
            scheme, _, key = value.decode("latin-1").partition(" ")
            if name == b"authorization" and scheme.lower() == "bearer":
                offered.insert(0, key.strip())
        tenant = self._tenant_of(offered[0].encode("latin-1", "replace")) if offered else None
        if tenant is None:
            raise ProblemError(401, "give one of the gateway's API keys as `Authorization: Bearer KEY`")
        return tenant

    def _tenant_of(self, offered: bytes) -> str | None:
        """Compares with every key, each in constant time."""
        found = None
        for key, tenant in self._keys:
            if hmac.compare_digest(key, offered):
                found = tenant
        return found


def _host_in(url: str) -> str:
    """The host of a URL, '' when there is none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def chosen_protocol(offered: Sequence[str]) -> str | None:
    """The WebSocket subprotocol that the server selects."""
    return PROTOCOL if PROTOCOL in offered else None
