"""Kinds of mail and of timers, and how long the bell is: spelled here for Python. A test compares the scripts."""

from typing import Literal, get_args

TimerKind = Literal["deadline", "timeout", "retry", "stale", "wait", "remember", "archive"]
"""The purpose of a task's timer; a task has one of each at most. ``remember`` and ``archive`` wake the archiver, the
others the task."""
MailKind = Literal[
    "user", "result", "cancel", "pause", "resume", "deadline", "timeout", "retry", "stale", "wait", "redrive", "move"
]
"""A user's message; what came of a tool call; being asked to stop, to pause, to go on; a timer that was due; what was
redriven; being asked to give a message away."""
ControlKind = Literal["cancel", "pause", "resume"]
"""A control command of a person to a task."""
TIMER_KINDS: frozenset[str] = frozenset(get_args(TimerKind))
MAIL_KINDS: frozenset[str] = frozenset(get_args(MailKind))
USER: MailKind = "user"
"""Every other kind is a signal."""
RESULT: MailKind = "result"
REDRIVE: MailKind = "redrive"
MOVE: MailKind = "move"
PAUSE: ControlKind = "pause"
RESUME: ControlKind = "resume"
"""The one control that stops nothing."""
BELL_LENGTH = 1000
"""Entries of the doorbell: a gateway that has missed more reads its sessions anew."""
