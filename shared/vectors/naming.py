"""How collections are called."""

import re
from zlib import crc32

_OTHER = re.compile(r"[^a-z0-9]+")


def collection_name(model: str, dimensions: int) -> str:
    """The collection of an embedding model: another model or dimension has another one. Pure."""
    readable = _OTHER.sub("-", model.lower()).strip("-")[:60]
    return f"memory-{readable or 'model'}-{crc32(model.encode('utf-8', 'replace')):08x}-{dimensions}"
