"""A tool call from its queue to its one result."""

import asyncio
from collections import OrderedDict
from dataclasses import replace
from datetime import datetime
from secrets import token_hex
from time import monotonic, time_ns
from typing import Any

from pentad.contracts.commands import ToolCallCommand
from pentad.contracts.dead_letters import DeadLetter
from pentad.contracts.events import TOOL_TEXT_LIMIT, ToolProgress
from pentad.contracts.ids import rfc3339
from pentad.contracts.streams import TOOL_CALLS
from pentad.contracts.suspensions import MAX_MESSAGE, Suspension
from pentad.contracts.tools import Effect, ToolOutcome, ToolSpec
from pentad.services.tool_worker.call_closer import CallCloser
from pentad.services.tool_worker.call_files import CallFiles
from pentad.services.tool_worker.call_guard import CallGuard
from pentad.services.tool_worker.domain import after_outcome, told_outcome, unknown
from pentad.services.tool_worker.other_workers import OtherWorkers
from pentad.services.tool_worker.sources import ToolInvocation, ToolSource, ToolSources
from pentad.shared import metrics
from pentad.shared.clipping import clip
from pentad.shared.event_loop import cancel_all
from pentad.shared.events.ephemeral import EphemeralEvents
from pentad.shared.immutable import immutable
from pentad.shared.keys import SessionKeys, TaskKeys
from pentad.shared.plugins.companions import WAS_MADE, WAS_NOT_MADE
from pentad.shared.plugins.context import ToolContext
from pentad.shared.settings import Settings
from pentad.shared.store.beats import beat_s, keep_beating, write_before_stop
from pentad.shared.store.store import Argument, Store
from pentad.shared.work.consumer import Consumer
from pentad.shared.work.entry import Done, Entry
from pentad.shared.work.handler import MAX_STARTS, Handler, SetAside

_HOLD_S = 0.5
"""How long a call whose tool is not here is held before another worker is offered it."""
_CLAIM_POLL_S = 0.005
_ASK_S = 30.0
"""Seconds that a tool has to say whether a person must allow a call."""
_LOOK_UP_S = 60.0
"""Seconds that a tool has to look up what has become of a call."""
_REMEMBERED = 10_000
_NO_CONTEXT = ToolContext()
_DEADLINE_PASSED = "the deadline has passed"


