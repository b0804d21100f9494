"""Every row of docs/seeds.md is shown by a public call in this folder."""

import ast
from collections import Counter
from pathlib import Path

from tests.acceptance.seeds.rows import PAGE, ROWS, rows_of

_NO_CALL = ("Chroma or Qdrant",)
"""Rows about a choice that no call can show."""


def named_rows() -> list[str]:
    """Return the beginnings of rows that the modules beside this one show."""
    return [
        node.args[0].value
        for module in sorted(Path(__file__).parent.glob("test_*.py"))
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "shown"
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    ]


def test_each_row_is_shown_once_and_nothing_else_is() -> None:
    times = Counter(row for row in ROWS for name in (*named_rows(), *_NO_CALL) if row.startswith(name))
    assert [row for row in ROWS if times[row] != 1] == []
    assert [name for name in named_rows() if sum(row.startswith(name) for row in ROWS) != 1] == []


def test_rows_are_read_by_their_headings() -> None:
    page = "## A\n| x | y |\n|---|---|\n| `one` | 1 |\n| two | 2 |\n\n## B\n| z |\n|---|\n| three |\n"
    assert rows_of(page) == {"A": ["`one`", "two"], "B": ["three"]}
    assert len(ROWS) > 70
    assert PAGE.name == "seeds.md"
