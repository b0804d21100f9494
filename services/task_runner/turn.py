"""One handling of a task, written down as a commit. Each function adds what its outcome means and nothing else."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_json

from contracts.commands import ToolCallCommand
from contracts.envelope import Budget, Contract
from contracts.errors import ErrorCode
from contracts.events import (
    EndStatus,
    ErrorEvent,
    MessageEvent,
    TaskEnd,
    TaskStart,
    TaskStatusEvent,
    TaskUsage,
    ToolCallEvent,
    ToolResultEvent,
)
from contracts.ids import rfc3339, tool_call_id
from contracts.records import Manifest, Step, TranscriptMeta
from contracts.streams import TOOL_CALLS
from contracts.tools import ToolSpec
from services.task_runner.domain import Arrived, Closed, Retry, parse_arguments, remaining
from services.task_runner.prompt import Toolbox, assistant, chain, tool_result, user
from shared import metrics
from shared.models.ports import ModelAnswer, ToolCallDraft
from shared.state.commit import Commit
from shared.state.headers import Lease, TaskHeader
from shared.state.keys import SESSION_TTL_S, TURNS_KEPT, SessionKeys, TaskKeys
from shared.state.mail import ResultMail, Turn
from shared.state.transcript import entry, message_of

TIMERS = ("deadline", "timeout", "retry")


@dataclass(frozen=True, slots=True)
class Limits:
    """Settings that a commit depends on, in ms."""

    grace_ms: int
    step_timeout_ms: int


@dataclass(frozen=True, slots=True)
class Counters:
    """A turn's use, and whose turn it is."""

    steps: int
    tokens: int
    usd: float
    budget: Budget | None
    correlation: str
    traceparent: str
    at: int
    """When its user message entered the inbound stream, in ms."""


def counters(task: TaskHeader, arrived: Arrived) -> Counters:
    """The turn's counters: they begin again with the task's last user message."""
    if not arrived.users:
        return Counters(
            task.turn_steps,
            task.turn_tokens,
            task.turn_usd,
            task.budget,
            task.correlation,
            task.traceparent,
            task.turn_at,
        )
    mail = arrived.users[-1]
    last = mail.message
    at = int(mail.entry_id.split("-")[0])
    return Counters(0, 0, 0.0, last.budget, last.message_id or "", last.traceparent or "", at)


