"""A step that the model has answered, written down as a commit: the answer, its manifest, and what comes next."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import to_json

from pentad.contracts.dates import LocalDate
from pentad.contracts.errors import ErrorCode
from pentad.contracts.events import INTERRUPTED, MessageEvent, TaskStatusEvent, TaskUsage, message_ref
from pentad.contracts.records import Manifest, StepRecord
from pentad.services.task_runner.domain.after_answer import AskAgain, CallTools, Complete, CutShort, Fail, Next
from pentad.services.task_runner.domain.own_tools import joined
from pentad.services.task_runner.instructions import Chosen
from pentad.services.task_runner.manifest import manifest_of
from pentad.services.task_runner.prompt import Toolbox, assistant, user
from pentad.services.task_runner.tool_calls import RequestedCall, request_calls
from pentad.services.task_runner.waiting import WaitWriter
from pentad.shared import metrics
from pentad.shared.actors.headers import ASKED
from pentad.shared.actors.opening import keep_instruction
from pentad.shared.actors.session_header import answer_field, excerpt
from pentad.shared.clipping import clip
from pentad.shared.immutable import immutable
from pentad.shared.memory.recalling import Recall
from pentad.shared.models.ports import ModelAnswer, Usage

MESSAGE_LIMIT = 1024 * 1024
"""Bytes of a step's text that an event carries; the rest is kept by reference."""


@immutable
class Asked:
    """What the model was asked with."""

    chosen: Chosen
    toolbox: Toolbox
    system: bytes
    before: Sequence[bytes]
    """The committed transcript, with what its exclusions leave out of the prompt."""
    today: LocalDate
    """The day that the system message ends with."""
    step: int
    recall: Recall | None = None
    """What came of recalling, where it was the task's first question."""


def _is_shown(following: Next, asked: Asked) -> bool:
    """Of an answer that must be JSON, only the value that fits is shown."""
    return isinstance(following, Complete) or asked.chosen.output is None


