"""The Lua scripts of `shared/store/scripts`, each with what it needs of their common library `_lib.lua`."""

import hashlib
import re
from collections.abc import Mapping
from importlib import resources

_LIBRARY = "_lib"
_NAMES = re.compile(r"^local (?:function )?(\w+)", re.MULTILINE)
_COMMENT = re.compile(r"--.*")


class Script:
    """A Lua script, known to the server by its digest."""

    def __init__(self, name: str, body: str) -> None:
        self.name = name
        self.body = body
        self.digest = hashlib.sha1(body.encode(), usedforsecurity=False).hexdigest()


def read_scripts() -> dict[str, Script]:
    """All of them, by their names."""
    return linked(script_files())


def script_files() -> dict[str, str]:
    """The text of each file, by its name without ``.lua``."""
    folder = resources.files("pentad.shared.store") / "scripts"
    return {f.name.removesuffix(".lua"): f.read_text() for f in folder.iterdir() if f.name.endswith(".lua")}


def linked(files: Mapping[str, str]) -> dict[str, Script]:
    """The scripts of these files, each behind the parts of the library that it uses.

    A part is what stands between two empty lines. The server makes every function of a script anew for each run.
    """
    parts = files[_LIBRARY].strip().split("\n\n")
    return {name: Script(name, _link(parts, body)) for name, body in files.items() if name != _LIBRARY}


def _link(parts: list[str], body: str) -> str:
    for part in reversed(parts):
        used = set(re.findall(r"\w+", _COMMENT.sub("", body)))
        if used.intersection(_NAMES.findall(part)):
            body = f"{part}\n\n{body}"
    return body