class TurnWriter:
    """Writes one handling into a commit."""

    def __init__(
        self,
        commit: Commit,
        keys: TaskKeys,
        task: TaskHeader,
        lease: Lease,
        arrived: Arrived,
        limits: Limits,
        unique: Callable[[], str],
    ) -> None:
        self.commit, self._keys, self._task, self._lease = commit, keys, task, lease
        self._arrived, self._limits, self._unique = arrived, limits, unique
        self._session = SessionKeys(keys.shard, keys.tenant, task.session)
        self._now, self._at = lease.now, rfc3339(lease.now)
        self.turn = counters(task, arrived)
        self.added: list[bytes] = []
        """The messages that this handling appends to the transcript, as the model is sent them."""
        self.last_entry = b""
        self._events = 0
        commit.unmail(arrived.control_numbers)
        if arrived.controls & {"cancel", "deadline"}:
            commit.set(keys.header, control="")

    # What all share

    def envelope(self) -> dict[str, Any]:
        """The fields of the next event."""
        self._events += 1
        t = self.turn
        return {
            "event_id": f"{self.commit.step_id}.{self._events}",
            "at": self._at,
            "tenant_id": self._keys.tenant,
            "session_id": self._task.session,
            "task_id": self._keys.task,
            "correlation_id": t.correlation or None,
            "causation_id": self.commit.step_id,
            "traceparent": t.traceparent or None,
            "deadline": rfc3339(self._task.deadline) if self._task.deadline else None,
            "budget": remaining(t.budget, t.tokens, t.usd, t.steps),
        }

    def _tell(self, kind: type[Contract], **fields: Any) -> None:
        self.commit.event(self._session, kind.model_construct(**self.envelope(), **fields))

    def _log(self, message: dict[str, Any], **meta: Any) -> None:
        raw = entry(message, TranscriptMeta.model_construct(**({"at": self._at} | meta)))
        self.last_entry = raw
        self.added.append(message_of(raw))
        self.commit.log(raw)

    def _close(self, closed: Sequence[Closed]) -> None:
        """Give up open calls, unless a result has just come: whoever runs them finds them closed."""
        if closed:
            self.commit.quiet()
        for c in closed:
            self.commit.unset(self._keys.calls, c.call.id)
            self._tell(ToolResultEvent, tool_call_id=c.call.id, tool=c.call.tool, error=c.error)

    def place_mail(self, closed: Sequence[Closed], kept_aside: dict[str, str]) -> None:
        """Results in the order of their calls, then the users' messages word for word."""
        self._close(closed)
        given_up = {c.call.id: c.error for c in closed}
        for call in self._task.open:
            result = self._arrived.results.get(call.id)
            text = given_up[call.id] if result is None else self._text(result, kept_aside)
            self._log(tool_result(call.id, text))
        for mail in self._arrived.users:
            for turn in mail.context:
                self._log({"role": turn.role, "content": turn.content}, at=turn.at, message_id=turn.message_id)
            self._log(user(mail.message.content), at=mail.at, message_id=mail.message.message_id)
        self.commit.unmail(self._arrived.result_numbers)
        self.commit.unmail(self._arrived.user_numbers)

    def _text(self, result: ResultMail, kept_aside: dict[str, str]) -> str:
        if result.ref is None:
            return result.content
        self.commit.unset(self._keys.big, result.ref)
        return kept_aside[result.ref]

    def _header(self, **fields: str | bytes | int | float) -> None:
        t = self.turn
        if self._arrived.users:
            budget = t.budget.to_json() if t.budget else b""
            fields |= {"correlation": t.correlation, "traceparent": t.traceparent, "budget": budget}
            fields |= {"instruction": self._instruction, "turn_at": self.turn.at}
        fields |= {"turn_steps": t.steps, "turn_tokens": t.tokens, "turn_usd": t.usd, "updated": self._now}
        if self.added:
            fields |= {"log_length": self._task.log_length + len(self.added)}
        self.commit.set(self._keys.header, **fields)

    # Outcomes

    def idle(self, spent: Sequence[int]) -> None:
        """Nothing happened: the attempt does not count."""
        self.commit.unmail([n for n in spent if n not in self._arrived.control_numbers])
        self.commit.set(self._keys.header, attempt=self._lease.attempt - 1)

    def restart(self) -> None:
        """An ended task begins again with messages that its end had left, unless the router has just opened it."""
        self.commit.expect(self._keys.header, self._task.status)
        self._tell(TaskStart, goal=self._task.goal)
        self.commit.set_once(self._session.header, "live", self._keys.task)
        self.commit.untimer(self._keys, "archive")

    def end(self, status: EndStatus, reason: str) -> None:
        """The task is over: its one ``task_end``, and the timer after which it is archived."""
        metrics.tasks.labels(status).inc()
        if status != "completed":
            self._remember(f"[This was {status}: {reason}.]" if status == "failed" else f"[This was {status}.]")
        metrics.turn_seconds.labels(status).observe(max(0, self._now - self.turn.at) / 1000)
        t = self._task
        keys, session = self._keys, self._session
        self.commit.set(keys.header, status=status, reason=reason, open="", ended_at=self._now, fails=0)
        self._tell(TaskEnd, status=status, reason=reason, steps=self._steps, usage=self._usage)
        self.commit.cut(session.header, "live", keys.task)
        self.commit.set(session.header, done=keys.task, done_at=self._now)
        self.commit.unset(keys.header, "deadline", "asked_at", "retry_since")
        self.commit.untimer(keys, *TIMERS)
        self.commit.timer(keys, "archive", self._limits.grace_ms)
        if t.session:
            self.commit.expire(session.header, SESSION_TTL_S)

    def pause(self, reason: str) -> None:
        """Wait for a person."""
        self._header(status="waiting", reason=reason, open="", fails=0)
        self._tell(TaskStatusEvent, status="waiting", reason=reason)
        self.commit.untimer(self._keys, "timeout", "retry")

    def retry(self, again: Retry, why: str) -> None:
        """Keep everything where it is and try later; the attempt goes on growing."""
        if not self._task.retry_since and not self._task.ended:
            self._tell(TaskStatusEvent, status="active", reason=f"the model is asked again: {why}")
        self.commit.set(self._keys.header, fails=again.fails, retry_since=again.retry_since)
        self.commit.timer(self._keys, "retry", again.delay_ms)

    def failed(self, code: ErrorCode, text: str) -> None:
        """Tell why, before the end."""
        self._tell(ErrorEvent, code=code, message=text)

    @property
    def _steps(self) -> int:
        return self._task.step + self._made

    _made = 0
    _answer_usage = TaskUsage()

    @property
    def _usage(self) -> TaskUsage:
        t, a = self._task, self._answer_usage
        return TaskUsage(
            input_tokens=t.input_tokens + a.input_tokens,
            output_tokens=t.output_tokens + a.output_tokens,
            usd=t.usd + a.usd,
        )

    def ended_without_answer(self) -> None:
        """Header fields of a handling that placed mail and made no step."""
        self._header()

    def answered(
        self, answer: ModelAnswer, toolbox: Toolbox, system: bytes, step: int, before: Sequence[bytes]
    ) -> None:
        """A step: the answer, its manifest, and either tool calls or the end. ``before``: the committed transcript."""
        self._made = 1
        used = answer.usage
        self._answer_usage = TaskUsage(input_tokens=used.input_tokens, output_tokens=used.output_tokens, usd=used.usd)
        t = self.turn
        self.turn = Counters(
            t.steps + 1,
            t.tokens + used.input_tokens + used.output_tokens,
            t.usd + used.usd,
            t.budget,
            t.correlation,
            t.traceparent,
            t.at,
        )
        if answer.text or not answer.tool_calls:
            self._tell(MessageEvent, step=step, attempt=self._lease.attempt, content=answer.text)
        manifest = self._manifest(answer, toolbox, system, before)
        calls = self._ask(answer.tool_calls, toolbox, step)
        said = assistant(answer.text, [(c[0], c[1], c[2]) for c in calls])
        self._log(said, step=step, attempt=self._lease.attempt, model=answer.model)
        self._record(answer, manifest, step)
        fields: dict[str, Any] = {"step": step, "attempt": 0, "fails": 0, "retry_since": 0}
        fields |= {"digest": manifest.digest, "covered": manifest.messages[1]}
        fields |= {"open": to_json([[c[0], c[1], c[3]] for c in calls]) if calls else b""}
        usage = self._usage
        fields |= {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens, "usd": usage.usd}
        if calls:
            fields |= {"status": "active", "asked_at": self._now}
            self.commit.timer(self._keys, "timeout", self._limits.step_timeout_ms)
        else:
            fields |= {"status": "active"}
            self.commit.untimer(self._keys, "timeout", "retry")
        self._header(**fields)
        if not calls:
            self.commit.mode = "complete"
            self.commit.finish()
            self._remember(answer.text)
            self.end("completed", "answered")

    def _remember(self, text: str) -> None:
        """Into the session's last turns, which the next task begins with: also that a request is not to be done."""
        turn = Turn(role="assistant", content=text, task_id=self._keys.task, at=self._at)
        self.commit.push(self._session.turns, turn.to_json(), TURNS_KEPT)
        self.commit.expire(self._session.turns, SESSION_TTL_S)

    def _manifest(self, answer: ModelAnswer, toolbox: Toolbox, system: bytes, before: Sequence[bytes]) -> Manifest:
        if toolbox.json is not None and toolbox.digest != self._task.tools:
            self.commit.set_once(self._keys.big, f"tools:{toolbox.digest}", toolbox.json)
            self.commit.set(self._keys.header, tools=toolbox.digest)
        since = [*before[self._task.covered :], *self.added]
        return Manifest(
            messages=(0, self._task.covered + len(since)),
            instruction=self._instruction,
            tools=toolbox.digest,
            model=answer.model,
            digest=chain(self._task.digest, since, system, toolbox.digest, answer.model),
        )

    @property
    def _instruction(self) -> str:
        users = self._arrived.users
        return users[-1].message.instruction if users else self._task.instruction

    def _record(self, answer: ModelAnswer, manifest: Manifest, step: int) -> None:
        made = Step(
            step=step,
            attempt=self._lease.attempt,
            at=self._at,
            finish_reason=answer.finish_reason,
            usage=self._answer_usage,
            manifest=manifest,
        )
        self.commit.push(self._keys.steps, made.to_json())

    def _ask(self, drafts: Sequence[ToolCallDraft], toolbox: Toolbox, step: int) -> list[tuple[str, str, str, str]]:
        """Put the calls into their queues; (id, name, arguments for the prompt, queue) of each."""
        calls = []
        for draft in drafts:
            call = tool_call_id(self._keys.shard, self._unique())
            spec = toolbox.specs.get(draft.name)
            parsed = parse_arguments(draft.arguments)
            shown = parsed.args if parsed.args is not None else parsed.raw
            self._tell(ToolCallEvent, tool_call_id=call, tool=draft.name, args=shown)
            problem = parsed.problem
            if spec is None:
                known = ", ".join(toolbox.specs) or "none"
                problem = f"there is no tool {draft.name!r}; the tools are: {known}"
            if problem or spec is None or parsed.args is None:
                self._answer_at_once(call, draft.name, f"{draft.name}: {problem}")
            else:
                self._queue(call, spec, parsed.args, step)
            arguments = draft.arguments if parsed.args is not None and draft.arguments else "{}"
            calls.append((call, draft.name, arguments, spec.queue if spec else ""))
        return calls

    def _answer_at_once(self, call: str, tool: str, problem: str) -> None:
        self._tell(ToolResultEvent, tool_call_id=call, tool=tool, error=problem)
        mail = ResultMail(tool_call_id=call, content=f"error: {problem}", ok=False)
        self.commit.post(self._keys, "result", mail.to_json())

    def _queue(self, call: str, spec: ToolSpec, args: dict[str, Any], step: int) -> None:
        command = ToolCallCommand.model_construct(
            **self.envelope(),
            tool_call_id=call,
            step=step,
            tool=spec.name,
            args=args,
            effect=spec.effect,
            timeout=spec.timeout,
            user_id=self._task.user or None,
        )
        self.commit.set(self._keys.calls, **{call: "open 0"})
        self.commit.queue(TOOL_CALLS, TOOL_CALLS.key(self._keys.shard, queue=spec.queue), command)
