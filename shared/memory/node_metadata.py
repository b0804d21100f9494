"""What clients keep with a node, kept with its point as well, so that a search tells it. Nothing searches it. Pure."""

from typing import Any

from pentad.shared.graph.knowledge import MemoryNode
from pentad.shared.graph.metadata import metadata_read
from pentad.shared.vectors.points import Detail, Payload

_METADATA = "metadata"
"""The detail of a node's point."""


def metadata_detail(node: MemoryNode) -> dict[str, Detail]:
    """What a node's point keeps of it."""
    return {} if node.metadata is None else {_METADATA: node.metadata.json}


def metadata_kept(kept: Payload) -> dict[str, Any]:
    """What the point of a node says; empty where there is none. Raises ``DamagedError``."""
    told = kept.details.get(_METADATA)
    return {} if told is None else metadata_read(str(told))
