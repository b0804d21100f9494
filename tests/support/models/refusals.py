"""How model servers refuse a request, ask to be left alone, or find a prompt too long: `refusals.json` has their words.

Each text is what its server says, with other names and numbers in it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest

_TOLD: dict[str, list[dict[str, Any]]] = json.loads((Path(__file__).parent / "refusals.json").read_text())
Subject = Literal["fields", "no_tools", "too_long", "delays", "used_up", "texts", "learned"]
NOW = 1_700_000_000.0
"""When the delays are asked for, in seconds since the epoch."""
FIELDS = {
    "model": b'"m"',
    "stream": b"true",
    "stream_options": b"{}",
    "logprobs": b"true",
    "max_tokens": b"9000",
    "parallel_tool_calls": b"false",
    "reasoning_effort": b'"high"',
    "response_format": b'{"type":"json_schema"}',
    "seed": b"1",
    "service_tier": b'"x"',
    "stop": b'["x"]',
    "temperature": b"0.2",
    "top_p": b"1",
    "user": b'"u"',
    "tools": b"[]",
    "tool_choice": b'"none"',
    "messages": b"[]",
}
"""Those of the request that is refused."""


def told(subject: Subject) -> list[Any]:
    """The parameters of a test: whatever servers say of a subject, each named by who says it."""
    return [pytest.param(row, id=f"{number}-{row['who']}") for number, row in enumerate(_TOLD[subject])]
