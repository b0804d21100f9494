"""The models that were registered while the system runs. They are kept in Redis, and every process follows them."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from secrets import token_hex

from pydantic import ValidationError
from redis.exceptions import RedisError

from pentad.contracts.models import ModelEntry
from pentad.contracts.plain_json import read_json
from pentad.shared.errors import OutageError
from pentad.shared.immutable import immutable
from pentad.shared.keys import MODELS_REGISTRY, VERSION
from pentad.shared.models.model_file import complaints
from pentad.shared.seldom import Seldom
from pentad.shared.store.store import Argument, Store

log = logging.getLogger(__name__)

_EVERY_S = 1.0
_MOST_BYTES = 65_536
"""Of an entry: more than any that was checked has."""
_say = Seldom(log)


@immutable
class Registered:
    """What was registered, as it was read."""

    version: bytes
    """'' when nothing ever was."""
    entries: tuple[ModelEntry, ...]


async def registered(store: Store) -> Registered:
    """The entries, by id. One that cannot be read, or is of a newer version, is left out and said."""
    flat = await store.call("HGETALL", MODELS_REGISTRY)
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    version = fields.pop(VERSION.encode(), b"")
    read = (_read(name, fields[name]) for name in sorted(fields))
    return Registered(version, tuple(entry for entry in read if entry is not None))


def _read(name: bytes, value: bytes) -> ModelEntry | None:
    try:
        if len(value) > _MOST_BYTES:
            raise ValueError(f"it has more than {_MOST_BYTES} bytes")
        entry = ModelEntry.model_validate(read_json(value))
        if entry.id.encode() != name:
            raise ValueError("it has another id")
    except ValidationError as error:
        problem = "; ".join(complaints(error))
    except ValueError as error:
        problem = str(error)
    else:
        return entry
    _say.warning(f"model {name!r}", "registered model %r is left out, for it cannot be read here: %s", name, problem)
    return None


async def write(store: Store, read: Registered, model_id: str, entry: ModelEntry | None) -> bool:
    """Put an entry in its place, or remove it. False when the registry is not as it was ``read``: nothing was done."""
    body = b"" if entry is None else entry.to_json()
    args: list[Argument] = [VERSION, read.version, token_hex(8), model_id, body]
    return bool(await store.run("registry_write", [MODELS_REGISTRY], args))


async def keep_following(store: Store, use: Callable[[Sequence[ModelEntry]], None]) -> None:
    """Hand over what is registered, at once and after each change, within about a second. Outages change nothing."""
    version: bytes | None = None
    while True:
        try:
            if version is None or await store.call("HGET", MODELS_REGISTRY, VERSION) != (version or None):
                found = await registered(store)
                version = found.version
                use(found.entries)
        except (OutageError, RedisError) as error:
            _say.warning("models", "the registered models cannot be read, those known stay in use: %s", error)
        await asyncio.sleep(_EVERY_S)
