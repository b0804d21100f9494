"""Secrets of webhooks: sealed where there is a key, opened to sign what is sent, and shown to nobody."""

import hmac
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256

from pentad.contracts.receivers import SECRET_PREFIX, signing_key
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

        Raises ``SecretClosedError``.
        """
        stamp = str(seconds)
        headers = {"webhook-id": delivery, "webhook-timestamp": stamp, "content-type": "application/json"}
        if webhook.secret is None:
            return headers
        signed = hmac.new(self._key(webhook), f"{delivery}.{stamp}.".encode() + body, sha256).digest()
        return headers | {"webhook-signature": f"v1,{b64encode(signed).decode()}"}

    def _key(self, webhook: Webhook) -> bytes:
        kept = webhook.secret or ""
        if kept.startswith(SECRET_PREFIX):
            return signing_key(kept)
        place = _place(webhook.tenant_id, webhook.id)
        opened = None if self._keys is None else self._keys.open(kept.encode(), place)
        if opened is None:
            raise SecretClosedError(
                "no key of PENTAD_SECRET_KEY opens the secret of this webhook here: register it again with its secret"
            )
        return signing_key(opened.decode())


def _place(tenant: str, webhook: str) -> str:
    return f"webhook/{tenant}/{webhook}"
