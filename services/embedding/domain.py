"""Batching of embeddings, and vectors as bytes. Pure."""

import struct
from collections.abc import Iterator, Sequence


def pack(vector: Sequence[float]) -> bytes:
    """A vector as little-endian float32."""
    return struct.pack(f"<{len(vector)}f", *vector)


def unpack(data: bytes) -> list[float]:
    """The inverse of `pack`."""
    return list(struct.unpack(f"<{len(data) // 4}f", data))


def batches(texts: Sequence[str], most: int, most_chars: int) -> Iterator[list[str]]:
    """Cut into batches by count and by size; a text that is too long alone is a batch of its own."""
    batch: list[str] = []
    size = 0
    for text in texts:
        if batch and (len(batch) == most or size + len(text) > most_chars):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += len(text)
    if batch:
        yield batch
