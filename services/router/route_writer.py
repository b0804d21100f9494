"""Writes the decision about one message into a commit: its events, and mail for its task."""

from collections.abc import Collection
from typing import Any

from pentad.contracts.commands import InboundMessage
from pentad.contracts.envelope import Contract
from pentad.contracts.errors import ErrorCode
from pentad.contracts.events import ControlResult, ErrorEvent, MessageRouted, NodeStart, TaskStart
from pentad.contracts.graphs import GraphSpec
from pentad.contracts.ids import rfc3339
from pentad.contracts.instructions import Instruction
from pentad.services.router.domain.control_words import control_answer
from pentad.services.router.domain.rules import Route
from pentad.services.router.similarity_router import DigestUpdates
from pentad.shared import metrics
from pentad.shared.actors import opening
from pentad.shared.actors.commit import Commit, CommitEvents
from pentad.shared.actors.headers import TaskHeader
from pentad.shared.actors.mail import SessionMessage, UserMail
from pentad.shared.actors.session_header import SessionHeader, answer_field, digest_field, fields_of_task, recent_field
from pentad.shared.keys import SessionKeys, TaskKeys


class RouteWriter:
    """Writes one decision into a commit."""

    def __init__(
        self, commit: Commit, keys: SessionKeys, message: InboundMessage, entry: str, now: int, session_ttl_s: int
    ) -> None:
        self._commit, self._keys, self._message, self._ttl_s = commit, keys, message, session_ttl_s
        self._now = now
        self._at = rfc3339(now)
        self._entry = entry
        self._events = CommitEvents(commit, keys, self._at)
        self._why = {
            "correlation_id": message.message_id,
            "causation_id": message.message_id,
            "traceparent": message.traceparent,
            "deadline": message.deadline,
            "budget": message.budget,
        }

    def _emit(self, kind: type[Contract], task: str | None, **fields: Any) -> None:
        why = {"task_id": task, **self._why}
        self._commit.event(self._keys, kind.from_fields(self._events.stamp(why) | fields))

    def error(self, code: ErrorCode, text: str) -> None:
        """Add an ``error`` event that says why this message has no answer."""
        message = self._message
        self._emit(ErrorEvent, message.task_id, code=code, message=text, message_id=message.message_id)

    def _measure_turn(self, outcome: str) -> None:
        since = int(self._entry.partition("-")[0])
        self._commit.tallies.measure(metrics.turn_seconds.labels(outcome), since)

    def failed(self, text: str) -> None:
        """Tell the sender that the message could not be routed."""
        self._measure_turn("failed")
        self.error(ErrorCode.INTERNAL, text)

    def _routed(self, task: str | None, route: Route) -> None:
        self._commit.tallies.count(metrics.decisions.labels(route.decision))
        self._emit(
            MessageRouted,
            task,
            message_id=self._message.message_id,
            decision=route.decision,
            confidence=route.confidence,
            reason=route.reason,
            candidates=route.candidates,
            scores=route.scores,
            stage=route.stage,
            metadata=self._message.metadata or None,
        )

    def reject(self, route: Route) -> None:
        """Refuse the message: its sender is told, and no task changes."""
        self._measure_turn("rejected")
        self._routed(self._message.task_id, route)
        if route.error is not None:
            self.error(route.error, route.reason)

    def new(self, task: TaskKeys, route: Route, runnable: Instruction | GraphSpec) -> None:
        """Begin a task, which keeps this version of its instruction or graph."""
        session, message, ttl_s = self._keys.session, self._message, self._ttl_s
        opening.begin(self._commit, task, session, message, route.instruction, ttl_s, runnable)
        self._routed(task.task, route)
        self._start(task, opening.goal_of(message.content))
        if isinstance(runnable, GraphSpec):
            self._emit(NodeStart, task.task, node=runnable.entry, step=1)

    def existing(self, task: TaskKeys, header: TaskHeader, route: Route) -> None:
        """Append the message to a live task, or open an ended task again."""
        self._commit.expect(task.header, header.status)
        self._routed(task.task, route)
        if route.decision == "reopen":
            opening.reopen(self._commit, task)
            self._start(task, header.goal, parent_task_id=header.parent or None, node=header.branch or None)
            if header.graph:
                node = header.node or header.entry
                self._commit.set(task.header, node=node)
                self._emit(NodeStart, task.task, parent_task_id=header.parent or None, node=node, step=header.step + 1)

    def _start(self, task: TaskKeys, goal: str, **whose: str | None) -> None:
        self._commit.tallies.count(metrics.tasks.labels("active"))
        self._emit(TaskStart, task.task, goal=goal, metadata=self._message.metadata or None, **whose)

    def send(self, task: TaskKeys, context: list[SessionMessage], route: Route) -> None:
        """Put the message into the task's mailbox and into the session's memory of its last turns."""
        mail = UserMail(message=self._message, entry_id=self._entry, at=self._at, context=context)
        reopened = route.decision == "reopen"
        opening.hand_over(self._commit, self._keys, task, mail, self._ttl_s, reopened=reopened)

    def remember(self, session: SessionHeader, kept: Collection[str], task: TaskKeys, updates: DigestUpdates) -> None:
        """Record that the task was spoken to last, and forget tasks that are neither this one nor ``kept``."""
        header = self._keys.header
        now = max(self._now, session.spoken_at + 1)  # two in one ms, or a clock that has stepped back
        fields: dict[str, int | bytes] = {recent_field(task.task): now}
        fields |= {digest_field(name): digest for name, digest in updates.digests.items()}
        gone = {*session.recent, *session.digests, *session.answers} - {task.task, *kept}
        removed = [field for name in gone for field in fields_of_task(name)]
        removed += [answer_field(name) for name in updates.digests if name in session.answers]
        self._commit.set(header, **fields)
        if removed:
            self._commit.unset(header, *removed)

    def control(self, task: TaskKeys, header: TaskHeader, route: Route) -> None:
        """Carry out the control action that the message asks for, and add its ``control_result``."""
        self._measure_turn("completed")
        self._routed(task.task, route)
        assert route.action is not None
        if route.action != "progress":
            self._commit.expect(task.header, header.status)
            self._commit.set(task.header, control=route.action)
            self._commit.post(task, route.action, b"{}")
        content = control_answer(route.action, header, self._message.content)
        self._emit(ControlResult, task.task, message_id=self._message.message_id, action=route.action, content=content)
