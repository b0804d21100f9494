"""ARCHITECTURE.md leads to every module, and to nothing that is not there."""

from pathlib import Path

import pytest

from pentad.shared.settings import Settings
from tests.architecture.page import passages
from tests.architecture.source import ROOT, modules, scripts

PAGE = (ROOT / "ARCHITECTURE.md").read_text()
UNNAMED = ("/__init__.py", "/__main__.py")
"""Empty, or three lines that run the composition root."""

FILES = {
    "shared/keys.py": "DAY_S = 1\n\n\nclass TaskKeys:\n    def all(self) -> None: ...\n",
    "shared/work/entry.py": "KIND = 'entry'\n",
    "services/router/routing.py": "X = 1\n",
    "services/router/domain/rules.py": "X = 1\n",
    "services/router/domain/routing.py": "X = 1\n",
    "shared/store/take.lua": "local function lease() end\n",
}


def test_what_the_page_names_is_there() -> None:
    assert [breach for passage in passages(PAGE) for breach in passage.breaches()] == []


def test_every_module_and_every_script_has_its_place_on_the_page() -> None:
    """Who looks for what a module does finds it. A new one gets a row, or a word in the row of its subject."""
    named = {file.relative_to(ROOT).as_posix() for passage in passages(PAGE) for file in passage.files}
    there = {*(module.path for module in modules() if not module.path.endswith(UNNAMED)), *scripts()}
    assert sorted(there - named) == []


def test_the_page_names_every_setting() -> None:
    """Who wants another bound sees at once whether operators may change it."""
    named = {word for passage in passages(PAGE) for word in passage.words}
    assert sorted({field.upper() for field in Settings.model_fields} - named) == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("| a | `shared/keys.py` (`DAY_S`, `TaskKeys.all`) | `shared/work/`, `entry.py`: `entry` |", []),
        ("| a | `services/router/domain/rules.py` | the folder above: `services/router/` |", []),
        ("A message goes on\n(`shared/keys.py`), and `DAY_S`.", []),
        ("- `shared/store/*.lua`: `lease`, `PENTAD_SHARDS`, `task_end`, `make check`", []),
        ("    drawn: `shared/gone.py`", []),
        ("- a list\n  - in one\n    that goes on: `shared/gone.py`", ["shared/gone.py"]),
        ("- `shared/keys.py`\n- `DAY_S`", ["DAY_S"]),
        ("| a | `shared/gone.py` | |", ["shared/gone.py"]),
        ("| a | [why](docs/decisions/0000-gone.md) | |", ["docs/decisions/0000-gone.md"]),
        ("| a | `keys.py` | |", ["keys.py"]),
        ("| a | `shared/keys.py` | `entry.py` |", ["entry.py"]),
        ("| a | `services/router/domain/rules.py` | `routing.py` |", ["routing.py"]),
        ("| a | `shared/work/entry.py` (`DAY_S`) | |", ["DAY_S"]),
        ("| a | `shared/keys.py` (`TaskKeys.none`) | |", ["TaskKeys.none"]),
        ("| a | `shared/store/take.lua` (`release`) | |", ["release"]),
        ("The one (`shared/keys.py`).\n\nThe next: `DAY_S`.", ["DAY_S"]),
    ],
)
def test_a_planted_error_of_the_page_is_noticed(text: str, wrong: list[str], tmp_path: Path) -> None:
    for path, content in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content)
    breaches = [breach for passage in passages(text, tmp_path) for breach in passage.breaches()]
    assert [breach.split(": ")[1] for breach in breaches] == wrong
