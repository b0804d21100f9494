"""What the benches share: rows of the table, CPU of processes, quantiles."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Row:
    """One figure beside its floor and its promise."""

    name: str
    value: str
    floor: str = ""
    promise: str = ""
    kept: bool | None = None

    def cells(self) -> tuple[str, str, str, str, str]:
        """As the table shows it."""
        verdict = "" if self.kept is None else ("yes" if self.kept else "NO")
        return self.name, self.value, self.floor, self.promise, verdict


def table(rows: Sequence[Row]) -> str:
    """Rows under a heading, in columns."""
    cells = [("figure", "here", "floor, same run", "promise", "kept"), *(r.cells() for r in rows)]
    widths = [max(len(c[n]) for c in cells) for n in range(5)]
    return "\n".join("  ".join(c[n].ljust(widths[n]) for n in range(5)).rstrip() for c in cells)


def quantile(values: Sequence[float], q: float) -> float:
    """The value below which a share ``q`` lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


class Cpu:
    """CPU that some processes spend between two moments."""

    def __init__(self, pids: dict[str, list[int]]) -> None:
        self._pids = pids
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
