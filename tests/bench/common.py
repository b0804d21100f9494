"""What the benches share: rows of the table, CPU of processes, quantiles."""

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from redis.exceptions import ResponseError


@dataclass(frozen=True, slots=True)
class Row:
    """One figure beside its floor and its promise."""

    name: str
    value: str
    floor: str = ""
    promise: str = ""
    kept: bool | None = None
    """Whether the promise (a gate, not a goal) is kept; None where there is none."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """The figures behind the words, by name with their unit, for the JSON form."""

    def cells(self) -> tuple[str, str, str, str, str]:
        """As the table shows it."""
        verdict = "" if self.kept is None else ("yes" if self.kept else "NO")
        return self.name, self.value, self.floor, self.promise, verdict


@dataclass(frozen=True, slots=True)
class Effort:
    """How much a run may take: the whole, or the short form for CI."""

    short: bool = False

    def __call__(self, whole: int, short: int) -> int:
        """So many of something."""
        return short if self.short else whole


def table(rows: Sequence[Row]) -> str:
    """Rows under a heading, in columns."""
    cells = [("figure", "here", "floor, same run", "promise", "kept"), *(r.cells() for r in rows)]
    widths = [max(len(c[n]) for c in cells) for n in range(5)]
    return "\n".join("  ".join(c[n].ljust(widths[n]) for n in range(5)).rstrip() for c in cells)


def quantile(values: Sequence[float], q: float) -> float:
    """The value below which a share ``q`` lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def middle(values: Iterable[float]) -> float:
    """The median of repeated measurements: the machine is shared, and one of them may have been unlucky."""
    return median(list(values))


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and all its threads so far, to the nanosecond; 0 when it is gone."""
    try:
        return time.clock_gettime(~pid << 3 | 2)  # MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED)
    except OSError:
        return 0.0


def family(pid: int) -> list[int]:
    """A process and its descendants."""
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as stat:
                    parents.setdefault(int(stat.read().rsplit(")", 1)[1].split()[1]), []).append(int(name))
            except OSError:
                continue
    found = [pid]
    for member in found:
        found += parents.get(member, [])
    return found


class Cpu:
    """CPU that some processes spend between two moments. Their children count when they live from end to end."""

    def __init__(self, pids: Mapping[str, Sequence[int]]) -> None:
        self._pids = {name: [m for p in given for m in family(p)] for name, given in pids.items()}
        self._begun = self._now()
        self._at = time.perf_counter()

    def _now(self) -> dict[str, float]:
        return {name: sum(cpu_seconds(p) for p in pids) for name, pids in self._pids.items()}

    def spent(self) -> dict[str, float]:
        """Seconds by name since the start."""
        now = self._now()
        return {name: now[name] - self._begun[name] for name in now}

    def wall(self) -> float:
        """Seconds of wall time since the start."""
        return time.perf_counter() - self._at


async def make_group(redis: Any, stream: str, group: str) -> None:
    """The group of a floor, which uses nothing of ours; it may be there already."""
    with suppress(ResponseError):
        await redis.xgroup_create(stream, group, id="0", mkstream=True)
