"""Rules that are kept in Python: each with what it is replaced by when it is dropped."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pkgutil import resolve_name
from typing import Any


@dataclass(frozen=True, slots=True)
class Patch:
    """A method, as ``module:Class.method``, and the function of this module that takes its place."""

    method: str
    dropped: str


@contextmanager
def patched(patches: Sequence[Patch]) -> Iterator[None]:
    """The rules are dropped until the end."""
    kept = []
    try:
        for patch in patches:
            owner, _, name = patch.method.rpartition(".")
            target = resolve_name(owner)
            real = getattr(target, name)
            kept.append((target, name, real))
            setattr(target, name, _Method(partial(globals()[patch.dropped], real)))
        yield
    finally:
        for target, name, real in kept:
            setattr(target, name, real)


class _Method:
    """A function that is told the object it is called on."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def __get__(self, instance: Any, _: Any = None) -> Any:
        return partial(self._function, instance)


def unnoticed(_: Any, wire: Any) -> None:
    """A new connection looks like the one before."""


def unpaused(real: Any, steps: Any, *args: Any) -> Any:
    """Whether a task is paused is not kept with it."""
    step = real(steps, *args)
    return replace(step, task=replace(step.task, paused=""))


async def left_alone(_: Any, ahead: Any, most: int) -> list[Any]:
    """What was given out in the future stays with whom it was given."""
    return []


async def left_as_it_is(_: Any, timers: Any, shard: int, now: int) -> None:
    """A timer that was set before the clock stepped back is due when the clock has come there again."""


def early_timers_are_spent(real: Any, writer: Any, _: Any, now: int) -> None:
    """A timer that fired early is not set again by the runner."""
    real(writer, (), now)


async def spent(real: Any, store: Any, script: str, *args: Any) -> Any:
    """A timer that fired early is not set again by the archiver."""
    return 0 if script == "add_timer" else await real(store, script, *args)


def forgotten(_: Any, handler: Any, call: str) -> None:
    """A worker does not know which unsafe calls it ran."""
