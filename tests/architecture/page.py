"""ARCHITECTURE.md and the README of each room, as a reader follows them: which files they name."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.architecture.source import ROOT

_CODE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\]\(([^)#]+)[^)]*\)")
_PATH = re.compile(r"[\w.*-]+(?:/[\w.*-]+)*/?")
_ENDS = (".py", ".lua", ".md", ".json", ".yml", ".yaml", ".toml", "Dockerfile", "Makefile")


@dataclass(frozen=True)
class Passage:
    """A row of a table, or a paragraph, of a page.

    A file is named from the top of the repository or from the page's folder, or alone beside another of its folder.
    """

    page: str
    line: int
    text: str
    root: Path = ROOT

    @cached_property
    def _paths(self) -> tuple[str, ...]:
        words = (word for word in _CODE.findall(self.text) if _PATH.fullmatch(word))
        return tuple(word for word in words if word.endswith(_ENDS) or self._starts_in_a_folder(word))

    def _starts_in_a_folder(self, word: str) -> bool:
        """Whether a word with a slash is a path: `n/a` and `GET/POST` are none."""
        first, slash, _ = word.partition("/")
        return bool(slash) and any((folder / first).is_dir() for folder in (self.root, self._home))

    @cached_property
    def _home(self) -> Path:
        return (self.root / self.page).parent

    @cached_property
    def _folders(self) -> tuple[Path, ...]:
        """The page's folder, those of the files that this passage names in full, and the ones above those."""
        whole = [path for name in self._paths if "/" in name for path in self._in_full(name)]
        near = [path if path.is_dir() else path.parent for path in whole]
        return tuple(dict.fromkeys([self._home, *near, *(path.parent for path in near if path.parent != self.root)]))

    def _in_full(self, name: str) -> Iterator[Path]:
        return (path for path in (self.root / name, self._home / name) if path.exists())

    def _dead_links(self) -> Iterator[str]:
        links = (link for link in _LINK.findall(self.text) if "://" not in link)
        return (link for link in links if not (self._home / link).exists())

    def dead_paths(self) -> Iterator[str]:
        """Links and files that do not exist, or that could be several."""
        for link in self._dead_links():
            yield f"{self.page}:{self.line}: {link}: the link leads nowhere"
        for name in self._paths:
            found = next(self._in_full(name), None)
            if found is not None:
                continue
            matches = {path for folder in (self.root, *self._folders) for path in folder.glob(name)}
            if not matches or (len(matches) > 1 and "*" not in name):
                yield f"{self.page}:{self.line}: {name}: {len(matches)} files are called so"


def passages(page: str, root: Path = ROOT) -> list[Passage]:
    """The rows and paragraphs of a page, without what is drawn. ``page``: its path from the top of the repository."""
    found, begin, drawn = [], 0, False
    lines = (root / page).read_text().splitlines()
    for number, line in enumerate([*lines, ""], start=1):
        if begin and (line.startswith(("|", "- ", "```")) or not line.strip()):
            found.append(Passage(page, begin, "\n".join(lines[begin - 1 : number - 1]), root))
            begin = 0
        if line.startswith("```"):
            drawn = not drawn
        elif drawn:
            continue
        elif line.startswith("|"):
            found.append(Passage(page, number, line, root))
        elif not begin and line.strip() and not line.startswith("    "):
            begin = number
    return found


def pages(root: Path = ROOT) -> list[str]:
    """ARCHITECTURE.md, CONTRIBUTING.md and the README of each room."""
    rooms = [
        path
        for top in ("contracts", "pentad", "services", "shared", "tests")
        for path in root.glob(f"{top}/**/README.md")
    ]
    return ["ARCHITECTURE.md", "CONTRIBUTING.md", *sorted(path.relative_to(root).as_posix() for path in rooms)]
