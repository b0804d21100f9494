"""The golden examples: one JSON file or more for each version of what travels or is kept.

``contracts/examples/TYPE/vN/NAME.json`` is the wire form, laid out for reading. ``NAME.input.json`` is another way to
say the same: a reader takes both for the same value.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pentad.contracts.asyncapi import carried, type_name
from pentad.contracts.envelope import Contract
from pentad.contracts.records import TaskRecord

FOLDER = Path(__file__).parents[3] / "contracts" / "examples"
CONTRACTS: dict[str, type[Contract]] = {type_name(contract): contract for contract in carried()}
"""Every contract that needs an example, by the name of its folder."""
CONTRACTS[type_name(TaskRecord)] = TaskRecord


@dataclass(frozen=True)
class Example:
    """A file under contracts/examples."""

    path: Path

    @property
    def kind(self) -> str:
        return self.path.parts[-3]

    @property
    def version(self) -> int:
        return int(self.path.parts[-2].removeprefix("v"))

    @property
    def name(self) -> str:
        return self.path.name.partition(".")[0]

    @property
    def is_input(self) -> bool:
        """Whether it is another way to say what the file without ``.input`` says."""
        return self.path.name.endswith(".input.json")

    @property
    def contract(self) -> type[Contract]:
        return CONTRACTS[self.kind]

    def read(self) -> Any:
        return json.loads(self.path.read_text())

    def __str__(self) -> str:
        return str(self.path.relative_to(FOLDER))


def examples() -> list[Example]:
    """All of them, in a stable order."""
    return [Example(path) for path in sorted(FOLDER.rglob("*")) if path.is_file()]


def compact(value: Any) -> bytes:
    """JSON as it travels: no blanks, text as UTF-8."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
