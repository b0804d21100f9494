"""Of two instructions with the same name it is said which counts."""

from pentad.contracts.instructions import Instruction
from pentad.shared.instructions.builtin import BUILT_IN, EXECUTOR
from pentad.shared.instructions.instruction_list import all_instructions


def made(place: str, name: str = "executor") -> Instruction:
    return Instruction(name=name, system_prompt=f"I am of the {place}.")


def test_a_files_goes_before_a_registered_one_that_before_a_plugins_and_that_before_what_is_built_in() -> None:
    file, registered, plugin = made("file"), made("registry"), made("plugin")
    for places, counts, source in (
        (([file], [registered], [plugin]), file, "file"),
        (([], [registered], [plugin]), registered, "registered"),
        (([], [], [plugin]), plugin, "plugin"),
        (([], [], []), EXECUTOR, "built_in"),
    ):
        known = all_instructions(*places)
        assert {*known} == {*BUILT_IN}
        assert (known["executor"].runnable, known["executor"].source) == (counts, source)


def test_all_of_them_are_there_by_name() -> None:
    known = all_instructions([made("file", "b")], [made("registry", "c")], [made("plugin", "a")])
    assert [*known] == sorted({*BUILT_IN, "a", "b", "c"})
