"""Entries registered while the system runs: models, instructions, graphs, policies, servers, endpoints, webhooks.

They are kept in Redis, which processes follow.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from secrets import token_hex
from time import time_ns
from typing import Any, Generic, TypeVar

from pydantic import ValidationError
from redis.exceptions import RedisError

from pentad.contracts.approvals import MAX_RULE, ApprovalRule
from pentad.contracts.graphs import GraphSpec
from pentad.contracts.http_tools import HttpTool
from pentad.contracts.ids import rfc3339
from pentad.contracts.instructions import Instruction
from pentad.contracts.models import ModelEntry
from pentad.contracts.plain_json import read_json
from pentad.contracts.tool_servers import ToolServer
from pentad.contracts.webhooks import MAX_WEBHOOK_BYTES, Webhook
from pentad.shared.entry_file import complaints
from pentad.shared.errors import OutageError
from pentad.shared.event_loop import turn_after
from pentad.shared.immutable import immutable
from pentad.shared.instructions.usable import check_usable
from pentad.shared.keys import (
    GRAPHS_REGISTRY,
    HTTP_TOOLS_REGISTRY,
    INSTRUCTIONS_REGISTRY,
    MODELS_REGISTRY,
    POLICIES_REGISTRY,
    SERVERS_REGISTRY,
    VERSION,
    VERSIONS_KEPT,
    VERSIONS_TTL_S,
    WEBHOOKS_REGISTRY,
    registry_versions,
)
from pentad.shared.policies.policy_list import check_patterns
from pentad.shared.store.store import Argument, Store
from pentad.shared.telemetry import ThrottledLog

log = logging.getLogger(__name__)

_EVERY_S = 1.0
_say = ThrottledLog(log)
_COST_FACTOR = 8
"""Bytes of plain JSON that are read in the time of one byte of an entry, which is checked as well."""

T = TypeVar("T", ModelEntry, Instruction, GraphSpec, ApprovalRule, ToolServer, HttpTool, Webhook)


@immutable
class Registered(Generic[T]):
    """The registered entries, as they were read."""

    version: bytes
    """The word that the last change has made; '' when nothing was ever registered."""
    entries: tuple[T, ...]


class Registrations(Generic[T]):
    """The registered entries of one kind, in a hash of their own.

    ``name``: the field that names an entry. ``most_bytes`` of an entry: more than any that was checked has. ``check``
    raises ``ValueError`` for an entry that cannot be used. ``versions``: whether an entry's last versions are kept.
    """

    def __init__(
        self,
        key: str,
        kind: type[T],
        name: str,
        most_bytes: int,
        check: Callable[[T], None] = lambda _: None,
        *,
        versions: bool = False,
    ) -> None:
        self._key, self._name, self._most_bytes, self._has_versions = key, name, most_bytes, versions
        self._kind: type[T] = kind
        self._check: Callable[[T], None] = check
        self._what = key.rpartition(":")[2]

    async def read(self, store: Store) -> Registered[T]:
        """The entries, by name. One that cannot be read, or is of a newer version, is left out and said."""
        flat = await store.call("HGETALL", self._key)
        fields = dict(zip(flat[::2], flat[1::2], strict=True))
        version = fields.pop(VERSION.encode(), b"")
        entries = list[T]()
        for name in sorted(fields):
            if (entry := self._entry(name, fields[name])) is not None:
                entries.append(entry)
            await turn_after(_COST_FACTOR * len(fields[name]))
        return Registered(version, tuple(entries))

    async def newer(self, store: Store, version: bytes | None) -> Registered[T] | None:
        """Read the entries, unless they still have this ``version``, which is None before the first reading."""
        if version is not None and (await store.call("HGET", self._key, VERSION) or b"") == version:
            return None
        return await self.read(store)

    async def write(self, store: Store, read: Registered[T], name: str, entry: T | None) -> bool:
        """Put an entry in its place, or remove it. False: the registry is not as it was ``read``, and stays so."""
        return await self.write_all(store, read, {name: entry})

    async def write_all(self, store: Store, read: Registered[T], entries: Mapping[str, T | None]) -> bool:
        """Put entries in their places by name, or remove them: all or none. False: as of `write`."""
        args: list[Argument] = [VERSION, read.version, token_hex(8)]
        args += (rfc3339(time_ns() // 1_000_000), VERSIONS_KEPT, VERSIONS_TTL_S)
        for name, entry in entries.items():
            args += (name, b"" if entry is None else entry.to_json())
        histories: list[str] = [registry_versions(self._key, name) for name in entries] if self._has_versions else []
        return bool(await store.run("registry_write", [self._key, *histories], args))

    async def versions(self, store: Store, name: str) -> list[dict[str, Any]]:
        """Return the versions that an entry has had, the newest first: ``at`` and ``entry``, None where it was removed.

        Entries that were registered before versions were kept have none.
        """
        kept = await store.call("LRANGE", registry_versions(self._key, name), 0, -1)
        return [{"at": found.get("at"), "entry": found.get("entry")} for found in map(_version, kept)]

    async def renew(self, store: Store, read: Registered[T]) -> bool:
        """Change nothing, but have everybody look again who has read the registry and not written yet. False: it is not
        as it was ``read``."""
        return await self.write_all(store, read, {})

    async def keep_following(self, store: Store, use: Callable[[Sequence[T]], None]) -> None:
        """Hand over what is registered, at once and within about a second of each change. Outages change nothing."""
        version: bytes | None = None
        while True:
            try:
                if (found := await self.newer(store, version)) is not None:
                    version = found.version
                    use(found.entries)
            except (OutageError, RedisError) as error:
                line = "the registered %s cannot be read, those known stay in use: %s"
                _say.warning(self._key, line, self._what, error)
            await asyncio.sleep(_EVERY_S)

    def _entry(self, name: bytes, value: bytes) -> T | None:
        try:
            if len(value) > self._most_bytes:
                raise ValueError(f"it has more than {self._most_bytes} bytes")
            entry = self._kind.model_validate(read_json(value))
            if getattr(entry, self._name).encode() != name:
                raise ValueError(f"it has another {self._name}")
            self._check(entry)
        except ValidationError as error:
            problem = "; ".join(complaints(error))
        except ValueError as error:
            problem = str(error)
        else:
            return entry
        line = "%r of the registered %s is left out, for it cannot be read here: %s"
        _say.warning(f"{self._key} {name!r}", line, name, self._what, problem)
        return None


def _version(raw: bytes) -> dict[str, Any]:
    """Return a version as it is kept; an unreadable one keeps its place."""
    try:
        found = read_json(raw)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


REGISTERED_MODELS = Registrations(MODELS_REGISTRY, ModelEntry, "id", 65_536, versions=True)
REGISTERED_INSTRUCTIONS = Registrations(
    INSTRUCTIONS_REGISTRY, Instruction, "name", 1 << 19, check_usable, versions=True
)
REGISTERED_SERVERS = Registrations(SERVERS_REGISTRY, ToolServer, "name", 1 << 17)
REGISTERED_HTTP_TOOLS = Registrations(HTTP_TOOLS_REGISTRY, HttpTool, "name", 1 << 17)
REGISTERED_GRAPHS = Registrations(GRAPHS_REGISTRY, GraphSpec, "name", 1 << 19, check_usable, versions=True)
REGISTERED_POLICIES = Registrations(POLICIES_REGISTRY, ApprovalRule, "name", MAX_RULE, check_patterns, versions=True)
REGISTERED_WEBHOOKS = Registrations(WEBHOOKS_REGISTRY, Webhook, "id", MAX_WEBHOOK_BYTES)
