"""The table of settings in docs/configure.md and `.env.example`, made from the one place that spells them.

``python -m tests.support.documents.settings_table`` writes both anew.
"""

import ast
import inspect
import textwrap
from typing import Any, Literal, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from pentad.shared.settings import Settings
from tests.support.documents.manifests import ROOT

SETTINGS_PAGE = ROOT / "docs" / "configure.md"
EXAMPLE = ROOT / ".env.example"
_HEAD = """\
# Every setting of Pentad, with its default. Copy this file to `.env`, and uncomment the lines that you change.
# `pentad up`, `pentad.start()` and docker compose read `.env`; docs/configure.md has the same as a table.
"""
_COMPOSE = """\
# The passwords of the stores, which docker compose alone needs; docs/deploy.md says what they are made of.
#REDIS_PASSWORD=
#REDIS_TOOLS_PASSWORD=
#NEO4J_PASSWORD=
"""
_WIDTH = 118
BEGIN, END = "<!-- settings: made by python -m tests.support.documents.settings_table -->", "<!-- end of settings -->"


def table() -> str:
    """A row for each setting: its variable, what it may be, its default, what it means where that is written."""
    meanings = _meanings()
    rows = [
        f"| `{name.upper()}` | {_values(field)} | {_default(field)} | {meanings.get(name, '')} |"
        for name, field in Settings.model_fields.items()
    ]
    return "\n".join(["| variable | value | default | meaning |", "|---|---|---|---|", *rows])


def example() -> str:
    """A commented line for each setting, below what it means."""
    meanings = _meanings()
    parts = [_HEAD]
    for name, field in Settings.model_fields.items():
        about = " ".join(
            [meanings.get(name, "").replace("`", ""), f"({_values(field).replace(chr(92), '').replace('`', '')})"]
        )
        default = "" if field.default in (None, ()) else str(field.default)
        lines = textwrap.wrap(about.strip(), _WIDTH, initial_indent="# ", subsequent_indent="# ")
        parts.append("\n".join([*lines, f"#{name.upper()}={default}", ""]))
    return "\n".join([*parts, _COMPOSE])


def _meanings() -> dict[str, str]:
    """The texts written under the fields."""
    (declared,) = ast.parse(inspect.getsource(Settings)).body
    assert isinstance(declared, ast.ClassDef)
    found = {}
    for field, text in zip(declared.body, declared.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            found[ast.unparse(field.target)] = (
                inspect.cleandoc(str(text.value.value)).replace("``", "`").replace("\n", " ")
            )
    return found


def _values(field: FieldInfo) -> str:
    kind = _kind(field.annotation)
    bounds = {name: getattr(m, name) for m in field.metadata for name in ("ge", "gt", "le", "lt") if hasattr(m, name)}
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    return ", ".join([kind, *(f"{signs[name]} {value}" for name, value in bounds.items())])


def _kind(annotation: Any) -> str:
    options = [option for option in get_args(annotation) if option is not type(None)]
    if get_origin(annotation) is Literal:
        return " \\| ".join(f"`{option}`" for option in options)
    if get_origin(annotation) is tuple:
        return "names, separated by commas"
    plain = options[0] if options else annotation
    return {SecretStr: "secret", int: "whole number", float: "number"}.get(plain, "text")


def _default(field: FieldInfo) -> str:
    return "unset" if field.default in (None, ()) else f"`{field.default}`"


def written() -> str:
    """The table as docs/configure.md has it."""
    return _parts()[1].strip()


def _parts() -> tuple[str, str, str]:
    before, _, rest = SETTINGS_PAGE.read_text().partition(BEGIN)
    inside, _, after = rest.partition(END)
    return before, inside, after


def rewrite() -> None:
    """Puts today's settings into docs/configure.md and `.env.example`."""
    EXAMPLE.write_text(example())
    before, _, after = _parts()
    SETTINGS_PAGE.write_text(f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}")


if __name__ == "__main__":
    rewrite()
