"""What a tool returned, as the text that the model reads."""

from typing import Any

from pydantic_core import to_json

from pentad.shared.plugins.errors import UnusableResult


def result_text(tool: str, value: Any) -> str:
    """Text as it is, anything else as JSON (models, dataclasses, dates and the like included).

    Raises ``UnusableResult``, which names ``tool``, when the value cannot become JSON.
    """
    return clean(str.__str__(value)) if isinstance(value, str) else _json(tool, value)


def clean(text: str) -> str:
    """``text`` with what UTF-8 cannot carry (lone surrogates) replaced by question marks."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def _json(tool: str, value: Any) -> str:
    try:
        return to_json(value, inf_nan_mode="strings").decode()
    except Exception as error:  # a serialiser of the user's may raise anything
        raise UnusableResult(
            f"tool {tool!r} returned a {type(value).__name__} that cannot become JSON ({error}): "
            "return text, numbers, lists, dicts, dataclasses or pydantic models"
        ) from error
