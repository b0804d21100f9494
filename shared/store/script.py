"""The Lua scripts of `shared/store/scripts`, each with what it needs of their common library `_lib.lua`."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources

_LIBRARY = "_lib"
_NAMES = re.compile(r"^local (?:function )?(\w+)", re.MULTILINE)
_WORD = re.compile(r"\w+")
_COMMENT = re.compile(r"--.*")


class Script:
    """A Lua script, known to the server by its digest."""

    def __init__(self, name: str, body: str) -> None:
        self.name = name
        self.body = body
        self.digest = hashlib.sha1(body.encode(), usedforsecurity=False).hexdigest()


@cache
def read_scripts() -> Mapping[str, Script]:
    """Return all scripts by their names. They are read and linked once in a process: it takes 70 ms."""
    return linked(script_files())


def script_files() -> dict[str, str]:
    """The text of each file, by its name without ``.lua``."""
    folder = resources.files("pentad.shared.store") / "scripts"
    return {f.name.removesuffix(".lua"): f.read_text() for f in folder.iterdir() if f.name.endswith(".lua")}


def linked(files: Mapping[str, str]) -> dict[str, Script]:
    """The scripts of these files, each behind the parts of the library that it uses.

    A part is what stands between two empty lines. The server makes every function of a script anew for each run.
    """
    parts = [(part, set(_NAMES.findall(part)), _words(part)) for part in files[_LIBRARY].strip().split("\n\n")]
    return {name: Script(name, _link(parts, body)) for name, body in files.items() if name != _LIBRARY}


def _link(parts: Sequence[tuple[str, set[str], set[str]]], body: str) -> str:
    """Return a script behind its parts of the library: each has its text, the names that it defines, and its words."""
    used = _words(body)
    for part, names, words in reversed(parts):
        if used & names:
            body = f"{part}\n\n{body}"
            used = used | words
    return body


def _words(text: str) -> set[str]:
    return set(_WORD.findall(_COMMENT.sub("", text)))
