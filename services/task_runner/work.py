"""Finds the instruction and the way of working for a step: those of the node that the run of a graph has come to."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field, replace
from types import MappingProxyType
from typing import Any

from pentad.contracts.graph_nodes import GraphNode
from pentad.contracts.graphs import GraphSpec
from pentad.services.task_runner.domain.graph_strategy import GraphPlace, GraphWork
from pentad.services.task_runner.domain.strategy import Strategy
from pentad.services.task_runner.instructions import Chosen, TaskInstructions, UnknownInstructionError
from pentad.services.task_runner.prompt import KnownTranscript, user
from pentad.services.task_runner.step import Step
from pentad.services.task_runner.step_writer import StepWriter
from pentad.shared.agent_graphs.run import GraphRun
from pentad.shared.agent_graphs.state import StateError, as_text, value_at, written
from pentad.shared.immutable import immutable
from pentad.shared.instructions.variables import MAX_VARIABLE_CHARS

_NO_VALUES: Mapping[str, Any] = MappingProxyType({})


@immutable
class Work:
    """An instruction and a way of working, ready for one step."""

    chosen: Chosen
    strategy: Strategy
    place: GraphPlace | None = None
    """Place of the task in its graph, if it runs one."""
    state: Mapping[str, str] = field(default_factory=lambda: _NO_VALUES)
    """Values of the run's state that the system prompt names."""
    problem: str = ""
    """Reason why the node cannot work; '' if it can."""
    run: GraphRun = GraphRun()
    """Run of the graph as the transcript has it."""

    def may_call(self, writer: StepWriter) -> bool:
        """Return whether the turn may still call tools, by the rounds of calls that its instruction allows."""
        rounds = self.chosen.instruction.tool_rounds
        return rounds is None or writer.turn.steps - writer.repairs - self._steps_before(writer) < rounds

    def _steps_before(self, writer: StepWriter) -> int:
        """Return the steps of the turn that were made before the run came to its node."""
        if not self.run.node:
            return 0
        return min(writer.task.node_from, writer.turn.steps)

    def limit_at(self, now: int) -> int:
        """Return when the time of the node is over, in ms; 0 for no limit."""
        return now + self.strategy.time_left_ms(now) if isinstance(self.strategy, GraphWork) else 0

    def prompt(self, writer: StepWriter, transcript: KnownTranscript) -> int | None:
        """Append what the node asks its model beside the conversation; return the position of a question about
        conditions, if that is asked.
        """
        if not isinstance(self.strategy, GraphWork) or self.place is None or not self.strategy.asks_models:
            return None
        if self.strategy.judged:
            writer.append(user(self.place.question(self.strategy.judged)), origin="node")
            return len(transcript.messages) + len(writer.added) - 1
        prompt = [*transcript.prompt, *writer.added]
        if prompt and prompt[-1].startswith(_ANSWER) and _CALLS not in prompt[-1]:
            node = self.place.node
            about = f": {node.description}" if node.description else ""
            writer.append(user(f"[Next step: {node.key}{about}]"), origin="node")
        return None


_ANSWER, _CALLS = b'{"role":"assistant"', b'"tool_calls":['


async def graph_work(step: Step, instructions: TaskInstructions) -> Work:
    """Return what a task with a graph works by now. Raises ``DamagedError``."""
    task, run = step.task, step.transcript.run
    graph = await instructions.graph_of(step.keys, task)
    known = {call.id for call in task.open}
    run = replace(run, children={call: child for call, child in run.children.items() if call in known})
    place = GraphPlace(
        graph,
        run,
        task.entry or graph.entry,
        first_state=_first_state(step),
        until=task.until,
        depth=task.depth,
        waited_ms=task.waited + _waiting_now(step),
        node_waited_ms=task.node_waited + _waiting_now(step),
    )
    place, opening = place.opened(step.taken.lease.now)
    node = place.node
    if isinstance(node, GraphNode):
        place = replace(place, subgraph=await instructions.graph_named(node.graph))
    wrong_state = ""
    if opening or (task.parent and task.step == 0 and run.is_fresh):
        wrong_state = await (await instructions.state_check_of(step.keys, task)).problem(place.run.first_state)
    strategy = GraphWork(place, opening, wrong_state)
    state, problem = _NO_VALUES, ""
    try:
        chosen = await instructions.of_node(step.keys, task, graph, node, judges=bool(strategy.judged))
        state = _shown_state(place, graph, chosen)
    except UnknownInstructionError as error:
        chosen, problem = instructions.without_model(), str(error)
    except StateError as error:
        problem = str(error)
    return Work(chosen, strategy, place, state, problem, run)


def _first_state(step: Step) -> Mapping[str, Any]:
    states = [mail.message.state for mail in step.arrived.users if mail.message.state is not None]
    return states[-1] if states else _NO_VALUES


def _waiting_now(step: Step) -> int:
    """Return for how long the task has been waiting for the person whose answer has come now."""
    task = step.task
    return max(0, step.taken.lease.now - task.waiting_at) if task.waits and task.waiting_at else 0


def _shown_state(place: GraphPlace, graph: GraphSpec, chosen: Chosen) -> Mapping[str, str]:
    """Return the values of the state that the system prompt names, cut to what a prompt may have.

    Raises ``StateError``.
    """
    paths = chosen.instruction.state_paths
    if not paths:
        return _NO_VALUES
    state = written(place.run.first_state, place.run.writes, graph.reducers)
    shown = {}
    for path in sorted(paths):
        with suppress(StateError):  # the prompt says that it is not given
            shown[path] = _cut(as_text(value_at(state, path)))
    return shown


def _cut(text: str) -> str:
    return text if len(text) <= MAX_VARIABLE_CHARS else text[: MAX_VARIABLE_CHARS - 1] + "…"
