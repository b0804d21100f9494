"""A memory that is asked over Redis, with what an archiver runs to answer, in this process."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from pentad.contracts.streams import MEMORY
from pentad.services.archiver.memory_server import MemoryServer
from pentad.shared.graph.graph_store import Graph
from pentad.shared.memory.archiver_client import ArchiverGraph, ArchiverVectors
from pentad.shared.store.store import Store
from pentad.shared.vectors.vector_store import Vectors
from pentad.shared.work.consumer import Consumer
from pentad.shared.work.entries import EntryHandler
from pentad.shared.work.entry import Entry
from tests.support.waiting import PATIENCE_S

KEY = MEMORY.key(0)


@asynccontextmanager
async def serving(store: Store, work: Callable[[Entry], Awaitable[None]]) -> AsyncIterator[Consumer]:
    """A consumer of the calls."""
    handler = EntryHandler(store, work, 2)
    handler.consumer = Consumer(store, MEMORY, KEY, 0, "archiver-1", handler, 16, 500)
    await handler.consumer.start()
    try:
        yield handler.consumer
    finally:
        await handler.consumer.stop_reading()
        await handler.interrupt()
        await handler.consumer.drain()


@asynccontextmanager
async def archiver_graph(redis_url: str, graph: Graph) -> AsyncIterator[ArchiverGraph]:
    """The same for a graph."""
    store = Store(redis_url)
    asker = ArchiverGraph(store, PATIENCE_S)
    try:
        async with serving(store, MemoryServer(store, None, graph).handle):
            yield asker
    finally:
        await asker.aclose()
        await graph.aclose()
        await store.close()


@asynccontextmanager
async def archiver_memory(redis_url: str, vectors: Vectors) -> AsyncIterator[ArchiverVectors]:
    """The adapter of a service, and an archiver that has these vectors."""
    store = Store(redis_url)
    asker = ArchiverVectors(store, PATIENCE_S)
    try:
        async with serving(store, MemoryServer(store, vectors).handle):
            yield asker
    finally:
        await asker.aclose()
        await vectors.aclose()
        await store.close()
