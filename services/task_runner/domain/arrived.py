"""Sorts the mail of a task by its meaning. Pure."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import field

from pentad.contracts.dates import zone_of
from pentad.shared.actors.headers import UNREADABLE, Mail, OpenCall
from pentad.shared.actors.mail import ApprovalMail, MoveMail, RedriveMail, ResultMail, SuspendedCall, UserMail
from pentad.shared.actors.targets import rule_of
from pentad.shared.immutable import immutable
from pentad.shared.kinds import APPROVAL, MOVE, PAUSE, REDRIVE, RESULT, RESUME, USER

TIME_ZONE = "time_zone"
"""Key in a message's metadata that names the person's time zone."""


def newest_zone(metadata: Sequence[Mapping[str, str]]) -> str:
    """Return the known time zone that the newest message with one names; '' for none. ``metadata``: oldest first."""
    for name in [each[TIME_ZONE] for each in reversed(metadata) if each.get(TIME_ZONE)]:
        try:
            zone_of(name)
        except ValueError:
            continue
        return name
    return ""


@immutable
class Arrived:
    """The mail of a task, sorted by its meaning."""

    users: tuple[UserMail, ...]
    """Messages that the task has to work on."""
    ended: tuple[UserMail, ...]
    """Messages that an end of the task has covered: they belong in the transcript and ask for nothing."""
    results: Mapping[str, ResultMail]
    """Results of calls that have ended, by call."""
    redrives: tuple[RedriveMail, ...]
    """Redrives by a person: the task goes on with them, even when it had ended."""
    controls: Mapping[str, bytes]
    """Other signals by kind, each with the body of the newest."""
    asked_to: str
    """The last of ``pause`` and ``resume`` that a person has asked for; '' for neither."""
    user_number: int
    """Number of the newest of ``users``; 0 when there is none."""
    ended_number: int
    """Number of the newest of ``ended``; 0 when there is none."""
    result_numbers: tuple[int, ...]
    """Numbers of the mail with `results`."""
    redrive_numbers: tuple[int, ...]
    control_numbers: tuple[int, ...]
    moves: tuple[MoveMail, ...] = ()
    """Messages that a person wants another task to have."""
    move_numbers: tuple[int, ...] = ()
    decisions: Mapping[str, ApprovalMail] = field(default_factory=dict)
    """Decisions of persons about calls that wait for one, by call."""
    decision_numbers: tuple[int, ...] = ()
    number_of_result: Mapping[str, int] = field(default_factory=dict)
    """Number of the mail with a call's result, by call."""
    suspended: Mapping[str, SuspendedCall] = field(default_factory=dict)
    """Calls that their tools have suspended, with their needs, by call."""
    suspended_numbers: tuple[int, ...] = ()
    first_number: int = 0
    """Number of the oldest of ``users``; 0 when there is none."""
    queues: bool = False
    """Whether messages queue, so that only those of this turn are here."""
    left: bool = False
    """Whether further messages wait for turns of their own."""

    @property
    def time_zone(self) -> str:
        """Time zone of the person, as these messages name it; '' for none."""
        return newest_zone(self.metadata)

    @property
    def metadata(self) -> list[dict[str, str]]:
        """Metadata of these messages, the oldest first."""
        return [mail.message.metadata for mail in self.users]

    @property
    def asks(self) -> bool:
        """Whether a message or a redrive asks the task to go on."""
        return bool(self.users or self.redrives)


def sort_mail(mail: Sequence[Mail], ended_mail: int) -> Arrived:
    """Sort mail by kind, each in order. ``ended_mail``: messages up to this number belong to what has ended."""
    controls: list[Mail] = []
    by_kind: dict[str, list[Mail]] = {USER: [], RESULT: [], REDRIVE: [], MOVE: [], APPROVAL: [], UNREADABLE: []}
    for m in mail:
        by_kind.get(m.kind, controls).append(m)
    if by_kind[UNREADABLE]:
        raise ValueError("there is something in the task's mail that is none")
    users = [UserMail.model_validate_json(m.body) for m in by_kind[USER]]
    read = [(m.number, ResultMail.model_validate_json(m.body)) for m in by_kind[RESULT]]
    results = [result for _, result in read if result.suspended is None]
    user_numbers = _numbers(by_kind[USER])
    past = bisect_right(user_numbers, ended_mail)
    return Arrived(
        users=tuple(users[past:]),
        ended=tuple(users[:past]),
        results={result.tool_call_id: result for result in results},
        redrives=tuple([RedriveMail.model_validate_json(m.body) for m in by_kind[REDRIVE]]),
        controls={m.kind: m.body for m in controls},
        asked_to=next((m.kind for m in reversed(controls) if m.kind in (PAUSE, RESUME)), "") if controls else "",
        user_number=user_numbers[-1] if len(users) > past else 0,
        ended_number=user_numbers[past - 1] if past else 0,
        result_numbers=tuple([number for number, result in read if result.suspended is None]),
        redrive_numbers=_numbers(by_kind[REDRIVE]),
        control_numbers=_numbers(controls),
        moves=tuple([MoveMail.model_validate_json(m.body) for m in by_kind[MOVE]]),
        move_numbers=_numbers(by_kind[MOVE]),
        decisions=_decisions(by_kind[APPROVAL]),
        decision_numbers=_numbers(by_kind[APPROVAL]),
        number_of_result={result.tool_call_id: number for number, result in read if result.suspended is None},
        suspended={result.tool_call_id: result.suspended for _, result in read if result.suspended is not None},
        suspended_numbers=tuple([number for number, result in read if result.suspended is not None]),
        first_number=user_numbers[past] if len(users) > past else 0,
    )


def is_ended(call: OpenCall, arrived: Arrived) -> bool:
    """Whether what the call waits for has come."""
    if call.id in arrived.results:
        return True
    ends_by = rule_of(call).ends_by
    return ends_by == "others" or (ends_by in ("message", "client") and bool(arrived.users))


def stays_open(call: OpenCall, arrived: Arrived) -> bool:
    """Whether the task goes on beside this call, which waits for its result."""
    return rule_of(call).alone and call.id not in arrived.results


def _decisions(mail: Sequence[Mail]) -> Mapping[str, ApprovalMail]:
    read = [ApprovalMail.model_validate_json(m.body) for m in mail]
    return {decision.tool_call_id: decision for decision in read}


def _numbers(mail: Sequence[Mail]) -> tuple[int, ...]:
    return tuple([m.number for m in mail])
