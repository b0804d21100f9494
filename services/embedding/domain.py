"""Batching and cache keys of embeddings. Pure."""

import hashlib
import struct
from collections.abc import Iterator, Sequence


def content_key(model: str, text: str) -> str:
    """The name under which a text's vector is cached: the model and the content, nothing else."""
    return hashlib.sha256(f"{model}\0{text}".encode()).hexdigest()


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
