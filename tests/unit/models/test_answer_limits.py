"""What an instruction asks of an answer goes before its model's parameters, and these before the environment's."""

from typing import Any

import pytest
from pydantic_core import to_json

from pentad.contracts.models import ModelEntry
from pentad.shared.models.answer_limits import asked_of_answer, with_defaults
from pentad.shared.models.configured_models import environment_parameters
from pentad.shared.models.model_makers import make_chat_model, make_of_entry
from pentad.shared.models.ports import ChatRequest
from pentad.shared.settings import Settings

ENVIRONMENT = Settings(llm_temperature=0.1, llm_max_tokens=100)


def asked(temperature: float | None = None, max_tokens: int | None = None) -> ChatRequest:
    return ChatRequest([], None, 1.0, temperature=temperature, max_tokens=max_tokens)


@pytest.mark.parametrize(
    ("of_model", "temperature", "max_tokens", "sent"),
    [
        ({}, None, None, {"temperature": 0.1, "max_tokens": 100}),
        ({"temperature": 0.7}, None, None, {"temperature": 0.7, "max_tokens": 100}),
        ({"temperature": 0.7}, 0.0, 5, {"temperature": 0.0, "max_tokens": 5}),
        ({"max_completion_tokens": 9}, None, None, {"temperature": 0.1, "max_completion_tokens": 9}),
        ({"max_completion_tokens": 9}, None, 5, {"temperature": 0.1, "max_completion_tokens": 5}),
        ({"max_tokens": 9, "seed": 1}, None, None, {"temperature": 0.1, "max_tokens": 9, "seed": 1}),
    ],
)
def test_the_instruction_goes_before_the_model_and_this_before_the_environment(
    of_model: dict[str, Any], temperature: float | None, max_tokens: int | None, sent: dict[str, Any]
) -> None:
    parameters = with_defaults(of_model, environment_parameters(ENVIRONMENT))
    ready = {name: to_json(value) for name, value in parameters.items()}
    fields = ready | asked_of_answer(asked(temperature, max_tokens), ready)
    assert fields == {name: to_json(value) for name, value in sent.items()}


def test_models_of_the_environment_and_of_entries_send_them() -> None:
    entry = ModelEntry(id="m", endpoint="http://127.0.0.1:1/v1", model="m", parameters={"temperature": 0.7})
    defaults = environment_parameters(ENVIRONMENT)
    for model, temperature in (
        (make_chat_model("m", None, "http://127.0.0.1:1/v1", parameters=defaults), b"0.1"),
        (make_of_entry(entry, defaults), b"0.7"),
    ):
        fields = model._fields("m", asked(), ())  # type: ignore[attr-defined]
        assert (fields["temperature"], fields["max_tokens"]) == (temperature, b"100")
    assert environment_parameters(Settings()) == {}
