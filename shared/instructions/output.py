"""Reads answers that must be JSON of a certain form, within a bounded time and without holding the event loop.

A small answer is checked at once against a simple schema. Everything else is checked in a process of its own
(`schema_process.py`): the checker holds Python's lock while it works, so a thread would hold the loop just the same.
"""

from collections.abc import Mapping
from typing import Any

from pydantic_core import to_json

from pentad.shared.instructions.schema_check import MAX_ANSWER, SchemaCheck, WrongOutput
from pentad.shared.instructions.schema_process import check_in_process, check_off_loop
from pentad.shared.json_schema import schema_weight

_ONLY_JSON = "\n\nAnswer with one JSON value alone, no other text, that fits this JSON schema:\n"
_MAX_LOOP_CHARS = 16_384
"""Characters that an answer may have that is checked in the event loop."""
_MAX_LOOP_STEPS = 250_000
"""Weight of a schema times characters of an answer that is checked in the event loop: about 20 ms at worst."""


class Output:
    """The form that an answer must have."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Raise ``WrongSchema`` for a simple schema that is wrong; `prove` checks the others."""
        self._schema = schema
        self._weight = schema_weight(schema)
        self._check = None if self._weight is None else SchemaCheck(schema)

    def prove(self) -> None:
        """Raise ``WrongSchema`` for a schema that is wrong or takes too long. This may take seconds itself."""
        if self._check is None:
            check_in_process(self._schema, None)

    async def prove_off_loop(self) -> None:
        """Do as `prove` does, without holding the event loop. Raises ``OutageError``, too."""
        if self._check is None:
            await check_off_loop(self._schema, None)

    async def read(self, text: str) -> str:
        """Return the one JSON value in the answer that fits, written anew; prose and fences around it are left out.

        Raises ``WrongOutput`` with the mistake, for the model, ``WrongSchema`` when the schema takes too long for
        this answer, and ``OutageError`` when the system has no room for a process.
        """
        if len(text) > MAX_ANSWER:
            raise WrongOutput(f"it has more than {MAX_ANSWER} bytes")
        if self._check is not None and self._weight is not None and self._is_cheap(text, self._weight):
            return self._check.fitting(text)
        return await check_off_loop(self._schema, text)

    @staticmethod
    def _is_cheap(text: str, weight: int) -> bool:
        return len(text) <= _MAX_LOOP_CHARS and weight * len(text) <= _MAX_LOOP_STEPS


def server_schema(schema: Mapping[str, Any] | None) -> bytes | None:
    """Return the schema that a model's server is sent besides the prompt; None for one that is not of an object.

    Servers that take no schema are asked for any object instead, and some take no other form.
    """
    return to_json(schema) if schema and schema.get("type") == "object" else None


def with_schema(prompt: str, schema: dict[str, Any] | None) -> str:
    """Return the system prompt with the schema that the answer must fit; without a schema, the prompt as it is."""
    return prompt if schema is None else prompt + _ONLY_JSON + to_json(schema).decode()
