"""Answers that must be JSON of a certain form: read, checked against their schema, or what is wrong with them."""

import re
from itertools import islice
from typing import Any

import jsonschema_rs
from pydantic_core import to_json

from pentad.contracts.plain_json import read_json

_ONLY_JSON = "\n\nAnswer with one JSON value alone, no other text, that fits this JSON schema:\n"
_MOST_PROBLEMS = 5
_MOST_CHARS = 300
_FENCED = re.compile(r"^\s*```(?:json|JSON)?\s*\n(.*?)\n?\s*```\s*$", re.DOTALL)


class WrongOutput(ValueError):  # noqa: N818 - reads as what it is
    """The answer is not what the schema asks for. The text says why, for the model that is asked again."""


class WrongSchema(ValueError):  # noqa: N818 - reads as what it is
    """The schema itself cannot be used. The text says why."""


class Output:
    """What an answer must fit."""

    def __init__(self, schema: dict[str, Any]) -> None:
        """Raises ``WrongSchema``. Nothing that the schema refers to is fetched, and no pattern runs for long."""
        try:
            self._validator = jsonschema_rs.validator_for(
                schema, offline=True, pattern_options=jsonschema_rs.RegexOptions()
            )
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
            raise WrongSchema(f"output_schema is no JSON schema: {_short(_message(error))}") from None

    def read(self, text: str) -> Any:
        """The value that the text says. Models like to put JSON into a Markdown fence; that is taken off.

        Raises ``WrongOutput``.
        """
        fenced = _FENCED.match(text)
        try:
            value = read_json(fenced[1] if fenced else text)
        except ValueError as error:
            raise WrongOutput(f"it is not JSON: {_short(str(error))}") from None
        found = islice(self._validator.iter_errors(value), _MOST_PROBLEMS)
        problems = [f"{_where(wrong)}: {_short(wrong.message)}" for wrong in found]
        if problems:
            raise WrongOutput("; ".join(problems))
        return value


def with_schema(prompt: str, schema: dict[str, Any] | None) -> str:
    """A system prompt that says what the answer must fit; as it is for a plain text."""
    return prompt if schema is None else prompt + _ONLY_JSON + to_json(schema).decode()


def _where(wrong: jsonschema_rs.ValidationError) -> str:
    return _short("/".join(str(part) for part in wrong.instance_path)) or "the value"


def _message(error: Exception) -> str:
    return str(getattr(error, "message", error)).partition("\n")[0]


def _short(text: str) -> str:
    return text if len(text) <= _MOST_CHARS else text[: _MOST_CHARS - 1] + "…"
