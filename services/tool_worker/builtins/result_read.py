"""A model reads a tool's result on, of which its prompt holds a part. It reads the results of its own task alone."""

from typing import Annotated

from pydantic import Field

from pentad.contracts.ids import is_tool_call_id, shard_in
from pentad.contracts.tools import Effect
from pentad.shared.clipping import clip
from pentad.shared.data_urls import without_bytes
from pentad.shared.keys import TaskKeys
from pentad.shared.plugins.context import ToolContext
from pentad.shared.plugins.definition import ToolDefinition
from pentad.shared.plugins.registry import define
from pentad.shared.store.store import Store

_TIMEOUT_S = 10.0
_NOTE = 256
"""Bytes that are kept free for where the piece stands."""


class KeptResults:
    """Results that are kept beside tasks. ``shards``: of the system. ``most_bytes``: of a piece."""

    def __init__(self, store: Store, shards: int, most_bytes: int) -> None:
        self._store, self._shards, self._most = store, shards, most_bytes - _NOTE

    async def read(self, context: ToolContext, ref: str, offset: int, length: int) -> str:
        """A piece of a result, with where it stands in the whole. Raises ``LookupError``."""
        shard = shard_in(context.task_id, self._shards)
        kept: bytes | None = None
        if shard is not None and is_tool_call_id(ref):
            keys = TaskKeys(shard, context.tenant_id, context.task_id)
            kept = await self._store.call("HGET", keys.big, ref)
        if kept is None:
            raise LookupError(f"no result of this task is kept as {ref!r}: the parts shown say their refs")
        text = without_bytes(kept.decode("utf-8", "replace"))
        piece = clip(text[offset : offset + length], self._most)
        end = offset + len(piece)
        rest = f"go on with offset {end}" if end < len(text) else "this is the end"
        return f"{piece}\n[Characters {offset} to {max(offset, end)} of {len(text)}; {rest}.]"


def result_reading_tool(results: KeptResults) -> ToolDefinition:
    """Make the tool ``result_read``."""

    async def result_read(
        context: ToolContext,
        ref: Annotated[str, Field(min_length=1, max_length=200)],
        offset: Annotated[int, Field(ge=0)] = 0,
        length: Annotated[int, Field(ge=1, le=1_048_576)] = 16_384,
    ) -> str:
        """Reads on in a long result of a tool of which only a part was shown.

        Args:
            ref: Where the result is kept, as the part that was shown says.
            offset: The character to begin with.
            length: How many characters at most; fewer may come at once.
        """
        return await results.read(context, ref, offset, length)

    return define(result_read, effect=Effect.PURE, timeout=_TIMEOUT_S)
