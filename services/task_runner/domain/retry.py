"""When a model that has failed is asked again. Pure."""

from math import ceil
from typing import Literal

from pentad.shared.actors.headers import TaskHeader
from pentad.shared.immutable import immutable

RetryReason = Literal["unavailable", "cut_off", "busy", "silent"]
"""``unavailable``: no answer began. ``cut_off``: the answer began and broke off. ``busy``: the model has no place free
and says when it may have one. ``silent``: the answer was empty."""
_FIRST_MS, _DOUBLINGS = 250, 6
"""The first pause and how often it doubles: the longest has 16 seconds. At least half of a pause is waited, how much
more is random."""
_SOONEST_MS, _APART_MS = 100, 500
"""Limits of a pause that the server states: it lasts at least the first, and up to the second, at most an eighth of the
pause, is added at random, so that callers with the same answer do not return at once."""
_SILENCES = 2
"""Number of failed attempts, cut-off answers included, at which an empty answer gives the step up where the instruction
does not say: each costs money."""


@immutable
class Retry:
    """Try this step again after a pause."""

    delay_ms: int
    fails: int
    retry_since: int


def too_long_to_wait(task: TaskHeader, stated_s: float | None, now: int, step_timeout_ms: int) -> str | None:
    """Explain why a model's stated delay cannot be waited for; None when the delay fits.

    Waiting would use up the task's time, and end in the same failure.
    """
    left_ms = min(task.retry_since or now, now) + step_timeout_ms - now
    of_deadline = 0 < task.deadline < now + left_ms
    left_ms = max(0, task.deadline - now if of_deadline else left_ms)
    if stated_s is None or stated_s * 1000 <= left_ms:
        return None
    more = "set a later deadline" if of_deadline else "raise PENTAD_STEP_TIMEOUT_S"
    return (
        f"the model asks to wait {ceil(stated_s):,} s, and the task has {ceil(left_ms / 1000):,} s left: "
        f"give the model a fallback, {more}, or ask again later"
    )


@immutable
class RetryLimits:
    """Limits of the attempts at one step."""

    attempts: int
    """Number of failed attempts at which a step is given up whose answers break off."""
    silences: int
    """Number of failed attempts at which an empty answer gives the step up."""
    step_timeout_ms: int

    @classmethod
    def of(cls, retry: int | None, max_attempts: int, step_timeout_ms: int) -> "RetryLimits":
        """Return the limits of an instruction's step. ``retry``: the instruction's own number of attempts, if any."""
        if retry is not None:
            return cls(retry, retry, step_timeout_ms)
        return cls(max_attempts, min(_SILENCES, max_attempts), step_timeout_ms)


def after_model_error(
    task: TaskHeader, reason: RetryReason, now: int, retry_after_s: float | None, jitter: float, limits: RetryLimits
) -> Retry | None:
    """Whether to ask the model again, and when. None: give up. ``jitter`` in [0, 1)."""
    step_timeout_ms = limits.step_timeout_ms
    since = min(task.retry_since or now, now)  # the clock may have stepped back since
    fails = task.fails + (reason in ("cut_off", "silent"))
    if fails >= (limits.silences if reason == "silent" else limits.attempts) or now - since >= step_timeout_ms:
        return None
    doublings = min(_DOUBLINGS, fails + (now - since) // 1000)
    delay = _FIRST_MS * 2**doublings * (0.5 + jitter / 2)
    if retry_after_s is not None:  # it knows better than any guess, and many who were told the same come apart
        asked = retry_after_s * 1000
        delay = asked if reason == "busy" else max(_SOONEST_MS, asked + jitter * min(_APART_MS, asked / 8))
    return Retry(min(round(delay), max(0, since + step_timeout_ms - now)), fails, since)
