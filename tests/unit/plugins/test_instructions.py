"""A plugin's function becomes an instruction, or says at once why it cannot."""

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

import pentad
from pentad.contracts.instructions import Instruction
from pentad.shared.plugins import runnables
from pentad.shared.plugins.errors import PluginError
from pentad.shared.plugins.instructions import registered_instructions


class Summary(BaseModel):
    """What a summary has."""

    title: str


@pytest.fixture(autouse=True)
def _a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runnables, "_defined", {})


def test_name_description_and_prompt_come_from_the_function() -> None:
    @pentad.instruction(tools=["weather"], model="fast", output=Summary, on_message="queue", recall=True)
    def summarise() -> str:
        """Sums a text up."""
        return "Sum up what you are given."

    assert registered_instructions()["summarise"] == Instruction(
        name="summarise",
        description="Sums a text up.",
        system_prompt="Sum up what you are given.",
        tools=["weather"],
        model="fast",
        output="json",
        output_schema=Summary.model_json_schema(),
        on_message="queue",
        recall=True,
    )


def prompt() -> str:
    """A prompt."""
    return "p"


def another_prompt() -> str:
    """Another prompt."""
    return "q"


def wrong_placeholder() -> str:
    return "{{secret}}"


def no_text() -> Any:
    return 3


def with_parameter(x: str) -> str:
    return x


@pytest.mark.parametrize(
    ("function", "options", "told"),
    [
        (with_parameter, {}, "without parameters"),
        (no_text, {}, "system_prompt"),
        (wrong_placeholder, {}, "names {{secret}}"),
        (prompt, {"name": "a b"}, "name"),
        (prompt, {"tools": ["a b"]}, "tools"),
        (prompt, {"output": 3}, "a pydantic model or a JSON schema"),
        (prompt, {"repairs": 100}, "repairs"),
    ],
)
def test_what_cannot_be_an_instruction_says_why(
    function: Callable[..., Any], options: dict[str, Any], told: str
) -> None:
    with pytest.raises(PluginError) as refused:
        pentad.instruction(**options)(function)
    assert told in str(refused.value)


def test_two_of_one_name_are_refused_and_one_that_is_imported_twice_is_not() -> None:
    pentad.instruction(name="same")(prompt)
    pentad.instruction(name="same")(prompt)
    with pytest.raises(PluginError, match="defined twice"):
        pentad.instruction(name="same")(another_prompt)
