"""The instruction that a task runs: the version that was current when it was opened, kept with the task."""

from collections import OrderedDict
from collections.abc import Mapping
from types import MappingProxyType

from pentad.contracts.dates import LocalDate, minute_at
from pentad.contracts.graph_nodes import LlmNode, Node
from pentad.contracts.graphs import GraphSpec, Runnable
from pentad.contracts.ids import rfc3339
from pentad.contracts.instructions import NOW, Instruction
from pentad.services.task_runner.domain.own_tools import agent_tool_name
from pentad.shared.actors.headers import TaskHeader
from pentad.shared.errors import DamagedError
from pentad.shared.immutable import immutable
from pentad.shared.instructions.builtin import GRAPH_JUDGE, GRAPH_NODE, SUMMARIZER
from pentad.shared.instructions.instruction_list import graph_kept_under, kept_under, version_of
from pentad.shared.instructions.output import Output, server_schema
from pentad.shared.instructions.state_check import StateCheck
from pentad.shared.instructions.system_prompt import PromptValues, encoded_system, fixed_prompt, system_message
from pentad.shared.keys import TaskKeys
from pentad.shared.presence.instruction_book import InstructionBook
from pentad.shared.store.store import Store, guarded

_REMEMBERED = 256
_NO_VALUES: Mapping[str, str] = MappingProxyType({})
_NAME_CHARS = 60
"""Characters of a graph's name in the names of its nodes' instructions."""


class UnknownInstructionError(Exception):
    """A node names an instruction that is not there any more."""


@immutable
class Chosen:
    """One version of an instruction, ready to be used."""

    instruction: Instruction
    version: str
    output: Output | None
    """Form that the answer must fit; None for a plain text."""
    schema: bytes | None = None
    """Schema that the model's server is told, as JSON; None when it is told nothing."""
    fixed: str | None = None
    """The system prompt without the date, where it is the same for every task."""
    variables: frozenset[str] = frozenset()
    """Names of the values of metadata that the system prompt has."""

    def now(self, at_ms: int, today: LocalDate) -> str | None:
        """The minute at which the turn began, in words; None where the system prompt does not name it.

        It is that of the turn's message and not of the step, so that all steps of a turn have the same prompt.
        """
        return minute_at(at_ms, today.time_zone) if NOW in self.instruction.placeholders else None

    def system(
        self,
        task: TaskHeader,
        today: LocalDate,
        variables: Mapping[str, str],
        now: str | None = None,
        state: Mapping[str, str] = _NO_VALUES,
    ) -> bytes:
        """The system message for this task. It is the same in each of its steps of a day, and changes at its end, and
        when a message gives one of the ``variables`` another value, or begins a turn whose time the prompt names, or
        when a node of a graph gives the ``state`` another value.
        """
        if self.fixed is not None:
            return encoded_system(self.fixed, today)
        return system_message(self.instruction, values_of(task, variables, now, state), today)


def choose(instruction: Instruction, version: str) -> Chosen:
    """An instruction, ready to be used. Raises ``WrongSchema``."""
    schema = instruction.output_schema
    output = Output(schema) if schema is not None else None
    return Chosen(instruction, version, output, server_schema(schema), fixed_prompt(instruction), instruction.variables)


def values_of(
    task: TaskHeader, variables: Mapping[str, str], now: str | None, state: Mapping[str, str]
) -> PromptValues:
    """The values of this task that a system prompt may name; a fork names the session and begin of the first task."""
    session, begun = task.session, rfc3339(task.created)
    if task.fork is not None:
        session, begun = task.fork.named_session_id, task.fork.named_started_at
    return PromptValues(task.goal, session, begun, task.tenant, task.user, variables, now or "", state)


