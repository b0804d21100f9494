"""What went wrong with a call to Qdrant, as one of our two errors, in words that say what to do."""

from json import JSONDecodeError

from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from pentad.shared.errors import MemoryOutageError, MemoryRefusedError, PentadError

_MOST_SAID = 300
"""Characters of the server's own text."""
_LATER = frozenset({408, 409, 429})
_KEY = frozenset({401, 403})


def failure(error: Exception, place: str) -> PentadError:
    """The error that this one means. ``place``: the server's address, without anything secret."""
    if isinstance(error, PentadError):
        return error
    if isinstance(error, UnexpectedResponse):
        return _answered(error, place)
    if isinstance(error, ResponseHandlingException):
        return MemoryOutageError(f"Qdrant at {place} cannot be reached: {error.source!r}; check QDRANT_URL")
    if isinstance(error, JSONDecodeError):
        return MemoryOutageError(f"what answers at {place} is no Qdrant: check QDRANT_URL")
    if isinstance(error, ValueError):  # the client itself refuses, as the server would
        return MemoryRefusedError(f"Qdrant refuses this: {_shortened(str(error))}")
    return MemoryOutageError(f"Qdrant at {place} fails: {_shortened(repr(error))}")


def _answered(error: UnexpectedResponse, place: str) -> PentadError:
    status = error.status_code or 0
    if status in _KEY:
        return MemoryOutageError(f"Qdrant at {place} does not accept our key ({status}): check QDRANT_API_KEY")
    said = f"Qdrant at {place} answered {status}: {_shortened(error.content.decode('utf-8', 'replace'))}"
    if 400 <= status < 500 and status not in _LATER:
        return MemoryRefusedError(said)
    return MemoryOutageError(f"{said}; try again later")


def _shortened(text: str) -> str:
    return " ".join(text.split())[:_MOST_SAID]
