"""Nodes and edges of graphs, each a contract of its own."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from pentad.contracts.envelope import Contract
from pentad.contracts.ids import Identifier
from pentad.contracts.instructions import Instruction, OfferedName, OutputMode, ToolName

FAIL = "fail"
"""Stands for no node in ``on_error``: the run of the graph fails."""
NodeKey = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,63}$")]
StateKey = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$")]
STATE_PATH = r"^state(\.[A-Za-z0-9_-]{1,64}){1,8}$"
StatePath = Annotated[str, StringConstraints(pattern=STATE_PATH)]
"""Place in the state of a run: ``state``, a key, and keys of objects or indexes of lists below it."""
Reducer = Literal["replace", "append", "merge", "sum"]
"""Rule by which a written value joins the value that the key has. ``replace``: it takes its place. ``append``: lists
are joined, and any other value is added to the list. ``merge``: the fields of an object replace those of the same name.
``sum``: numbers are added."""
Comparison = Literal["==", "!=", "<", "<=", ">", ">=", "in", "contains", "exists"]
MAX_STATE = 262_144
"""Bytes that the state of a run may have as JSON."""
MAX_FIRST_STATE = 65_536
"""Bytes that the state of a message may have as JSON."""
MAX_ITEMS = 1_000
"""Items of one list that a map node runs its node for."""
MAX_S = 30 * 86_400
"""Seconds of the longest time limit and of the longest delay: a month."""


class NodeRetry(Contract):
    """How often a node is tried, and how long the task waits before it is tried again."""

    attempts: int = Field(default=1, ge=1, le=100)
    """Attempts in all, the first one included."""
    delay: float = Field(default=0.0, ge=0, le=MAX_S)
    """Seconds between two attempts."""


class BaseNode(Contract):
    """The fields that all nodes have."""

    key: NodeKey
    """Name of the node in its graph."""
    description: str = Field(default="", max_length=1_000)
    retry: NodeRetry = NodeRetry()
    timeout: float | None = Field(default=None, gt=0, le=MAX_S)
    """Seconds that one attempt at the node may take; absent: as long as the graph may. The time for which a person is
    asked or the task is paused does not count."""
    on_error: NodeKey | Literal["fail"] = FAIL
    """Key of the node that follows when the last attempt has failed; ``fail``: the run fails."""
    writes: StateKey | None = None
    """Key of the state under which the node's value is written."""

    @property
    def written(self) -> str | None:
        """Key of the state that this node writes; None if it writes nothing."""
        return self.writes

    @property
    def reads(self) -> Sequence[str]:
        """Texts in which the node may name places of the state as ``{{state.PATH}}``."""
        return ()

    @property
    def following(self) -> str | None:
        """Key of the node that follows without an edge; None if edges say so."""
        return None


class LlmNode(BaseNode):
    """A node that asks a model, which may call tools, until it answers."""

    kind: Literal["llm"]
    instruction: Identifier | None = None
    """Name of the instruction that the node runs, in place of the fields below."""
    system_prompt: str | None = Field(default=None, min_length=1, max_length=65_536)
    """System prompt, as of an instruction; ``{{state.PATH}}`` stands for a value of the state, quoted."""
    tools: list[OfferedName] | None = Field(default=None, max_length=256)
    """Names of the tools that the model may call; absent: all tools; empty: none."""
    model: Identifier | None = None
    output: OutputMode | None = None
    """Form of the answer, which is written to the state under the node's key, or under ``writes``. Absent: a text,
    which is written only if ``writes`` is given."""
    output_schema: dict[str, Any] | None = None
    """JSON Schema of a ``json`` answer."""

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Self:
        given = [
            name for name in ("system_prompt", "tools", "model", "output_schema") if getattr(self, name) is not None
        ]
        if self.instruction is not None and given:
            raise ValueError(f"instruction names what the node runs: leave out {', '.join(given)}")
        if self.instruction is None and self.system_prompt is None:
            raise ValueError("it needs an instruction (a name), or a system_prompt of its own")
        if self.instruction is None:
            self.inline("node")  # raises what is wrong with the fields
        return self

    def inline(self, name: str) -> Instruction:
        """Return the instruction that the node's own fields make, under this name. Raises ``ValueError``."""
        return Instruction(
            name=name,
            description=self.description,
            system_prompt=self.system_prompt or "",
            tools=self.tools,
            model=self.model,
            output=self.output or "stream",
            output_schema=self.output_schema,
        )

    @property
    def written(self) -> str | None:
        """Key of the state that this node writes; None if it writes nothing."""
        return self.writes or (self.key if self.output is not None else None)

    @property
    def reads(self) -> Sequence[str]:
        """Texts in which the node may name places of the state as ``{{state.PATH}}``."""
        return (self.system_prompt,) if self.system_prompt is not None else ()


