"""The way of working of a task that runs a graph: node after node, each by its kind. Pure.

What is known of the run comes from the transcript (`graph_run.py`); an effect says which entries are added to it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from types import MappingProxyType
from typing import Any

from pydantic_core import from_json, to_json

from pentad.contracts.errors import ErrorCode
from pentad.contracts.graph_nodes import (
    FAIL,
    MAX_ITEMS,
    AskNode,
    GraphNode,
    LlmNode,
    MapNode,
    Node,
    ParallelNode,
    ToolNode,
)
from pentad.contracts.graphs import MAX_DEPTH, GraphSpec
from pentad.contracts.records import NodeEntry, NodeEntryKind
from pentad.contracts.tools import Effect as ToolEffect
from pentad.services.task_runner.domain.after_answer import (
    CallTools,
    Complete,
    Fail,
    NothingSaid,
    Rules,
    after_answer,
    after_cut,
    planned_call,
)
from pentad.services.task_runner.domain.graph_edges import CheckEdge, Decision, JudgeEdges, NextNode, NoWay, decided
from pentad.services.task_runner.domain.own_tools import ASK_USER, QUESTION
from pentad.services.task_runner.domain.strategy import (
    AskTheModel,
    ChildTask,
    Effect,
    EndedCall,
    Event,
    FailRun,
    GoOn,
    KeepNothing,
    ModelAnswered,
    ModelCut,
    ModelGaveUp,
    Noted,
    StartChildren,
    TurnReady,
)
from pentad.shared.actors.mail import ChildOutcome
from pentad.shared.agent_graphs.run import ChildResult, GraphRun, Writes
from pentad.shared.agent_graphs.state import (
    State,
    StateError,
    as_text,
    as_value,
    rendered,
    rendered_text,
    value_at,
    written,
)
from pentad.shared.clipping import clip
from pentad.shared.immutable import immutable
from pentad.shared.models.ports import ToolCallDraft

_MAX_PROBLEM = 2_000
"""Bytes of a node's failure that are kept."""
_MAX_SHOWN_STATE = 16_384
"""Bytes of the state that a model is shown that judges conditions."""
_EMPTY_STATE: Mapping[str, Any] = MappingProxyType({})
ITEM, INDEX = "item", "index"
"""Keys of the state of an item's task: the item, and its number."""


@immutable
class GraphPlace:
    """A task that runs a graph, or a part of one."""

    graph: GraphSpec
    run: GraphRun
    entry: str
    """Key of the node with which the task begins."""
    first_state: State = field(default_factory=lambda: _EMPTY_STATE)
    """Initial state of a run that begins now."""
    until: str = ""
    """Key of the node before which the task ends; '' for none."""
    depth: int = 0
    """Number of tasks above this one."""
    waited_ms: int = 0
    """Time of this run for which a person was asked or the task was paused."""
    node_waited_ms: int = 0
    """Part of this time that belongs to the node."""
    subgraph: GraphSpec | None = None
    """Graph that the node runs, if it runs one that is known."""

    @property
    def part(self) -> bool:
        """Whether the task is a branch or an item of another task."""
        return bool(self.until) or self.entry != self.graph.entry or self.depth > 0

    def opened(self, now: int) -> "tuple[GraphPlace, tuple[NodeEntry, ...]]":
        """Return the place with a run under way, and the entry with which it begins if none was."""
        run = self.run
        if run.node and not run.failed:
            return self, ()
        if run.failed:
            begin = NodeEntry(kind="begin", node=run.node, at_ms=now)
        else:
            begin = NodeEntry(kind="begin", node=self.entry, at_ms=now, state=dict(self.first_state) or None)
        return replace(self, run=run.after((begin,)), waited_ms=0, node_waited_ms=0), (begin,)

    @property
    def node(self) -> Node:
        """Node that the run has come to."""
        return self.graph.by_key[self.run.node]

    def question(self, edges: Sequence[int]) -> str:
        """Return the question to the model that judges the conditions of these edges."""
        conditions = [self.graph.edges_by_source[self.run.node][number].when or "" for number in edges]
        lines = [f"{number}. {condition}" for number, condition in enumerate(conditions, 1)]
        state = written(self.run.first_state, self.run.writes, self.graph.reducers)
        shown = [f"State of the work, as JSON:\n{clip(to_json(state).decode(), _MAX_SHOWN_STATE)}"] if state else []
        return "\n\n".join([*shown, "Which of these conditions hold now?\n" + "\n".join(lines)])

    def judged_edges(self) -> tuple[int, ...]:
        """Return the numbers of the edges whose conditions a model is asked about now."""
        if not self.run.deciding:
            return ()
        try:
            state = written(self.run.first_state, self.run.writes, self.graph.reducers)
        except StateError:
            return ()
        found = decided(self.graph, self.run.node, self.run.holds, state, self.until, part=self.part)
        return found.edges if isinstance(found, JudgeEdges) else ()


