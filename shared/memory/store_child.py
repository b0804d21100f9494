"""The process that has the embedded store of vectors open. Only an archiver starts it (`child_protocol`).

qdrant-edge holds Python's lock while it works, so everything else in its process waits. This process does nothing else:
requests are read, carried out and answered one by one.
"""

import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from pentad.shared.child_processes import tie_to_parent
from pentad.shared.errors import MemoryRefusedError, SettingsError
from pentad.shared.memory.child_protocol import (
    HEAD_BYTES,
    MAX_FRAME_BYTES,
    ChildOrder,
    answer_frame,
    decode_points,
    error_frame,
)
from pentad.shared.memory.ranking import EmbeddedQuestion, FactsCache, MemoryHit, ranked_memories
from pentad.shared.memory.remote_calls import CHILD_CALLS, packed
from pentad.shared.vectors.payload_cache import MAX_PAYLOADS

if TYPE_CHECKING:
    from pentad.shared.vectors.edge_shards import EdgeShards


class ChildServing:
    """Answers requests until the parent closes the connection; then it closes the store."""

    def __init__(self, connection: socket.socket, order: ChildOrder) -> None:
        self._connection, self._order = connection, order
        self._facts = FactsCache(MAX_PAYLOADS)
        self._shards: EdgeShards | None = None

    def serve(self) -> None:
        """Serve until the parent closes the connection."""
        with suppress(OSError):  # the parent has gone without waiting
            while (request := self._frame()) is not None:
                self._connection.sendall(self._answer(request))
        if self._shards is not None:
            self._shards.close()

    def _answer(self, request: bytes) -> bytes:
        try:
            call, arguments = from_json(request)
            numbers = self._frame() if call == "upsert" else b""
            return answer_frame(self._done(call, arguments, numbers or b""))
        except Exception as error:
            return error_frame(error)

    def _done(self, call: str, arguments: Sequence[Any], numbers: bytes) -> bytes:
        shards = self._opened()
        if call == "upsert":
            collection, told = arguments
            shards.upsert(collection, decode_points(told, numbers))
            return b"null"
        if call not in CHILD_CALLS:
            raise MemoryRefusedError(f"the memory has no call {call!r}")
        args = CHILD_CALLS[call].given.validate_python(arguments)
        if call == "rank":
            return CHILD_CALLS[call].gives.dump_json(self._rank(*args))
        if call == "rank_each":
            collection, asked = args
            return CHILD_CALLS[call].gives.dump_json([self._rank(collection, each) for each in asked])
        result = getattr(shards, call)(*args)
        return CHILD_CALLS[call].gives.dump_json(packed(result) if call == "search" else result)

    def _rank(self, collection: str, asked: EmbeddedQuestion) -> list[MemoryHit]:
        ranking = ranked_memories(asked, self._facts)
        queries = next(ranking)
        while True:
            try:
                queries = ranking.send(self._opened().search(collection, queries))
            except StopIteration as ended:
                ranked: list[MemoryHit] = ended.value
                return ranked

    def _opened(self) -> "EdgeShards":
        if self._shards is None:
            try:
                from pentad.shared.vectors.edge_shards import EdgeShards
            except ImportError as error:
                raise SettingsError(
                    f"the embedded memory needs qdrant-edge-py: pip install 'pentad[server]' or set QDRANT_URL; {error}"
                ) from None
            self._shards = EdgeShards(Path(self._order.folder), self._order.lock_fd)
        return self._shards

    def _frame(self) -> bytes | None:
        """Return the next frame; None at the end."""
        head = self._read(HEAD_BYTES)
        length = int.from_bytes(head, "big")
        if len(head) < HEAD_BYTES or length > MAX_FRAME_BYTES:
            return None
        body = self._read(length)
        return body if len(body) == length else None

    def _read(self, size: int) -> bytes:
        """Return ``size`` bytes, or fewer at the end."""
        body, at = bytearray(size), 0
        while at < size and (got := self._connection.recv_into(memoryview(body)[at:])):
            at += got
        return bytes(body[:at])


def main(argument: str) -> int:
    """Serve the parent until it closes the connection."""
    order = ChildOrder.from_json(argument)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    tie_to_parent(order.life_fd, order.parent_pid)
    ChildServing(socket.socket(fileno=order.socket_fd), order).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
