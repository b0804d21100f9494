"""Decides in which order the calls of one answer are made: tools may name others whose calls come first. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from pentad.services.task_runner.domain.planned_call import PlannedCall
from pentad.shared.actors.targets import is_made_by_worker

_GIVES_A_RESULT = ("worker", "approval", "task", "client")
"""Targets whose calls end with a result of their own, for which others can wait."""


def in_order(planned: Sequence[PlannedCall]) -> list[PlannedCall]:
    """Give each call the places of those that it comes after. Of calls of one tool that names itself, each comes after
    those before it in the answer.

    Calls that would wait for each other are not made.
    """
    if not any(each.spec is not None and each.spec.after for each in planned):
        return list(planned)
    waits = [_comes_after(number, each, planned) for number, each in enumerate(planned)]
    circles = _in_circles(waits)
    return [
        _refused(each, planned, waits[number]) if number in circles else replace(each, after=waits[number])
        for number, each in enumerate(planned)
    ]


def _comes_after(number: int, call: PlannedCall, planned: Sequence[PlannedCall]) -> tuple[int, ...]:
    if call.spec is None or not call.spec.after or call.problem or not is_made_by_worker(call):
        return ()
    named = {*call.spec.after}
    return tuple(
        [
            place
            for place, other in enumerate(planned)
            if other.tool in named and other.target in _GIVES_A_RESULT and (other.tool != call.tool or place < number)
        ]
    )


def _in_circles(waits: Sequence[Sequence[int]]) -> set[int]:
    """Return the places of calls that would never be made, because they wait for each other."""
    left = set(range(len(waits)))
    while free := {place for place in left if left.isdisjoint(waits[place])}:
        left -= free
    return left


def _refused(call: PlannedCall, planned: Sequence[PlannedCall], waits: Sequence[int]) -> PlannedCall:
    others = ", ".join(sorted({planned[place].tool for place in waits}))
    problem = (
        f"this call was not made: it comes after {others}, and they wait for each other: ask for one after another"
    )
    return replace(call, problem=problem, target="worker", said="")
