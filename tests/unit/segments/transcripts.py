"""Transcripts as records have them, for the tests of segments and recall."""

from typing import Any

HOSTILE = [
    *("", " ", "\x00", "?" * 65_536, "." * 65_536, "a" * 65_536, "1" * 65_536, "好的" * 32_768, "好。" * 32_768),
    *("\ufdfa" * 65_536, "a\u0301" * 32_768, "a" + "\u0301" * 65_535, "مرحبا " * 10_000, "𝔘𝔫𝔦" * 20_000),
    *("👩‍👩‍👧‍👦" * 9_000, "🇩🇪🇫🇷" * 16_000, "👍🏽" * 32_000, "\ud800\udfff" * 32_000, "\udfff\ud800" * 32_000),
    *("\u202eabc\u202c " * 8_000, "\x1b[31m\x07\r\n" * 9_000, "\n" * 65_536, "A " * 32_768, "《" * 65_536),
    *("'" * 65_536, 'x."' * 21_000, " ".join(f"Word{n}" for n in range(9_000))),
]
"""Texts that nobody writes, up to a message's longest and beyond."""

AT = "2030-01-31T12:00:00.000Z"


def said(text: str, at: str = AT, **more: Any) -> dict[str, Any]:
    """A user's message."""
    return {"role": "user", "content": text, "at": at, "message_id": "m1", **more}


def answered(text: str | None, step: int = 1, **more: Any) -> dict[str, Any]:
    """A model's answer."""
    return {"role": "assistant", "content": text, "at": AT, "step": step, "attempt": 1, **more}


def calling(name: str, arguments: str) -> dict[str, Any]:
    """A tool call, as an answer has it."""
    return {"id": "call-0-1", "type": "function", "function": {"name": name, "arguments": arguments}}


def result(text: str, **more: Any) -> dict[str, Any]:
    """A tool's result."""
    return {"role": "tool", "content": text, "tool_call_id": "call-0-1", "at": AT, **more}


WEATHER = [
    {"role": "system", "content": "Be brief.", "at": AT},
    said("Which is hotter, Beijing or Shanghai?", user_id="ada"),
    answered("I look it up.", tool_calls=[calling("weather", '{"city":"Beijing"}'), calling("weather", "{}")]),
    result('{"celsius":31}'),
    answered("Shanghai is hotter.", step=2),
]
"""A task with every type of segment."""
