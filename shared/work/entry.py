"""One entry of a work stream, on its way to a handler."""

from collections.abc import Sequence
from enum import Enum
from typing import TypeVar

from pydantic import ValidationError

from pentad.contracts.envelope import Contract
from pentad.shared.clipping import plain
from pentad.shared.errors import PoisonError
from pentad.shared.immutable import immutable

C = TypeVar("C", bound=Contract)


@immutable
class Entry:
    """An entry and where it came from."""

    stream: str
    id: str
    data: bytes
    """The ``data`` field; empty when the entry has none."""
    redelivered: bool = False
    """Whether another consumer had read this entry and did not acknowledge it."""

    def parse(self, model: type[C]) -> C:
        """The entry as this contract. Raises ``PoisonError`` that says what is wrong with it."""
        try:
            return model.model_validate_json(self.data)
        except ValidationError as error:
            raise PoisonError(complaint(error)) from None


class Done(Enum):
    """The outcome of handling an entry."""

    ACK = "ack"
    """The consumer may acknowledge, together with others."""
    COMMITTED = "committed"
    """The handler's own transaction has acknowledged and counted."""
    LEFT = "left"
    """The entry belongs to another consumer by now, or is meant to stay pending."""


def data_of(fields: Sequence[bytes]) -> bytes:
    """The ``data`` field among an entry's names and values; empty when there is none."""
    if len(fields) == 2 and fields[0] == b"data":
        return fields[1]
    return dict(zip(fields[::2], fields[1::2], strict=True)).get(b"data", b"")


_MOST_NAME, _MOST_SAID = 100, 300
"""Characters of a field's name, and of what is wrong with it: whoever wrote the entry may have chosen both."""


def complaint(error: ValidationError) -> str:
    """A validation error in one line, without the input's values."""
    parts = []
    for e in error.errors(include_url=False, include_input=False):
        where = plain(".".join(str(p) for p in e["loc"]), _MOST_NAME)
        what = plain(e["msg"], _MOST_SAID)
        parts.append(f"{where}: {what}" if where else what)
    return "; ".join(parts[:5])


def reason_of(error: Exception) -> str:
    """An error in one line, for a dead letter."""
    text = complaint(error) if isinstance(error, ValidationError) else str(error)
    return f"{type(error).__name__}: {text}"


def printable(data: bytes) -> str:
    """Bytes as text; what is not UTF-8 is written with ``\\xNN``."""
    return data.decode("utf-8", errors="backslashreplace")
