"""Server-sent events from raw network chunks. Pure: bytes in, the data of complete events out."""

from __future__ import annotations

PIECE = 16 * 1024
"""Bytes of a body that are read before other tasks have their turn: some milliseconds of work for the smallest events.
"""
_MAX_EVENT = 9 * 1024 * 1024
"""Bytes that one event may have: a whole answer in one piece, with each character escaped, and what is around it."""
_BLANK_LINES = b"\n\n\n"
_MAX_KNOWN = 1_000
"""Events that are remembered by their ids: those that come again are among the last ones."""
_MAX_COUNTER_DIGITS = 6
"""Digits of an id that is the number of its event; longer ones may be times."""


class SseDecoder:
    """Takes network chunks that are cut anywhere, and returns the data of each event that is complete.

    Comments, `retry:` and `event:` lines are left out; LF, CRLF and CR all end a line. An event that comes again with
    its id, as after a broken connection within a proxy, is left out. Raises `ValueError` when one event grows past
    9 MiB.
    """

    __slots__ = ("_data", "_held", "_id", "_known", "_partial", "_size")

    def __init__(self) -> None:
        self._id: bytes | None = None
        self._known: dict[bytes, int] | None = {}
        """The hash of each event's data, by the id of the event; None where ids are not those of single events."""
        self._partial: list[bytes] = []  # pieces of the line that has not ended: joined once, not at each chunk
        self._data: list[bytes] = []
        self._held = b""  # a CR at the end of a chunk, which may be half of a CRLF
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the data of the events that this chunk completes."""
        if self._held or b"\r" in chunk:
            chunk = self._unify(chunk)
        self._grow(len(chunk))
        head, newline, rest = chunk.rpartition(b"\n")
        if not newline:
            self._partial.append(chunk)
            return []
        while _BLANK_LINES in head:  # one ends an event as well as a thousand, which would take a thousand looks
            head = head.replace(_BLANK_LINES, b"\n\n")
        lines = head.split(b"\n")
        lines[0] = b"".join([*self._partial, lines[0]])  # which is long: it is not searched again for line ends
        self._partial = [rest] if rest else []
        return self._events(lines)

    def flush(self) -> list[bytes]:
        """Return the data of the last events when the stream has ended: servers forget the blank line after the last
        event."""
        self._held = b""
        return self._events([b"".join(self._partial), b""])

    def _events(self, lines: list[bytes]) -> list[bytes]:
        found: list[bytes] = []
        data = self._data
        for line in lines:
            if line[:5] == b"data:":
                data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif not line and data:
                event = data[0] if len(data) == 1 else b"\n".join(data)
                if self._id is None or not self._came_before(self._id, event):
                    found.append(event)
                data.clear()
                self._size = 0
                self._id = None
            elif line[:3] == b"id:":
                self._id = line[3:].strip()
            elif line[:8] == b"\xef\xbb\xbfdata:":  # a byte order mark before the first line
                data.append(line[8:].removeprefix(b" "))
        return found

    def _came_before(self, event_id: bytes, event: bytes) -> bool:
        """Whether this event is one that came before, with its id. Some servers give all events the same id."""
        known, digest = self._known, hash(event)
        if known is None:
            return False
        if event_id in known:
            if known[event_id] != digest:
                self._known = None
                return False
            return len(known) > 1 or (len(event_id) <= _MAX_COUNTER_DIGITS and event_id.isdigit())
        if len(known) >= _MAX_KNOWN:
            del known[next(iter(known))]
        known[event_id] = digest
        return False

    def _unify(self, chunk: bytes) -> bytes:
        chunk = self._held + chunk
        self._held = b"\r" if chunk.endswith(b"\r") else b""
        if self._held:
            chunk = chunk[:-1]
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > _MAX_EVENT:
            raise ValueError(f"one event of the stream is larger than {_MAX_EVENT} bytes")
