"""The tools of the client that has sent a turn's message, as they are kept beside its task. Pure."""

import hashlib
from collections.abc import Sequence

from pydantic import TypeAdapter
from pydantic_core import to_json

from pentad.contracts.client_tools import ClientTool

CLIENT_TOOLS = "client_tools"
"""Name of these tools among the task's large values, and of their digest in its header."""
CLIENT_CALL = "client"
"""State, among a task's open calls, of one that its client makes."""
_TOOLS = TypeAdapter(tuple[ClientTool, ...])


def digest_of_client_tools(tools: Sequence[ClientTool] | None) -> str:
    """Return the digest of a message's tools; '' for none."""
    return hashlib.sha256(to_json(tools)).hexdigest() if tools else ""


def kept_client_tools(tools: Sequence[ClientTool]) -> bytes:
    """Return tools as they are kept."""
    return to_json(tools)


def read_client_tools(kept: bytes) -> tuple[ClientTool, ...]:
    """Read tools that were kept. Raises ``ValueError``."""
    return _TOOLS.validate_json(kept)


def kept_client_result(call: str) -> str:
    """Return the name, among the task's large values, of the digest of the result that a client has sent."""
    return f"client-result:{call}"