class Progress:
    """Tells clients how far a tool is, no oftener than deltas are written. What is lost is not missed."""

    def __init__(self, events: EphemeralEvents, command: ToolCallCommand, every_ms: int) -> None:
        self._events, self._command, self._pause = events, command, every_ms / 1000
        self._last = float("-inf")
        self._n = 0

    def __call__(self, content: str, fraction: float | None) -> None:
        now = monotonic()
        if now - self._last < self._pause:
            return
        self._last, self._n = now, self._n + 1
        c = self._command
        event = ToolProgress(
            event_id=f"{c.tool_call_id}.progress.{self._n}",
            at=rfc3339(time_ns() // 1_000_000),
            **c.led_to(),
            tool_call_id=c.tool_call_id,
            tool=c.tool,
            content=clip(content, TOOL_TEXT_LIMIT),
            fraction=fraction,
        )
        self._events.append(ToolProgress, event.to_json())
        self._events.keep()
        self._events.ring()


def _unheard(_: str, __: float | None) -> None:
    """Discard progress: a quick tool ends before it could report any."""


@immutable
class RunningCall:
    """A call that this worker has started."""

    command: ToolCallCommand
    keys: TaskKeys
    entry: Entry
    attempt: int
    task: "asyncio.Task[object]"
    reconciles: bool
    """Whether its tool can look up later what has become of it."""


def _run_of(command: ToolCallCommand) -> str:
    """Return the name of one run of a call: it runs again when it has got what it was suspended for."""
    return f"{command.tool_call_id} {command.round}"


def _reconciles(source: ToolSource, command: ToolCallCommand) -> bool:
    """Whether the tool can look up what has become of the call."""
    spec = source.tools.get(command.tool)
    return spec is not None and spec.reconciles


class ToolHandler(Handler):
    """Serves one queue of one shard."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        sources: ToolSources,
        shard: int,
        consumer_name: str,
        files: CallFiles | None = None,
        guard: CallGuard | None = None,
    ) -> None:
        """``files``: where what tools make is kept; None: nowhere. ``guard``: limits and breakers; None: there are
        none."""
        self._files, self._guard = files, guard
        self._store, self._settings, self._sources, self._shard = store, settings, sources, shard
        self._owner = token_hex(16)
        self._consumer_name = consumer_name
        self._other_workers = OtherWorkers(store)
        self._running: dict[str, RunningCall] = {}
        self._ran: OrderedDict[str, None] = OrderedDict()
        """Unsafe calls that ran here lately. Redis may forget that a call ended: a second claim is then
        reported as unknown, and the call does not run again."""
        self._writing: set[asyncio.Task[object]] = set()
        """Unsafe calls that have ended and whose result is being written: nobody else knows it."""
        self._claims = 0
        """Calls that are being claimed: they run in a moment."""
        self._stopping = False
        self.consumer: Consumer
        self._closer = CallCloser(store, settings, shard)
        assert TOOL_CALLS.group is not None
        self._group = TOOL_CALLS.group

    # One call

    async def handle(self, entry: Entry) -> Done:
        command = entry.parse(ToolCallCommand)
        source = self._sources.of(command.tool) or await self._other_workers.look(command, self._progress)
        if source is None:
            await asyncio.sleep(_HOLD_S)
            await self._release(entry, command)
            return Done.LEFT
        if self._stopping:
            await self._release(entry, command)
            return Done.LEFT
        keys = TaskKeys(self._shard, command.tenant_id, command.task_id or "")
        if command.asks_if and (asks := await self._asks(source, command)) is not None:
            await self._closer.suspend(entry, command, keys, asks)
            return Done.COMMITTED
        spec = None if self._guard is None else source.tools.get(command.tool)
        if spec is not None and spec.guarded:
            return await self._guarded(source, spec, entry, command, keys)
        return await self._make(source, entry, command, keys)

    async def _guarded(
        self, source: ToolSource, spec: ToolSpec, entry: Entry, command: ToolCallCommand, keys: TaskKeys
    ) -> Done:
        """Make a call of a tool with a limit or a breaker, as soon as it may be made."""
        guard = self._guard
        assert guard is not None
        if command.tool_call_id in self._running:
            return Done.LEFT
        admission = await guard.admit(spec, entry, command)
        if admission.verdict not in ("runs", "refused"):
            if admission.verdict == "waits":
                self._progress(command)(admission.why, None)
            return Done.LEFT
        keeps_place = True
        try:
            if admission.verdict == "refused":
                await self._closer.close(entry, command, keys, ToolOutcome("error", admission.why))
                done = Done.COMMITTED
            else:
                done = await self._make(source, entry, command, keys)
            keeps_place = False
            return done
        except asyncio.CancelledError:
            keeps_place = False
            raise
        finally:
            guard.leave(entry, command, keep=keeps_place)

    async def _make(self, source: ToolSource, entry: Entry, command: ToolCallCommand, keys: TaskKeys) -> Done:
        """Claim a call, and make it."""
        if source.quick and not entry.redelivered and command.effect is Effect.PURE:
            # A quick pure call ends before a claim could be written: it may run twice, and its result is dropped if
            # the call was closed.
            await self._closer.close(entry, command, keys, await self._execute(source, command, 1))
            return Done.COMMITTED
        verdict, *more = await self._claim(entry, command, keys, command.effect)
        ours = verdict in (b"run", b"claimed")
        if ours and command.tool_call_id in self._running:
            return Done.LEFT
        # A claim that was ours before: its reply was lost, or Redis lost the call's end. An unsafe call that ran here
        # (`_ran`) is unknown, any other runs.
        if ours and _run_of(command) not in self._ran:
            await self._run(source, entry, command, keys, int(more[0]))
        elif ours or verdict == b"unknown":
            await self._find_out(source, entry, command, keys, int(more[0]))
        elif verdict == b"poison":
            reason = f"{MAX_STARTS} starts of this call ended without an outcome"
            await self._closer.close(entry, command, keys, ToolOutcome("error", reason, starts=int(more[0])))
        else:
            return Done.LEFT
        return Done.COMMITTED

    async def _claim(self, entry: Entry, command: ToolCallCommand, keys: TaskKeys, effect: Effect) -> list[Any]:
        """Claim a call before it runs. A stop waits for claims under way, so that it sees all that runs.

        ``effect``: whether it may be claimed that another has started.
        """
        args: list[Argument] = [
            command.tool_call_id, self._owner, effect, entry.id, self._group, MAX_STARTS, self._consumer_name
        ]  # fmt: skip
        self._claims += 1
        try:
            verdict: list[Any] = await self._store.run("call_start", [keys.calls, entry.stream], args)
            return verdict
        finally:
            self._claims -= 1

    async def _find_out(
        self, source: ToolSource, entry: Entry, command: ToolCallCommand, keys: TaskKeys, starts: int
    ) -> None:
        """Have the tool look up what has become of a call whose outcome is unknown; where it cannot, say that."""
        if not _reconciles(source, command):
            outcome = unknown(starts)
            self._note(source, command, outcome)
            await self._closer.close(entry, command, keys, outcome)
            return
        verdict, *more = await self._claim(entry, command, keys, Effect.IDEMPOTENT)
        if verdict in (b"run", b"claimed"):
            await self._run(source, entry, command, keys, int(more[0]), looks=True)
        elif verdict == b"poison":
            await self._closer.close(entry, command, keys, unknown(starts))

    async def _run(
        self,
        source: ToolSource,
        entry: Entry,
        command: ToolCallCommand,
        keys: TaskKeys,
        attempt: int,
        *,
        looks: bool = False,
    ) -> None:
        """Run a claimed call to its result. ``looks``: it may have been made, which its tool looks up first."""
        task = asyncio.current_task()
        assert task is not None
        reconciles = _reconciles(source, command)
        self._running[command.tool_call_id] = RunningCall(command, keys, entry, attempt, task, reconciles)
        if command.effect is Effect.UNSAFE:
            self._remember(_run_of(command))
        outcome: ToolOutcome | None = None
        try:
            outcome = await self._execute(source, command, attempt, looks=looks)
        finally:
            del self._running[command.tool_call_id]
            self._note(source, command, outcome)
        outcome = told_outcome(outcome)
        if command.effect is Effect.UNSAFE:
            self._writing.add(task)
            task.add_done_callback(self._writing.discard)
        await self._closer.close(entry, command, keys, outcome)

    def _note(self, source: ToolSource, command: ToolCallCommand, outcome: ToolOutcome | None) -> None:
        """Note how a call has ended, for the breaker of its tool."""
        if self._guard is not None:
            late = outcome is not None and outcome.text is _DEADLINE_PASSED
            self._guard.note(source.tools.get(command.tool), command, None if late else outcome)

    def _remember(self, run: str) -> None:
        self._ran[run] = None
        if len(self._ran) > _REMEMBERED:
            self._ran.popitem(last=False)

    async def _execute(
        self, source: ToolSource, command: ToolCallCommand, attempt: int, *, looks: bool = False
    ) -> ToolOutcome:
        """Run until there is an outcome that may be told. ``looks``: see `_run`."""
        while True:
            if looks and (found := await self._look_up(source, command, attempt)) is not None:
                return found
            outcome = await self._once(source, command, attempt)
            verdict = after_outcome(outcome.kind, command.effect)
            looks = verdict == "unknown" and _reconciles(source, command)
            if verdict == "unknown" and not (looks and attempt < MAX_STARTS):
                return unknown(attempt, outcome.text)
            if verdict == "close" or attempt >= MAX_STARTS:
                return outcome if attempt == 1 else replace(outcome, starts=attempt)
            attempt += 1

    async def _look_up(self, source: ToolSource, command: ToolCallCommand, attempt: int) -> ToolOutcome | None:
        """Ask the tool whether the call was made. Return what has become of it; None when it was not made."""
        timeout = min(command.timeout, _LOOK_UP_S)
        invocation = ToolInvocation(
            command.tool, command.args, timeout, self._context(command, attempt), part="reconcile"
        )
        outcome = await source.run(invocation, _unheard)
        word, _, result = outcome.text.partition("\n")
        if outcome.ok and word == WAS_NOT_MADE:
            return None
        if outcome.ok and word == WAS_MADE:
            return replace(outcome, text=result, starts=attempt)
        why = "" if outcome.ok else f": {outcome.text}"
        return unknown(attempt, f"the tool had started when its worker died, and could not find out more{why}")

    async def _asks(self, source: ToolSource, command: ToolCallCommand) -> Suspension | None:
        """Ask the tool whether a person must allow the call. A tool that cannot say it has the person asked."""
        timeout = min(command.timeout, _ASK_S)
        invocation = ToolInvocation(command.tool, command.args, timeout, self._context(command, 1), part="ask_if")
        outcome = await source.run(invocation, _unheard)
        if outcome.ok and not outcome.text:
            return None
        why = outcome.text if outcome.ok else f"the tool could not say whether this call may be made: {outcome.text}"
        form = source.tools[command.tool].parameters if command.tool in source.tools else None
        return Suspension(needs="approval", message=why[:MAX_MESSAGE], form=form)

    async def _once(self, source: ToolSource, command: ToolCallCommand, attempt: int) -> ToolOutcome:
        if not command.due:
            return await self._within(source, command, attempt, command.timeout)
        left = (command.due - await self._store.clock()) / 1000
        if left <= 0:
            return ToolOutcome("timeout", _DEADLINE_PASSED, 0)
        outcome = await self._within(source, command, attempt, min(command.timeout, left))
        if outcome.kind == "timeout" and left < command.timeout:
            # It was not the tool's own limit that ended it.
            return replace(outcome, text=_DEADLINE_PASSED)
        return outcome

    async def _within(self, source: ToolSource, command: ToolCallCommand, attempt: int, timeout: float) -> ToolOutcome:
        if source.quick:  # over before it could say anything of itself
            return await source.run(ToolInvocation(command.tool, command.args, timeout, _NO_CONTEXT), _unheard)
        context = self._context(command, attempt)
        keeps = self._files is not None and bool(command.session_id)
        invocation = ToolInvocation(
            command.tool, command.args, timeout, context, resumed=command.resumed, keeps_files=keeps
        )
        outcome = await source.run(invocation, self._progress(command), alone=attempt > 1)
        return outcome if self._files is None or not outcome.made else await self._files.keep(context, outcome)

    @staticmethod
    def _context(command: ToolCallCommand, attempt: int) -> ToolContext:
        return ToolContext(
            tool_call_id=command.tool_call_id,
            idempotency_key=command.tool_call_id,
            attempt=attempt,
            tenant_id=command.tenant_id,
            user_id=command.user_id,
            session_id=command.session_id,
            task_id=command.task_id or "",
            deadline=datetime.fromisoformat(command.deadline) if command.deadline else None,
            metadata=command.metadata or {},
            as_of=datetime.fromisoformat(command.as_of) if command.as_of else None,
        )

    def _progress(self, command: ToolCallCommand) -> Progress:
        session, s = SessionKeys(self._shard, command.tenant_id, command.session_id), self._settings
        events = EphemeralEvents(self._store, session, s.pentad_events_maxlen, s.pentad_events_ttl_s)
        return Progress(events, command, s.pentad_coalesce_ms)

    async def set_aside(self, entry: Entry, letter: DeadLetter) -> SetAside:
        return await self._closer.set_aside(entry, letter)

    # Keeping and handing back

    async def beat(self) -> None:
        """Keep what is running here, and stop what was closed elsewhere (cancel, deadline). Runs for ever."""
        await keep_beating(self._store, "tool calls", beat_s(self._settings.lease_ms), self._beat)

    async def _beat(self) -> None:
        if not self._running:
            return
        running = list(self._running.values())
        args: list[Argument] = [self._group, self._consumer_name, self._owner]
        for r in running:
            args += (r.command.tool_call_id, r.entry.id)
        for call in await self._store.run("call_beat", [self.consumer.key, *(r.keys.calls for r in running)], args):
            if call.decode() in self._running:
                self._running[call.decode()].task.cancel()

    async def finish(self, unsafe_grace_s: float) -> None:
        """Hand back what may run twice; give what may not its time, then report it as unknown."""
        self._stopping = True
        while self._claims and not self._store.away:
            await asyncio.sleep(_CLAIM_POLL_S)
        running = list(self._running.values())
        unsafe = [r for r in running if r.command.effect is Effect.UNSAFE]
        rest = [r for r in running if r.command.effect is not Effect.UNSAFE]
        await cancel_all([r.task for r in rest])
        await write_before_stop(self._store, "a tool call", self._release_all(rest))
        if not unsafe and not self._writing:
            return
        _, pending = await asyncio.wait([*self._writing, *(r.task for r in unsafe)], timeout=unsafe_grace_s)
        late = [r for r in unsafe if r.task in pending]
        await cancel_all([r.task for r in late])
        told = [r for r in late if not r.reconciles]  # of the others, another worker finds out
        if told:
            await write_before_stop(self._store, "an unsafe call", self._report_unknown(told))

    async def _report_unknown(self, calls: list[RunningCall]) -> None:
        await asyncio.gather(*(self._closer.close(r.entry, r.command, r.keys, unknown(r.attempt)) for r in calls))

    async def _release_all(self, calls: list[RunningCall]) -> None:
        for r in calls:
            await self._release(r.entry, r.command)

    async def hand_back(self, entries: list[Entry]) -> None:
        for entry in entries:
            await self._release(entry, entry.parse(ToolCallCommand))

    async def _release(self, entry: Entry, command: ToolCallCommand) -> None:
        keys = TaskKeys(self._shard, command.tenant_id, command.task_id or "")
        args: list[Argument] = [
            command.tool_call_id, self._owner, command.effect, entry.id, self._group, entry.data, self._consumer_name
        ]  # fmt: skip
        if await self._store.run("call_release", [keys.calls, entry.stream], args) == b"ok":
            metrics.published.labels(TOOL_CALLS.name, ToolCallCommand.__name__).inc()
