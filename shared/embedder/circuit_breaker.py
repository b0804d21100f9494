"""An embedding service that does not answer is left alone for a while, instead of costing everybody the time limit."""

from collections.abc import Sequence
from time import monotonic

from pentad.shared.embedder.embedder import Embedder
from pentad.shared.embedder.vectors import Embedded, Requester
from pentad.shared.models.circuit import Circuit
from pentad.shared.models.ports import ModelRefused, ModelUnavailable


class CircuitBreakerEmbedder:
    """An embedder for callers that can go on without vectors: an open circuit raises ``ModelUnavailable`` at once."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._circuit = Circuit(monotonic())

    async def embed(self, texts: Sequence[str], requester: Requester) -> Embedded:
        """One vector per text; see `Embedder`."""
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
