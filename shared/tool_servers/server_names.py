"""Names of servers' tools: the same on all workers, whatever the servers call them. Pure.

A tool is named ``SERVER__TOOL``. The part before the first ``__`` has none itself, and no two servers share it, so that
no server can take the name of another one's tool.
"""

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256

from pentad.contracts.tools import SERVER_SEPARATOR

MAX_TOOL_NAME = 64
"""Characters that the name of a tool may have: as many as model servers take."""
_MAX_PREFIX = 32
"""Characters of a tool's name that are its server's."""
_DIGEST = 8
"""Characters of a digest that tells shortened names apart."""
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_RUN = re.compile(r"_{2,}")


def server_prefix(server: str) -> str:
    """Return the beginning of the names of a server's tools."""
    made = _RUN.sub("_", _NOT_IN_NAMES.sub("_", server)).strip("_-")
    if 0 < len(made) <= _MAX_PREFIX:
        return made
    return f"{made[: _MAX_PREFIX - _DIGEST - 1].rstrip('_')}-{_digest(server)}".lstrip("-")


def tool_name(server: str, tool: str) -> str:
    """Return the name under which a server's tool is offered; one that had to be changed ends with a digest."""
    prefix = server_prefix(server)
    plain = f"{prefix}{SERVER_SEPARATOR}{tool}"
    if tool and len(plain) <= MAX_TOOL_NAME and _NOT_IN_NAMES.search(tool) is None:
        return plain
    room = MAX_TOOL_NAME - len(prefix) - len(SERVER_SEPARATOR) - _DIGEST - 1
    return f"{prefix}{SERVER_SEPARATOR}{_NOT_IN_NAMES.sub('_', tool[:room])}-{_digest(tool)}"


def same_prefixes(servers: Iterable[str]) -> Mapping[str, str]:
    """Return each server whose tools would be named like those of an earlier one, with that one."""
    first: dict[str, str] = {}
    return {name: first[prefix] for name in servers if first.setdefault(prefix := server_prefix(name), name) != name}


def _digest(text: str) -> str:
    return sha256(text.encode(errors="replace")).hexdigest()[:_DIGEST]
