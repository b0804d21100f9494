"""Addresses to which events are sent, and the secrets that sign them: of webhooks, and of messages with a callback."""

import re
from base64 import b64decode
from binascii import Error as Base64Error
from typing import Annotated

from pydantic import AfterValidator, StringConstraints

MAX_URL_CHARS = 2_000
"""Characters that the address of a receiver may have."""
SECRET_PREFIX = "whsec_"
"""Begins the text of a secret: the rest is base64, as Standard Webhooks has it."""
SEALED_PREFIX = "pentad-secret:1:"
"""Begins a secret that a gateway has sealed."""
_MIN_KEY_BYTES, _MAX_KEY_BYTES = 24, 64
_MAX_SECRET_CHARS = 512
_URL = re.compile(r"https?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?(?:[/?][!-\"$-~]*)?")
_SECRET = re.compile(SECRET_PREFIX + "[A-Za-z0-9+/]{32,86}={0,2}")
_SEALED = re.compile(SEALED_PREFIX + "[A-Za-z0-9+/]{1,400}={0,2}")


def signing_key(secret: str) -> bytes:
    """Return the bytes that a secret stands for. The ``ValueError`` for no secret does not repeat it."""
    try:
        key = b64decode(secret.removeprefix(SECRET_PREFIX), validate=True) if _SECRET.fullmatch(secret) else b""
    except Base64Error:
        key = b""
    if not _MIN_KEY_BYTES <= len(key) <= _MAX_KEY_BYTES:
        raise ValueError(f"must be {SECRET_PREFIX} and {_MIN_KEY_BYTES} to {_MAX_KEY_BYTES} random bytes in base64")
    return key


def check_webhook_url(url: str) -> str:
    """Return the address of a receiver. The ``ValueError`` for an invalid one does not repeat it."""
    if _URL.fullmatch(url) is None:
        raise ValueError("must be an address like https://HOST/PATH, of http or https, without a name, password or #")
    return url


def _check_secret(secret: str) -> str:
    """Return a secret, as its owner writes it or as a gateway has sealed it."""
    if _SEALED.fullmatch(secret) is None:
        signing_key(secret)
    return secret


ReceiverUrl = Annotated[
    str, StringConstraints(min_length=1, max_length=MAX_URL_CHARS), AfterValidator(check_webhook_url)
]
"""Address of http or https that takes a POST."""
ReceiverSecret = Annotated[str, StringConstraints(max_length=_MAX_SECRET_CHARS), AfterValidator(_check_secret)]
"""Secret that signs what is sent, ``whsec_...``, or the same as a gateway has sealed it."""
