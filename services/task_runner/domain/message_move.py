"""Decides what leaves a task with a message that a person moves away, and how the task continues. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import takewhile
from typing import Any, Literal

from pentad.contracts.events import INTERRUPTED, PastEffect
from pentad.contracts.tools import Effect, ToolSpec
from pentad.services.task_runner.domain.arrived import newest_zone
from pentad.services.task_runner.domain.own_tools import ANSWERED, COMPLETED
from pentad.shared.actors.headers import TaskHeader
from pentad.shared.actors.targets import asks_person
from pentad.shared.actors.transcript import left_out
from pentad.shared.immutable import immutable

MOVED = "moved"
"""Reason of an end of a task whose last turn was moved away."""
Line = Mapping[str, Any]
"""An entry of a transcript as inspection shows it."""
Fate = Literal["goes_on", "asks", "as_it_was", "completed", "cancelled"]
"""How the first task continues. ``goes_on``: it has a turn to finish that nothing in its mail asks for; ``asks``: the
answer to its question was taken away, and it waits for another one.
"""


@immutable
class MovedPart:
    """The part of a transcript that leaves with a moved message."""

    place: int
    """Position of the message."""
    positions: tuple[int, ...]
    """Positions of the message and its direct answer; not of an answer that other messages share. For the task's first
    message, also those of what was recalled for it.
    """
    calls: tuple[tuple[str, str], ...]
    """Tool calls of that answer: id, tool."""
    last: bool
    """Whether the task's last turn is this message's alone: nothing was said to the task since or beside it."""
    later_steps: tuple[int, ...]
    """Steps whose answers came after the message, and stay."""


@immutable
class RemainingTranscript:
    """The transcript of a task without the moved message."""

    last_said: str | None
    """Id of the last message; '' of one without an id, None when there is no message."""
    answered: bool
    """Whether the transcript ends with an answer, or with nothing that asks for one."""
    asks: bool = False
    """Whether the transcript ends with a question to the person."""
    began_with: str = ""
    """Content of the first message."""
    budget: Mapping[str, Any] | None = None
    """Budget of the last message."""
    speaker: str = ""
    """User who sent the last message; '' when it names none."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Metadata of the last message."""
    traceparent: str = ""
    """Trace context of the last message."""
    time_zone: str = ""
    """Time zone of the person, as the newest message with one names it; '' for none."""
    given: tuple[Mapping[str, str], ...] = ()
    """Metadata of all messages that have some, the oldest first."""


def moved_part(lines: Sequence[Line], message_id: str) -> MovedPart | None:
    """Find what leaves with this message; None when the transcript does not have it any more."""
    gone = left_out(lines)
    said = [n for n in _said(lines) if n not in gone]
    place = next((n for n in reversed(said) if lines[n].get("message_id") == message_id), None)
    if place is None:
        return None
    others = set(said) - {place}
    kept = [n for n in range(len(lines)) if n not in gone]
    at = kept.index(place)
    answer: list[int] = []
    shared = any(n in others for n in (*kept[max(0, at - 1) : at], *kept[at + 1 : at + 2]))
    if not shared:
        for n in kept[at + 1 :]:
            if n in others:
                break
            answer.append(n)
    recalled = [n for n in kept if lines[n].get("origin") == "recalled" and lines[n]["role"] == "user"]
    answer = [n for n in answer if n not in recalled]  # memories about the next message
    before = max([n for n in others if n < place], default=-1)
    positions = (place, *answer, *(n for n in recalled if before < n < place and not shared))
    return MovedPart(
        place=place,
        positions=positions,
        calls=tuple(call for n in answer for call in _calls(lines[n])),
        last=not shared and not any(n > place for n in others),
        later_steps=tuple(
            lines[n]["step"] for n in kept[at + 1 :] if n not in positions and _answers(lines[n]) and "step" in lines[n]
        ),
    )


def without_part(lines: Sequence[Line], without: Sequence[int]) -> RemainingTranscript:
    """Describe the transcript without these positions."""
    gone = left_out(lines).union(without)
    kept = [n for n in range(len(lines)) if n not in gone]
    said = [lines[n] for n in _said(lines) if n not in gone]
    if not said:
        return RemainingTranscript(None, True)
    end = lines[kept[-1]]
    given = [line.get("metadata") or {} for line in said]
    return RemainingTranscript(
        last_said=str(said[-1].get("message_id") or ""),
        answered=(_answers(end) and end.get("finish_reason") != INTERRUPTED) or _says(end, COMPLETED),
        asks=any(_says(line, ANSWERED) for line in _last_results(lines, kept)),
        began_with=str(said[0]["content"]),
        budget=said[-1].get("budget"),
        speaker=said[-1].get("user_id") or "",
        metadata=said[-1].get("metadata") or {},
        traceparent=said[-1].get("traceparent") or "",
        time_zone=newest_zone(given),
        given=tuple(filter(None, given)),
    )


def spoken(lines: Sequence[Line], without: Sequence[int]) -> list[Line]:
    """The messages of users and the task's answers, without these positions."""
    gone = left_out(lines).union(without)
    said = set(_said(lines))
    kept = [(n, line) for n, line in enumerate(lines) if n not in gone and line.get("content")]
    return [line for n, line in kept if n in said or (_answers(line) and "step" in line)]


def fate_of(task: TaskHeader, rest: RemainingTranscript, *, last: bool, asked: bool, calls_left: bool) -> Fate:
    """Decide how the task continues.

    ``last``: its last turn leaves, or the message was not read yet. ``asked``: other mail asks it to go on.
    ``calls_left``: tool calls of a turn that stays are open.
    """
    if rest.last_said is None and not asked:
        return "cancelled" if task.status != "cancelled" else "as_it_was"
    if calls_left and not asked and not task.waits and any(asks_person(call) for call in task.open):
        return "asks"
    if asked or calls_left or not last or task.status in ("failed", "cancelled"):
        return "as_it_was"
    if rest.asks or not rest.answered:
        return "asks" if rest.asks else "goes_on"
    return "as_it_was" if task.ended else "completed"


def past_effects(calls: Sequence[tuple[str, str]], specs: Mapping[str, ToolSpec]) -> list[PastEffect]:
    """The calls with effects. A call of a tool that no worker knows now may have had any effect."""
    known = [(call, tool, specs[tool].effect if tool in specs else Effect.UNSAFE) for call, tool in calls]
    return [
        PastEffect(tool_call_id=call, tool=tool, effect=effect)
        for call, tool, effect in known
        if effect is not Effect.PURE
    ]


def _said(lines: Sequence[Line]) -> list[int]:
    """Positions of messages that users have sent to this task."""
    # Older versions did not mark what a task began with; an answer in it has no step.
    begun = max((n for n, line in enumerate(lines) if line["role"] == "assistant" and "step" not in line), default=-1)
    return [n for n, line in enumerate(lines) if n > begun and line["role"] == "user" and not line.get("origin")]


def _calls(line: Line) -> list[tuple[str, str]]:
    return [(call["id"], call["function"]["name"]) for call in line.get("tool_calls") or ()]


def _answers(line: Line) -> bool:
    return line["role"] == "assistant" and not line.get("tool_calls")


def _last_results(lines: Sequence[Line], kept: Sequence[int]) -> list[Line]:
    """The tools' results that a transcript ends with."""
    return [lines[n] for n in takewhile(lambda n: lines[n]["role"] == "tool", reversed(kept))]


def _says(line: Line, result: str) -> bool:
    """Whether this line is this result of one of the runner's own tools."""
    return line["role"] == "tool" and line.get("content") == result
