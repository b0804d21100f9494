"""ARCHITECTURE.md is short, every room has a README, and neither leads to what is not there."""

from pathlib import Path

import pytest

from tests.architecture.page import pages, passages
from tests.architecture.source import ROOT, modules

MOST_BYTES = 12_000
"""Of ARCHITECTURE.md, which a newcomer reads at one sitting."""
FEW_MODULES = 3
"""A folder of so few modules is described by the README above it."""

FILES = {
    "shared/keys.py": "",
    "shared/work/entry.py": "",
    "services/router/routing.py": "",
    "services/router/domain/rules.py": "",
    "services/router/domain/routing.py": "",
    "shared/store/take.lua": "",
}


@pytest.mark.parametrize("page", pages())
def test_what_a_page_names_is_there(page: str) -> None:
    assert [dead for passage in passages(page) for dead in passage.dead_paths()] == []


def test_architecture_is_read_at_one_sitting() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_bytes()) <= MOST_BYTES


def test_every_room_has_a_page() -> None:
    """A folder with several modules has a README, or one of the two folders above it has."""
    folders: dict[Path, int] = {}
    for module in modules():
        folder = (ROOT / module.path).parent
        folders[folder] = folders.get(folder, 0) + 1
    rooms = [folder for folder, count in folders.items() if count > FEW_MODULES and folder != ROOT]
    assert [
        room for room in rooms if not any((near / "README.md").exists() for near in (room, *room.parents[:2]))
    ] == []


@pytest.mark.parametrize(
    ("text", "dead"),
    [
        ("| a | `shared/keys.py` | `shared/work/`, `entry.py` |", []),
        ("| a | `services/router/domain/rules.py` | the folder above: `services/router/` |", []),
        ("| a | `work/entry.py`, `keys.py` | from the page's own folder |", []),
        ("- `shared/store/*.lua`: `n/a`, `make check`, https://example.org/gone.py", []),
        ("    drawn: `shared/gone.py`", []),
        ("```\ndrawn: `shared/gone.py`\n```\nand `keys.py`", []),
        ("- a list\n  - in one\n    that goes on: `shared/gone.py`", ["shared/gone.py"]),
        ("| a | `shared/gone.py` | |", ["shared/gone.py"]),
        ("| a | [why](../docs/decisions/0000-gone.md) | |", ["../docs/decisions/0000-gone.md"]),
        ("| a | `entry.py` | |", ["entry.py"]),
        ("| a | `shared/keys.py` | `entry.py` |", ["entry.py"]),
        ("| a | `services/router/domain/rules.py` | `routing.py` |", ["routing.py"]),
        ("| a | `shared/*.lua` | |", ["shared/*.lua"]),
    ],
)
def test_a_planted_dead_path_is_noticed(text: str, dead: list[str], tmp_path: Path) -> None:
    for path, content in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content)
    (tmp_path / "shared/README.md").write_text(text)
    found = [dead for passage in passages("shared/README.md", tmp_path) for dead in passage.dead_paths()]
    assert [each.split(": ")[1] for each in found] == dead
