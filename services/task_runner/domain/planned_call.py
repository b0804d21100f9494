"""A tool call that an answer asks for, as it was read and checked. Pure."""

from pentad.contracts.graphs import Runnable
from pentad.contracts.tools import ToolSpec
from pentad.services.task_runner.domain.verdict import NO_VERDICT, CallVerdict
from pentad.shared.actors.targets import Target
from pentad.shared.immutable import immutable


@immutable
class PlannedCall:
    """A tool call that the answer asks for, and whether it can be made."""

    tool: str
    spec: ToolSpec | None
    """Specification of the tool; None when no worker knows it."""
    arguments: str
    """Arguments for the prompt: JSON, whatever the model wrote."""
    args: dict[str, object] | None
    """Parsed arguments; None when they are not a JSON object."""
    raw: str
    """Arguments as the model wrote them."""
    problem: str = ""
    """Reason why the call cannot be made, which becomes its result; '' for a call to be made."""
    target: Target = "worker"
    """Target that ends the call. A call that cannot be made has the target ``worker`` and its result already."""
    said: str = ""
    """Question to a person, the answer with which the task ends, the task of another agent, or why a person must allow
    the call; '' for a call that a worker gets at once."""
    agent: Runnable | None = None
    """Instruction or graph that the call starts a task of; None for any other call."""
    found: tuple[ToolSpec, ...] | None = None
    """Tools that a call of `tool_search` has found, which are its result already; None for any other call."""
    after: tuple[int, ...] = ()
    """Places in the answer of the calls that have to end before this one is made."""
    verdict: CallVerdict = NO_VERDICT
    """Rule of the operators about the call."""