class GraphWork:
    """Says what a task that runs a graph does next."""

    def __init__(self, place: GraphPlace, opening: tuple[NodeEntry, ...] = (), wrong_state: str = "") -> None:
        """``opening``: entries with which the run begins and that are not in the transcript yet. ``wrong_state``: what
        is wrong with the initial state of a run that begins.
        """
        self._place, self._opening, self._wrong_state = place, opening, wrong_state
        self._graph, self._run, self._node = place.graph, place.run, place.node
        self.judged = place.judged_edges()
        """Numbers of the edges whose conditions a model is asked about."""
        self.asks_models = bool(self.judged) or (isinstance(self._node, LlmNode) and not self._run.deciding)

    def next(self, turn: Rules, event: Event) -> Effect:
        """The effect of this event. ``turn``: what the turn may still do."""
        if self._wrong_state and not isinstance(event, ModelCut):
            effect = self._begins_wrongly(event.now)
        elif isinstance(event, TurnReady):
            effect = self._ready(turn, event)
        elif isinstance(event, ModelCut):
            effect = (None if self.judged else after_cut(event.said, turn)) or KeepNothing()
        elif isinstance(event, ModelGaveUp):
            effect = self._failed(event.code, event.problem, event.now)
        elif self.judged:
            effect = self._judged(event, turn)
        else:
            effect = self._answered(event, turn)
        return self._noted(effect)

    def refused(self, effect: Noted, problem: str, now: int) -> Effect:
        """The effect of a node's work in place of this one, whose writes do not fit the schema of the state."""
        joined = tuple([entry for entry in effect.entries if entry.kind == "joined"])
        return self._noted(self._failed(ErrorCode.GRAPH_ERROR, problem, now, joined))

    def _begins_wrongly(self, now: int) -> Effect:
        """The end of a run whose initial state is wrong. A message that comes later begins another run."""
        problem = f"node {self._node.key!r}: the run cannot begin: {self._wrong_state}"
        end = self._entry("end", now, error=clip(problem, _MAX_PROBLEM))
        return Noted((end,), FailRun(ErrorCode.GRAPH_ERROR, problem))

    def _noted(self, effect: Effect) -> Effect:
        """The effect with the entries with which the run begins."""
        if not self._opening or isinstance(effect, AskTheModel | KeepNothing | NothingSaid):
            return effect
        if isinstance(effect, Noted):
            return replace(effect, entries=(*self._opening, *effect.entries))
        return Noted(self._opening, effect)

    # The node's own work

    def _ready(self, turn: Rules, event: TurnReady) -> Effect:
        over = self._time_over(event.now)
        if over is not None:
            return over
        if self.judged:
            return AskTheModel()
        try:
            if self._run.deciding:
                return self._checked(turn, event)
            return _READY[type(self._node)](self, turn, event)
        except StateError as error:
            return self._failed(ErrorCode.GRAPH_ERROR, str(error), event.now)

    def _time_over(self, now: int) -> Effect | None:
        run, graph, node = self._run, self._graph, self._node
        if now >= run.began_at + round(graph.timeout * 1000) + self._place.waited_ms:
            problem = f"graph {graph.name!r} has run for longer than its timeout of {graph.timeout:g} s"
            return self._run_fails(ErrorCode.DEADLINE_EXCEEDED, problem, now)
        if node.timeout is not None and now >= run.node_at + round(node.timeout * 1000) + self._place.node_waited_ms:
            problem = f"it has taken longer than its timeout of {node.timeout:g} s"
            return self._failed(ErrorCode.DEADLINE_EXCEEDED, problem, now)
        return None

    def time_left_ms(self, now: int) -> int:
        """Milliseconds that are left of the node's time and of the run's."""
        run, left = self._run, []
        left.append(run.began_at + round(self._graph.timeout * 1000) + self._place.waited_ms - now)
        if self._node.timeout is not None:
            left.append(run.node_at + round(self._node.timeout * 1000) + self._place.node_waited_ms - now)
        return max(0, min(left))

    def _ask_model(self, _: Rules, __: TurnReady) -> Effect:
        return AskTheModel()

    def _call_tool(self, turn: Rules, event: TurnReady) -> Effect:
        node = self._node
        assert isinstance(node, ToolNode)
        if not event.ended:
            args = to_json(rendered(node.args, self._state())).decode()
            return CallTools((planned_call(ToolCallDraft(node.tool, args), turn),))
        call = event.ended[-1]
        if not call.ok:
            return self._failed(ErrorCode.TOOL_ERROR, call.text.removeprefix("error: "), event.now)
        return self._done(turn, call.text, as_value(call.text), event.now)

    def _ask_person(self, turn: Rules, event: TurnReady) -> Effect:
        node = self._node
        assert isinstance(node, AskNode)
        if not event.ended:
            args = to_json({QUESTION: rendered_text(node.question, self._state())}).decode()
            return CallTools((planned_call(ToolCallDraft(ASK_USER.name, args), turn),))
        if not event.said:
            return self._failed(ErrorCode.GRAPH_ERROR, event.ended[-1].text, event.now)
        return self._done(turn, event.said, event.said, event.now)

    def _answered(self, event: ModelAnswered, turn: Rules) -> Effect:
        following = after_answer(event.answer, turn, event.checked, event.malformed)
        if isinstance(following, Fail):
            problem = f"the model's answer is not of the form that the node asks for: {following.problem}"
            return self._failed(ErrorCode.MODEL_ERROR, problem, event.now)
        if not isinstance(following, Complete):
            return following
        value = from_json(following.text) if turn.json else following.text
        return self._done(turn, following.text, value, event.now)

    # Tasks that the node starts

    def _run_children(self, turn: Rules, event: TurnReady) -> Effect:
        if self._place.depth + 1 > MAX_DEPTH:
            problem = f"graphs are nested more than {MAX_DEPTH} levels deep: use fewer"
            return self._run_fails(ErrorCode.GRAPH_ERROR, problem, event.now)
        entries = tuple([self._joined(call, event.now) for call in event.ended if call.id in self._run.children])
        run = self._run.after(entries)
        wanted = self._wanted()
        succeeded = [index for index, result in run.results.items() if result.ok]
        lost = {index: result for index, result in run.results.items() if not result.ok}
        if len(succeeded) >= wanted.needed:
            return self._all_joined(turn, run, entries, event.now)
        if len(wanted.children) - len(lost) < wanted.needed:
            index, result = min(lost.items(), key=lambda each: each[0])
            problem = f"{wanted.what(index)} has failed: {result.text}"
            return self._failed(ErrorCode.GRAPH_ERROR, problem, event.now, entries)
        under_way = {child.index for child in run.children.values()}
        waiting = [number for number in range(len(wanted.children)) if number not in under_way | run.results.keys()]
        begun = waiting[: max(0, wanted.most - len(under_way))]
        return Noted(entries, StartChildren(tuple([wanted.children[number]() for number in begun]), wanted.most))

    def _joined(self, call: EndedCall, now: int) -> NodeEntry:
        child = self._run.children[call.id]
        entry = NodeEntry(kind="joined", node=self._run.node, at_ms=now, call=call.id, child=child.task_id)
        entry = entry.model_copy(update={"index": child.index, "name": child.name})
        outcome = call.child
        if not call.ok or outcome is None:
            return entry.model_copy(update={"error": clip(call.text.removeprefix("error: "), _MAX_PROBLEM)})
        text = None if outcome.value == call.text else call.text
        return entry.model_copy(update={"text": text, "value": outcome.value, "writes": outcome.writes})

    def _wanted(self) -> "_Wanted":
        """The tasks that the node wants. Raises ``StateError``."""
        node, state, graph = self._node, self._state(), self._graph
        if isinstance(node, ParallelNode):
            until = node.then or ""
            children = [_child(n, key, graph, key, until, state) for n, key in enumerate(node.branches)]
            return _Wanted(children, node.needed, len(children), lambda n: f"branch {node.branches[n]!r}")
        if isinstance(node, MapNode):
            items = value_at(state, node.over)
            if not isinstance(items, list):
                raise StateError(f"{node.over} is no list")
            if len(items) > MAX_ITEMS:
                raise StateError(f"{node.over} has {len(items):,} items, and {MAX_ITEMS:,} at most: split the list")
            children = [
                _child(n, node.node, graph, node.node, node.then or "", {**state, ITEM: item, INDEX: n}, as_text(item))
                for n, item in enumerate(items)
            ]
            return _Wanted(children, len(items), node.max_parallel, lambda n: f"item {n}")
        assert isinstance(node, GraphNode)
        other = self._place.subgraph
        if other is None:
            raise StateError(f"there is no graph {node.graph!r}")
        return _Wanted([_child(0, other.name, other, other.entry, "", state)], 1, 1, lambda _: f"graph {node.graph!r}")

    def _all_joined(self, turn: Rules, run: GraphRun, entries: tuple[NodeEntry, ...], now: int) -> Effect:
        node, ok = self._node, {n: run.results[n] for n in sorted(run.results) if run.results[n].ok}
        if isinstance(node, MapNode):
            values = [result.value for result in ok.values()]
            shared = tuple([(k, v) for each in ok.values() for k, v in each.writes if k in self._graph.reducers])
            return self._done(turn, to_json(values).decode(), values, now, entries, shared, joined=True)
        writes = tuple([pair for result in ok.values() for pair in result.writes])
        if isinstance(node, GraphNode):
            result = ok[0]
            return self._done(turn, result.text, result.value, now, entries, writes, joined=True)
        assert isinstance(node, ParallelNode)
        values_of = {node.branches[n]: result.value for n, result in ok.items()}
        told = {key: values_of.get(key, _absent(run.results.get(n))) for n, key in enumerate(node.branches)}
        return self._done(turn, to_json(told).decode(), values_of, now, entries, writes, joined=True)

    # What follows when the node's work is done

    def _done(
        self,
        turn: Rules,
        text: str,
        value: Any,
        now: int,
        entries: tuple[NodeEntry, ...] = (),
        writes: Writes = (),
        *,
        joined: bool = False,
    ) -> Effect:
        """The effect of a node's work that has ended well. ``joined``: the tasks that the node has started did it."""
        key = self._node.written
        writes = writes if key is None else (*writes, (key, value))
        try:
            state = written(self._run.first_state, (*self._run.writes, *writes), self._graph.reducers)
        except StateError as error:
            return self._failed(ErrorCode.GRAPH_ERROR, str(error), now, entries)
        decision = self._decided({}, state)
        result = text if joined else None
        if isinstance(decision, JudgeEdges | CheckEdge):
            done = self._entry("done", now, writes=list(writes), text=text)
            return Noted((*entries, done), GoOn(self._told(text), result=result))
        return self._after(turn, decision, now, entries, text, writes, result)

    def _decided(self, known: Mapping[int, bool], state: State) -> Decision:
        place = self._place
        return decided(self._graph, self._run.node, known, state, place.until, part=place.part)

    def _judged(self, event: ModelAnswered, turn: Rules) -> Effect:
        """The effect of a model's judgement."""
        following = after_answer(event.answer, turn, event.checked)
        problem = following.problem if isinstance(following, Fail) else "it is no judgement"
        if isinstance(following, Complete):
            outcomes = from_json(following.text)["holds"]
            if len(outcomes) == len(self.judged):
                return self._decide_with(turn, dict(zip(self.judged, outcomes, strict=True)), event.now)
            problem = f"it judges {len(outcomes)} conditions, and there are {len(self.judged)}"
        return NothingSaid(f"a model's judgement of conditions cannot be used: {problem}")

    def _checked(self, turn: Rules, event: TurnReady) -> Effect:
        """The effect of a tool's check of a condition; without one yet, its call."""
        state = self._state()
        decision = self._decided(self._run.holds, state)
        if not isinstance(decision, CheckEdge):
            return self._after(turn, decision, event.now, (), self._run.text)
        if not event.ended:
            spec = turn.tools.get(decision.tool)
            if spec is not None and spec.effect is not ToolEffect.PURE:
                problem = f"tool {decision.tool!r} checks a condition and is {spec.effect}: it must be pure"
                return self._failed(ErrorCode.GRAPH_ERROR, problem, event.now)
            draft = ToolCallDraft(decision.tool, to_json({"state": dict(state)}).decode())
            return CallTools((planned_call(draft, turn),))
        call = event.ended[-1]
        outcome = as_value(call.text)
        if not call.ok or not isinstance(outcome, bool):
            problem = f"tool {decision.tool!r} must say true or false, and says: {call.text}"
            return self._failed(ErrorCode.TOOL_ERROR, problem, event.now)
        return self._decide_with(turn, {decision.edge: outcome}, event.now)

    def _decide_with(self, turn: Rules, outcomes: Mapping[int, bool], now: int) -> Effect:
        entry = self._entry("decided", now, holds=dict(outcomes))
        decision = self._decided({**self._run.holds, **outcomes}, self._state())
        if isinstance(decision, JudgeEdges | CheckEdge):
            return Noted((entry,), GoOn())
        return self._after(turn, decision, now, (entry,), self._run.text)

    def _after(
        self,
        turn: Rules,
        decision: Decision,
        now: int,
        entries: tuple[NodeEntry, ...],
        text: str,
        writes: Writes = (),
        result: str | None = None,
    ) -> Effect:
        """The effect of a decision about the edges."""
        if isinstance(decision, NoWay):
            problem = "none of its edges holds, and it has no default edge"
            return self._failed(ErrorCode.GRAPH_ERROR, problem, now, entries)
        assert isinstance(decision, NextNode)
        if decision.node is not None and self._run.iterations >= self._graph.max_iterations:
            problem = (
                f"graph {self._graph.name!r} has come to {self._run.iterations} nodes; max_iterations is the limit"
            )
            return self._run_fails(ErrorCode.STEP_LIMIT, problem, now, entries)
        end = self._entry("end", now, next=decision.node, writes=list(writes))
        if decision.node is not None:
            return Noted((*entries, end), GoOn(self._told(text), result=result))
        said = text or self._run.text
        ended = self._run.after((*entries, end))
        outcome = ChildOutcome(status="completed", value=self._value(ended, said), writes=list(ended.writes))
        told = self._run.deciding and isinstance(self._node, LlmNode)
        return Noted((*entries, end), Complete(said, turn.end_mode, told=told), outcome)

    def _told(self, text: str) -> str:
        """The text as clients are told it: what a model has said, when it has just said it."""
        return text if isinstance(self._node, LlmNode) and not self._run.deciding else ""

    def _value(self, ended: GraphRun, text: str) -> Any:
        """The value of a task that ends at this node."""
        key = self._node.written
        if key is None:
            return text
        return next((value for name, value in reversed(ended.writes) if name == key), text)

    def _failed(self, code: ErrorCode, problem: str, now: int, entries: tuple[NodeEntry, ...] = ()) -> Effect:
        """The effect of a node's failure: it is tried again, another node follows, or the run fails."""
        problem, node = clip(problem, _MAX_PROBLEM), self._node
        if self._run.tries + 1 < node.retry.attempts:
            retry = self._entry("retry", now, error=problem)
            return Noted((*entries, retry), GoOn(delay_ms=round(node.retry.delay * 1000)))
        if node.on_error != FAIL and self._run.iterations < self._graph.max_iterations:
            end = self._entry("end", now, next=node.on_error, error=problem)
            return Noted((*entries, end), GoOn())
        return self._run_fails(code, f"node {node.key!r}: {problem}", now, entries)

    def _run_fails(self, code: ErrorCode, problem: str, now: int, entries: tuple[NodeEntry, ...] = ()) -> Effect:
        failed = self._entry("failed", now, error=clip(problem, _MAX_PROBLEM))
        return Noted((*entries, failed), FailRun(code, problem))

    def _entry(self, kind: NodeEntryKind, now: int, **fields: Any) -> NodeEntry:
        return NodeEntry(kind=kind, node=self._run.node, at_ms=now, **fields)

    def _state(self) -> State:
        """The state of the run. Raises ``StateError``."""
        return written(self._run.first_state, self._run.writes, self._graph.reducers)


@immutable
class _Wanted:
    """The tasks of a node, and how many of them must succeed."""

    children: list[Callable[[], ChildTask]]
    needed: int
    most: int
    """Number of tasks that are under way at the same time."""
    what: Callable[[int], str]
    """Names a task in words."""


def _child(
    number: int, name: str, graph: GraphSpec, entry: str, until: str, state: State, said: str | None = None
) -> Callable[[], ChildTask]:
    return lambda: ChildTask(number, name, graph, entry, until, state, said)


def _absent(result: ChildResult | None) -> Mapping[str, str]:
    """The label of a branch without a value."""
    return {"error": result.text} if result is not None else {"cancelled": "others were enough"}


_READY: Mapping[type[Any], Callable[[GraphWork, Rules, TurnReady], Effect]] = MappingProxyType(
    {
        LlmNode: GraphWork._ask_model,
        ToolNode: GraphWork._call_tool,
        AskNode: GraphWork._ask_person,
        ParallelNode: GraphWork._run_children,
        MapNode: GraphWork._run_children,
        GraphNode: GraphWork._run_children,
    }
)
"""The work of a node, by its kind."""
