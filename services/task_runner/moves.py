"""Moves a message to another task: reads what that takes, and writes one commit of the first task."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from pydantic import ValidationError

from pentad.contracts.commands import InboundMessage
from pentad.contracts.ids import ANY_SHARD, shard_in, task_id
from pentad.services.task_runner.domain.arrived import Arrived
from pentad.services.task_runner.domain.message_move import (
    Fate,
    Line,
    MovedPart,
    RemainingTranscript,
    fate_of,
    moved_part,
    past_effects,
    spoken,
    without_part,
)
from pentad.services.task_runner.domain.plan import GiveAway, give_up
from pentad.services.task_runner.domain.result_in_prompt import KeptResults
from pentad.services.task_runner.instructions import TaskInstructions
from pentad.services.task_runner.move_writer import Departure, MoveWriter, Receiver
from pentad.services.task_runner.step import Step, Steps
from pentad.services.task_runner.step_writer import StepWriter
from pentad.services.task_runner.tool_catalog import ToolCatalog
from pentad.shared.actors.headers import TaskHeader, mail_of, pairs
from pentad.shared.actors.mail import NEW_TASK, MoveMail, UserMail
from pentad.shared.actors.session_header import SessionHeader, session_header
from pentad.shared.actors.sessions import last_turns, load_task
from pentad.shared.actors.transcript import EXCLUSION, shown
from pentad.shared.attached_files import FIELD
from pentad.shared.digests.task_digest import TaskDigest, digest_bytes, digest_of, read_utterance
from pentad.shared.errors import DamagedError
from pentad.shared.keys import TURNS_KEPT, SessionKeys, TaskKeys
from pentad.shared.random_hex import random_hex
from pentad.shared.store.store import guarded


class Moves:
    """Moves messages, for all tasks of a process."""

    def __init__(
        self,
        steps: Steps,
        tools: ToolCatalog,
        instructions: TaskInstructions,
        results: Callable[[Step], Awaitable[KeptResults]],
    ) -> None:
        """``results``: reads those that have come, as hooks let them through."""
        self._results = results
        self._steps, self._tools, self._instructions = steps, tools, instructions

    async def give_away(self, step: Step, asked: GiveAway) -> bool:
        """Carry one move out, or tell why not. False when it was overtaken and must be planned again."""
        move, lines = asked.move, await self._lines(step.keys)
        found = moved_part(lines, move.message_id)
        waiting = None if found is not None else await self._waiting(step.keys, move)
        receiver = await self._receiver(step, move)
        cuts = found is not None and found.last and not step.task.ended
        writer = self._writer(step, cuts=cuts)
        writes = MoveWriter(writer, asked.number, cuts=cuts)
        if found is None and waiting is None:
            repeated = _moved_there(lines, move)
            writes.refuse("" if repeated else f"task {step.keys.task} has no message {move.message_id} any more")
        elif receiver is None:
            writes.refuse(f"task {move.to} cannot take message {move.message_id}: it is gone, or was cancelled")
        else:
            message = await self._said(step, lines, found) if waiting is None else waiting.message
            await self._write(writes, step, lines, Departure(move, message, found), receiver, cuts=cuts)
        return await self._steps.actors.commit(writer.commit, step.taken) != "overtaken"

    async def _write(
        self,
        writer: MoveWriter,
        step: Step,
        lines: list[Line],
        departure: Departure,
        receiver: Receiver,
        *,
        cuts: bool,
    ) -> None:
        found, arrived = departure.found, step.arrived
        rest = without_part(lines, found.positions if found is not None else ())
        fate = _fate(step, departure, rest)
        missing = [call for call in step.task.open if call.id not in arrived.results] if cuts else []
        writer.take_out(
            departure,
            len(lines),
            receiver,
            give_up(missing, "its message was moved to another task"),
            await self._results(step),
        )
        store, session = self._steps.actors.store, SessionKeys(step.keys.shard, step.keys.tenant, step.task.session)
        turns = await guarded("turns", last_turns, store, session, TURNS_KEPT)
        positions = found.positions if found is not None else ()
        answered_at = {lines[n].get("at") for n in positions if lines[n]["role"] == "assistant"}
        chosen = await self._instructions.of(step.keys, step.task) if receiver.header is None else None
        writer.hand_over(departure, receiver, turns, answered_at, chosen.instruction if chosen is not None else None)
        specs = await self._tools.specs()
        writer.tell(departure, receiver, fate, past_effects(found.calls if found is not None else (), specs))
        others = _others(step, departure)
        writer.begins_with(departure, rest.began_with or next((u.message.content for u in others), ""))
        writer.settle(fate, rest, departure.move.message_id)
        if found is None and fate == "as_it_was" and step.task.waits and not others:
            writer.waits_as_before()
        if self._steps.settings.pentad_route == "auto":
            header = session_header(pairs(await guarded("session", store.call, "HGETALL", session.header)))
            compared = fate != "cancelled" and step.task.status not in ("failed", "cancelled")
            left = digest_of_rest(lines, found.positions if found is not None else ()) if compared else None
            writer.remember_digests(receiver, left, _digest_got(header, departure, receiver))

    def _writer(self, step: Step, *, cuts: bool) -> StepWriter:
        """``cuts``: the turn under way leaves with the message; its results are placed before."""
        arrived = _without_mail(step.arrived, results=cuts)
        commit = self._steps.empty(step.keys)
        writer = StepWriter(commit, step.keys, step.task, step.taken, arrived, self._steps.limits)
        writer.on_end = self._steps.on_end
        return writer

    async def _lines(self, keys: TaskKeys) -> list[Line]:
        """The transcript with what is known of each message: a task keeps only the messages in mind."""
        raw = await guarded("transcript", self._steps.actors.store.call, "LRANGE", keys.log, 0, -1)
        try:
            return [shown(entry) for entry in raw]
        except (ValueError, TypeError):
            raise DamagedError(f"the transcript of task {keys.task} cannot be read") from None

    async def _said(self, step: Step, lines: list[Line], found: MovedPart | None) -> InboundMessage:
        """The message as far as a transcript tells it; the tools of its client are kept until the next message."""
        assert found is not None
        line, task = lines[found.place], step.task
        return InboundMessage(
            content=line["content"],
            message_id=line["message_id"],
            session_id=task.session,
            tenant_id=task.tenant,
            deadline=line.get("deadline"),
            budget=line.get("budget"),
            metadata=line.get("metadata") or {},
            traceparent=line.get("traceparent"),
            files=tuple(line.get(FIELD) or ()) or None,
            user_id=_speaker(line, task),
            tools=await self._steps.client_tools(step) or None if task.correlation == line["message_id"] else None,
        )

    async def _waiting(self, keys: TaskKeys, move: MoveMail) -> UserMail | None:
        """The message as it waits among the task's mail; None when it does not."""
        call = self._steps.actors.store.call
        found = await guarded("mail", call, "ZRANGEBYSCORE", keys.messages, move.number, move.number)
        try:
            mail = UserMail.model_validate_json(mail_of(found)[0].body) if found else None
        except (ValueError, ValidationError):
            raise DamagedError(f"the mail of task {keys.task} cannot be read") from None
        return mail if mail is not None and mail.message.message_id == move.message_id else None

    async def _receiver(self, step: Step, move: MoveMail) -> Receiver | None:
        """The task that gets the message; None when it cannot."""
        keys = step.keys
        if move.to == NEW_TASK:
            return Receiver(TaskKeys(keys.shard, keys.tenant, task_id(keys.shard, random_hex(20))), None)
        if shard_in(move.to, ANY_SHARD) != keys.shard or move.to == keys.task:
            return None
        to = TaskKeys(keys.shard, keys.tenant, move.to)
        try:
            header = await guarded("task", load_task, self._steps.actors.store, to)
        except DamagedError:
            return None
        if header is None or header.session != step.task.session or header.status == "cancelled":
            return None
        return Receiver(to, header)


