"""Temperature and limit of tokens of an answer, as instruction, model and environment ask for them. Pure.

The instruction's go before those of the model's entry, and these before those of the environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic_core import to_json

from pentad.shared.models.ports import ChatRequest

_LIMIT = "max_tokens"
_LIMITS = ("max_completion_tokens", _LIMIT)
"""Names of the field of a request that limits the answer: newer models of OpenAI know the first alone."""


def asked_of_answer(request: ChatRequest, parameters: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the fields of a request that its instruction sets.

    ``parameters``: those of the model. The limit goes under the name that they use for it.
    """
    fields: dict[str, bytes] = {}
    if request.temperature is not None:
        fields["temperature"] = to_json(request.temperature)
    if request.max_tokens is not None:
        fields[next((name for name in _LIMITS if name in parameters), _LIMIT)] = to_json(request.max_tokens)
    return fields


def with_defaults(parameters: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model's parameters with those of the environment that it does not set, under whatever name."""
    limits = any(name in parameters for name in _LIMITS)
    return {name: value for name, value in defaults.items() if not (limits and name == _LIMIT)} | dict(parameters)
