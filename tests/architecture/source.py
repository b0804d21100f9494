"""The tree as rules see it: each module's name, text and syntax. Nothing is imported."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("contracts", "shared", "services", "pentad")
"""Folders of the product. The first three are imported through links in the last (docs/decisions/0011)."""


@dataclass(frozen=True)
class Module:
    """A Python file of the product, by its path from the root of the tree."""

    path: str
    text: str

    @property
    def name(self) -> str:
        """The one name that it is imported by; a package is named as its folder."""
        name = self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        return name if name.partition(".")[0] == "pentad" else f"pentad.{name}"

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    def at(self, node: ast.AST, complaint: str) -> str:
        """A breach, in the form that editors open."""
        return f"{self.path}:{getattr(node, 'lineno', 1)}: {complaint}"

    def imports(self) -> Iterator[tuple[ast.AST, str]]:
        """Every module that is imported anywhere in the file, lazily or for type checkers only as well."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from ((node, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield node, "." * node.level + (node.module or "")

    def words(self) -> Iterator[tuple[ast.Constant, str]]:
        """Every string and bytes literal, f-strings' parts too, but no docstring."""
        ignored = {id(node) for node in self._docstrings()}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Constant) and id(node) not in ignored:
                if isinstance(node.value, str):
                    yield node, node.value
                elif isinstance(node.value, bytes):
                    yield node, node.value.decode("latin-1")

    def _docstrings(self) -> Iterator[ast.expr]:
        """Texts that stand alone: they are for readers."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                yield node.value


@cache
def modules(root: Path = ROOT) -> Sequence[Module]:
    """The Python files of the four packages under ``root``. They are read and parsed once in a process."""
    return [Module(path.relative_to(root).as_posix(), path.read_text()) for path in _files(root, "*.py")]


def scripts(root: Path = ROOT) -> dict[str, str]:
    """Path to text, without comments, of the scripts that Redis runs."""
    return {path.relative_to(root).as_posix(): _uncommented(path.read_text()) for path in _files(root, "*.lua")}


def _files(root: Path, pattern: str) -> list[Path]:
    return sorted(path for package in PACKAGES for path in (root / package).rglob(pattern))


def _uncommented(lua: str) -> str:
    return "\n".join(line.partition("--")[0] for line in lua.splitlines())