class TaskInstructions:
    """Finds a task's instruction: in what this process remembers, or with the task.

    In the book only for a task that an earlier version of Pentad has opened and that has made no step.
    """

    def __init__(self, store: Store, book: InstructionBook) -> None:
        self._store, self._book = store, book
        self._remembered: OrderedDict[str, Chosen] = OrderedDict()
        """Instructions by version."""
        self._current: dict[str, Chosen] = {}
        """Instructions by name, as they were last found in the book, and those that nodes of graphs hold."""
        self._graphs: OrderedDict[str, GraphSpec] = OrderedDict()
        """Graphs by version."""
        self._state_checks: dict[str, StateCheck] = {}
        """Checks of graphs' states, by the versions of the graphs."""

    async def graph_of(self, keys: TaskKeys, task: TaskHeader) -> GraphSpec:
        """Find the graph that the task runs. Raises ``DamagedError`` when what is kept of it cannot be read."""
        known = self._graphs.get(task.graph)
        if known is None:
            raw = await guarded("graph", self._store.call, "HGET", keys.big, graph_kept_under(task.graph))
            try:
                known = GraphSpec.model_validate_json(raw or b"")
            except ValueError as error:
                why = type(error).__name__
                raise DamagedError(f"the graph of task {keys.task} cannot be read ({why})") from None
            self._graphs[task.graph] = known
            if len(self._graphs) > _REMEMBERED:
                self._graphs.popitem(last=False)
        self._graphs.move_to_end(task.graph)
        return known

    async def state_check_of(self, keys: TaskKeys, task: TaskHeader) -> StateCheck:
        """Find the check of the state of the graph that the task runs. Raises ``DamagedError`` as `graph_of` does."""
        found = self._state_checks.get(task.graph)
        if found is None:
            graph = await self.graph_of(keys, task)
            found = self._state_checks[task.graph] = StateCheck(graph.state_schema)
            if len(self._state_checks) > _REMEMBERED:
                self._state_checks.pop(next(iter(self._state_checks)))
        return found

    async def of_node(self, keys: TaskKeys, task: TaskHeader, graph: GraphSpec, node: Node, *, judges: bool) -> Chosen:
        """Find the instruction of a node's step. ``judges``: the step judges the conditions of the node's edges.

        A node that has made a step keeps the version that it began with. Raises ``UnknownInstructionError``.
        """
        if judges:
            return self._named(GRAPH_JUDGE, (await self._book.known()).get(GRAPH_JUDGE.name))
        if not isinstance(node, LlmNode):
            return self.without_model()
        if node.instruction is None:
            return self._inline(task.graph, graph, node)
        if task.node == node.key and task.turn_steps > task.node_from and task.instruction_version:
            kept = await self.of(keys, task)
            if kept is not None and kept.instruction.name == node.instruction:
                return kept
        found = self._begun((await self._book.known(node.instruction)).get(node.instruction))
        if found is None:
            raise UnknownInstructionError(f"there is no instruction {node.instruction!r}")
        return found

    async def agents_of(self, instruction: Instruction) -> Mapping[str, Runnable]:
        """Find the instructions and graphs that an instruction may call, by the names of their tools. One that is not
        there is left out.
        """
        if not instruction.agents:
            return {}
        known = await self._book.runnables()
        found = [known[name] for name in instruction.agents if name in known]
        return {agent_tool_name(agent.name): agent for agent in found}

    def without_model(self) -> Chosen:
        """Return what stands for the instruction of a step that asks no model."""
        return self._named(GRAPH_NODE, GRAPH_NODE)

    async def summarizer(self) -> Chosen:
        """Find the instruction that summarises long conversations."""
        return self._named(SUMMARIZER, (await self._book.known()).get(SUMMARIZER.name))

    async def graph_named(self, name: str) -> GraphSpec | None:
        """Find a graph by its name, as it is now."""
        found = (await self._book.runnables(name)).get(name)
        return found if isinstance(found, GraphSpec) else None

    def _named(self, built_in: Instruction, known: Instruction | None) -> Chosen:
        found = self._begun(known or built_in)
        assert found is not None
        return found

    def _inline(self, version: str, graph: GraphSpec, node: LlmNode) -> Chosen:
        key = f"{version}.{node.key}"
        found = self._current.get(key)
        if found is None:
            made = node.inline(f"{graph.name[:_NAME_CHARS]}.{node.key}")
            found = self._current[key] = self._remember(choose(made, version_of(made)))
            if len(self._current) > _REMEMBERED:
                self._current.pop(next(iter(self._current)))
        return found

    async def of(self, keys: TaskKeys, task: TaskHeader) -> Chosen | None:
        """Find the task's instruction; None when the task keeps no version and no such instruction is known.

        Raises ``DamagedError`` when the instruction that is kept with the task cannot be read.
        """
        version = task.instruction_version
        if not version:
            return self._begun((await self._book.known(task.instruction)).get(task.instruction))
        known = self._remembered.get(version)
        if known is None:
            known = await self._kept(keys, task)
        self._remembered.move_to_end(version)
        return known

    def _begun(self, instruction: Instruction | None) -> Chosen | None:
        if instruction is None:
            return None
        found = self._current.get(instruction.name)
        if found is None or found.instruction is not instruction:
            found = self._remember(choose(instruction, version_of(instruction)))
            self._current[instruction.name] = found
        return found

    async def _kept(self, keys: TaskKeys, task: TaskHeader) -> Chosen:
        name = kept_under(task.instruction_version)
        raw = await guarded("instruction", self._store.call, "HGET", keys.big, name)
        try:
            return self._remember(choose(Instruction.model_validate_json(raw or b""), task.instruction_version))
        except ValueError as error:
            raise DamagedError(f"the instruction of task {keys.task} cannot be read ({type(error).__name__})") from None

    def _remember(self, found: Chosen) -> Chosen:
        self._remembered[found.version] = found
        if len(self._remembered) > _REMEMBERED:
            self._remembered.popitem(last=False)
        return found