class ToolNode(BaseNode):
    """A node that makes one tool call, with arguments from the state."""

    kind: Literal["tool"]
    tool: ToolName
    args: dict[str, Any] = Field(default_factory=dict)
    """Arguments. A text that is a place of the state (``state.city``) stands for its value; in a longer text,
    ``{{state.PATH}}`` does."""

    @property
    def written(self) -> str | None:
        """Key of the state that this node writes."""
        return self.writes or self.key

    @property
    def reads(self) -> Sequence[str]:
        """Texts in which the node may name places of the state as ``{{state.PATH}}``."""
        return tuple(_texts(self.args))


class GraphNode(BaseNode):
    """A node that runs another graph as a task of its own; what it writes to its state is written to this one, too."""

    kind: Literal["graph"]
    graph: Identifier


class ParallelNode(BaseNode):
    """A node that starts branches side by side, each as a task of its own, and waits for them."""

    kind: Literal["parallel"]
    branches: list[NodeKey] = Field(min_length=2, max_length=64)
    """Keys of the nodes with which the branches begin. A branch follows the edges until it comes to ``then`` or to a
    node without edges."""
    join: Literal["all", "any"] | Annotated[int, Field(ge=1, le=64)]
    """How many branches must succeed before the graph goes on: all, any one, or a number. The others are cancelled."""
    then: NodeKey | None = None
    """Key of the node that follows; absent: as edges say."""

    @property
    def following(self) -> str | None:
        """Key of the node that follows without an edge; None if edges say so."""
        return self.then

    @property
    def needed(self) -> int:
        """How many branches must succeed."""
        return len(self.branches) if self.join == "all" else 1 if self.join == "any" else self.join


class MapNode(BaseNode):
    """A node that runs another node for each item of a list, each item as a task of its own.

    The list of their values, in the order of the items, is written under the key of the map node, or under ``writes``.
    """

    kind: Literal["map"]
    over: StatePath
    """Place of the list in the state. The task of an item has it in its state as ``item``, and its number from 0 on as
    ``index``."""
    node: NodeKey
    """Key of the node with which the task of an item begins. It follows the edges as a branch does."""
    max_parallel: int = Field(default=4, ge=1, le=64)
    """Items that are worked on at the same time."""
    then: NodeKey | None = None
    """Key of the node that follows; absent: as edges say."""

    @property
    def written(self) -> str | None:
        """Key of the state that this node writes."""
        return self.writes or self.key

    @property
    def following(self) -> str | None:
        """Key of the node that follows without an edge; None if edges say so."""
        return self.then


class AskNode(BaseNode):
    """A node that asks a person a question and waits for the answer."""

    kind: Literal["ask"]
    question: str = Field(min_length=1, max_length=65_536)
    """The question; ``{{state.PATH}}`` stands for a value of the state."""

    @property
    def reads(self) -> Sequence[str]:
        """Texts in which the node may name places of the state as ``{{state.PATH}}``."""
        return (self.question,)


Node = Annotated[LlmNode | ToolNode | GraphNode | ParallelNode | MapNode | AskNode, Field(discriminator="kind")]


class Edge(Contract):
    """A way from a node to the next. The edges of a node are tried in their order, and the first that holds is taken.

    An edge without a condition is the default: it is taken when no other holds.
    """

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    source: NodeKey = Field(alias="from")
    target: NodeKey = Field(alias="to")
    when: str | None = Field(default=None, min_length=1, max_length=2_000)
    """Condition in words, which a model judges by the conversation."""
    where: dict[StatePath, dict[Comparison, Any]] | None = Field(default=None, min_length=1, max_length=16)
    """Comparisons of values of the state, all of which must hold."""
    check: ToolName | None = None
    """Name of a pure tool that is called with the ``state`` and returns true or false."""

    @model_validator(mode="after")
    def _has_one_condition(self) -> Self:
        if sum(given is not None for given in (self.when, self.where, self.check)) > 1:
            raise ValueError("an edge has one condition at most: when, where or check")
        return self

    @property
    def is_default(self) -> bool:
        """Whether the edge has no condition."""
        return self.when is None and self.where is None and self.check is None


def _texts(value: Any) -> Iterator[str]:
    """Return all texts in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
