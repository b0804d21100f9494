"""Gives vectors to any service: computed in its process, or asked for from the embedding service."""

from collections.abc import Sequence
from time import monotonic
from typing import Protocol

from pentad.shared.embedder.embedding_client import TIMEOUT_S, EmbeddingClient
from pentad.shared.embedder.vectors import Embedded, Requester, sendable
from pentad.shared.models.circuit import Circuit
from pentad.shared.models.configured_models import configured_models
from pentad.shared.models.embeddings import HashingEmbedding
from pentad.shared.models.ports import ModelRefused, ModelUnavailable
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store


class Embedder(Protocol):
    """Embeds texts. Raises `ModelFailed` (see `pentad.shared.models.ports`) and nothing else."""

    async def embed(self, texts: Sequence[str], requester: Requester) -> Embedded:
        """Return one vector per text, in order: 256 texts of 1 MiB together at most.

        Raises `ModelRefused` for texts that no other try helps, `ModelUnavailable` when there is no answer in time.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections; callers that wait for an answer get ``ModelUnavailable``. Safe to call twice."""
        ...


def make_embedder(settings: Settings, store: Store, timeout_s: float = TIMEOUT_S) -> Embedder:
    """Make the embedder of these settings: in this process for the hashing model, else a client over Redis.

    The default of the file, or of the environment, decides. Raises ``SettingsError`` for a file that cannot be read.
    """
    if configured_models(settings).and_registered(()).embedding.entry.protocol == "simple":
        return HashingEmbedder()
    return EmbeddingClient(store, timeout_s)


class HashingEmbedder:
    """An embedder that hashes in the caller's own process: 0.1 ms a sentence."""

    def __init__(self) -> None:
        self._model = HashingEmbedding()

    async def embed(self, texts: Sequence[str], requester: Requester) -> Embedded:
        """Return one vector per text, as `Embedder` says."""
        return Embedded(self._model.name, await self._model.embed(sendable(texts)))

    async def aclose(self) -> None:
        """Do nothing: there is no connection to close."""


class CircuitBreakerEmbedder:
    """An embedder for callers that can go on without vectors: an open circuit raises ``ModelUnavailable`` at once."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._circuit = Circuit(monotonic())

    async def embed(self, texts: Sequence[str], requester: Requester) -> Embedded:
        """Return one vector per text, as `Embedder` says."""
        circuit, now = self._circuit, monotonic()
        if not circuit.may_ask(now):
            why = f"{circuit.error}; it is asked again in {circuit.left(now):.1f} s"
            raise ModelUnavailable(why, retry_after=circuit.left(now))
        probe = not circuit.closed
        if probe:
            circuit.probe()
        try:
            found = await self._embedder.embed(texts, requester)
        except ModelUnavailable as error:
            circuit.failed(monotonic(), str(error), probe=probe)
            raise
        except ModelRefused:
            circuit.answered(monotonic(), probe)  # these texts cannot be embedded, others can
            raise
        except BaseException:
            if probe:
                circuit.probe_given_up()
            raise
        circuit.answered(monotonic(), probe)
        return found

    async def aclose(self) -> None:
        """Close the embedder behind this one."""
        await self._embedder.aclose()
