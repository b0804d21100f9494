"""A message that leaves a task for another, written down as one commit of the first."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Literal

from pydantic_core import to_json

from pentad.contracts.commands import InboundMessage
from pentad.contracts.envelope import Budget
from pentad.contracts.errors import ErrorCode
from pentad.contracts.events import ErrorEvent, MessageMoved, PastEffect, TaskStart, TaskStatusEvent
from pentad.contracts.instructions import Instruction
from pentad.contracts.records import Exclusion
from pentad.contracts.turns import ASKED
from pentad.services.task_runner.domain.message_move import MOVED, Fate, MovedPart, RemainingTranscript
from pentad.services.task_runner.domain.plan import Closed
from pentad.services.task_runner.domain.result_in_prompt import KeptResults
from pentad.services.task_runner.mail_writer import append_mail
from pentad.services.task_runner.status_writer import end_task, remember_task, restart_task, wait_for_person
from pentad.services.task_runner.step_writer import StepWriter
from pentad.shared import metrics
from pentad.shared.actors import opening
from pentad.shared.actors.headers import TaskHeader
from pentad.shared.actors.mail import MoveMail, SessionMessage, UserMail
from pentad.shared.actors.session_header import answer_field, digest_field, fields_of_task, recent_field
from pentad.shared.actors.sessions import as_session_context
from pentad.shared.immutable import immutable
from pentad.shared.instructions.variables import bounded_variables
from pentad.shared.keys import TaskKeys, load

_NAMED = 100
"""Effects and later answers that an event names, at most."""


@immutable
class Departure:
    """A message on its way to another task."""

    move: MoveMail
    message: InboundMessage
    found: MovedPart | None
    """Part of the transcript that leaves; None when the message still waits among the mail."""


@immutable
class Receiver:
    """The task that gets the message."""

    keys: TaskKeys
    header: TaskHeader | None
    """Header of the task; None for a new task."""


class MoveWriter:
    """Writes a move into a commit. What else waits for the task is left to the next handling."""

    def __init__(self, writer: StepWriter, number: int, *, cuts: bool) -> None:
        """Begin a move. ``number``: the mail that asks for it; ``cuts``: the message's turn is under way and ends."""
        self._writer, self._cuts = writer, cuts
        self._commit, self._keys, self._task, self._session = writer.commit, writer.keys, writer.task, writer.session
        self._commit.unmail([number])
        self._commit.set(self._keys.header, control="")
        self._commit.rewake()

    def refuse(self, why: str) -> None:
        """Move nothing. ``why``: the reason that is told, unless it is ''."""
        if why:
            self._writer.emit(ErrorEvent, code=ErrorCode.NOT_ALLOWED, message=f"nothing was moved: {why}")

    def take_out(
        self,
        departure: Departure,
        length: int,
        receiver: Receiver,
        closed: Sequence[Closed],
        results: KeptResults,
    ) -> None:
        """Take the message and its part of the transcript out of the task.

        ``length``: number of entries in its transcript. ``closed``: calls of the turn under way that are given up.
        """
        move, found = departure.move, departure.found
        if self._task.ended:
            self._commit.expect(self._keys.header, self._task.status)
        positions: Sequence[int] = ()
        if found is None:
            self._commit.unmail([move.number])
        else:
            if self._cuts:
                append_mail(self._writer, closed, results)
            positions = (*found.positions, *range(length, length + len(self._writer.added)))
        note = Exclusion(positions=list(positions), to=move.to, to_task_id=receiver.keys.task)
        self._writer.append(note.model_dump(), message_id=move.message_id)
        self._commit.set(self._keys.header, log_length=self._task.log_length + len(self._writer.added))
        if self._cuts:
            self._end_turn()
        if self._task.ended:
            remember_task(self._writer)
        if departure.message.due and departure.message.due == self._task.deadline:
            self._commit.set(self._keys.header, deadline=0)
            self._commit.untimer(self._keys, "deadline")

    def _end_turn(self) -> None:
        """Drop the turn under way. A paused task stays paused."""
        self._commit.set(self._keys.header, open="", fails=0, retry_since=0, repairs=0)
        self._commit.untimer(self._keys, "timeout", "retry")
        if self._task.paused:
            self._commit.set(self._keys.header, paused="active")
            return
        self._commit.set(self._keys.header, status="active", reason="")
        if self._task.waits:
            self._commit.tallies.count(metrics.tasks.labels("active"))
            self._commit.untimer(self._keys, "wait", "stale")

    def hand_over(
        self,
        departure: Departure,
        receiver: Receiver,
        turns: Sequence[SessionMessage],
        answered_at: Collection[str | None],
        instruction: Instruction | None,
    ) -> None:
        """Hand the message to the other task, and remove its turn from the session's last turns.

        ``answered_at``: times of its answers. ``instruction``: the one that this task runs, which a new task runs too.
        """
        here = self._turns_of(departure.move.message_id, turns, answered_at)
        for n in here:
            self._commit.drop(self._session.turns, turns[n].to_json())
        message, now, to = departure.message, self._writer.clock(), receiver.keys
        passed = 0 < message.due <= now
        message = message.model_copy(update={"task_id": None} | ({"deadline": None} if passed else {}))
        context = as_session_context(turns[: here[0]] if here else turns) if receiver.header is None else []
        if receiver.header is None:
            name, session, ttl_s = self._task.instruction, self._session.session, self._writer.limits.session_ttl_s
            opening.begin(self._commit, to, session, message, name, ttl_s, instruction)
        else:
            self._commit.expect(to.header, receiver.header.status)
        reopened = receiver.header is not None and receiver.header.ended
        if reopened:
            opening.reopen(self._commit, to)
        mail = UserMail(message=message, entry_id=f"{now}-0", at=self._writer.at, context=context)
        opening.hand_over(self._commit, self._session, to, mail, self._writer.limits.session_ttl_s, reopened=reopened)
        self._commit.set(self._session.header, **{recent_field(to.task): now})
        if departure.found is not None:  # it waits again
            self._commit.incr(load(to.shard), **{"mail": 1, f"tenant:{to.tenant}": 1})

    def _turns_of(
        self, message_id: str, turns: Sequence[SessionMessage], answered_at: Collection[str | None]
    ) -> list[int]:
        """Return the positions of the message and of its answers, which come after it.

        An answer before it may be of the same millisecond, and stays.
        """
        ours = [(n, turn) for n, turn in enumerate(turns) if turn.task_id == self._keys.task]
        said = [n for n, turn in ours if turn.role == "user" and turn.message_id == message_id]
        begin = said[0] if said else -1
        return said + [n for n, turn in ours if n > begin and turn.role != "user" and turn.at in answered_at]

    def tell(self, departure: Departure, receiver: Receiver, fate: Fate, effects: Sequence[PastEffect]) -> None:
        """Tell the session's clients, and that the other task begins, if it does."""
        found, message_id = departure.found, departure.move.message_id
        moved = MessageMoved(
            **(self._writer.envelope() | {"correlation_id": message_id}),
            message_id=message_id,
            from_task_id=self._keys.task,
            to_task_id=receiver.keys.task,
            emptied=fate == "cancelled",
            effects=list(effects[:_NAMED]),
            later_steps=list(found.later_steps[:_NAMED]) if found is not None else [],
        )
        self._commit.event(self._session, moved)
        if receiver.header is None or receiver.header.ended:
            goal = receiver.header.goal if receiver.header is not None else opening.goal_of(departure.message.content)
            why = {"task_id": receiver.keys.task, "correlation_id": message_id, "causation_id": self._commit.step_id}
            self._commit.tallies.count(metrics.tasks.labels("active"))
            metadata = departure.message.metadata or None
            self._commit.event(self._session, TaskStart(**self._writer.stamped(**why), goal=goal, metadata=metadata))

    def begins_with(self, departure: Departure, content: str) -> None:
        """Where the message that leaves was the task's first one, its goal is made from this text, now the first."""
        if content and self._task.goal == opening.goal_of(departure.message.content):
            self._commit.set(self._keys.header, goal=opening.goal_of(content))

    def settle(self, fate: Fate, rest: RemainingTranscript, message_id: str) -> None:
        """Write how the first task continues. ``message_id``: the message that leaves."""
        header = self._keys.header
        if self._task.variables:  # whichever message leaves: what it alone has given goes with it
            self._commit.set(header, variables=to_json(bounded_variables(self._task.variables, rest.given)))
        if self._task.correlation == message_id:
            self._give_turn_back(fate, rest)
        if fate in ("goes_on", "asks"):
            self._open_again(fate)
        if fate not in ("cancelled", "completed"):
            return
        self._commit.expect_no_new_message()
        if self._task.ended:
            self._commit.set(header, status="cancelled", reason=MOVED)
            self._commit.unset(self._session.header, *fields_of_task(self._keys.task))
            return
        self._commit.set(header, unanswered=0)
        end_task(self._writer, "cancelled" if fate == "cancelled" else "completed", "complete", MOVED)

    def _give_turn_back(self, fate: Fate, rest: RemainingTranscript) -> None:
        """The message before the one that leaves is the task's last again: what later steps do, they do for its user.

        The events that tell of its turn bear its name and metadata; the end of the turn that leaves does not. Tools of
        its client are not kept: those of the message that leaves go with that.
        """
        earlier = replace(
            self._writer.turn,
            correlation=rest.last_said or "",
            budget=Budget.model_validate(rest.budget) if rest.budget else None,
            speaker=rest.speaker,
            metadata=rest.metadata,
            traceparent=rest.traceparent,
            client_tools="",
        )
        self._commit.set(self._keys.header, **earlier.message_fields, time_zone=rest.time_zone)
        if fate in ("goes_on", "asks"):
            self._writer.turn = earlier

    def waits_as_before(self) -> None:
        """Repeat the task's status: its message has left unread, and clients have seen a message come to it."""
        status: Literal["waiting", "stale"] = "stale" if self._task.status == "stale" else "waiting"
        self._writer.emit(TaskStatusEvent, status=status, reason=self._task.reason)

    def _open_again(self, fate: Fate) -> None:
        """The turn before the one that leaves is not over: it goes on, or waits for the answer to its question."""
        header = self._keys.header
        if self._task.ended:
            restart_task(self._writer)
            self._commit.set(header, status="active", reason="")
            self._commit.stamp(header, "updated")
        if fate == "goes_on":
            self._commit.set(header, unanswered=1)
        elif self._task.paused:
            self._commit.set(header, paused=ASKED)
        else:
            self._commit.set(header, status="waiting", reason=ASKED)
            wait_for_person(self._writer, ASKED)

    def remember_digests(self, receiver: Receiver, left: bytes | None, got: bytes | None) -> None:
        """Store the digests that the session compares its next message with: that of the first task unless it is
        cancelled, and that of the other unless it is new.
        """
        for task, digest in ((self._keys.task, left), (receiver.keys.task, got)):
            if digest is not None:
                self._commit.set(self._session.header, **{digest_field(task): digest})
                self._commit.unset(self._session.header, answer_field(task))
