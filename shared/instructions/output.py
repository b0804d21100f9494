"""Answers that must be JSON of a certain form, read within a bounded time and without holding the event loop.

What is small, against a schema that is simple, is checked at once. Everything else is checked in a process of its own
(`schema_process.py`): the checker holds Python's lock while it works, so a thread would hold the loop just the same.
"""

from collections.abc import Mapping
from typing import Any

from pydantic_core import to_json

from pentad.shared.instructions.schema_check import MAX_ANSWER, SchemaCheck, WrongOutput, schema_weight
from pentad.shared.instructions.schema_process import check_in_process, check_off_loop

_ONLY_JSON = "\n\nAnswer with one JSON value alone, no other text, that fits this JSON schema:\n"
_MOST_CHARS = 16_384
"""Of an answer that is checked in the event loop."""
_MOST_STEPS = 250_000
"""Weight of a schema times characters of an answer that is checked in the event loop: about 20 ms at worst."""


class Output:
    """What an answer must fit."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Raises ``WrongSchema`` for a simple schema that is wrong; of others `prove` tells."""
        self._schema = schema
        self._weight = schema_weight(schema)
        self._check = None if self._weight is None else SchemaCheck(schema)

    def prove(self) -> None:
        """Raises ``WrongSchema`` for a schema that is wrong or takes too long. It may take seconds itself."""
        if self._check is None:
            check_in_process(self._schema, None)

    async def read(self, text: str) -> str:
        """The one JSON value in the answer that fits, written down anew; prose and fences around it are left out.

        Raises ``WrongOutput`` with what is wrong, for the model, ``WrongSchema`` when the schema takes too long for
        this answer, and ``OutageError`` when the system has no room for a process.
        """
        if len(text) > MAX_ANSWER:
            raise WrongOutput(f"it has more than {MAX_ANSWER} bytes")
        if self._check is not None and self._weight is not None and self._is_cheap(text, self._weight):
            return self._check.fitting(text)
        return await check_off_loop(self._schema, text)

    @staticmethod
    def _is_cheap(text: str, weight: int) -> bool:
        return len(text) <= _MOST_CHARS and weight * len(text) <= _MOST_STEPS


def server_schema(schema: Mapping[str, Any] | None) -> bytes | None:
    """The schema that a model's server is told besides the prompt; None where it is not of an object.

    Servers that take none are asked for any object instead, and some take no other.
    """
    return to_json(schema) if schema and schema.get("type") == "object" else None


def with_schema(prompt: str, schema: dict[str, Any] | None) -> str:
    """A system prompt that says what the answer must fit; as it is for a plain text."""
    return prompt if schema is None else prompt + _ONLY_JSON + to_json(schema).decode()
