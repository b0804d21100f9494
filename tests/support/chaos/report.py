"""The figures of a chaos run."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tests.support.chaos.facts import FactCount
from tests.support.chaos.outside import OutsideCount

Span = tuple[float, float]
_SHOWN = 5
_NOTHING_DUE = frozenset({"task_end", "task_status waiting", "task_status stale", "message_moved"})
_WAKE_S = 3.0
"""Seconds after a fault in which its effects are looked for."""


@dataclass(frozen=True, slots=True)
class Silence:
    """A time without events, and the events around it."""

    seconds: float
    where: str


def _seconds(silence: Silence) -> float:
    return silence.seconds


@dataclass
class Report:
    """The report of a run, which the test prints; the test fails on any fault."""

    tasks: int = 0
    ended: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    stops: Counter[str] = field(default_factory=Counter)
    failovers: Counter[str] = field(default_factory=Counter)
    full_disks: Counter[str] = field(default_factory=Counter)
    clock_steps: Counter[str] = field(default_factory=Counter)
    """Number of clock steps by host and direction."""
    by_clients: bool = False
    """Whether all times are those of clients, because the clock of the events' times has stepped."""
    prompts: int = 0
    reconnects: int = 0
    started_over: int = 0
    sent_again: int = 0
    never_had: set[str] = field(default_factory=set)
    """Accepted messages that a new primary lacked because no replica had a copy; they were sent again."""
    calls: int = 0
    reruns: int = 0
    unknown: int = 0
    brought_down: int = 0
    given_up: int = 0
    """Number of calls of messages that were moved to another task."""
    asked_where: int = 0
    """Number of times that a model was asked to route a message."""
    put_right: int = 0
    """Number of messages that were routed to a wrong task and moved."""
    moved: int = 0
    """Number of all moves."""
    paused: int = 0
    questions: int = 0
    unknown_starts: int = 0
    """Number of unsafe calls that ran again because a new primary lacked their start."""
    undecided: int = 0
    """Number of allowed calls that were made, and of whose decision a new primary knew nothing."""
    woken_anew: int = 0
    """Number of actors whose lost wake-up was sent again."""
    silences: list[Silence] = field(default_factory=list)
    """Each task's longest time without a durable event while it was unfinished and no model or tool was at work."""
    unseen: list[Silence] = field(default_factory=list)
    """Longest times without an event as clients saw them, who may be connected to a hanging gateway."""
    stalls: list[Span] = field(default_factory=list)
    """Spans in which the machine ran no process, which are left out of the silences."""
    recoveries: dict[str, list[float]] = field(default_factory=dict)
    """Seconds until the next durable event of any task, by kind of fault."""
    facts: FactCount | None = None
    """Figures about the stated facts; None if they were not checked."""
    outside: OutsideCount | None = None
    """Figures about webhooks and schedules; None if there were none."""
    settled_s: float = 0.0
    """Seconds after the run until the memory had done its work and all facts were searched."""
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """The figures, a line each."""
        return [
            f"tasks {self.ended} of {self.tasks} ended, {self.seconds:.0f} s, one fault at a time",
            f"kills {_counted(self.kills)}, stops past the lease {_counted(self.stops)}",
            f"failovers {_counted(self.failovers)}; a new primary never had {len(self.never_had)} accepted messages "
            f"and the start of {self.unknown_starts} unsafe calls; {self.woken_anew} actors had lost their wake-up",
            *([f"decisions about calls that a new primary never had {self.undecided}"] if self.undecided else []),
            *([f"full disks {_counted(self.full_disks)}"] if self.full_disks else []),
            *([f"steps of clocks {_counted(self.clock_steps)}"] if self.clock_steps else []),
            f"prompts {self.prompts}, all well-formed" if not self.faults else f"prompts {self.prompts}",
            f"tool calls {self.calls}, run again {self.reruns}, reported unknown {self.unknown}, "
            f"killed their own process {self.brought_down}",
            *self._of_several(),
            *([f"{self.facts.line()}; {self.settled_s:.1f} s after the run"] if self.facts else []),
            *(self.outside.lines() if self.outside else []),
            f"clients reconnected {self.reconnects} times, sent {self.sent_again} messages again, began anew from a "
            f"snapshot {self.started_over} times",
            f"the machine stalled for {sum(end - start for start, end in self.stalls):.1f} s in all; left out here:",
            f"longest silence of a task{', as its client saw it' if self.by_clients else ''}: "
            f"{figures([s.seconds for s in self.silences])}",
            *(f"  {s.seconds:.2f} s: {s.where}" for s in sorted(self.silences, key=_seconds)[: -_SHOWN - 1 : -1]),
            *(
                [f"longest time in which its client learnt nothing: {figures([s.seconds for s in self.unseen])}"]
                if not self.by_clients
                else []
            ),
            *(f"next event after {kind}: {figures(took)}" for kind, took in sorted(self.recoveries.items())),
            f"faults {len(self.faults)}",
            *self.faults[:20],
        ]

    def _of_several(self) -> list[str]:
        """Return the lines about sessions with several tasks."""
        if not self.asked_where:
            return []
        return [
            f"messages moved {self.moved} times, of which {self.put_right} had gone to a wrong task; a model was asked "
            f"{self.asked_where} times where one belongs; calls given up by moves {self.given_up}; tasks paused "
            f"{self.paused}, questions {self.questions}"
        ]


def _counted(counter: Counter[str]) -> str:
    each = ", ".join(f"{name} {n}" for name, n in sorted(counter.items()))
    return f"{counter.total()} ({each})" if each else "0"


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of all does not exceed; 0 of nothing."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def figures(values: Sequence[float]) -> str:
    """Median, 95th percentile and the longest."""
    p50, p95, most = percentile(values, 0.5), percentile(values, 0.95), max(values, default=0.0)
    return f"p50 {p50:.2f} s, p95 {p95:.2f} s, longest {most:.2f} s ({len(values)})"


def longest_silence(
    who: str, events: Sequence[tuple[float, str]], work: Iterable[Span], troubles: Iterable[tuple[float, float, str]]
) -> Silence:
    """Return the longest time between two neighbouring events without work, with the faults in that time.

    Time after the end of a turn, or after a message was moved away, does not count.
    """
    spans = sorted(work)
    gaps = [
        (end - start - _covered(spans, start, end), before, after, start, end)
        for (start, before), (end, after) in pairwise(events)
        if before not in _NOTHING_DUE
    ]
    seconds, before, after, start, end = max(gaps, default=(0.0, "", "", 0.0, 0.0))
    meanwhile = ", ".join(what for begun, over, what in troubles if begun < end and over > start - _WAKE_S)
    return Silence(seconds, f"{who}, {before} to {after}; meanwhile {meanwhile or 'nothing'}")


def _covered(spans: Sequence[Span], start: float, end: float) -> float:
    """Return how many seconds of a time lie in the spans, which are in order."""
    covered, at = 0.0, start
    for begun, ended in spans:
        here, until = max(begun, at), min(ended, end)
        if until > here:
            covered, at = covered + until - here, until
    return covered


def recovery(fault: float, events: Sequence[float]) -> float | None:
    """Return the seconds from a fault to the next event of all tasks; None if there was none."""
    return next((at - fault for at in events if at >= fault), None)
