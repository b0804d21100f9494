"""Holds what one handling of a task works on, and makes its writer and commit."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from pentad.contracts.client_tools import ClientTool
from pentad.contracts.events import EndStatus
from pentad.contracts.records import StepRecord
from pentad.services.task_runner.domain.arrived import Arrived, sort_mail
from pentad.services.task_runner.domain.plan import Bounds, fired_early
from pentad.services.task_runner.domain.result_in_prompt import KeptResult, KeptResults, in_prompt
from pentad.services.task_runner.prompt import KnownTranscript
from pentad.services.task_runner.step_writer import Limits, StepWriter
from pentad.shared.actors.actors import Actors, Taken
from pentad.shared.actors.approvals import KeptRequest, kept_request
from pentad.shared.actors.client_tools import CLIENT_TOOLS, read_client_tools
from pentad.shared.actors.commit import Commit, Outcome
from pentad.shared.actors.headers import TaskHeader, task_header
from pentad.shared.errors import DamagedError
from pentad.shared.event_loop import turn_after
from pentad.shared.immutable import immutable
from pentad.shared.keys import TaskKeys
from pentad.shared.random_hex import random_hex
from pentad.shared.settings import Settings
from pentad.shared.store.store import guarded


@immutable
class Step:
    """Everything that one handling works on."""

    keys: TaskKeys
    taken: Taken
    task: TaskHeader
    arrived: Arrived
    transcript: KnownTranscript
    """The committed transcript."""


class Steps:
    """Reads, writes and commits handlings, for all tasks of a process."""

    def __init__(self, actors: Actors, settings: Settings) -> None:
        self.actors, self.settings = actors, settings
        self.on_end: Callable[[StepWriter, EndStatus, str], None] | None = None
        """Takes the end of a task: see `StepWriter`."""
        self.limits = Limits(
            grace_ms=round(settings.pentad_grace_s * 1000),
            step_timeout_ms=round(settings.pentad_step_timeout_s * 1000),
            wait_ttl_ms=round(settings.pentad_wait_ttl_s * 1000),
            stale_ms=round(settings.pentad_stale_s * 1000),
            session_ttl_s=settings.session_ttl_s,
            tasks_per_session=settings.pentad_tasks_per_session,
            tasks_per_tenant=settings.pentad_tasks_per_tenant,
            shares_memory=settings.pentad_memory_scope == "tenant",
            result_bytes=settings.pentad_result_bytes,
            approve=settings.pentad_approve,
            approval_ms=round(settings.pentad_approval_s * 1000),
        )
        self.bounds = Bounds(
            settings.pentad_step_limit, self.limits.step_timeout_ms, self.limits.wait_ttl_ms, self.limits.stale_ms
        )

    def empty(self, keys: TaskKeys) -> Commit:
        """An empty commit for this task."""
        s = self.settings
        return Commit(keys, f"step-{random_hex(32)}", s.pentad_events_maxlen, s.pentad_events_ttl_s)

    def read(self, keys: TaskKeys, taken: Taken, transcript: KnownTranscript) -> Step:
        """Read the header and mail of a handling. Raises ``DamagedError``."""
        header = task_header(keys.tenant, keys.task, taken.raw)
        assert header is not None, "a task has a status"
        try:
            arrived = sort_mail(taken.mail, header.ended_mail)
        except ValueError as error:
            raise DamagedError(f"the mail of task {keys.task} cannot be read: {error}") from None
        return Step(keys, taken, header, arrived, transcript)

    def writer(self, step: Step) -> StepWriter:
        """Writes this handling into a commit of its own, in which the signals that have come are used up."""
        now = step.taken.lease.now
        commit = self.empty(step.keys)
        writer = StepWriter(commit, step.keys, step.task, step.taken, step.arrived, self.limits)
        writer.on_end = self.on_end
        writer.begin(fired_early(step.task, step.arrived, now, self.bounds), now)
        return writer

    def commit(self, writer: StepWriter, step: Step) -> Awaitable[Outcome]:
        """Commit the handling."""
        return self.actors.commit(writer.commit, step.taken)

    async def last_record(self, step: Step) -> StepRecord:
        """Read the record of the task's last step. Raises ``DamagedError``."""
        raw = await guarded("steps", self.actors.store.call, "LINDEX", step.keys.steps, -1)
        try:
            return StepRecord.model_validate_json(raw or b"")
        except ValueError as error:
            raise DamagedError(f"the last step of task {step.keys.task} cannot be read: {error}") from None

    async def requests(self, step: Step, calls: Sequence[str]) -> Mapping[str, KeptRequest]:
        """Read the calls that have waited for a person, as they would be made. Raises ``DamagedError``."""
        if not calls:
            return {}
        names = map(kept_request, calls)
        raw = await guarded("requests", self.actors.store.call, "HMGET", step.keys.big, *names)
        try:
            return {call: KeptRequest.model_validate_json(kept or b"") for call, kept in zip(calls, raw, strict=True)}
        except ValueError as error:
            raise DamagedError(f"a call of task {step.keys.task} that waits cannot be read: {error}") from None

    async def client_tools(self, step: Step) -> tuple[ClientTool, ...]:
        """Read the tools that the sender of the turn's message has itself. Raises ``DamagedError``."""
        if not step.task.client_tools:
            return ()
        raw = await guarded("tools of the client", self.actors.store.call, "HGET", step.keys.big, CLIENT_TOOLS)
        try:
            return read_client_tools(raw or b"")
        except ValueError:
            raise DamagedError(f"the tools of the client of task {step.keys.task} cannot be read") from None

    async def results(self, step: Step) -> KeptResults:
        """The results that have come, whole and as prompts show them, by their calls.

        To look for files in one may take milliseconds, so after a long one others in the loop have a turn.
        """
        results = step.arrived.results
        refs = [r.ref for r in results.values() if r.ref is not None]
        values = await guarded("results", self.actors.store.call, "HMGET", step.keys.big, *refs) if refs else ()
        aside: dict[str, bytes] = dict(zip(refs, values, strict=True))
        kept: dict[str, KeptResult] = {}
        for call, result in results.items():
            whole = result.content if result.ref is None else (aside[result.ref] or b"").decode()
            kept[call] = KeptResult(whole, in_prompt(whole, call, self.limits.result_bytes))
            await turn_after(len(whole))
        return kept


_PLAIN = ("status", "session", "user", "goal", "open", "step", "log_length", "digest", "tools", "correlation")


def bare(keys: TaskKeys, taken: Taken) -> Step | None:
    """A task whose header or mail nobody can work with: what is needed to end it, its mail all spent.

    None: there is no such task.
    """
    if not taken.raw.get("status"):
        return None
    raw = {name: value for name, value in taken.raw.items() if name in _PLAIN}
    try:
        header = task_header(keys.tenant, keys.task, raw)
    except DamagedError:  # its open calls cannot be named either: what comes of them finds the task ended
        header = task_header(keys.tenant, keys.task, {"status": b"active", "session": raw.get("session", b"")})
    assert header is not None
    signals = tuple(m.number for m in taken.signals)
    spent = Arrived((), (), {}, (), {}, "", taken.read, 0, (), (), signals)
    return Step(keys, taken, header, spent, KnownTranscript())
