"""Values of a message's metadata as a system prompt has them: the newest of each name, bounded and quoted. Pure.

Whoever writes the metadata must not become an author of the prompt: a value stays within its quotation marks.
"""

from collections.abc import Iterable, Mapping

from pydantic_core import to_json

MAX_VARIABLE_CHARS = 1_000
"""Characters of a value of metadata that stand in a prompt."""
NOT_GIVEN = "(not given)"
"""Text that stands in a prompt for a value that the metadata does not have."""
_ESCAPED = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>`\x7f\x85\u2028\u2029"}
"""Signs that could end a line, or what a prompt puts around a value, beside those that JSON escapes."""


def bounded_variables(names: Iterable[str], metadata: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the values of these names, from metadata of which later ones go before earlier ones.

    Values are cut to `MAX_VARIABLE_CHARS`: they are sent to the model in each step, and kept with it.
    """
    newest: dict[str, str] = {}
    for each in metadata:
        newest |= each
    found = {name: newest[name] for name in sorted(names) if name in newest}
    return {name: value if len(value) <= MAX_VARIABLE_CHARS else _cut(value) for name, value in found.items()}


def _cut(value: str) -> str:
    return value[: MAX_VARIABLE_CHARS - 1] + "…"


def quoted(value: str | None) -> str:
    """Return a value of metadata as it stands in a prompt: a JSON text in one line, in which no tag and no quotation
    mark can end; ``(not given)`` for none.
    """
    return NOT_GIVEN if value is None else to_json(value).decode().translate(_ESCAPED)
