"""The quotation of memories for a prompt: which hits are quoted, in how many tokens, and its text. Pure."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from pentad.contracts.ids import rfc3339
from pentad.contracts.quotes import Quote, RelatedTask, quotation, quote_line
from pentad.shared.digests.wording import WIDE
from pentad.shared.memory.ranking import MemoryHit
from pentad.shared.recall.relevance import about

MOST_QUOTES = 12
_MOST_TASKS = 5
"""Number of related tasks that are named, those of the best quotes."""


def hits_about(question: str, hits: Sequence[MemoryHit], known: Sequence[str], task: str) -> Sequence[MemoryHit]:
    """Return the hits that are about the question and say something new. ``hits``: best first."""
    fresh = list(new_hits(hits, known, task))
    places = about(question, [hit.payload.text for hit in fresh], [hit.score for hit in fresh])
    return [fresh[place] for place in places]


def new_hits(hits: Sequence[MemoryHit], known: Sequence[str], task: str) -> Iterator[MemoryHit]:
    """Yield hits that say something new, the same words once. ``known``: what the prompt of ``task`` says."""
    read = [_plain(text) for text in known]
    seen: set[str] = set()
    for hit in hits:
        words = _plain(hit.payload.text)
        if hit.payload.task != task and words not in seen and not any(words in text for text in read):
            seen.add(words)
            yield hit


def quotation_of(hits: Sequence[MemoryHit], tokens: int) -> tuple[str, tuple[str, ...]]:
    """Return a quotation of about this many tokens and the anchors that it names; '' when no hit fits."""
    left = tokens - tokens_in(quotation([]))

    def lines(hit: MemoryHit) -> str:
        """The line of a hit and that of its task; the longest number that the hit can get counts."""
        return "\n".join(map(quote_line, (_quote(hit, len(hits)), *related_tasks([hit]))))

    chosen = fitting(hits, lines, left)[:MOST_QUOTES]
    if not chosen:
        return "", ()
    return quotation(numbered(chosen)), tuple(hit.payload.anchor for hit in chosen)


def numbered(hits: Sequence[MemoryHit]) -> list[str]:
    """Return the lines of a quotation: the hits, then their tasks."""
    quotes = [quote_line(_quote(hit, number)) for number, hit in enumerate(hits, start=1)]
    return [*quotes, *map(quote_line, related_tasks(hits))]


def related_tasks(hits: Sequence[MemoryHit]) -> list[RelatedTask]:
    """Return the tasks that are quoted, that of the best quote first. ``hits``: in the order of their numbers."""
    numbers: dict[str, list[int]] = {}
    for number, hit in enumerate(hits, start=1):
        numbers.setdefault(hit.payload.task, []).append(number)
    newest = {name: max(hits[number - 1].payload.at for number in named) for name, named in numbers.items()}
    return [
        RelatedTask(task=name, at=_time(newest[name]), quotes=named)
        for name, named in list(numbers.items())[:_MOST_TASKS]
    ]


def _quote(hit: MemoryHit, number: int) -> Quote:
    kept = hit.payload
    return Quote(quote=number, type=kept.type, at=_time(kept.at), text=kept.text, anchor=kept.anchor)


def _time(at: int) -> str:
    return rfc3339(at) if at else ""


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


_WIDE_CHAR = re.compile(rf"[{WIDE}]")
_CHARS_PER_TOKEN = 3
"""Characters of a token in scripts other than Chinese and Japanese; the models that we know of need fewer tokens."""


H = TypeVar("H")


def tokens_in(text: str) -> int:
    """Estimate the tokens of a text, rather too many than too few; a Chinese character counts as one."""
    wide = len(_WIDE_CHAR.findall(text))
    return wide + -(-(len(text.encode("utf-8", "replace")) - 3 * wide) // _CHARS_PER_TOKEN)


def fitting(memories: Iterable[H], text_of: Callable[[H], str], tokens: int) -> list[H]:
    """Return the memories whose texts fit into so many tokens, in order; one that is too long is skipped."""
    chosen: list[H] = []
    for memory in memories:
        need = tokens_in(text_of(memory))
        if need <= tokens:
            chosen.append(memory)
            tokens -= need
    return chosen
