"""Every metric of Pentad: name, type, labels, meaning and unit, once. Run as a module it prints docs/metrics.md.

    from pentad.shared import metrics

    metrics.consumed.labels("inbound", "InboundMessage").inc()
    metrics.step_seconds.labels("committed").observe(0.2)
    metrics.websockets.labels().inc()

``labels`` hands out the same bound child each time, for the price of one dictionary look-up. Counters and histograms
are counted here, for a tenth of what the library's cost: a turn counts some seventy times, in one thread, so nothing is
locked. ``prometheus_client`` shows them; it is not imported before a gauge is used or a page is made. No metric carries
the tenant: see docs/metrics.md.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from math import inf
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Gauge
    from prometheus_client.metrics_core import Metric as Family

Kind = Literal["counter", "gauge", "histogram"]
M = TypeVar("M")

SECONDS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0,
)  # fmt: skip
"""Buckets of every time: from a commit to the time limit of a step."""
SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0)


class Counter:
    """A count that only grows. Use it in the thread of the event loop only."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, amount: float = 1) -> None:
        """Add to the count. Raises ``ValueError`` for a negative amount."""
        if amount < 0:
            raise ValueError("a counter only grows")
        self.value += amount


class Histogram:
    """How many values there were up to each of some bounds, and their sum. For the thread of the event loop alone."""

    __slots__ = ("_bounds", "_counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        """The number of values in each bucket alone; the last bucket has no bound."""
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    @property
    def counted(self) -> list[float]:
        """The sum of all values, and the number of them in each bucket alone."""
        return [self.sum, *self._counts]

    def add(self, counted: Sequence[float]) -> None:
        """Add what another histogram of these bounds has `counted`."""
        added, *counts = counted
        self.sum += added
        self._counts = [ours + int(theirs) for ours, theirs in zip(self._counts, counts, strict=True)]

    def buckets(self) -> Iterator[tuple[float, int]]:
        """Each bound, the last infinite, and how many values were at most that."""
        return zip((*self._bounds, float("inf")), accumulate(self._counts), strict=True)


@dataclass(frozen=True, eq=False)
class Metric(Generic[M]):
    """One row. ``M``: `Counter`, `Histogram`, or ``Gauge`` of ``prometheus_client``."""

    name: str
    kind: Kind
    label_names: tuple[str, ...]
    meaning: str
    unit: str
    buckets: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "_children", {})

    def labels(self, *values: str) -> M:
        """The child for these values, in the order of ``label_names``. Raises ``ValueError`` for a wrong number."""
        children: dict[tuple[str, ...], M] = self.__dict__["_children"]
        child = children.get(values)
        if child is None:
            if len(values) != len(self.label_names):
                raise ValueError(f"{self.name} has {len(self.label_names) or 'no'} labels, not {len(values)}")
            child = children[values] = cast(M, _child(self, values))
        return child

    @property
    def children(self) -> dict[tuple[str, ...], M]:
        """Every child that there is, by its labels' values. One without labels is always there."""
        if not self.label_names:
            self.labels()
        return cast(dict[tuple[str, ...], M], self.__dict__["_children"])


def _child(metric: Metric[Any], values: tuple[str, ...]) -> Any:
    if metric.kind == "counter":
        return Counter()
    if metric.kind == "histogram":
        return Histogram(metric.buckets)
    gauge = _gauge_family(metric)
    return gauge.labels(*values) if values else gauge


_rows: list[Metric[Any]] = []


def _add(metric: Metric[M]) -> Metric[M]:
    _rows.append(metric)
    return metric


def _counter(name: str, labels: tuple[str, ...], meaning: str, unit: str) -> Metric[Counter]:
    return _add(Metric(name, "counter", labels, meaning, unit))


def _gauge(name: str, labels: tuple[str, ...], meaning: str, unit: str) -> Metric[Gauge]:
    return _add(Metric(name, "gauge", labels, meaning, unit))


def _histogram(
    name: str, labels: tuple[str, ...], meaning: str, unit: str = "seconds", buckets: tuple[float, ...] = SECONDS
) -> Metric[Histogram]:
    return _add(Metric(name, "histogram", labels, meaning, unit, buckets))


# The bus. `stream` is a name of contracts/streams.py, `type` the entry's type or the mail's kind.
consumed = _counter(
    "pentad_messages_consumed_total",
    ("stream", "type"),
    "Entries handled to their end and acknowledged.",
    "entries",
)
published = _counter(
    "pentad_messages_published_total",
    ("stream", "type"),
    "Entries appended. Under the streams of wake-ups also the mail posted, by its kind.",
    "entries",
)
failed = _counter(
    "pentad_messages_failed_total",
    ("stream", "type"),
    "Handlings that ended in an error; each is tried again.",
    "entries",
)
dead = _counter("pentad_messages_dead_total", ("stream", "type"), "Entries set aside as dead letters.", "entries")
redelivered = _counter(
    "pentad_messages_redelivered_total", ("stream",), "Entries taken over from a worker that fell silent.", "entries"
)
attempts = _histogram(
    "pentad_message_attempts", ("stream",), "Starts that an entry needed until its end.", "starts", SIZES
)
lease_losses = _counter(
    "pentad_lease_losses_total", ("service",), "Leases that went to another while work was going on.", "leases"
)
reconnects = _counter("pentad_reconnects_total", ("store",), "Connections that were made again.", "connections")
handler_seconds = _histogram(
    "pentad_handler_seconds", ("service", "type"), "Time from taking an entry to its acknowledgement."
)
lag = _gauge(
    "pentad_group_lag", ("stream", "group"), "Entries that no consumer of the group has read; -1: unknown.", "entries"
)
pending = _gauge("pentad_group_pending", ("stream", "group"), "Entries read and not yet acknowledged.", "entries")
waiting_mail = _gauge(
    "pentad_inbound_waiting_mail",
    ("shard",),
    "Messages that wait to be taken into a step, in all mailboxes of the shard; not those that lie with paused tasks.",
    "messages",
)

approvals = _counter(
    "pentad_approvals_total",
    ("outcome",),
    "Tool calls about which a person was asked, and what became of them: asked, approved, refused, expired; and denied "
    "ones, of which a policy says that they are never made.",
    "calls",
)

loop_delay_seconds = _histogram(
    "pentad_loop_delay_seconds",
    (),
    "How late the event loop of the process came back to a timer, measured fifty times a second: while it is held "
    "nobody is served. A delay over 1 s is logged, and told by `pentad doctor`.",
)
loop_held_seconds = _histogram(
    "pentad_loop_held_seconds",
    (),
    "The part of each such delay in which the process worked, in processor time: what code of ours held the loop. A "
    "delay without it comes from the machine, which gave the process no turn.",
)

# Turns, tasks and steps.
first_delta_seconds = _histogram(
    "pentad_first_delta_seconds", (), "Time from a message's entry into the inbound stream to its first delta."
)
turn_seconds = _histogram(
    "pentad_turn_seconds",
    ("outcome",),
    "Time from a message's entry into the inbound stream to its turn's end; outcome: completed, waiting, failed, "
    "cancelled or rejected.",
)
tasks = _counter("pentad_task_transitions_total", ("status",), "Tasks that came into this status.", "tasks")
decisions = _counter("pentad_router_decisions_total", ("decision",), "Messages routed, by decision.", "messages")
step_seconds = _histogram(
    "pentad_step_seconds",
    ("outcome",),
    "Time of one step, from its plan to its commit; outcome: committed, overtaken (by mail), interrupted (by a cancel, "
    "a pause, a deadline or a stop), failed (the model) or lost (the lease).",
)

# Models and tools.
model_seconds = _histogram(
    "pentad_model_seconds",
    ("model", "outcome"),
    "Time of one model call, to its last byte; outcome: ok, refused, unavailable, cut_off or cancelled.",
)
model_tokens = _counter(
    "pentad_model_tokens_total",
    ("model", "direction"),
    "Tokens that models reported; direction: input, output, or cached: those of the input that servers had cached.",
    "tokens",
)
model_usd = _counter(
    "pentad_model_usd_total", ("model",), "What model calls have cost, for models that have prices.", "US dollars"
)
internal_tokens = _counter(
    "pentad_internal_model_tokens_total",
    ("instruction", "direction"),
    "Tokens of the model calls that Pentad makes beside those of tasks, by the instruction that is asked: router, "
    "memory_archiver or memory_retriever; `pentad_model_tokens_total` has them too. "
    "Direction: input, output or cached, as there.",
    "tokens",
)
internal_usd = _counter(
    "pentad_internal_model_usd_total",
    ("instruction",),
    "What these calls have cost, for models that have prices.",
    "US dollars",
)
model_state = _gauge(
    "pentad_model_state",
    ("service", "model"),
    "How a model of the registry does, by its id there, as this service knows it: 0 ok, 1 failing (some of the last "
    "calls failed), 2 probing (one call finds out), 3 open (it is not asked).",
    "state",
)
hooks = _counter(
    "pentad_hooks_total",
    ("kind", "outcome"),
    "Hooks run; kind: that of the hook, outcome: ok, error, timeout or cancelled.",
    "hooks",
)
tool_seconds = _histogram("pentad_tool_seconds", ("tool",), "Time of one tool call, from its start to its result.")
tool_calls = _counter(
    "pentad_tool_calls_total",
    ("tool", "outcome"),
    "Tool calls closed; outcome: ok, error, timeout, cancelled or unknown.",
    "calls",
)
tool_waiting = _gauge(
    "pentad_tool_waiting_calls",
    ("tool",),
    "Tool calls that wait until a limit of their tool, or of their MCP server (`@SERVER`), lets them run; each worker "
    "tells the number of all.",
    "calls",
)
tool_refusals = _counter(
    "pentad_tool_refusals_total",
    ("tool",),
    "Tool calls that were answered at once because their tool keeps failing: its breaker is open.",
    "calls",
)
schedule_runs = _counter(
    "pentad_schedule_runs_total",
    ("outcome",),
    "Due times of schedules: sent, or not: skipped (the run before went on), missed (too late), unknown (in doubt).",
    "runs",
)
queue_backlog = _gauge(
    "pentad_tool_queue_backlog_calls",
    ("queue",),
    "Tool calls of a queue that no tool-worker has taken yet, of all shards; each task-runner tells the number of all.",
    "calls",
)
mcp_ready = _gauge(
    "pentad_mcp_ready",
    ("server",),
    "Whether the tools of an MCP server can be called: 1, or 0 while it is not there.",
    "state",
)
mcp_losses = _counter(
    "pentad_mcp_losses_total",
    ("server",),
    "Connections to an MCP server that were lost or not made.",
    "connections",
)

# Embedding and archive.
embed_batch = _histogram("pentad_embed_batch_texts", (), "Texts sent to the embedding model at once.", "texts", SIZES)
embed_cache = _counter(
    "pentad_embed_cache_total", ("outcome",), "Texts looked up in the cache of vectors; outcome: hit or miss.", "texts"
)
archived = _counter(
    "pentad_archive_total",
    ("outcome",),
    "Tasks whose record the archiver has written; outcome: ok, or moved or gone when the task was not as recorded.",
    "tasks",
)
webhook_attempts = _counter(
    "pentad_webhook_attempts_total",
    ("outcome",),
    "Attempts to send an event to a webhook: `delivered`, `failed` (it is tried again) or `dead` (it is set aside).",
    "attempts",
)
erased = _counter(
    "pentad_erased_tasks_total",
    (),
    "Tasks that were erased everywhere, those erased again after a kill included.",
    "tasks",
)
remembered = _counter(
    "pentad_memory_segments_total",
    (),
    "Segments of finished tasks that were written to the long-term memory, those written again included.",
    "segments",
)
memory_points = _gauge(
    "pentad_memory_points",
    (),
    "Points that the long-term memory has, those of earlier embedding models included; told by who writes it.",
    "points",
)
memory_damaged = _gauge(
    "pentad_memory_damaged",
    ("store",),
    "Whether a store of the long-term memory (vectors or graph) has less than was written to it, or cannot be read, as "
    "archivers see it. `pentad doctor` says what to do.",
    "1 or 0",
)
rebuilt = _counter(
    "pentad_memory_rebuilt_total",
    ("outcome",),
    "Tasks from which the long-term memory was rebuilt; outcome: done, failed or left_out (added by hand under an "
    "earlier version: no record says what it was).",
    "tasks",
)
learned = _counter(
    "pentad_memory_graph_total",
    ("what",),
    "Nodes and edges of finished tasks that were written to the graph of what is known, those written again included; "
    "what: node or edge; unsupported: what a model has said that rests on nothing; unusable: a model's whole answer.",
    "nodes and edges",
)
extractions = _counter(
    "pentad_extractions_total",
    ("outcome",),
    "Archived tasks that a model was to be asked about; outcome: answered, unusable (its answer) or budget (the day's "
    "tokens are taken: the facts are found by rule).",
    "tasks",
)
extraction_tasks = _histogram(
    "pentad_extraction_tasks", (), "Archived tasks that one call of the model was about.", "tasks", SIZES
)
remember_seconds = _histogram(
    "pentad_memory_lag_seconds",
    (),
    "From the end of a task until what was said in it can be found.",
)

recalls = _counter(
    "pentad_recalls_total",
    ("outcome",),
    "Tasks that began, by what came of recalling; outcome: recalled, nothing (is about it), no_memory (of the tenant), "
    "off, away (a store, or the embedding model), late, busy or failed.",
    "tasks",
)
recall_seconds = _histogram(
    "pentad_recall_seconds", (), "Time of one recall that asked the long-term memory, whatever came of it."
)
retriever_seconds = _histogram(
    "pentad_retriever_seconds",
    ("outcome",),
    "Time that a new task waited for a model to choose the walk for its recall; outcome: chosen, late or failed.",
)

# The gateway.
eval_cases = _counter(
    "pentad_eval_cases_total",
    ("outcome",),
    "Moved messages that were to be kept as evaluation cases (`PENTAD_EVAL_CASES`); outcome: kept or lost.",
    "messages",
)
websockets = _gauge("pentad_websocket_connections", (), "WebSocket connections open.", "connections")

METRICS: tuple[Metric[Any], ...] = tuple(_rows)
_BY_NAME = {metric.name: metric for metric in METRICS}


@cache
def registry() -> CollectorRegistry:
    """The one registry, with the process, platform and garbage collector metrics."""
    from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

    made = CollectorRegistry(auto_describe=False)
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=made)
    made.register(_Counted())
    return made


