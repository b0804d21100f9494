"""Everything that a task waits for is an open call, and who ends it, its target, has one rule. Pure."""

from collections.abc import Mapping
from typing import Literal, Protocol

from pentad.shared.immutable import immutable

Target = Literal["worker", "person", "runner", "task", "branch", "approval", "calls", "client"]
"""Who ends a call: a tool-worker, with a result; the person, with an answer; the task-runner itself; a task that a
model has called; a task that a node of a graph has started, a branch. ``approval``: a person must first allow the call,
or give it what it needs to go on; then it is a tool-worker's. ``calls``: other calls must end first.
``client``: the client that has sent the turn's message, with a result, or a message, with which it is given up."""


class Targeted(Protocol):
    """A tool call that has a target: an open one, or one that is planned."""

    @property
    def target(self) -> Target:
        """Return who ends the call."""


@immutable
class TargetRule:
    """How the open calls of one target end, and what holds meanwhile.

    A cancel, a deadline and a move end the calls of every target alike: the task-runner gives them up.
    """

    ends_by: Literal["result", "message", "others", "decision", "calls", "client"]
    """``result``: mail brings its result, and messages wait for it. ``message``: the person's next message is the
    answer. ``others``: it waits for nobody, and ends when all other calls have.
    ``decision``: a person allows or refuses it; then it is another target's, or has its result. ``calls``: when other
    calls have ended, it is another target's. ``client``: a client sends its result; a message ends it without one."""
    timed: bool = True
    """Whether the step's time limit ends it. While one call has no limit, its step has none."""
    alone: bool = False
    """Whether its result is handled when it comes, and the other calls of its kind stay open."""


RULES: Mapping[Target, TargetRule] = {
    "worker": TargetRule("result"),
    "person": TargetRule("message", timed=False),
    "runner": TargetRule("others"),
    "task": TargetRule("result", timed=False),
    "branch": TargetRule("result", timed=False, alone=True),
    "approval": TargetRule("decision", timed=False),
    "calls": TargetRule("calls"),
    "client": TargetRule("client", timed=False),
}


def rule_of(call: Targeted) -> TargetRule:
    """The rule of the call's target."""
    return RULES[call.target]


def starts_task(call: Targeted) -> bool:
    """Whether the call has started a task, whose id follows from the call's."""
    return call.target in ("task", "branch")


def is_branch(call: Targeted) -> bool:
    """Whether a node of a graph has started the call's task: no transcript has the call, and its run has the result."""
    return call.target == "branch"


def is_made_by_worker(call: Targeted) -> bool:
    """Whether a tool-worker makes the call, at once or when a person has allowed it."""
    return call.target in ("worker", "approval")


def asks_person(call: Targeted) -> bool:
    """Whether the person's next message is its answer."""
    return rule_of(call).ends_by == "message"


def awaits_decision(call: Targeted) -> bool:
    """Whether a person must decide about it before it is made or goes on."""
    return rule_of(call).ends_by == "decision"


def awaits_client(call: Targeted) -> bool:
    """Whether the client that has sent the turn's message makes it."""
    return rule_of(call).ends_by == "client"


def awaits_calls(call: Targeted) -> bool:
    """Whether other calls must end before it is made."""
    return rule_of(call).ends_by == "calls"


def is_kept(call: Targeted) -> bool:
    """Whether the call is kept beside the task, because it is not made yet."""
    return awaits_decision(call) or awaits_calls(call)


def ends_last(call: Targeted) -> bool:
    """Whether it waits for nobody, and ends when all other calls have."""
    return rule_of(call).ends_by == "others"
