"""Everything that a task waits for is an open call, and who ends it, its target, has one rule. Pure."""

from typing import Literal

from pentad.services.task_runner.domain.arrived import Arrived
from pentad.shared.actors.headers import OpenCall, Target
from pentad.shared.immutable import immutable


@immutable
class TargetRule:
    """How the open calls of one target end, and what holds meanwhile.

    A cancel, a deadline and a move end the calls of every target alike: they are given up (`plan.give_up`).
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


RULES: dict[Target, TargetRule] = {
    "worker": TargetRule("result"),
    "person": TargetRule("message", timed=False),
    "runner": TargetRule("others"),
    "task": TargetRule("result", timed=False),
    "branch": TargetRule("result", timed=False, alone=True),
    "approval": TargetRule("decision", timed=False),
    "calls": TargetRule("calls"),
    "client": TargetRule("client", timed=False),
}


def rule_of(call: OpenCall) -> TargetRule:
    """The rule of the call's target."""
    return RULES[call.target]


def is_ended(call: OpenCall, arrived: Arrived) -> bool:
    """Whether what the call waits for has come."""
    if call.id in arrived.results:
        return True
    ends_by = rule_of(call).ends_by
    return ends_by == "others" or (ends_by in ("message", "client") and bool(arrived.users))


def stays_open(call: OpenCall, arrived: Arrived) -> bool:
    """Whether the task goes on beside this call, which waits for its result."""
    return rule_of(call).alone and call.id not in arrived.results


def starts_task(call: OpenCall) -> bool:
    """Whether the call has started a task, whose id follows from the call's."""
    return call.target in ("task", "branch")


def asks_person(call: OpenCall) -> bool:
    """Whether the person's next message is its answer."""
    return rule_of(call).ends_by == "message"


def awaits_decision(call: OpenCall) -> bool:
    """Whether a person must decide about it before it is made or goes on."""
    return rule_of(call).ends_by == "decision"


def awaits_client(call: OpenCall) -> bool:
    """Whether the client that has sent the turn's message makes it."""
    return rule_of(call).ends_by == "client"


def awaits_calls(call: OpenCall) -> bool:
    """Whether other calls must end before it is made."""
    return rule_of(call).ends_by == "calls"


def is_kept(call: OpenCall) -> bool:
    """Whether the call is kept beside the task, because it is not made yet."""
    return awaits_decision(call) or awaits_calls(call)


def ends_last(call: OpenCall) -> bool:
    """Whether it waits for nobody, and ends when all other calls have."""
    return rule_of(call).ends_by == "others"
