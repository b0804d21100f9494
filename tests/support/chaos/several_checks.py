"""Checks of a session with several tasks: each message is only in its task, and is answered there."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from pentad.shared.actors.transcript import remaining
from tests.support.chaos.checks import failed_calls, seen_twice
from tests.support.chaos.person import Person, Situation
from tests.support.chaos.report import Report
from tests.support.clients.api import Api
from tests.support.models.prompts import ill_formed

Lines = list[dict[str, Any]]
_META = ("role", "content", "tool_calls", "tool_call_id")


async def faults_of_person(person: Person, api: Api, report: Report) -> list[str]:
    """Return all faults of a person's session."""
    who, now = person.follower.session, Situation(person.follower.events)
    transcripts = {task: remaining(await api.transcript(task)) for task in now.state}
    found = [
        *_told(person, now),
        *_placed(person, now, transcripts),
        *ill_formed_tasks(
            transcripts, {e["task_id"] for e in person.follower.seen("task_end") if e["reason"] == "moved"}
        ),
        *_answered(person, now, transcripts),
    ]
    deadly = {args["tag"] for s in person.talk.all for step in s.steps for _, args in step if "die" in args}
    faults = [f"{who}: {fault}" for fault in found] + seen_twice(person.follower)
    return faults + person.follower.faults + failed_calls(person.follower, deadly, report, moved=_has_moved(person))


def ill_formed_tasks(transcripts: Mapping[str, Lines], emptied: Collection[str]) -> Iterator[str]:
    """Return transcripts that no model server accepts. Only a task whose one message was moved away may be empty."""
    for task, lines in transcripts.items():
        if lines or task not in emptied:
            yield from ill_formed(_as_chat(lines))


def _has_moved(person: Person) -> bool:
    return bool(person.follower.seen("message_moved"))


def _told(person: Person, now: Situation) -> Iterator[str]:
    """Check the events: one decision for each message, one end for each start, one result for each call."""
    routed = Counter(e["message_id"] for e in person.follower.seen("message_routed"))
    said = {s.message_id for s in (*person.talk.all, *person.extra)}
    if routed != Counter(said):
        yield f"routed {dict(routed)}, said {sorted(said)}"
    starts, ends = (Counter(e["task_id"] for e in person.follower.seen(kind)) for kind in ("task_start", "task_end"))
    if starts != ends:
        yield f"started {dict(starts)}, ended {dict(ends)}"
    calls, results = (
        Counter(e["tool_call_id"] for e in person.follower.seen(kind)) for kind in ("tool_call", "tool_result")
    )
    if calls != results or any(n > 1 for n in calls.values()):
        yield f"called {dict(calls)}, with results {dict(results)}"
    for end in person.follower.seen("task_end"):
        if end["status"] != "completed" and end["reason"] != "moved":
            yield f"ended {end['status']} {end['reason']}"


def _placed(person: Person, now: Situation, transcripts: Mapping[str, Lines]) -> Iterator[str]:
    """Check that each message is in the task that has it by the events, and in no other."""
    places: dict[str, list[str]] = defaultdict(list)
    for task, lines in transcripts.items():
        for line in lines:
            if line["role"] == "user" and not line.get("origin"):
                places[line["message_id"]].append(task)
    for saying in (*person.talk.all, *person.extra):
        held = now.holder.get(saying.message_id)
        if places[saying.message_id] != [held]:
            yield f"{saying.message_id} is of {held} and stands in {places[saying.message_id]}"


def _answered(person: Person, now: Situation, transcripts: Mapping[str, Lines]) -> Iterator[str]:
    """Check that each message is answered, and with the planned calls unless something was moved or lost."""
    for saying in (*person.talk.all, *person.extra):
        lines = transcripts.get(now.holder.get(saying.message_id, ""), [])
        behind = _behind(lines, saying.message_id)
        if not any(line["role"] == "assistant" and not line.get("tool_calls") for line in behind):
            yield f"{saying.message_id} has no answer"
        if not (_has_moved(person) or person.follower.started_over):
            turn = behind[: next((n for n, line in enumerate(behind) if line["role"] == "user"), None)]
            asked = [call["function"]["name"] for line in turn for call in line.get("tool_calls") or ()]
            if asked != [name for step in saying.steps for name, _ in step]:
                yield f"{saying.message_id} asked for {asked}, planned {saying.steps}"


def _behind(lines: Sequence[dict[str, Any]], message_id: str) -> Sequence[dict[str, Any]]:
    at = next((n for n, line in enumerate(lines) if line.get("message_id") == message_id), len(lines))
    return lines[at + 1 :]


def _as_chat(lines: Sequence[dict[str, Any]]) -> Lines:
    return [{name: line[name] for name in _META if name in line} for line in lines]
