"""Instructions are data from outside: what is wrong is refused with its reason."""

from typing import Any

import pytest
from pydantic import ValidationError

from pentad.contracts.instructions import MAX_SCHEMA, Instruction
from pentad.shared.instructions.instruction_list import version_of

POET: dict[str, Any] = {"name": "poet", "system_prompt": "You write poems for {{user_id}}."}
SCHEMA = {"type": "object"}


def test_what_is_left_out_is_what_a_newcomer_expects() -> None:
    made = Instruction(**POET)
    assert (made.output, made.tools, made.model, made.repairs, made.tool_rounds) == ("stream", None, None, 3, 5)
    assert made.on_message == "steer"


@pytest.mark.parametrize("policy", ["steer", "queue", "interrupt"])
def test_a_policy_is_kept_with_the_instruction_and_the_default_one_is_what_there_was_before(policy: Any) -> None:
    """Versions that were kept before there were policies are read, and have the digest that they had."""
    made = Instruction(**POET, on_message=policy)
    assert Instruction.model_validate_json(made.to_json()) == made
    assert (b"on_message" in made.to_json()) == (policy != "steer")
    plain = Instruction(name="poet", system_prompt="Rhyme.")
    assert version_of(plain) == "675624ed56d5dbd3"
    assert (version_of(plain.model_copy(update={"on_message": policy})) == version_of(plain)) == (policy == "steer")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"name": ""}, "name"),
        ({"name": "a/b"}, "name"),
        ({"name": "x" * 129}, "name"),
        ({"system_prompt": ""}, "system_prompt"),
        ({"system_prompt": "x" * 65_537}, "system_prompt"),
        ({"system_prompt": "{{password}}"}, "names {{password}}; there are only: goal"),
        ({"system_prompt": "{{ item }}"}, "as text, write {{{{item}}}}"),
        ({"description": "x" * 1_001}, "description"),
        ({"tools": ["a b"]}, "tools"),
        ({"tools": ["t"] * 257}, "tools"),
        ({"model": "../x"}, "model"),
        ({"output": "xml"}, "output"),
        ({"output": "json"}, "needs an output_schema"),
        ({"output_schema": SCHEMA}, "needs an output_schema"),
        ({"output": "json", "output_schema": {"description": "x" * MAX_SCHEMA}}, "bytes"),
        ({"repairs": -1}, "repairs"),
        ({"repairs": 11}, "repairs"),
        ({"tool_rounds": -1}, "tool_rounds"),
        ({"on_message": "ignore"}, "on_message"),
        ({"on_message": None}, "on_message"),
    ],
)
def test_what_is_wrong_is_refused_with_its_reason(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Instruction(**POET | wrong)
    assert told in str(refused.value)


def test_without_a_word_of_it_what_answers_in_text_recalls_and_what_answers_in_json_does_not() -> None:
    plain, poet = Instruction(**POET), Instruction(**POET, output="json", output_schema={"type": "integer"})
    assert (plain.recall_mode, poet.recall_mode) == (True, False)
    assert b"recall" not in plain.to_json(), "instructions from before keep their digest"
    for said in (True, False, "turn"):
        for instruction in (plain, poet):
            assert Instruction.model_validate(instruction.model_dump() | {"recall": said}).recall_mode == said


@pytest.mark.parametrize(
    ("prompt", "filled"),
    [
        ("Rows are {{{{ item }}}} for {{user_id}}.", "Rows are {{ item }} for ada."),
        ("{{{{user_id}}}}", "{{user_id}}"),
        ('{"a":{"b":{"c":1}}} and {x} and {{ user.name }} and {% if %}', None),
    ],
)
def test_doubled_braces_are_text_and_so_is_json(prompt: str, filled: str | None) -> None:
    assert Instruction(name="x", system_prompt=prompt).filled({"user_id": "ada"}) == (filled or prompt)


@pytest.mark.parametrize("rounds", [None, 0, 7])
def test_what_is_kept_of_an_instruction_has_as_many_rounds_of_calls(rounds: int | None) -> None:
    """Absent on the wire it would be five: a task that another runner takes over keeps what it began with."""
    made = Instruction(name="a", system_prompt="b", tool_rounds=rounds)
    assert Instruction.model_validate_json(made.to_json()).tool_rounds == rounds
