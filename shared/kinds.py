"""The kinds of mail and of timers, and the length of the doorbell stream.

The Lua scripts spell them again; a test compares both.
"""

from typing import Literal, get_args

TimerKind = Literal["deadline", "timeout", "limit", "retry", "stale", "wait", "expiry", "remember", "archive"]
"""The purpose of a task's timer; a task has one of each at most. ``remember`` and ``archive`` wake the archiver, the
others the task."""
ControlKind = Literal["cancel", "pause", "resume", "complete"]
"""A control command of a person to a task. ``complete``: a task that waits is done."""
MailKind = Literal[
    "user",
    "result",
    ControlKind,
    "deadline",
    "timeout",
    "limit",
    "retry",
    "stale",
    "wait",
    "expiry",
    "redrive",
    "move",
    "approval",
]
"""``user``: a user's message. ``result``: the outcome of a tool call. ``cancel`` to ``complete``: a person's control.
``deadline``, ``timeout``, ``limit``, ``retry``, ``stale``, ``wait``, ``expiry``: a timer of this kind was due.
``redrive``: a redriven dead letter. ``move``: the task is asked to give a message to another. ``approval``: a person
has decided whether a tool call may be made."""
TIMER_KINDS: frozenset[str] = frozenset(get_args(TimerKind))
MAIL_KINDS: frozenset[str] = frozenset(get_args(MailKind))
USER: MailKind = "user"
"""Every other kind is a signal."""
RESULT: MailKind = "result"
REDRIVE: MailKind = "redrive"
MOVE: MailKind = "move"
APPROVAL: MailKind = "approval"
PAUSE: ControlKind = "pause"
COMPLETE: ControlKind = "complete"
RESUME: ControlKind = "resume"
"""A control that does not interrupt the work under way, as `COMPLETE`."""
BELL_LENGTH = 1000
"""Entries of the doorbell: a gateway that has missed more reads its sessions anew."""