class AnswerWriter(WaitWriter):
    """Writes an answered step into a commit."""

    calls: Sequence[RequestedCall] = ()
    """What the step has asked for."""

    def quote(self, recall: Recall | None) -> None:
        """What was recalled stands before all else. Its text is kept, for the memory changes."""
        if recall is not None and recall.text:
            self._log(user(recall.text), origin="recalled")

    def answered(self, answer: ModelAnswer, following: Next, asked: Asked, *, redriven: bool = False) -> None:
        """The whole step. ``redriven``: a person asks for it, not the model; it is no step of the turn's."""
        self.read_clock()
        self._made = 1
        self._spend(answer.usage, of_turn=not redriven)
        text = following.text if isinstance(following, Complete | CutShort) else answer.text
        question = following.question if isinstance(following, CallTools) else ""
        self._show(answer, following, asked, joined(text if _is_shown(following, asked) else "", question))
        self._keep_materials(asked)
        covers = [*asked.before[self.task.covered :], *self.added]
        manifest = manifest_of(
            self.task, asked.chosen.version, asked.toolbox, answer, asked.system, covers, asked.recall, asked.today
        )
        calls = self.calls
        if isinstance(following, CallTools):
            calls = self.calls = request_calls(self, following.calls, asked.step, self._unique)
        self._log_answer(answer, text, calls, asked, cut=isinstance(following, CutShort))
        self._keep_record(answer, asked, manifest)
        fields: dict[str, Any] = {"step": asked.step, "attempt": 0, "fails": 0, "retry_since": 0, "status": "active"}
        fields |= {"digest": manifest.digest, "covered": manifest.messages[1]}
        if isinstance(following, AskAgain):
            fields |= {"repairs": self.repairs + 1}
            self._ask_again(following)
        elif isinstance(following, CutShort):
            fields |= {"unanswered": 1}
            self._go_on(following)
        self._open(calls, fields)
        self._finish_reason = answer.finish_reason
        self._follow(following, question)

    def _spend(self, used: Usage, *, of_turn: bool) -> None:
        self._answer_usage = TaskUsage(input_tokens=used.input_tokens, output_tokens=used.output_tokens, usd=used.usd)
        if of_turn:
            self.turn = self.turn.after_step(used.input_tokens + used.output_tokens, used.usd)

    def _show(self, answer: ModelAnswer, following: Next, asked: Asked, told: str) -> None:
        """What clients are told of it. The summary of a call that ends the task is told with the end."""
        ends = isinstance(following, CallTools) and following.completes
        if isinstance(following, Complete) or (told and not ends):
            by = {"model": answer.model, "model_id": answer.model_id or None, "finish_reason": answer.finish_reason}
            self._tell(asked.step, self._lease.attempt, told, by)

    def _tell(self, step: int, attempt: int, text: str, by: Mapping[str, Any]) -> None:
        """The text of a step; what is long is cut, and whole in the transcript."""
        shown = clip(text, MESSAGE_LIMIT)
        ref = None if shown is text else message_ref(step)
        self.emit(MessageEvent, step=step, attempt=attempt, content=shown, ref=ref, **by)

    def _log_answer(
        self, answer: ModelAnswer, text: str, calls: Sequence[RequestedCall], asked: Asked, *, cut: bool
    ) -> None:
        said = assistant(text, [(c.id, c.tool, c.arguments) for c in calls], answer.thoughts)
        meta: dict[str, Any] = {"model": answer.model, "model_id": answer.model_id or None}
        if cut:
            meta["finish_reason"] = INTERRUPTED
        self._log(said, step=asked.step, attempt=self._lease.attempt, **meta)

    def _keep_record(self, answer: ModelAnswer, asked: Asked, manifest: Manifest) -> None:
        record = StepRecord(
            step=asked.step,
            attempt=self._lease.attempt,
            at=self.at,
            finish_reason=answer.finish_reason,
            usage=self._answer_usage,
            manifest=manifest,
        )
        self.commit.push(self.keys.steps, record.to_json())

    def _follow(self, following: Next, question: str) -> None:
        """What the answer leads to, once its step is written down."""
        if question:
            self._ask_person(question)
        elif isinstance(following, CallTools):
            if following.completes:
                self.commit.rewake()
        elif isinstance(following, Complete):
            self._complete(following)
        elif isinstance(following, Fail):
            self._fail(following)

    def _open(self, calls: Sequence[RequestedCall], fields: dict[str, Any]) -> None:
        """The task's header after this step."""
        usage = self._usage
        fields |= {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens, "usd": usage.usd}
        fields |= {"open": to_json([c.kept for c in calls]) if calls else b""}
        if self.task.waits:
            self.commit.tallies.count(metrics.tasks.labels("active"))
            self.commit.untimer(self.keys, "wait", "stale")
        if calls:
            self.commit.stamp(self.keys.header, "asked_at")
            self.commit.timer(self.keys, "timeout", self._limits.step_timeout_ms)
            self._watch_calls()
        else:
            self.commit.untimer(self.keys, "timeout", "retry")
            if self._limits.stale_while_calling:
                self.commit.untimer(self.keys, "stale")
        self._header(**fields)

    def _keep_materials(self, asked: Asked) -> None:
        """With the task, what its manifests name by digest: once."""
        toolbox, chosen = asked.toolbox, asked.chosen
        if toolbox.json is not None and toolbox.digest != self.task.tools:
            self.commit.set_once(self.keys.big, f"tools:{toolbox.digest}", toolbox.json)
            self.commit.set(self.keys.header, tools=toolbox.digest)
        if chosen.version != self.task.instruction_version:
            keep_instruction(self.commit, self.keys, chosen.instruction)

    def _complete(self, following: Complete) -> None:
        self._complete_with(following.text, following.reason)

    def _complete_with(self, text: str, reason: str) -> None:
        self._say(text)  # also when a message overtakes the end: it was said
        self.commit.mode = "fail" if self._arrived.queues else "complete"
        self.commit.finish()
        self.end("completed", reason)

    def _say(self, text: str) -> None:
        """Into the session's last turns, and to what its next message is compared with."""
        self._remember(text)
        self.commit.set(self.session.header, **{answer_field(self.keys.task): excerpt(text)})

    def finish(self, answer: str, said_in: StepRecord) -> None:
        """The task completes with this, unless a message has come since; its calls have their results."""
        self._header(open="")
        by = {"model": said_in.manifest.model, "model_id": said_in.manifest.model_id}
        by |= {"finish_reason": said_in.finish_reason}
        self._tell(said_in.step, said_in.attempt, answer, by)
        self.commit.untimer(self.keys, "timeout")
        self._finish_reason = said_in.finish_reason
        self._complete_with(answer, "answered")

    def _ask_person(self, question: str) -> None:
        """The turn ends with the question. Other calls run meanwhile; their results wait with it for the answer."""
        self._say(question)
        self.commit.set(self.keys.header, status="waiting", reason=ASKED)
        self._wait_for_person(ASKED)

    def _ask_again(self, following: AskAgain) -> None:
        """Nobody has said this, so it is no user's message; the next step's model call is made at once."""
        self.emit(TaskStatusEvent, status="active", reason=f"the answer is asked for again: {following.problem}")
        text = f"This answer cannot be used: {following.problem}. Answer again, with one JSON value alone that fits."
        self._log(user(text), origin="repair")
        self.commit.rewake()

    def _go_on(self, following: CutShort) -> None:
        """The next step comes at once. It sees the message that has cut this one short, unless that was moved away."""
        self._say(following.text)
        self.commit.rewake()

    def cut_unsaid(self, used: Usage) -> None:
        """A message has cut the model call before anything was said: all stays as it is but what the call has cost."""
        self._spend_in_vain(used)
        self.commit.rewake()

    def said_nothing(self, answer: ModelAnswer) -> None:
        """An answer without text or calls is no step; what it has cost is kept."""
        self._finish_reason = answer.finish_reason
        self._spend_in_vain(answer.usage)

    def _spend_in_vain(self, used: Usage) -> None:
        self._spend(used, of_turn=False)
        self.commit.set(self.keys.header, **self._usage.model_dump())

    def _fail(self, following: Fail) -> None:
        text = f"the model's answer is not of the form that the instruction asks for: {following.problem}"
        self.fail(ErrorCode.MODEL_ERROR, text)
