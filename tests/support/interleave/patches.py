"""Rules of the scheme that are kept in Python, each with the function that replaces it when the rule is dropped."""

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
    """Drop the rules until the end of the block."""
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
    """A function that gets the object on which it is called."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def __get__(self, instance: Any, _: Any = None) -> Any:
        return partial(self._function, instance)


def unnoticed(_: Any, wire: Any) -> None:
    """Ignore that a connection is new."""


def unpaused(real: Any, steps: Any, *args: Any) -> Any:
    """Do not store with a task that it is paused."""
    step = real(steps, *args)
    return replace(step, task=replace(step.task, paused=""))


async def left_alone(_: Any, ahead: Any, most: int) -> list[Any]:
    """Leave entries that were delivered in the future with their consumers."""
    return []


async def left_as_it_is(_: Any, timers: Any, shard: int, now: int) -> None:
    """Leave timers that were set before the clock stepped back until the clock reaches them again."""


def early_timers_are_spent(real: Any, writer: Any, _: Any, now: int) -> None:
    """Do not let the runner set a timer again that fired early."""
    real(writer, (), now)


async def spent(real: Any, store: Any, script: str, *args: Any) -> Any:
    """Do not let the archiver set a timer again that fired early."""
    return 0 if script == "add_timer" else await real(store, script, *args)


def forgotten(_: Any, handler: Any, call: str) -> None:
    """Let a worker forget which unsafe calls it ran."""