def _without_mail(arrived: Arrived, *, results: bool) -> Arrived:
    """The mail as seen by a handling that leaves all of it where it is, except perhaps results of open calls."""
    kept = Arrived((), (), {}, (), {}, "", 0, 0, (), (), ())
    return replace(kept, results=arrived.results, result_numbers=arrived.result_numbers) if results else kept


def _fate(step: Step, departure: Departure, rest: RemainingTranscript) -> Fate:
    found, arrived, task = departure.found, step.arrived, step.task
    return fate_of(
        task,
        rest,
        last=found.last if found is not None else not task.waits,
        asked=bool(_others(step, departure) or arrived.redrives),
        calls_left=bool(task.open) and found is None,
    )


def _others(step: Step, departure: Departure) -> list[UserMail]:
    """Messages that wait for the task beside the one that leaves."""
    waiting = (*step.arrived.users, *step.arrived.ended)
    return [mail for mail in waiting if mail.message.message_id != departure.message.message_id]


def _digest_got(session: SessionHeader, departure: Departure, receiver: Receiver) -> bytes | None:
    """The digest of the task that gets the message; a new one needs none before its second message."""
    known = receiver.header
    return None if known is None else digest_with(session, known, departure.message.content)


def _moved_there(lines: list[Line], move: MoveMail) -> bool:
    """Whether this very move has been carried out already."""
    notes = [line for line in lines if line["role"] == EXCLUSION and line.get("message_id") == move.message_id]
    return bool(notes) and move.to in (notes[-1]["to"], notes[-1]["to_task_id"])


def _speaker(line: Line, task: TaskHeader) -> str | None:
    """Who has said a message; entries of versions before long-term memory do not tell, but for the task's own user."""
    if line.get("user_id") or line.get("memory_session"):
        return line.get("user_id")
    return (task.speaker if task.correlation == line["message_id"] else task.user) or None


_TURNS = 64
"""Turns that are read again for a digest: the first message, and the last turns."""


def digest_of_rest(lines: Sequence[Line], without: Sequence[int]) -> bytes:
    """A task's digest, made anew from what it keeps: nothing can be taken out of one. It has no meanings."""
    turns, digest = spoken(lines, without), TaskDigest()
    for line in (*turns[:1], *turns[1:][-_TURNS:]):
        if line["role"] == "user":
            digest = digest.heard(read_utterance(line["content"]))
        else:
            digest = digest.answering(line["content"])
    return digest_bytes(digest)


def digest_with(session: SessionHeader, task: TaskHeader, content: str) -> bytes:
    """A task's digest with what it has answered since it was spoken to last, and with this message."""
    kept, answer = session.digests.get(task.task_id), session.answers.get(task.task_id)
    digest = (digest_of(kept) if kept is not None else None) or TaskDigest().heard(read_utterance(task.goal))
    if answer is not None:
        digest = digest.answering(answer)
    return digest_bytes(digest.heard(read_utterance(content)))
