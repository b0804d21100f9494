"""The steps of a task, made of their records and of the transcript between them. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from pentad.contracts.plain_json import read_json
from pentad.contracts.records import StepRecord, TaskStep
from pentad.contracts.runs import RunCall
from pentad.shared.immutable import immutable

_ERROR = "error: "
"""Begins what a model is told of a call that has failed."""
Entry = Mapping[str, Any]
"""An entry of a transcript as inspection shows it."""


@immutable
class StepSpan:
    """The part of a transcript that belongs to one step: positions from ``start`` on, ``end`` exclusive."""

    record: StepRecord
    start: int
    """Position of the first message that the step before had not."""
    end: int
    """Position behind the answer."""
    until: int | None
    """Position of the next step's answer, before which the results of this step's calls are; None: the transcript's
    end."""


def spans_of(records: Sequence[StepRecord], before: StepRecord | None, *, more: bool) -> list[StepSpan]:
    """Return the parts of a transcript that belong to consecutive steps.

    ``before``: the step before the first of them. ``more``: whether the last of ``records`` only ends the one before
    it. An answer stands behind the messages that led to it.
    """
    spans: list[StepSpan] = []
    start = 0 if before is None else _answer(before) + 1
    for number, record in enumerate(records[:-1] if more else records):
        end = _answer(record) + 1
        following = records[number + 1] if number + 1 < len(records) else None
        spans.append(StepSpan(record, start, end, None if following is None else _answer(following)))
        start = end
    return spans


def step_of_span(span: StepSpan, messages: Sequence[Entry], behind: Sequence[Entry]) -> TaskStep:
    """Return a step as clients see it. ``messages``: those of its part; ``behind``: those up to the next answer."""
    record, manifest = span.record, span.record.manifest
    said = messages[-1] if messages and messages[-1].get("step") == record.step else {}
    return TaskStep(
        step=record.step,
        attempt=record.attempt,
        at=record.at,
        duration_ms=record.duration_ms,
        model=manifest.model,
        model_id=manifest.model_id,
        instruction=manifest.instruction,
        instruction_version=manifest.instruction_version,
        finish_reason=record.finish_reason,
        usage=record.usage,
        messages=[dict(message) for message in messages],
        calls=_calls(said, behind, record.at),
        manifest=manifest,
    )


def _answer(record: StepRecord) -> int:
    """Return the position of a step's answer: it follows the messages of the prompt."""
    return record.manifest.messages[1]


def _calls(said: Entry, behind: Sequence[Entry], at: str) -> list[RunCall]:
    results = {entry.get("tool_call_id"): entry for entry in behind if entry.get("role") == "tool"}
    return [_call(call, results.get(call.get("id")), at) for call in said.get("tool_calls") or ()]


def _call(call: Mapping[str, Any], result: Entry | None, at: str) -> RunCall:
    function = call.get("function") or {}
    asked = RunCall(
        tool_call_id=str(call.get("id")),
        tool=str(function.get("name")),
        args=_arguments(str(function.get("arguments") or "")),
        at=at,
    )
    if result is None:
        return asked
    text, took = str(result.get("content") or ""), result.get("duration_ms") or 0
    outcome = {"error": text.removeprefix(_ERROR)} if result.get("failed") else {"result": text}
    return asked.model_copy(update={"duration_ms": took, **outcome})


def _arguments(text: str) -> dict[str, Any] | str:
    """Return arguments as an object; as the text that the model wrote where that is none."""
    try:
        read = read_json(text)
    except ValueError:
        return text
    return read if isinstance(read, dict) else text
