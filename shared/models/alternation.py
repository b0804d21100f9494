"""User messages in a row as one, for models whose chat template takes turns only. Pure.

Templates of Mistral's and Gemma's kind raise "roles must alternate", and their servers (llama.cpp's, vLLM) refuse the
request. A prompt has user messages in a row: what is recalled, and what the user adds while a task works.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pydantic_core import from_json, to_json

_MUST = re.compile(r"roles must alternate", re.I)
_USER = b'{"role":"user"'


def wants_alternation(refusal: str) -> bool:
    """Whether a server's words say that its model takes no two messages of a role in a row."""
    return bool(_MUST.search(refusal))


def alternating(messages: Sequence[bytes]) -> list[bytes]:
    """The messages, ready JSON, with those of the user that stand in a row joined to one."""
    joined: list[bytes] = []
    row: list[bytes] = []
    for line in messages:
        if line.startswith(_USER):
            row.append(line)
            continue
        joined += [*_as_one(row), line]
        row.clear()
    return joined + _as_one(row)


def _as_one(row: list[bytes]) -> list[bytes]:
    if len(row) < 2:
        return list(row)
    said = [from_json(line)["content"] for line in row]
    return [to_json({"role": "user", "content": "\n\n".join(said)})]
