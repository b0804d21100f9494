"""The live system as lines of a terminal: pure functions of what a gateway has told."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pentad.cli.render import Style, ago, one_line, plural
from pentad.contracts.ids import milliseconds
from pentad.contracts.operations import GroupState, LiveTask, ModelLoad, Operations, ServiceState, StreamState

SORTS = ("lag", "oldest", "name")
"""Orders of the streams."""
_WINDOW_MS = 10_000
"""Milliseconds over which rates are taken: services tell their counts every two seconds."""
_GAP = "  "
_MAX_CELL = 40
"""Characters of a cell but the last."""
_MIN_ROWS = 2
"""Rows that a section with rows gets at least, its header included."""
_RATED = (("turns", "turns"), ("steps", "steps"), ("tool_calls", "calls"))
_TOKENS = (("input_tokens", "in"), ("output_tokens", "out"))


class Rates:
    """Rates of the whole system: how much it does in a second, from the totals of the last ten."""

    def __init__(self) -> None:
        self._seen: deque[tuple[int, Mapping[str, int]]] = deque()

    def add(self, found: Operations) -> None:
        """Note the totals of a document. Where they have begun anew, the rates do."""
        at, totals = milliseconds(found.at), found.totals.model_dump()
        if self._seen and (at < self._seen[-1][0] or any(totals[n] < was for n, was in self._seen[-1][1].items())):
            self._seen.clear()
        if not self._seen or at > self._seen[-1][0]:
            self._seen.append((at, totals))
        while len(self._seen) > 2 and self._seen[1][0] <= at - _WINDOW_MS:
            self._seen.popleft()

    def of(self, name: str) -> float | None:
        """Return how much a total grows in a second; None while there is only one document."""
        if len(self._seen) < 2:
            return None
        (began, before), (ended, after) = self._seen[0], self._seen[-1]
        return (after[name] - before[name]) * 1000 / (ended - began)


@dataclass(frozen=True, slots=True)
class _Section:
    """A table of the view: what stands in it, and what is told where there is nothing."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    marked: Callable[[str], str] = str
    """Draws rows that are in trouble."""
    troubled: frozenset[int] = frozenset()
    """Numbers of the rows in trouble."""


