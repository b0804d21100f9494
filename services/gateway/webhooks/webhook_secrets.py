"""Secrets of webhooks: sealed where there is a key, opened to sign what is sent, and shown to nobody."""

import hmac
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256

from pydantic_core import from_json

from pentad.contracts.receivers import SEALED_PREFIX, signing_key
from pentad.contracts.webhooks import Webhook
from pentad.shared.errors import OutageError
from pentad.shared.secrets.secret_store import SecretKeys
from pentad.shared.settings import Settings, parse_secret_keys


class SecretClosedError(OutageError):
    """No key opens the secret of a webhook."""


class WebhookSecrets:
    """Seals and opens the secrets of webhooks with the keys of ``PENTAD_SECRET_KEY``. Raises ``SettingsError``."""

    def __init__(self, settings: Settings) -> None:
        keys = settings.pentad_secret_key
        self._keys = None if keys is None else SecretKeys(parse_secret_keys(keys.get_secret_value()))

    def sealed(self, secret: str, tenant: str, webhook: str) -> str:
        """Return a secret as it is kept, bound to its webhook."""
        if self._keys is None:
            return secret
        return self._keys.seal(secret.encode(), _place(tenant, webhook)).decode()

    def headers(self, webhook: Webhook, delivery: str, seconds: int, body: bytes) -> Mapping[str, str]:
        """Return the headers of Standard Webhooks; without a signature where a callback has no secret.

        A client of A2A gets its token and credentials besides. Raises ``SecretClosedError``.
        """
        stamp = str(seconds)
        headers = {"webhook-id": delivery, "webhook-timestamp": stamp, "content-type": "application/json"}
        if webhook.push is not None:
            own = webhook.push.headers
            given = {} if own is None else from_json(self._opened(own, webhook))
            return headers | given | {"content-type": "application/a2a+json"}
        if webhook.secret is None:
            return headers
        signed = hmac.new(self._key(webhook), f"{delivery}.{stamp}.".encode() + body, sha256).digest()
        return headers | {"webhook-signature": f"v1,{b64encode(signed).decode()}"}

    def _key(self, webhook: Webhook) -> bytes:
        return signing_key(self._opened(webhook.secret or "", webhook))

    def _opened(self, kept: str, webhook: Webhook) -> str:
        """Return a secret of a webhook as its owner has written it."""
        if not kept.startswith(SEALED_PREFIX):
            return kept
        place = _place(webhook.tenant_id, webhook.id)
        opened = None if self._keys is None else self._keys.open(kept.encode(), place)
        if opened is None:
            raise SecretClosedError(
                "no key of PENTAD_SECRET_KEY opens the secret of this webhook here: register it again"
            )
        return opened.decode()


def _place(tenant: str, webhook: str) -> str:
    return f"webhook/{tenant}/{webhook}"