@cache
def _gauge_family(metric: Metric[Any]) -> Gauge:
    from prometheus_client import Gauge

    return Gauge(metric.name, metric.meaning, metric.label_names, registry=registry())


class _Counted:
    """Shows the registry what has been counted."""

    def collect(self) -> Iterator[Family]:
        from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily

        for metric in METRICS:
            words = (metric.name, metric.meaning)
            if metric.kind == "counter":
                counter = CounterMetricFamily(*words, labels=metric.label_names)
                for values, count in metric.children.items():
                    counter.add_metric(values, count.value)
                yield counter
            elif metric.kind == "histogram":
                histogram = HistogramMetricFamily(*words, labels=metric.label_names)
                for values, times in metric.children.items():
                    buckets = [("+Inf" if bound == inf else str(bound), number) for bound, number in times.buckets()]
                    histogram.add_metric(values, buckets, times.sum)
                yield histogram


CountedRow = tuple[str, Sequence[str], Sequence[float]]
"""The name of a metric, the values of its labels, and what was counted: a histogram's `Histogram.counted`, else one
number."""
_OF_EACH_PROCESS = (loop_delay_seconds, loop_held_seconds)
"""Metrics of one process's event loop, which say nothing of another's."""


def counted_here() -> list[CountedRow]:
    """Return what this process has counted, for the process that shows it."""
    rows: list[CountedRow] = []
    for metric in METRICS:
        if metric not in _OF_EACH_PROCESS:
            used: dict[tuple[str, ...], Any] = metric.__dict__["_children"]
            rows += [(metric.name, list(values), _counted(metric, child)) for values, child in used.items()]
    return rows