class TopView:
    """Draws a document."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self.sort = SORTS[0]

    def next_sort(self) -> None:
        """Sort the streams by the next order."""
        self.sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]

    def whole(self, found: Operations, rates: Rates) -> list[str]:
        """Return everything, however long it is."""
        return self.drawn(found, rates, 10_000, 200)

    def drawn(self, found: Operations, rates: Rates, rows: int, columns: int) -> list[str]:
        """Return at most so many lines, each of at most so many characters apart from colours."""
        head = [one_line(line, columns) for line in self._head(found, rates)]
        now = datetime.fromtimestamp(milliseconds(found.at) / 1000, UTC)
        sections = [
            self._streams(found.streams),
            self._services(found.services, now),
            self._models(found.models),
            self._troubles(found),
            self._tasks(found.tasks.newest, now),
        ]
        given = _shares([len(each.rows) + 1 for each in sections if each.rows], rows - len(head))
        lines = head
        for section, share in zip((each for each in sections if each.rows), given, strict=True):
            lines += self._table(section, share, columns)
        return lines[: max(rows, 0)]

    def _head(self, found: Operations, rates: Rates) -> list[str]:
        tasks = found.tasks
        tools = f"tools {found.tools.alive} of {found.tools.total}"
        servers = f"MCP servers {found.tools.servers_ready} of {found.tools.servers}" if found.tools.servers else ""
        behind = f"memory {found.memory_lag_s:.0f} s behind" if found.memory_lag_s >= 1 else "memory up to date"
        counts = [
            f"{plural(tasks.active, 'task')} active",
            f"{tasks.queued} queued" if tasks.queued else "",
            f"{plural(found.messages, 'message')} waiting",
            plural(found.approvals, "approval"),
            plural(found.dead_letters, "dead letter"),
        ]
        left = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in sorted(found.left_out.items()))
        lines = [_rated(found, rates), ", ".join(filter(None, counts))]
        lines.append(", ".join(filter(None, (tools, servers, behind))))
        lines += [f"memory waits: {found.memory_waits}"] if found.memory_waits else []
        return [*lines, *([f"not shown: {left}"] if left else [])]

    def _streams(self, streams: Sequence[StreamState]) -> _Section:
        """Return the streams with anything in work; those that nobody serves are marked."""
        seen = [(each, group) for each in streams for group in (*each.groups, *([] if each.groups else [None]))]
        told = [(each, group) for each, group in seen if _busy(each, group)]
        told.sort(key=lambda pair: _ORDERS[self.sort](*pair))
        rows = [
            (
                each.stream + (f" {each.queue}" if each.queue not in (None, "default") else ""),
                "-" if each.shard is None else str(each.shard),
                "-" if group is None else group.name,
                "?" if group is None or group.lag is None else str(group.lag),
                "-" if group is None else str(group.pending),
                "-" if group is None or group.oldest_s is None else _seconds(group.oldest_s),
                "nobody" if group is None else f"{group.active} of {group.consumers}",
            )
            for each, group in told
        ]
        unserved = {n for n, (_, group) in enumerate(told) if group is None or not group.active}
        header = ("STREAM", "SHARD", "GROUP", "LAG", "PENDING", "OLDEST", "SERVED BY")
        return _Section(header, rows or [("all empty", *[""] * 6)], self._style.yellow, frozenset(unserved))

    def _services(self, services: Sequence[ServiceState], now: datetime) -> _Section:
        rows = [
            (
                each.name,
                each.release,
                str(each.under_way),
                ago(each.started_at, now),
                "there" if each.alive else f"silent for {ago(each.seen_at, now)}",
                ", ".join(each.queues) or f"{each.machine} {each.pid}",
            )
            for each in services
        ]
        silent = frozenset(n for n, each in enumerate(services) if not each.alive)
        return _Section(("SERVICE", "RELEASE", "WORK", "UP", "STATE", "QUEUES"), rows, self._style.red, silent)

    def _models(self, models: Sequence[ModelLoad]) -> _Section:
        rows = [(each.id, each.state or "unknown", _calls_of(each), each.error or "") for each in models]
        unwell = frozenset(n for n, each in enumerate(models) if each.state not in (None, "ok"))
        return _Section(("MODEL", "STATE", "CALLS", "WHY"), rows, self._style.yellow, unwell)

    def _troubles(self, found: Operations) -> _Section:
        tools = [(each.name, f"{each.tenant_id or 'all'}", each.why) for each in found.tools.troubled]
        servers = [
            (each.name, "MCP server", f"{each.condition or 'not reported'}: {each.error or 'it has not answered yet'}")
            for each in found.tools.troubled_servers
        ]
        return _Section(("TOOL", "FOR", "WHY"), [*tools, *servers])

    def _tasks(self, tasks: Sequence[LiveTask], now: datetime) -> _Section:
        rows = [
            (
                each.task_id,
                each.tenant_id,
                each.status,
                str(each.steps),
                ago(each.created_at, now),
                f"({each.waiting_for}) {each.goal}" if each.waiting_for else each.goal,
            )
            for each in tasks
        ]
        return _Section(("TASK", "TENANT", "STATUS", "STEPS", "AGE", "GOAL"), rows)

    def _table(self, section: _Section, rows: int, columns: int) -> list[str]:
        """Return the rows of a section that have room below its header; what is left out is counted there."""
        if rows < 1:
            return []
        shown = section.rows[: rows - 1]
        more = len(section.rows) - len(shown)
        cells = [[one_line(cell, _MAX_CELL) for cell in row[:-1]] + [row[-1]] for row in shown]
        widths = [max(map(len, column)) for column in zip(*[[*section.header[:-1], ""], *cells], strict=True)]
        lines = [_line(row, widths, columns) for row in [section.header, *cells]]
        head = _cut(f"{lines[0]}{_GAP}({more} more)" if more else lines[0], columns)
        below = [section.marked(line) if n in section.troubled else line for n, line in enumerate(lines[1:])]
        return [self._style.dim(head), *below]


def _line(cells: Sequence[str], widths: Sequence[int], columns: int) -> str:
    padded = [cell.ljust(size) for cell, size in zip(cells[:-1], widths, strict=False)]
    taken = sum(map(len, padded)) + len(_GAP) * len(padded)
    line = _GAP.join([*padded, one_line(cells[-1], max(0, columns - taken))]).rstrip()
    return _cut(line, columns)


def _cut(line: str, columns: int) -> str:
    return line if len(line) <= columns else line[: max(0, columns - 1)] + "…"


def _shares(wanted: Sequence[int], room: int) -> list[int]:
    """Return how many rows each section gets: a few for each, and what is left from the first one on."""
    given = [min(each, _MIN_ROWS) for each in wanted]
    while (left := room - sum(given)) > 0 and given != list(wanted):
        part = max(1, left // max(1, sum(g < w for g, w in zip(given, wanted, strict=True))))
        for n, most in enumerate(wanted):
            more = min(part, most - given[n], room - sum(given))
            given[n] += max(0, more)
    return given


def _rated(found: Operations, rates: Rates) -> str:
    """Return what is done in a second; with one document alone, what was done altogether."""
    totals = found.totals.model_dump()
    if rates.of("turns") is None:
        done = [plural(totals[name], word.removesuffix("s")) for name, word in _RATED]
        tokens = " ".join(f"{totals[name]} {word}" for name, word in _TOKENS)
        return f"so far {', '.join(done)}, tokens {tokens}"
    done = [f"{word} {_rate(rates.of(name))}" for name, word in _RATED]
    tokens = " ".join(f"{_rate(rates.of(name))} {word}" for name, word in _TOKENS)
    return f"a second: {', '.join(done)}, tokens {tokens}"


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds // 60:.0f} min" if seconds < 3600 else "over 1 h"


def _busy(stream: StreamState, group: GroupState | None) -> bool:
    return stream.length > 0 if group is None else bool(group.pending) or group.lag != 0


def _name_of(stream: StreamState) -> tuple[str, int, str]:
    return stream.stream, stream.shard or 0, stream.queue or ""


_ORDERS: Mapping[str, Callable[[StreamState, GroupState | None], tuple[object, ...]]] = {
    "lag": lambda stream, group: (
        -(stream.length if group is None or group.lag is None else group.lag) - (0 if group is None else group.pending),
        *_name_of(stream),
    ),
    "oldest": lambda stream, group: (-(group.oldest_s or 0.0) if group is not None else 0.0, *_name_of(stream)),
    "name": lambda stream, group: _name_of(stream),
}


def _calls_of(model: ModelLoad) -> str:
    if model.limit is None:
        return "no limit"
    waiting = f", {model.waiting} waiting" if model.waiting else ""
    return f"{model.under_way or 0} of {model.limit}{waiting}"
