"""What has come for a task, sorted by what it means. Pure."""

from collections.abc import Mapping, Sequence

from pentad.shared.actors.headers import UNREADABLE, Mail
from pentad.shared.actors.mail import MoveMail, RedriveMail, ResultMail, UserMail
from pentad.shared.immutable import immutable
from pentad.shared.kinds import MOVE, PAUSE, REDRIVE, RESULT, RESUME, USER


@immutable
class Arrived:
    """What has come, sorted."""

    users: tuple[UserMail, ...]
    """Messages to be worked on."""
    ended: tuple[UserMail, ...]
    """Messages that an end has taken with it: they belong into the transcript and ask for nothing."""
    results: Mapping[str, ResultMail]
    redrives: tuple[RedriveMail, ...]
    """What a person has redriven: the task goes on with it, also when it had ended."""
    controls: Mapping[str, bytes]
    """What else it was told, by kind, with the body of the newest."""
    asked_to: str
    """``pause`` or ``resume``: what a person asked for last of these; '' for neither."""
    user_number: int
    """Number of the newest of ``users``; 0 when there is none."""
    ended_number: int
    """Number of the newest of ``ended``; 0 when there is none."""
    result_numbers: tuple[int, ...]
    redrive_numbers: tuple[int, ...]
    control_numbers: tuple[int, ...]
    moves: tuple[MoveMail, ...] = ()
    """Messages that a person wants another task to have."""
    move_numbers: tuple[int, ...] = ()
    first_number: int = 0
    """Number of the oldest of ``users``; 0 when there is none."""
    queues: bool = False
    """Messages queue: of those that wait here is only what belongs to this turn."""
    left: bool = False
    """Others wait behind it, for turns of their own."""

    @property
    def asks(self) -> bool:
        """Whether something asks the task to go on."""
        return bool(self.users or self.redrives)


def sort_mail(mail: Sequence[Mail], ended_mail: int) -> Arrived:
    """Sort mail by kind, each in order. ``ended_mail``: messages up to this number belong to what has ended."""
    if any(m.kind == UNREADABLE for m in mail):
        raise ValueError("there is something in the task's mail that is none")
    users = [(m.number, UserMail.model_validate_json(m.body)) for m in mail if m.kind == USER]
    ended = [(n, u) for n, u in users if n <= ended_mail]
    users = users[len(ended) :]
    results = [(m.number, ResultMail.model_validate_json(m.body)) for m in mail if m.kind == RESULT]
    redrives = [(m.number, RedriveMail.model_validate_json(m.body)) for m in mail if m.kind == REDRIVE]
    moves = [(m.number, MoveMail.model_validate_json(m.body)) for m in mail if m.kind == MOVE]
    controls = [m for m in mail if m.kind not in (USER, RESULT, REDRIVE, MOVE)]
    return Arrived(
        users=tuple(u for _, u in users),
        ended=tuple(u for _, u in ended),
        results={r.tool_call_id: r for _, r in results},
        redrives=tuple(r for _, r in redrives),
        controls={m.kind: m.body for m in controls},
        asked_to=next((m.kind for m in reversed(controls) if m.kind in (PAUSE, RESUME)), ""),
        user_number=users[-1][0] if users else 0,
        ended_number=ended[-1][0] if ended else 0,
        result_numbers=tuple(n for n, _ in results),
        redrive_numbers=tuple(n for n, _ in redrives),
        control_numbers=tuple(m.number for m in controls),
        moves=tuple(move for _, move in moves),
        move_numbers=tuple(n for n, _ in moves),
        first_number=users[0][0] if users else 0,
    )
