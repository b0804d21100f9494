"""The end of a tool call: its one result, as an event to clients and as mail to its task."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from pydantic_core import from_json

from pentad.contracts.commands import ToolCallCommand
from pentad.contracts.dead_letters import DeadLetter
from pentad.contracts.events import TOOL_TEXT_LIMIT, ClientEvent, ToolProgress, ToolResultEvent
from pentad.contracts.streams import DEAD, EVENTS, TASK_WAKE, TOOL_CALLS
from pentad.contracts.suspensions import Suspension
from pentad.contracts.tools import ToolOutcome
from pentad.services.tool_worker.domain import (
    CallName,
    bounded,
    named_call,
    suspension_of,
    when_set_aside,
)
from pentad.shared import metrics
from pentad.shared.actors.actors import count_wake_ups
from pentad.shared.actors.headers import read_session
from pentad.shared.actors.mail import ResultMail
from pentad.shared.clipping import clip
from pentad.shared.keys import SessionKeys, TaskKeys, bell, events_kept
from pentad.shared.kinds import RESULT
from pentad.shared.settings import Settings
from pentad.shared.store.store import Argument, Store, guarded
from pentad.shared.work.dead_letters import chain_of
from pentad.shared.work.entry import Entry
from pentad.shared.work.handler import SetAside


class CallCloser:
    """Closes the calls of one shard. Every method may be called again: a script writes only while the call is open."""

    def __init__(self, store: Store, settings: Settings, shard: int) -> None:
        self._store, self._shard = store, shard
        self._maxlen, self._ttl = settings.pentad_events_maxlen, settings.pentad_events_ttl_s
        assert TOOL_CALLS.group is not None
        self._group = TOOL_CALLS.group
        self._consumed = metrics.consumed.labels(TOOL_CALLS.name, ToolCallCommand.__name__)
        self._attempts = metrics.attempts.labels(TOOL_CALLS.name)

    async def close(self, entry: Entry, command: ToolCallCommand, keys: TaskKeys, outcome: ToolOutcome) -> None:
        """Write the result, unless the call was closed meanwhile. One that needs something to go on is given back."""
        suspension = suspension_of(outcome, command)
        if suspension is not None:
            await self.suspend(entry, command, keys, suspension)
            return
        outcome = bounded(outcome)
        session = SessionKeys(self._shard, command.tenant_id, command.session_id)
        shown = clip(outcome.text, TOOL_TEXT_LIMIT)
        call = command.tool_call_id
        ref = call if shown is not outcome.text else None
        envelope = {"event_id": f"{call}.result", "at": await guarded("clock", self._store.now)} | command.led_to()
        event = ToolResultEvent.of(envelope, call, command.tool, replace(outcome, text=shown), ref)
        mail = ResultMail.of(call, outcome, ref)
        more: list[Argument] = [] if ref is None else [ref, outcome.for_model]
        closed, woken = await self._write(entry, keys, session, mail, event, more)
        if closed:
            _count_result(command.tool, outcome, woken)
            self._attempts.observe(outcome.starts)
            if outcome.duration_ms is not None:
                metrics.tool_seconds.labels(command.tool).observe(outcome.duration_ms / 1000)

    async def suspend(self, entry: Entry, command: ToolCallCommand, keys: TaskKeys, suspension: Suspension) -> None:
        """Give a call back to its task, with what it needs to go on, unless it was closed meanwhile."""
        session = SessionKeys(self._shard, command.tenant_id, command.session_id)
        call = command.tool_call_id
        event_id, at = f"{call}.suspended.{command.round}", await guarded("clock", self._store.now)
        told = {"event_id": event_id, "at": at, "tool_call_id": call, "tool": command.tool}
        told |= {"content": clip(suspension.message, TOOL_TEXT_LIMIT) or "it waits for a person"}
        event = ToolProgress.from_fields(command.led_to() | told)
        mail = ResultMail.of_suspended(command, suspension)
        closed, woken = await self._write(entry, keys, session, mail, event, [])
        if closed:
            _count_written(ToolProgress, woken)

    async def _write(
        self,
        entry: Entry,
        keys: TaskKeys,
        session: SessionKeys,
        mail: ResultMail,
        event: ToolResultEvent | ToolProgress,
        aside: Sequence[Argument],
    ) -> tuple[bool, int]:
        """Write the end of a call. Return whether it was open still, and the number of wake-ups.

        ``aside``: what is kept beside the task, and under which name.
        """
        names = [keys.calls, entry.stream, keys.header, keys.signals, keys.wake, session.events, bell(self._shard)]
        told, call = event.to_json(), mail.tool_call_id
        args: list[Argument] = [call, entry.id, self._group, keys.actor, mail.to_json(), told]
        args += [events_kept(self._maxlen, len(told)), self._ttl, session.actor, *aside]
        if aside:
            names.append(keys.big)
        closed, woken = await guarded("tool result", self._store.run, "call_close", names, args)
        if closed == b"ok":
            self._consumed.inc()
        return closed == b"ok", woken

    async def set_aside(self, entry: Entry, letter: DeadLetter) -> SetAside:
        """Dead-letter an entry and close its call with an error, when what can be read of it names an open call.

        Raises ``OutageError``.
        """
        name = named_call(entry.data)
        if name is None:
            return SetAside.NOTHING
        keys = TaskKeys(self._shard, name.tenant, name.task)
        fields = await self._store.call("HMGET", keys.header, "session", "open", "correlation", "traceparent")
        state = await self._store.call("HGET", keys.calls, name.call)
        tool = _tool_of(name, fields[1])
        if state is None or tool is None:
            return SetAside.NOTHING
        session = SessionKeys(self._shard, name.tenant, read_session(fields[0] or b""))
        outcome = when_set_aside(letter.reason, state.startswith(b"started "))
        outcome = replace(outcome, text=clip(outcome.text, TOOL_TEXT_LIMIT))
        envelope = {
            "event_id": f"{name.call}.result",
            "at": letter.at,
            "tenant_id": name.tenant,
            "session_id": session.session,
            "task_id": name.task,
            "correlation_id": (fields[2] or b"").decode() or None,
            "causation_id": entry.id,
            "traceparent": (fields[3] or b"").decode() or None,
        }
        event = ToolResultEvent.of(envelope, name.call, tool, outcome)
        mail = ResultMail.of(name.call, outcome)
        chain = chain_of(message=event.correlation_id or "", task=name.task, tool_call=name.call)
        whom = {"tenant_id": name.tenant, "session_id": event.session_id, "task_id": name.task}
        chained = letter.model_copy(update=whom | {"tool_call_id": name.call, "chain": chain})
        names = [entry.stream, DEAD.key(self._shard), keys.calls, keys.header, keys.signals, keys.wake]
        names += [session.events, bell(self._shard)]
        args: list[Argument] = [self._group, entry.id, chained.to_json(), name.call, keys.actor, mail.to_json()]
        args += [event.to_json(), self._maxlen, self._ttl, session.actor]
        done, woken = await self._store.run("call_set_aside", names, args)
        if done == b"ok":
            _count_result(tool, outcome, woken)
        return SetAside.ENDED if done == b"gone" else SetAside.BURIED


def _count_result(tool: str, outcome: ToolOutcome, woken: int) -> None:
    """A call has its one result: an event, mail, perhaps a wake-up."""
    metrics.tool_calls.labels(tool, outcome.counted_as).inc()
    _count_written(ToolResultEvent, woken)


def _count_written(event: type[ClientEvent], woken: int) -> None:
    """An event and a piece of mail were written, perhaps a wake-up too."""
    for written in _written(event):
        written.inc()
    count_wake_ups(TASK_WAKE, woken)


@cache
def _written(event: type[ClientEvent]) -> tuple[Any, ...]:
    """Counters of the event and the mail of a call."""
    told = metrics.published.labels(EVENTS.name, event.__name__)
    return told, metrics.published.labels(TASK_WAKE.name, RESULT)


def _tool_of(name: CallName, open_calls: bytes | None) -> str | None:
    """The tool of an open call, as its task's header says; None when the task has no such call."""
    calls: Sequence[Sequence[str]] = from_json(open_calls) if open_calls else ()
    return next((call[1] for call in calls if call[0] == name.call), None)