def _counted(metric: Metric[Any], child: Any) -> list[float]:
    if metric.kind == "histogram":
        return cast(Histogram, child).counted
    if metric.kind == "counter":
        return [cast(Counter, child).value]
    return [sample.value for family in cast("Gauge", child).collect() for sample in family.samples]


_from_elsewhere: dict[tuple[str, tuple[str, ...]], float] = {}
"""How much of the number of a metric's child other processes have counted."""


def own_number(metric: Metric[Any], label: str | None = None) -> float:
    """Return how much this process itself has counted: the sum of a counter, the number of values of a histogram.

    ``label``: the last label of the children that are meant; None: all children.
    """
    used: dict[tuple[str, ...], Any] = metric.__dict__["_children"]
    return sum(
        _number(metric, _counted(metric, child)) - _from_elsewhere.get((metric.name, values), 0.0)
        for values, child in used.items()
        if label is None or values[-1] == label
    )


def _number(metric: Metric[Any], counted: Sequence[float]) -> float:
    return sum(counted[1:]) if metric.kind == "histogram" else counted[0]


class CountsOfProcess:
    """The counts of another process, as part of those that this one shows. There is one object for each process: when
    that ends, its counts remain."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, tuple[str, ...]], Sequence[float]] = {}

    def add(self, rows: Sequence[CountedRow]) -> None:
        """Add what the process has counted since the last time. Its gauges are shown as they are.

        Raises ``ValueError`` for rows that `counted_here` does not return.
        """
        for name, labels, counted in rows:
            metric = _BY_NAME.get(name)
            if metric is None:  # of a newer version, installed since this process started
                continue
            values = tuple(labels)
            if metric.kind == "gauge":
                (value,) = counted
                metric.labels(*values).set(value)
                continue
            before = self._before.get((name, values), [0.0] * len(counted))
            since = [now - then for now, then in zip(counted, before, strict=True)]
            if metric.kind == "counter":
                (more,) = since
                metric.labels(*values).inc(more)
            else:
                metric.labels(*values).add(since)
            self._before[name, values] = counted
            here = _from_elsewhere.get((name, values), 0.0)
            _from_elsewhere[name, values] = here + _number(metric, since)


def exposition() -> tuple[bytes, str]:
    """Return the answer to ``GET /metrics`` and its content type. Every metric is named, also one not used yet."""
    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

    for metric in METRICS:
        if metric.kind == "gauge":
            _gauge_family(metric)
    return generate_latest(registry()), CONTENT_TYPE_LATEST


def document() -> str:
    """Return the text of docs/metrics.md."""
    rows = [f"| `{m.name}` | {m.kind} | {_labels(m)} | {m.unit} | {m.meaning} |" for m in METRICS]
    return "\n".join([*_HEAD, *rows, ""])


def _labels(metric: Metric[Any]) -> str:
    return " ".join(f"`{name}`" for name in metric.label_names) or "–"


_HEAD = (
    "# Metrics",
    "",
    "Every service answers `GET /metrics` on its port: these, and the usual `process_*` and `python_*`.",
    "Under `pentad up` and `pentad.start()` the gateway's page has those of all services, the archiver too, which has",
    "a process of its own; `process_*`, `python_*` and `pentad_loop_*` are of the gateway's process alone.",
    "None carries the tenant. `stream` is a name of `contracts/streams.py`; `tool` and `model` are registered names,",
    "others `unknown`.",
    "Written by `python -m pentad.shared.metrics > docs/metrics.md`; the list itself is `shared/metrics.py`.",
    "",
    "| name | type | labels | unit | meaning |",
    "|---|---|---|---|---|",
)

if __name__ == "__main__":
    print(document(), end="")
