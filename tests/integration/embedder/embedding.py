"""An embedding service as it runs, in this process, and one that a test plays by hand."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from pentad.contracts.commands import EmbedCommand, EmbedReply
from pentad.contracts.streams import EMBED, EMBED_REPLY
from pentad.services.embedding.app import EmbeddingService
from pentad.shared.embedder.vectors import Requester
from pentad.shared.models.embeddings import HashingEmbedding
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store
from tests.support.waiting import wait_until

REQUESTER = Requester(0, "default", "s1", task="t1", correlation="m1", cause="1-1")
STREAM = EMBED.key(0)
REPLIES = EMBED_REPLY.key(0, reply="*")


@asynccontextmanager
async def embedding_service(url: str) -> AsyncIterator[EmbeddingService]:
    """The service with the hashing embedding, which takes over what was left for half a second."""
    service = EmbeddingService(Settings(redis_url=url, pentad_lease_s=0.5))
    await service.start()
    try:
        yield service
    finally:
        await service.stop()


def hashed(texts: Sequence[str]) -> list[list[float]]:
    """What the service makes of these texts."""
    return [HashingEmbedding().vector(text) for text in texts]


async def requests(store: Store) -> list[EmbedCommand]:
    """The requests that lie in the stream."""
    found = await store.call("XRANGE", STREAM, "-", "+")
    return [EmbedCommand.model_validate_json(fields[1]) for _, fields in found]


async def asked(store: Store, count: int = 1) -> EmbedCommand:
    """Wait for so many requests; the last of them."""

    async def there() -> list[EmbedCommand]:
        found = await requests(store)
        return found if len(found) >= count else []

    return (await wait_until(f"{count} requests", there))[-1]


def reply_to(command: EmbedCommand, vectors: Sequence[list[float]], error: str | None = None) -> EmbedReply:
    """What a service would answer."""
    fields = command.led_to() | {"event_id": "r", "at": command.at, "model": "m", "vectors": list(vectors)}
    return EmbedReply(**fields, error=error)


async def write(store: Store, command: EmbedCommand, data: bytes) -> None:
    """Answer as a service does."""
    await store.run("reply", [command.reply_to], [data, 60])


async def left(store: Store) -> list[bytes]:
    """Requests that nobody has handled, and streams of answers."""
    waiting = [b"request"] * await store.call("XLEN", STREAM)
    return waiting + list(await store.call("KEYS", REPLIES.replace("{0}", "?0?")))
