"""A name has one meaning: who reads it, or looks for it, finds one thing."""

import ast
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from tests.architecture.source import Module, modules


def twice(tree: Iterable[Module]) -> dict[str, list[str]]:
    """Public classes whose name another module has, too."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for module in tree:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(module.path)
    return {name: paths for name, paths in found.items() if len(paths) > 1}


def test_a_name_of_a_public_class_has_one_meaning() -> None:
    assert twice(modules()) == {}


def test_a_second_class_of_a_name_is_noticed(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / "shared").mkdir(exist_ok=True)
        (tmp_path / "shared" / f"{name}.py").write_text("class Step: ...\nclass _Row: ...\n")
    assert twice(modules(tmp_path)) == {"Step": ["shared/one.py", "shared/other.py"]}


def test_to_take_is_said_of_an_actor_alone() -> None:
    """A word of ARCHITECTURE.md: a worker takes a session or a task, with its lease."""
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    found = [
        module.path
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, functions) and node.name == "take"
    ]
    assert found == ["shared/actors/actors.py"]
