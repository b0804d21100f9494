"""Checks of dead letters and redrives: no piece of work is lost or doubled."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic_core import from_json, to_json

from pentad.contracts.dead_letters import DeadLetter
from pentad.contracts.records import TaskRecord
from pentad.services.gateway.domain.redrive import ContinueTask, Redrive, SendMessages
from pentad.services.task_runner.domain.after_answer import REDRIVEN
from tests.support.interleave.operators import Ledger


def letter_problems(ledger: Ledger, records: Mapping[str, TaskRecord], cancelled: set[str]) -> Iterator[str]:
    """Return the faults. ``cancelled``: tasks that were ever cancelled, with which redriven work may have ended."""
    for name, edits in ledger.answered.items():
        if len(edits) > 1:
            yield f"of letter {name} different edits were said to be sent: {sorted(edits)}"
    for name in sorted(ledger.discarded & (ledger.plans.keys() | ledger.answered.keys())):
        yield f"letter {name} was discarded and sent"
    asked = Counter(_key(task, call.args) for task, call in _calls_sent(ledger))
    asked.subtract(_key(task, args) for task, args in _calls_set_aside(ledger))
    made = Counter(_key(task, args) for task, record in records.items() for args in _calls_made(record))
    for key in asked.keys() | made.keys():
        task, args = key
        if made[key] > asked[key] or (made[key] < asked[key] and task not in cancelled):
            yield f"{task}: the call with {args} was redriven {asked[key]} times and made {made[key]} times"


def times_said(ledger: Ledger, message_id: str) -> int:
    """Return how often a message must be routed: once, and once more for each redrive of it."""
    aside = sum(message_id in _ids(letter) for letter in ledger.letters.values() if letter.kind == "session_mail")
    again = sum(m.message_id == message_id for p in _sent(ledger) if isinstance(p, SendMessages) for m in p.messages)
    return 1 - aside + again


def was_set_aside(ledger: Ledger, message_id: str) -> bool:
    """Return whether a message is in a letter or was redriven, so that it may be out of order."""
    again = (m.message_id for p in _sent(ledger) if isinstance(p, SendMessages) for m in p.messages)
    return message_id in again or any(message_id in _ids(letter) for letter in ledger.letters.values())


def _sent(ledger: Ledger) -> list[Redrive]:
    """Return the plan by which each letter was sent: the last plan was made with the data of that moment."""
    return [plans[-1] for plans in ledger.plans.values() if plans]


def _ids(letter: DeadLetter) -> list[str]:
    """Return the ids of the messages in a letter's mail."""
    texts = [text for name, text in letter.body.items() if name.endswith(" user")]
    if letter.kind == "session_mail":
        return [from_json(text.partition(" ")[2])["message_id"] for text in texts]
    return [from_json(text)["message"]["message_id"] for text in texts]


def _calls_sent(ledger: Ledger) -> Iterator[tuple[str, Any]]:
    yield from ((plan.task, call) for plan in _sent(ledger) if isinstance(plan, ContinueTask) for call in plan.calls)


def _calls_set_aside(ledger: Ledger) -> Iterator[tuple[str, Any]]:
    """Return redriven calls that were set aside with their task's mail before they were made."""
    for letter in ledger.letters.values():
        for name, text in letter.body.items():
            if name.endswith(" redrive"):
                yield from ((letter.task_id or "", call["args"]) for call in from_json(text)["calls"])


def _calls_made(record: TaskRecord) -> Iterator[Any]:
    """Return the calls in a transcript that a person has redriven."""
    for message in record.messages:
        if message.get("model") == REDRIVEN:
            yield from (from_json(call["function"]["arguments"]) for call in message["tool_calls"])


def _key(task: str, args: Any) -> tuple[str, str]:
    return task, to_json(args).decode()


def misrouted(ledger: Ledger, sent: Sequence[str], routed: Sequence[str]) -> Iterator[str]:
    """Check that each message is routed once, in order; redriven ones as often as they were sent, in any order."""
    aside = {message for message in sent if was_set_aside(ledger, message)}
    in_order = [message for message in routed if message not in aside]
    if in_order != [message for message in sent if message not in aside]:
        yield f"sent {list(sent)}, routed {list(routed)}, set aside {sorted(aside)}"
    for message in aside:
        if routed.count(message) != times_said(ledger, message):
            yield f"{message} was said {times_said(ledger, message)} times and routed {routed.count(message)} times"
