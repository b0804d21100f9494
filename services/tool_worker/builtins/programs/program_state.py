"""The outcome of a stretch of a program: its end, its failure, or the state in which it waits for calls in Redis."""

import zlib
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pentad.contracts.suspensions import MAX_STATE

_MAX_DUMP_BYTES = 8 * 1024 * 1024
"""Bytes of an interpreter's dump, before it is made smaller."""


class ProgramFailedError(Exception):
    """A program has failed or met a bound. The text says how."""


class InterpreterLostError(Exception):
    """The process of an interpreter was lost: its stretch may run again."""


class UnkeepableProgramError(ValueError):
    """A program cannot be kept while it waits, or not go on from what was kept. The text says why."""


@dataclass(frozen=True, slots=True)
class ProgramEnd:
    """The end of a program: its result as JSON, and what it has printed."""

    result: str
    printed: str


class ProgramCall(BaseModel):
    """A call that a program has begun. ``id``: its number in the interpreter."""

    model_config = ConfigDict(frozen=True)

    id: int
    tool: str
    args: dict[str, Any]


class ProgramState(BaseModel):
    """A suspended program: the dump of its interpreter, and what the interpreter does not know."""

    model_config = ConfigDict(frozen=True)

    version: str
    """Version of the interpreter: no other reads its dump."""
    dump: str = ""
    """Dump of the interpreter: compressed, in base64."""
    asked: list[int] = Field(default_factory=list)
    """Numbers of the calls that the program waits for, in the order of their results."""
    begun: list[ProgramCall] = Field(default_factory=list)
    """Awaited calls that are not made yet."""
    made: dict[str, int] = Field(default_factory=dict)
    """How often each tool was called, the calls that it waits for among them."""
    printed: str = ""
    seconds: float = 0.0
    """Seconds that the program has computed."""

    @property
    def calls(self) -> int:
        """Number of calls that were made."""
        return sum(self.made.values())

    def with_dump(self, dump: bytes) -> str:
        """Return the state with this dump as text. Raises ``UnkeepableProgramError``."""
        if len(dump) > _MAX_DUMP_BYTES:
            raise UnkeepableProgramError(_too_large(len(dump), _MAX_DUMP_BYTES))
        packed = b64encode(zlib.compress(dump)).decode()
        text = self.model_copy(update={"dump": packed}).model_dump_json()
        if len(text) > MAX_STATE:
            raise UnkeepableProgramError(_too_large(len(text), MAX_STATE))
        return text

    @classmethod
    def read(cls, text: str, version: str) -> "ProgramState":
        """Return the state that was kept. Raises ``UnkeepableProgramError``; ``version``: that of the interpreter."""
        try:
            state = cls.model_validate_json(text)
        except ValidationError:
            raise UnkeepableProgramError("what was kept of the program cannot be read: run it again") from None
        if state.version != version:
            raise UnkeepableProgramError(
                f"the program has waited while its interpreter was changed from version {state.version} to {version}, "
                "which cannot read the other's state: run a program for what is left to do"
            )
        return state

    @property
    def unpacked(self) -> bytes:
        """The dump of the interpreter. Raises ``UnkeepableProgramError``."""
        try:
            return zlib.decompressobj().decompress(b64decode(self.dump), _MAX_DUMP_BYTES)
        except (ValueError, zlib.error):
            raise UnkeepableProgramError("what was kept of the program is damaged: run it again") from None


def _too_large(size: int, most: int) -> str:
    return (
        f"the program holds too much to be kept while it waits for a call: {size:,} bytes, the limit is {most:,}. Keep "
        "what is needed of a result, not the whole, in variables"
    )
