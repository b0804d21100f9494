"""A hook for tests of the console: it asks the model to be polite where a person has asked for that."""

from typing import Any

from pentad import hook


@hook("before_model")
def polite(messages: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    """Put a message behind the system message of such a prompt."""
    if "politely" not in str(messages[-1]["content"]):
        return None
    return [messages[0], {"role": "system", "content": "Be polite."}, *messages[1:]]
