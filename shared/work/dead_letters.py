"""The one maker of dead letters: what is kept of what was set aside, and for whom it was."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pentad.contracts.dead_letters import FOR_WHOM, DeadLetter, LetterKind, Link, named_in
from pentad.contracts.ids import is_external_id, may_be
from pentad.contracts.streams import TOOL_CALLS, Stream
from pentad.shared import metrics
from pentad.shared.work.entry import printable

BODY_LIMIT = 1 << 20
"""Bytes of what was set aside that its dead letter keeps."""
_REASON_LIMIT = 4096


def make_letter(
    kind: LetterKind,
    stream: str,
    entry_id: str,
    body: Iterable[tuple[str, bytes]],
    *,
    reason: str,
    attempts: int,
    at: str,
    whom: Mapping[str, str | None],
    chain: Sequence[Link],
    clipped: bool = False,
) -> DeadLetter:
    """A dead letter. ``whom``: the ids that are known; what is not an id is left out. A long body is clipped.

    ``clipped``: this body is the beginning of a longer one.
    """
    kept, too_long = _clipped(body)
    named: dict[str, Any] = {name: value for name in FOR_WHOM if (value := whom.get(name)) and may_be(name, value)}
    return DeadLetter(
        kind=kind,
        stream=stream,
        entry_id=entry_id,
        reason=printable(reason[:_REASON_LIMIT].encode(errors="backslashreplace")),
        attempts=attempts,
        at=at,
        body=kept,
        clipped=clipped or too_long,
        chain=list(chain),
        **named,
    )


def _clipped(body: Iterable[tuple[str, bytes]]) -> tuple[dict[str, str], bool]:
    kept: dict[str, str] = {}
    left, clipped = BODY_LIMIT, False
    for name, value in body:
        shown = name[: min(left, 256)]
        kept[shown] = printable(value[: left - len(shown)])
        clipped = clipped or shown != name or len(value) > left - len(shown)
        left -= len(shown) + len(value)
        if left <= 0:
            return kept, True
    return kept, clipped


def letter_of_entry(
    stream: Stream, key: str, entry_id: str, fields: Iterable[tuple[bytes, bytes]], reason: str, attempts: int, at: str
) -> DeadLetter:
    """The dead letter of an entry, for whom its own JSON says."""
    named = [(printable(name), value) for name, value in fields]
    said = named_in(next((printable(value[:BODY_LIMIT]) for name, value in named if name == "data"), ""))
    kind: LetterKind = "call" if stream is TOOL_CALLS else "entry"
    return make_letter(
        kind, key, entry_id, named, reason=reason, attempts=attempts, at=at, whom=said, chain=_chain(said)
    )


def chain_of(*, message: str = "", task: str = "", cause: str = "", tool_call: str = "", entry: str = "") -> list[Link]:
    """The causes of a dead letter, in order; unknown ones, and those that are no id, are left out."""
    links = [Link(kind="message", id=message), Link(kind="task", id=task), Link(kind="cause", id=cause)]
    links += [Link(kind="call", id=tool_call), Link(kind="entry", id=entry)]
    return [link for link in links if is_external_id(link.id)]


def _chain(said: Mapping[str, str]) -> list[Link]:
    return chain_of(
        message=said.get("correlation_id", ""),
        task=said.get("task_id", ""),
        cause=said.get("causation_id", ""),
        tool_call=said.get("tool_call_id", ""),
        entry=said.get("event_id", ""),
    )


def count_letter(stream: Stream, what: str) -> None:
    """Count a dead letter that a script has written. ``what``: the type of the entry."""
    metrics.dead.labels(stream.name, what).inc()
    metrics.published.labels(stream.dead or "", DeadLetter.__name__).inc()
