"""The ledger of a chaos run, into which its tools write their starts and ends."""

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
    """Time by the monotonic clock, which is the same in all processes of a machine."""
    task: int
    seconds: float
    """Seconds that an undisturbed run takes."""
    tag: str
    """Name of the call in its plan, with the number of the task before the first point."""


class Ledger:
    """A file that every tool appends to."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self, after: int = 0) -> list[Line]:
        """Return the lines after the first ``after`` ones."""
        rows = (row.split() for row in self.path.read_text().splitlines()[after:])
        return [
            Line(word, call, float(at), int(tag.split(".")[0]), int(ms) / 1000, tag)
            for word, call, _, at, tag, ms in rows
        ]

    def running(self, after: int) -> set[str]:
        """Return the calls that started after the first ``after`` lines and have not ended."""
        counts: Counter[str] = Counter()
        for line in self.lines(after):
            counts[line.call] += 1 if line.word == "start" else -1
        return set(+counts)

    def starts(self) -> dict[str, list[float]]:
        """Return the start times of each call."""
        starts: dict[str, list[float]] = defaultdict(list)
        for line in self.lines():
            if line.word == "start":
                starts[line.call].append(line.at)
        return starts

    def at_work(self, deaths: Sequence[float]) -> dict[int, list[tuple[float, float]]]:
        """Return the times at which tools ran, by task. ``deaths``: times of faults, which may have ended a run."""
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
    """Return the end of a run: as the ledger says, or the latest possible one."""
    if following is not None and following.word == "end":
        return following.at
    return min([start.at + start.seconds, *(at for at in deaths if at >= start.at)])
