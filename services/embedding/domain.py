"""Batching of embeddings, and vectors as bytes. Pure."""

import struct
from collections.abc import Iterator, Sequence

from pentad.shared.immutable import immutable


@immutable
class Wanted:
    """A text that is to be embedded, and the key of its vector in the cache."""

    key: str
    text: str


def pack(vector: Sequence[float]) -> bytes:
    """Return a vector as little-endian float32."""
    return struct.pack(f"<{len(vector)}f", *vector)


def unpack(data: bytes) -> list[float]:
    """Return the vector that `pack` has packed."""
    return list(struct.unpack(f"<{len(data) // 4}f", data))


def batches(texts: Sequence[Wanted], most: int, most_chars: int) -> Iterator[list[Wanted]]:
    """Cut texts into batches by count and by size; a text that is too long alone is a batch of its own."""
    batch: list[Wanted] = []
    size = 0
    for wanted in texts:
        if batch and (len(batch) == most or size + len(wanted.text) > most_chars):
            yield batch
            batch, size = [], 0
        batch.append(wanted)
        size += len(wanted.text)
    if batch:
        yield batch
