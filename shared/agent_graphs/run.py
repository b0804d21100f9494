"""The run of a graph: where a task is in it, folded from the entries of its transcript. Pure.

Nothing else is kept of a run, so a runner that takes the task over finds it as it was committed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from types import MappingProxyType
from typing import Any

from pentad.contracts.records import NodeEntry
from pentad.shared.immutable import immutable

_EMPTY: Mapping[Any, Any] = MappingProxyType({})
Writes = tuple[tuple[str, Any], ...]
"""Keys and values that were written to the state, in order."""


@immutable
class BranchTask:
    """A task that a node has started and that has not ended yet."""

    task_id: str
    index: int
    """Number of the branch or item, from 0 on."""
    name: str


@immutable
class ChildResult:
    """The end of a task that a node has started."""

    ok: bool
    text: str
    """Text of its answer, or the reason why it has none."""
    value: Any = None
    writes: Writes = ()


@immutable
class GraphRun:
    """A run, up to an entry of the transcript."""

    node: str = ""
    """Key of the node that the run has come to; '' before the first run and after the end of one."""
    began_at: int = 0
    """Time of the run's begin in ms, by the server's clock."""
    node_at: int = 0
    """Time at which it came to the node, or at which the node was tried again."""
    iterations: int = 0
    """Nodes that the run has come to, this one included."""
    tries: int = 0
    """Attempts at the node that have failed."""
    failed: bool = False
    """Whether the node has failed, and the run with it. It goes on there if a message asks for that."""
    deciding: bool = False
    """Whether the node's own work is done, and its edges are decided on."""
    text: str = ""
    """Text with which the work of a node has ended that is ``deciding``."""
    holds: Mapping[int, bool] = field(default_factory=lambda: _EMPTY)
    """Outcomes of the conditions that were judged or checked, by the numbers of the node's edges."""
    first_state: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)
    writes: Writes = ()
    """Everything that the run has written to the state."""
    children: Mapping[str, BranchTask] = field(default_factory=lambda: _EMPTY)
    """Tasks of this node that have not ended, by their calls."""
    results: Mapping[int, ChildResult] = field(default_factory=lambda: _EMPTY)
    """Ends of tasks of this node, by the numbers of their branches or items."""

    @property
    def is_fresh(self) -> bool:
        """Whether the run has come to its first node, and nothing has happened there yet."""
        return self.iterations == 1 and not (self.tries or self.deciding or self.children or self.results)

    def after(self, entries: Iterable[NodeEntry]) -> "GraphRun":
        """Return the run after these entries."""
        run = self
        for entry in entries:
            run = _AFTER[entry.kind](run, entry)
        return run


def _begun(run: GraphRun, entry: NodeEntry) -> GraphRun:
    if run.failed and run.node == entry.node:  # it goes on where it has failed; what is finished stays so
        finished = {index: each for index, each in run.results.items() if each.ok}
        again = replace(run, failed=False, tries=0, iterations=0, results=finished, children=_EMPTY)
        return replace(again, began_at=entry.at_ms, node_at=entry.at_ms)
    return GraphRun(
        entry.node, entry.at_ms, entry.at_ms, iterations=1, first_state=entry.state or _EMPTY, writes=_pairs(entry)
    )


def _done(run: GraphRun, entry: NodeEntry) -> GraphRun:
    return replace(run, deciding=True, text=entry.text or "", writes=run.writes + _pairs(entry))


def _decided(run: GraphRun, entry: NodeEntry) -> GraphRun:
    return replace(run, holds={**run.holds, **entry.holds})


def _tried(run: GraphRun, entry: NodeEntry) -> GraphRun:
    finished = {index: each for index, each in run.results.items() if each.ok}
    again = replace(run, tries=run.tries + 1, node_at=entry.at_ms, deciding=False, holds=_EMPTY)
    return replace(again, children=_EMPTY, results=finished)


def _started(run: GraphRun, entry: NodeEntry) -> GraphRun:
    if not entry.node:  # a model has called an agent
        return run
    child = BranchTask(entry.child or "", entry.index, entry.name or "")
    return replace(run, children={**run.children, entry.call or "": child})


def _joined(run: GraphRun, entry: NodeEntry) -> GraphRun:
    text = entry.error or entry.text or (entry.value if isinstance(entry.value, str) else "")
    result = ChildResult(entry.error is None, text, entry.value, _pairs(entry))
    left = {call: child for call, child in run.children.items() if call != entry.call}
    return replace(run, children=left, results={**run.results, entry.index: result})


def _left(run: GraphRun, entry: NodeEntry) -> GraphRun:
    return GraphRun(
        entry.next or "",
        run.began_at,
        entry.at_ms,
        run.iterations + (entry.next is not None),
        first_state=run.first_state,
        writes=run.writes + _pairs(entry),
    )


def _failed(run: GraphRun, entry: NodeEntry) -> GraphRun:
    return replace(run, failed=run.node == entry.node)


def _pairs(entry: NodeEntry) -> Writes:
    return tuple([(key, value) for key, value in entry.writes])


_AFTER = MappingProxyType(
    {
        "begin": _begun,
        "done": _done,
        "decided": _decided,
        "retry": _tried,
        "started": _started,
        "joined": _joined,
        "end": _left,
        "failed": _failed,
    }
)
"""The effect of an entry on a run, by its kind."""
