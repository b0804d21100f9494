"""Which of the memories fit into a prompt."""

import re
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from pentad.shared.digests.wording import WIDE

_WIDE_CHAR = re.compile(rf"[{WIDE}]")
_CHARS_PER_TOKEN = 3
"""Of texts in other scripts than Chinese and Japanese; models that we know of need fewer tokens than that."""


class HasText(Protocol):
    """A memory that would be quoted."""

    @property
    def text(self) -> str: ...


H = TypeVar("H", bound=HasText)


def tokens_in(text: str) -> int:
    """About how many tokens a model reads a text as: rather more than fewer, a Chinese character as one."""
    wide = len(_WIDE_CHAR.findall(text))
    return wide + -(-(len(text.encode("utf-8", "replace")) - 3 * wide) // _CHARS_PER_TOKEN)


def fitting(memories: Iterable[H], tokens: int, each: int = 0) -> Sequence[H]:
    """The memories that fit into so many tokens, in their order: one that is too long makes room for shorter ones.

    ``each``: tokens that quoting costs beside the text.
    """
    chosen: list[H] = []
    for memory in memories:
        need = each + tokens_in(memory.text)
        if need <= tokens:
            chosen.append(memory)
            tokens -= need
    return chosen
