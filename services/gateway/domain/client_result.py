"""Reading of the result that a client sends of a call of its own tool. Pure."""

import hashlib
from collections.abc import Mapping
from typing import Any

from pydantic_core import to_json

from pentad.contracts.client_tools import MAX_CLIENT_RESULT
from pentad.contracts.tools import ToolOutcome
from pentad.services.gateway.domain.frames import UnreadableError
from pentad.shared.immutable import immutable

_FIELDS = frozenset({"result", "error"})


@immutable
class SentResult:
    """The result of a client's tool, or why its call has failed."""

    text: str
    ok: bool = True

    @property
    def outcome(self) -> ToolOutcome:
        """The outcome of the call."""
        return ToolOutcome("ok" if self.ok else "error", self.text)

    @property
    def digest(self) -> str:
        """Digest by which two results of one call are compared."""
        return hashlib.sha256(to_json([self.ok, self.text])).hexdigest()


def read_client_result(body: Mapping[str, Any]) -> SentResult:
    """Read the result of a client's tool: a text, or any other JSON, which the model gets as text.

    Raises ``UnreadableError``.
    """
    if unknown := sorted(set(body) - _FIELDS):
        raise UnreadableError(f"{unknown[0][:100]}: not known here; there are: {', '.join(sorted(_FIELDS))}")
    if len(body) != 1:
        raise UnreadableError("either `result` is expected, or `error` with why the call has failed")
    if (error := body.get("error")) is not None:
        if not isinstance(error, str):
            raise UnreadableError("error: a text is expected")
        return client_result(error, "error", ok=False)
    if "error" in body:
        raise UnreadableError("error: a text is expected")
    result = body["result"]
    return client_result(result if isinstance(result, str) else to_json(result).decode(), "result")


def client_result(text: str, where: str, *, ok: bool = True) -> SentResult:
    """Return this text as a result. Raises ``UnreadableError`` that names the field ``where`` for a bad one."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise UnreadableError(f"{where}: the text has half of a surrogate pair, which cannot be sent") from None
    if size > MAX_CLIENT_RESULT:
        raise UnreadableError(f"{where}: a result has at most {MAX_CLIENT_RESULT:,} bytes: send the part that matters")
    return SentResult(text, ok)
