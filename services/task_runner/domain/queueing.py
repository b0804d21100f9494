"""Which messages belong to a turn where messages queue, as the policy `queue` of an instruction says. Pure."""

from dataclasses import replace

from pentad.services.task_runner.domain.arrived import Arrived
from pentad.services.task_runner.domain.targets import asks_person
from pentad.shared.actors.headers import TaskHeader
from pentad.shared.actors.mail import UserMail
from pentad.shared.kinds import PAUSE


def of_this_turn(task: TaskHeader, arrived: Arrived) -> Arrived:
    """What has come, with the messages of this turn alone: one begins it, and one more answers each question.

    A cancel, a pause and a move concern all messages that wait: then all are there.
    """
    if task.paused or arrived.moves or arrived.asked_to == PAUSE or "cancel" in arrived.controls:
        return arrived
    users: tuple[UserMail, ...] = () if _under_way(task, arrived) else arrived.users[:1]
    return replace(
        arrived,
        users=users,
        user_number=arrived.first_number if users else 0,
        queues=True,
        left=len(arrived.users) > len(users),
    )


def _under_way(task: TaskHeader, arrived: Arrived) -> bool:
    """Whether a turn has begun that waits for no message."""
    if arrived.redrives:
        return True
    if task.ended:
        return False
    repairs = task.repairs > 0 and task.status == "active"
    calls = bool(task.open) and not any(asks_person(call) for call in task.open)
    return calls or repairs or task.unanswered > 0
