"""ARCHITECTURE.md as a reader follows it: which files it names, and which names of code beside them."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pentad.shared.settings import Settings
from tests.architecture.names import TYPES
from tests.architecture.source import ROOT

_CODE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\]\(([^)#]+)[^)]*\)")
_PATH = re.compile(r"[\w.*-]+(?:/[\w.*-]+)*/?")
_ENDS = (".py", ".lua", ".md", ".json", ".yml", ".yaml", ".toml", "Dockerfile", "Makefile")
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?")
_HOME_IS_KNOWN = TYPES | {field.upper() for field in Settings.model_fields}
"""Types of events and settings are each spelled in one file, which laws name."""


@dataclass(frozen=True)
class Passage:
    """A row of a table, or a paragraph. A file is named in full, or alone where another of its folder is."""

    line: int
    text: str
    root: Path = ROOT

    @cached_property
    def words(self) -> tuple[str, ...]:
        """What stands in code font."""
        return tuple(_CODE.findall(self.text))

    @cached_property
    def paths(self) -> tuple[str, ...]:
        links = tuple(_LINK.findall(self.text))
        words = tuple(word for word in self.words if _PATH.fullmatch(word) and ("/" in word or word.endswith(_ENDS)))
        return words + links

    @cached_property
    def folders(self) -> tuple[Path, ...]:
        """Those of the files that are named in full, and the ones above."""
        whole = [self.root / path for path in self.paths if "/" in path and (self.root / path).exists()]
        near = [path if path.is_dir() else path.parent for path in whole]
        return tuple(dict.fromkeys([*near, *(path.parent for path in near if path.parent != self.root)]))

    def found(self, path: str) -> list[Path]:
        """What a path means here: one file or folder, or the files of a pattern; none or several are a breach."""
        if (self.root / path).exists():
            return [self.root / path]
        folders = (self.root, *self.folders) if "/" in path else self.folders
        return sorted({file for folder in folders for file in folder.glob(path)})

    @cached_property
    def files(self) -> tuple[Path, ...]:
        """All that are named, without folders."""
        return tuple(file for path in self.paths for file in self.found(path) if file.is_file())

    def breaches(self) -> Iterator[str]:
        """Files that are not there, or could be several; names that none of the files has."""
        for path in self.paths:
            found = self.found(path)
            if not found or (len(found) > 1 and "*" not in path):
                yield f"ARCHITECTURE.md:{self.line}: {path}: {len(found)} files are called so"
        known = set[str]().union(*map(_names, self.files))
        for word in self.words:
            named = _NAME.fullmatch(word) and word not in self.paths and word not in _HOME_IS_KNOWN
            if named and not known.issuperset(word.split(".")):
                yield f"ARCHITECTURE.md:{self.line}: {word}: in none of the files beside it"


def passages(page: str, root: Path = ROOT) -> list[Passage]:
    """The page's rows and paragraphs, without what is drawn."""
    found, begin, lines = [], 0, page.splitlines()
    for number, line in enumerate([*lines, ""], start=1):
        if begin and (line.startswith(("|", "- ")) or not line.strip()):
            found.append(Passage(begin, "\n".join(lines[begin - 1 : number - 1]), root))
            begin = 0
        if line.startswith("|"):
            found.append(Passage(number, line, root))
        elif not begin and line.strip() and not line.startswith("    "):
            begin = number
    return found


def _names(file: Path) -> set[str]:
    """What a file defines, and the words that it says as text."""
    text = file.read_text()
    if file.suffix != ".py":
        return set(re.findall(r"\w+", text))
    return set(_defined(ast.parse(text)))


def _defined(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            yield node.value
