"""Tasks written into a store of vectors for tests, with the embedding that needs no model."""

from collections.abc import Mapping, Sequence
from typing import Any

from pentad.shared.memory.points import cut_task, points_of, texts_of
from pentad.shared.models.embeddings import HashingEmbedding
from pentad.shared.vectors.limits import MOST_POINTS
from pentad.shared.vectors.points import collection_name
from pentad.shared.vectors.vector_store import Vectors

MODEL = HashingEmbedding()
COLLECTION = collection_name(MODEL.name, MODEL.dimensions)


async def remember(vectors: Vectors, tenant: str, task: str, messages: Sequence[Mapping[str, Any]]) -> None:
    """Write what was said in a task."""
    await vectors.prepare(COLLECTION, MODEL.dimensions)
    cut = cut_task(tenant, task, "s1", messages)
    points = points_of(cut, await MODEL.embed(texts_of(cut)))
    for begin in range(0, len(points), MOST_POINTS):
        await vectors.upsert(COLLECTION, points[begin : begin + MOST_POINTS])
