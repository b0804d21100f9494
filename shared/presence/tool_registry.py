"""The tools that workers publish, for the other services. They stay for a day after the last beat."""

import logging
from collections.abc import Sequence

from pydantic_core import to_json

from pentad.contracts.plain_json import read_json
from pentad.contracts.tools import ToolSpec
from pentad.shared.keys import DAY_S, TOOLS_REGISTRY
from pentad.shared.store.store import Argument, Store

log = logging.getLogger(__name__)


async def publish(store: Store, specs: Sequence[ToolSpec]) -> None:
    """Say that a living worker has these tools."""
    if not specs:
        return
    now = await store.clock()
    fields: list[Argument] = []
    for spec in specs:
        fields += (spec.name, to_json({"spec": spec.model_dump(mode="json"), "beat": now}))
    await store.call("HSET", TOOLS_REGISTRY, *fields)
    await store.call("EXPIRE", TOOLS_REGISTRY, DAY_S)


async def lost(store: Store, specs: Sequence[ToolSpec]) -> bool:
    """Whether some of these, published before, are not there any more: Redis was emptied, or has lost its tail."""
    return bool(specs) and None in await store.call("HMGET", TOOLS_REGISTRY, *(spec.name for spec in specs))


async def published(store: Store) -> dict[str, ToolSpec]:
    """Every tool that a worker has published within the last day, by name."""
    raw = await store.call("HGETALL", TOOLS_REGISTRY)
    oldest = await store.clock() - DAY_S * 1000
    specs = [spec for value in raw[1::2] if (spec := _read(value, oldest)) is not None]
    return {spec.name: spec for spec in sorted(specs, key=lambda s: s.name)}


def _read(value: bytes, oldest: int) -> ToolSpec | None:
    """One published tool, or None when its last beat is too long ago or nobody can read it."""
    try:
        entry = read_json(value)
        return ToolSpec.model_validate(entry["spec"]) if entry["beat"] >= oldest else None
    except (ValueError, TypeError, KeyError) as error:
        log.warning("a published tool cannot be read and is left out: %s", type(error).__name__)
        return None
