"""What the tools of a chaos run wrote down themselves: their starts and their ends."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Line:
    """One start or end of a call."""

    word: str
    call: str
    at: float
    """By the monotonic clock, which is the same in all processes of a machine."""
    task: int
    seconds: float
    """How long a run takes that nothing disturbs."""


class Ledger:
    """A file that every tool appends to."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self, after: int = 0) -> list[Line]:
        """What is written behind so many lines."""
        rows = (row.split() for row in self.path.read_text().splitlines()[after:])
        return [
            Line(word, call, float(at), int(tag.split(".")[0]), int(ms) / 1000) for word, call, _, at, tag, ms in rows
        ]

    def running(self, after: int) -> set[str]:
        """The calls that have started behind so many lines, and not ended."""
        counts: Counter[str] = Counter()
        for line in self.lines(after):
            counts[line.call] += 1 if line.word == "start" else -1
        return set(+counts)

    def starts(self) -> dict[str, list[float]]:
        """When each call was started."""
        starts: dict[str, list[float]] = defaultdict(list)
        for line in self.lines():
            if line.word == "start":
                starts[line.call].append(line.at)
        return starts

    def at_work(self, deaths: Sequence[float]) -> dict[int, list[tuple[float, float]]]:
        """By task: from when to when a tool ran. ``deaths``: when processes were disturbed, which may have ended it."""
        spans: dict[int, list[tuple[float, float]]] = defaultdict(list)
        by_call: dict[str, list[Line]] = defaultdict(list)
        for line in self.lines():
            by_call[line.call].append(line)
        for lines in by_call.values():
            for line, following in zip_longest(lines, lines[1:]):
                if line.word == "start":
                    spans[line.task].append((line.at, _until(line, following, deaths)))
        return spans


def _until(start: Line, following: Line | None, deaths: Sequence[float]) -> float:
    """When a run was over: as it says, or at the latest when it would have been."""
    if following is not None and following.word == "end":
        return following.at
    return min([start.at + start.seconds, *(at for at in deaths if at >= start.at)])
