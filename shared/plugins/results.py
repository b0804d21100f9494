"""Turns the return value of a tool into the text that the model reads."""

from typing import Any

from pydantic_core import to_json

from pentad.shared.data_urls import data_url
from pentad.shared.plugins.errors import UnusableResult

_MAX_DEPTH = 32
"""Levels of lists and dicts in which bytes are looked for."""


def result_text(tool: str, value: Any) -> str:
    """Return a text as it is, nothing for None, and anything else as JSON (models, dataclasses, dates and the like).

    Bytes are the text that they are in UTF-8, else a data URL. Raises ``UnusableResult``, which names ``tool``, when
    the value cannot become JSON.
    """
    if value is None:
        return ""
    if isinstance(value, bytes | bytearray | memoryview):
        return _of_bytes(bytes(value))
    return clean(str.__str__(value)) if isinstance(value, str) else _json(tool, value)


def clean(text: str) -> str:
    """Return ``text`` with the characters that UTF-8 cannot carry (lone surrogates) replaced by question marks."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def _of_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return data_url(value)


def _json(tool: str, value: Any) -> str:
    try:
        return to_json(_readable(value, _MAX_DEPTH), inf_nan_mode="strings").decode()
    except Exception as error:  # a serialiser of the user's may raise anything
        raise UnusableResult(
            f"tool {tool!r} returned a {type(value).__name__} that cannot become JSON ({error}): "
            "return text, bytes, numbers, lists, dicts, dataclasses or pydantic models"
        ) from error


def _readable(value: Any, deeper: int) -> Any:
    """Return a value with the bytes in its lists and dicts as text; the value itself when it has none."""
    if isinstance(value, bytes | bytearray | memoryview):
        return _of_bytes(bytes(value))
    if not deeper or not isinstance(value, dict | list | tuple):
        return value
    if isinstance(value, dict):
        made = {name: _readable(each, deeper - 1) for name, each in value.items()}
        return made if any(made[name] is not each for name, each in value.items()) else value
    listed = [_readable(each, deeper - 1) for each in value]
    return listed if any(new is not old for new, old in zip(listed, value, strict=True)) else value
