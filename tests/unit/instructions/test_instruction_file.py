"""The file of instructions and graphs: both forms say the same, and each mistake is told with its place."""

import json
from pathlib import Path
from typing import Any

import pytest

from pentad.contracts.graphs import GraphSpec
from pentad.shared.entry_file import MOST_ENTRIES
from pentad.shared.errors import SettingsError
from pentad.shared.instructions.instruction_list import configured_instructions
from pentad.shared.settings import Settings, load_settings

POET: dict[str, Any] = {"name": "poet", "system_prompt": "Rhyme.", "tools": [], "model": "fast"}
COUNTER: dict[str, Any] = {
    "name": "counter",
    "system_prompt": "Count.",
    "output": "json",
    "output_schema": {"type": "object", "properties": {"n": {"type": "integer"}}},
}
TOML = """
[[instructions]]
name = "poet"
system_prompt = "Rhyme."
tools = []
model = "fast"

[[instructions]]
name = "counter"
system_prompt = "Count."
output = "json"
output_schema = { type = "object", properties = { n = { type = "integer" } } }
"""
GRAPH: dict[str, Any] = {
    "name": "survey",
    "nodes": [{"key": "a", "kind": "ask", "question": "Well?"}],
    "edges": [{"from": "a", "to": "a", "when": "Nobody has answered."}],
    "entry": "a",
    "ends": ["a"],
}
GRAPH_TOML = """
[[graphs]]
name = "survey"
entry = "a"
ends = ["a"]
nodes = [{ key = "a", kind = "ask", question = "Well?" }]
edges = [{ from = "a", to = "a", when = "Nobody has answered." }]
"""
NESTED = "x = " + "{a = " * 300 + "1" + "}" * 300


def settings(path: Path) -> Settings:
    return load_settings({"PENTAD_INSTRUCTIONS": str(path)})


def listed(*rows: object) -> str:
    return json.dumps({"instructions": rows})


def drawn(*graphs: object, instructions: object = ()) -> str:
    return json.dumps({"graphs": graphs, "instructions": instructions} if instructions else {"graphs": graphs})


def running(name: str, graph: str) -> dict[str, Any]:
    """A graph that runs another one."""
    return GRAPH | {"name": name, "nodes": [{"key": "a", "kind": "graph", "graph": graph}]}


def test_without_the_setting_there_are_none() -> None:
    assert configured_instructions(load_settings({})) == ()


def test_json_and_toml_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "i.json").write_text(listed(POET, COUNTER))
    (tmp_path / "i.toml").write_text(TOML)
    read = configured_instructions(settings(tmp_path / "i.json"))
    assert [each.name for each in read] == ["poet", "counter"]
    assert read == configured_instructions(settings(tmp_path / "i.toml"))


def test_a_file_has_instructions_or_graphs_or_both(tmp_path: Path) -> None:
    for number, (text, names) in enumerate(
        [
            (TOML, ["poet", "counter"]),
            (GRAPH_TOML, ["survey"]),
            (TOML + GRAPH_TOML, ["poet", "counter", "survey"]),
            (drawn(GRAPH, instructions=[POET]), ["poet", "survey"]),
        ]
    ):
        path = tmp_path / f"{number}.{'json' if text.startswith('{') else 'toml'}"
        path.write_text(text)
        read = configured_instructions(settings(path))
        assert [each.name for each in read] == names
        if "survey" in names:
            assert read[-1] == GraphSpec.model_validate(GRAPH)


