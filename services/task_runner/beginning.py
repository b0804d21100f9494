"""What a task begins with beside its first messages: what long-term memory has about them."""

from collections import OrderedDict
from time import monotonic

from pentad.services.task_runner.domain.plan import AskModel, CallAgain
from pentad.services.task_runner.instructions import Chosen
from pentad.services.task_runner.step import Step
from pentad.shared.actors.leases import Held, StoppedWorkError
from pentad.shared.embedder.vectors import Requester
from pentad.shared.memory.task_recall import RECALL_OFF, Recall, RecallQuestion, TaskRecall
from pentad.shared.owners import Owner

_KEPT = 256
_FRESH_S = 30.0
"""How long what was recalled serves further attempts, where the model could not be had."""


class Beginnings:
    """Recalls before the first model call of a task. A task that is opened again has its transcript, and its tools."""

    def __init__(self, recalling: TaskRecall) -> None:
        self._recalling = recalling
        self._found: OrderedDict[tuple[str, int], tuple[float, Recall]] = OrderedDict()
        """By task and its newest message: when, and what."""

    async def recalled(self, step: Step, held: Held, chosen: Chosen, planned: AskModel | CallAgain) -> Recall | None:
        """What this step is to begin with. None: it is not its task's beginning, or was told to stop meanwhile."""
        if step.transcript.messages or not step.arrived.users or isinstance(planned, CallAgain):
            return None
        if not chosen.instruction.recalls:
            return RECALL_OFF
        key = step.keys.header, step.arrived.user_number
        at, found = self._found.get(key, (float("-inf"), None))
        if found is not None and monotonic() - at < _FRESH_S:
            return found
        return self._recalling.at_once(step.keys.tenant) or self._kept(key, await self._asked(step, held))

    def _kept(self, key: tuple[str, int], found: Recall | None) -> Recall | None:
        if found is not None and found.text:
            self._found[key] = monotonic(), found
            if len(self._found) > _KEPT:
                self._found.popitem(last=False)
        return found

    async def _asked(self, step: Step, held: Held) -> Recall | None:
        try:
            return await held.run(self._recalling.recall(question_of(step), _requester(step)))
        except StoppedWorkError:
            return None


def question_of(step: Step) -> RecallQuestion:
    """What the messages that a task begins with ask of memory, for their session, and their user if they have one."""
    mails = step.arrived.users
    users = {mail.message.user_id for mail in mails}
    return RecallQuestion(
        owner=Owner(step.keys.tenant, users.pop() if len(users) == 1 else None, step.task.session or None),
        said=[mail.message.content for mail in mails],
        known=[turn.content for mail in mails for turn in mail.context],
        task=step.keys.task,
        now_ms=step.taken.lease.now,
    )


def _requester(step: Step) -> Requester:
    keys, message = step.keys, step.arrived.users[-1].message.message_id
    return Requester(keys.shard, keys.tenant, step.task.session, keys.task, message, step.taken.lease.wake_id)
