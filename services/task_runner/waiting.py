"""A handling that leaves the task waiting, for a person or for its place, or ends that, written down as a commit."""

from pentad.contracts.events import TaskStatusEvent
from pentad.contracts.ids import rfc3339
from pentad.services.task_runner.turn import TurnWriter
from pentad.shared import metrics

PAUSED = "paused"
"""The reason of a task's waiting that a person has paused."""
_ACTIVE = "active"


class WaitWriter(TurnWriter):
    """Writes into a commit how a task waits for a person."""

    def pause(self, reason: str) -> None:
        """Wait for a person, for so long; what the answer needs lives longer than that."""
        self._header(status="waiting", reason=reason, open="", fails=0)
        self.commit.untimer(self.keys, "timeout", "retry")
        self._wait_for_person(reason)

    def hold(self) -> None:
        """Wait until a person resumes the task. Nothing of the step under way is kept; all mail stays where it is."""
        was = (self.task.reason if self.task.waits else "") or _ACTIVE
        self._leave_mail()
        self.commit.set(self.keys.header, status="waiting", reason=PAUSED, paused=was, fails=0, retry_since=0)
        self.commit.set(self.keys.header, paused_mail=self._arrived.user_number)
        self.commit.stamp(self.keys.header, "updated")
        self.commit.untimer(self.keys, "retry")
        self._wait_for_person(PAUSED)

    def resume(self) -> None:
        """Go on where the task was paused, with the mail that has come meanwhile."""
        was = self.task.paused
        self.idle(())
        self.commit.unset(self.keys.header, "paused", "paused_mail")
        self.commit.rewake()
        if was == _ACTIVE:
            if self.task.queued:
                self._pending()
            else:
                self._active("resumed")
            return
        self.commit.set(self.keys.header, status="waiting", reason=was)
        self.commit.stamp(self.keys.header, "updated")
        self._wait_for_person(was)

    def still_paused(self) -> None:
        """A message waits in the mailbox of a paused task: its sender is told so."""
        self.idle(())
        self.commit.set(self.keys.header, status="waiting", paused_mail=self._arrived.user_number)
        self.commit.stamp(self.keys.header, "updated")
        self.emit(TaskStatusEvent, status="waiting", reason=PAUSED)
        self.commit.timer(self.keys, "stale", self._limits.stale_ms)

    def answered_early(self) -> None:
        """The person has spoken; tools are still under way. The message waits for their results."""
        self.idle(())
        self._active("tools are still under way")

    def stale(self) -> None:
        """Ask the person whether the task is still wanted. All stays as it is; a message goes on with it."""
        t = self.task
        self.idle(())
        self.commit.set(self.keys.header, status="stale", reason=t.reason if t.waits else "")
        self.commit.tallies.count(metrics.tasks.labels("stale"))
        ends = f"; else it ends at {rfc3339(t.waiting_at + self._limits.wait_ttl_ms)}" if t.waits else ""
        how = "resume it" if t.paused else "send it a message"
        text = f"nothing has happened since {rfc3339(t.updated)}: is this still wanted? To go on, {how}{ends}"
        self.emit(TaskStatusEvent, status="stale", reason=text)

    def enqueue(self) -> None:
        """Others are active: wait until the task gets a place. All mail stays where it is."""
        self.idle(())
        self._pending()

    def start(self) -> None:
        """The task has got its place. Calls that are still under way have their time from now on."""
        self.idle(())
        self._active("a place is free")
        if self.task.open:
            self.commit.stamp(self.keys.header, "asked_at")
            self.commit.timer(self.keys, "timeout", self._limits.step_timeout_ms)
        self.commit.rewake()

    def _pending(self) -> None:
        """No time but the deadline runs while others are active."""
        session, tenant = self._limits.tasks_per_session, self._limits.tasks_per_tenant
        whose, most = ("session", session) if self.task.place == "s" else ("tenant", tenant)
        reason = f"as many tasks of its {whose} are active as may be: {most}"
        self.commit.set(self.keys.header, status="pending", reason=reason)
        self.commit.stamp(self.keys.header, "updated")
        self.commit.tallies.count(metrics.tasks.labels("pending"))
        self.commit.untimer(self.keys, "timeout", "retry", "wait", "stale")
        self.emit(TaskStatusEvent, status="pending", reason=reason)

    def _active(self, reason: str) -> None:
        self.commit.set(self.keys.header, status="active", reason="")
        self.commit.stamp(self.keys.header, "updated")
        self.commit.tallies.count(metrics.tasks.labels("active"))
        self.commit.untimer(self.keys, "wait", "stale")
        self._watch_calls()
        self.emit(TaskStatusEvent, status="active", reason=reason)

    def _watch_calls(self) -> None:
        if self._limits.stale_while_calling:
            self.commit.timer(self.keys, "stale", self._limits.stale_ms)

    def _wait_for_person(self, reason: str) -> None:
        self._turn_is_over("waiting")
        self.commit.stamp(self.keys.header, "waiting_at")
        self.emit(TaskStatusEvent, status="waiting", reason=reason)
        self.commit.timer(self.keys, "wait", self._limits.wait_ttl_ms)
        self.commit.timer(self.keys, "stale", self._limits.stale_ms)
        if self._arrived.left:
            self.commit.rewake()
        for key in (self.session.header, self.session.turns):
            self.commit.expire(key, self._limits.session_ttl_s)