@pytest.mark.parametrize(
    ("text", "name", "place"),
    [
        ('{"instructions": [', "i.json", "line 1 column"),
        (b"\xff\xfe", "i.toml", "no TOML"),
        ("[" * 100_000, "i.json", "no JSON"),
        ("x=" + "[" * 100_000, "i.toml", "no TOML"),
        ("instructions: []", "i.yaml", "must end in .json or .toml"),
        ("[]", "i.json", "must hold a list `instructions`"),
        ('{"instructions": [], "models": []}', "i.json", "and nothing else"),
        (listed(POET, 7), "i.json", "instructions[1]: "),
        (listed({**POET, "promt": "x"}), "i.json", "instructions[0] ('poet').promt: Extra inputs are not permitted"),
        (listed({**POET, "name": "a poet"}), "i.json", "instructions[0] ('a poet').name: "),
        (listed({**POET, "name": "n" * 100_000}), "i.json", "instructions[0] ('nnnn"),
        (listed({**POET, "system_prompt": ""}), "i.json", "instructions[0] ('poet').system_prompt: "),
        (listed({**POET, "system_prompt": "For {{secrets}}."}), "i.json", "system_prompt names {{secrets}}"),
        (listed({**POET, "tools": ["rm -rf"]}), "i.json", "instructions[0] ('poet').tools.0: "),
        (listed({**POET, "output": "json"}), "i.json", 'output "json" needs an output_schema'),
        (listed(POET, {**COUNTER, "output_schema": {"type": "objekt"}}), "i.json", "instructions[1] ('counter'): outp"),
        (listed({**COUNTER, "output_schema": {"$ref": "http://h/s"}}), "i.json", "output_schema is no JSON schema"),
        (listed({**COUNTER, "output_schema": {"x": "y" * 40_000}}), "i.json", "more than 32768 bytes"),
        (listed(POET, COUNTER, POET), "i.json", "instructions[2] ('poet').name: another instruction has it"),
        (listed(*({**POET, "name": f"p{n}"} for n in range(MOST_ENTRIES + 1))), "i.json", f"at most {MOST_ENTRIES}"),
        (" " * ((16 << 20) + 1), "i.json", "longer than"),
        ("{}", "i.json", "or a list `graphs`, or both, and nothing else"),
        ('{"graphs": {}}', "i.json", "must hold a list `graphs`"),
        (drawn(7), "i.json", "graphs[0]: "),
        (drawn(GRAPH, GRAPH), "i.json", "graphs[1] ('survey').name: another graph has it"),
        (drawn({**GRAPH, "steps": 3}), "i.json", "graphs[0] ('survey').steps: Extra inputs are not permitted"),
        (drawn({**GRAPH, "ends": ["b"]}), "i.json", "graphs[0] ('survey'): ends[0]: there is no node 'b'"),
        (drawn({**GRAPH, "name": "router"}), "i.json", "graphs[0] ('router'): services ask the instruction 'router'"),
        (
            drawn({**GRAPH, "state_schema": {"type": "object", "$ref": "http://h/s"}}),
            "i.json",
            "graphs[0] ('survey'): state_schema is no JSON schema",
        ),
        (
            drawn(
                {
                    **GRAPH,
                    "nodes": [
                        {"key": "a", "kind": "llm", "system_prompt": "x", "output": "json"}
                        | {"output_schema": {"type": "objekt"}}
                    ],
                }
            ),
            "i.json",
            "graphs[0] ('survey'): nodes[0] (a).output_schema is no JSON schema",
        ),
        (
            drawn(GRAPH, instructions=[{**POET, "name": "survey"}]),
            "i.json",
            "graphs[0] ('survey').name: an instruction has it: names are shared",
        ),
        (drawn(*({**GRAPH, "name": f"g{n}"} for n in range(MOST_ENTRIES + 1))), "i.json", f"at most {MOST_ENTRIES}"),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, text: str | bytes, name: str, place: str) -> None:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(SettingsError) as refused:
        configured_instructions(settings(path))
    said = str(refused.value)
    assert said.startswith(f"PENTAD_INSTRUCTIONS is wrong: {path}: ")
    assert place in said
    assert len(said) < 1000


def test_a_schema_that_is_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    row = '[[instructions]]\nname = "c"\nsystem_prompt = "x"\noutput = "json"\n[instructions.output_schema]\n'
    (tmp_path / "i.toml").write_text(row + NESTED)
    with pytest.raises(SettingsError, match=r"instructions\[0\] \('c'\)|no TOML"):
        configured_instructions(settings(tmp_path / "i.toml"))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"gone\.json: No such file"):
        configured_instructions(settings(tmp_path / "gone.json"))


def test_graphs_that_would_run_themselves_are_refused(tmp_path: Path) -> None:
    (tmp_path / "i.json").write_text(drawn(running("one", "two"), running("two", "one"), GRAPH))
    with pytest.raises(SettingsError, match=r"graphs \('one'\): the graph would run itself: one -> two -> one"):
        configured_instructions(settings(tmp_path / "i.json"))
