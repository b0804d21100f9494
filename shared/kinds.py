"""Kinds of mail and of timers, and how long the bell is: spelled here for Python. A test compares the scripts."""

from typing import Literal, get_args

TimerKind = Literal["deadline", "timeout", "retry", "wait", "archive"]
"""What a task's timer is for: it has one of each kind at most. ``archive`` wakes the archiver, the others the task."""
MailKind = Literal["user", "result", "cancel", "deadline", "timeout", "retry", "wait", "redrive"]
"""A user's message; what came of a tool call; being asked to stop; a timer that was due; what was redriven."""
TIMER_KINDS: frozenset[str] = frozenset(get_args(TimerKind))
MAIL_KINDS: frozenset[str] = frozenset(get_args(MailKind))
USER: MailKind = "user"
"""Every other kind is a signal."""
RESULT: MailKind = "result"
REDRIVE: MailKind = "redrive"
BELL_LENGTH = 1000
"""Entries of the doorbell: a gateway that has missed more reads its sessions anew."""
