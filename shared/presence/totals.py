"""How much the whole system has done, counted in Redis: turns, steps, tokens, tool calls.

Each process tells, every two seconds, how much its metrics have grown. So nothing is written on the way of a turn, and
a process that is killed takes two seconds of its counts along: these numbers are for rates, not for bills.
"""

from collections.abc import Callable, Mapping

from pentad.shared import metrics
from pentad.shared.keys import TOTALS, TOTALS_TTL_S
from pentad.shared.store.store import Command, Store

TOTAL_NUMBERS: Mapping[str, Callable[[], float]] = {
    "turns": lambda: metrics.own_number(metrics.turn_seconds),
    "steps": lambda: metrics.own_number(metrics.step_seconds, "committed"),
    "input_tokens": lambda: metrics.own_number(metrics.model_tokens, "input"),
    "output_tokens": lambda: metrics.own_number(metrics.model_tokens, "output"),
    "tool_calls": lambda: metrics.own_number(metrics.tool_calls),
}
"""Functions that return how much this process has counted, by the field of the hash."""

_told: dict[str, int] = {}
"""How much this process has told, by field. Services that share a process share its counts."""


async def tell_totals(store: Store) -> None:
    """Add to Redis what this process has counted since the last time.

    What is on its way when Redis goes away may be told twice. Raises ``OutageError``.
    """
    grown = {name: int(look()) - _told.get(name, 0) for name, look in TOTAL_NUMBERS.items()}
    grown = {name: more for name, more in grown.items() if more > 0}
    if not grown:
        return
    _add(grown, 1)
    commands: list[Command] = [("HINCRBY", TOTALS, name, more) for name, more in grown.items()]
    try:
        await store.calls([*commands, ("EXPIRE", TOTALS, TOTALS_TTL_S)])
    except BaseException:
        _add(grown, -1)
        raise


def _add(grown: Mapping[str, int], sign: int) -> None:
    for name, more in grown.items():
        _told[name] = _told.get(name, 0) + sign * more


async def read_totals(store: Store) -> dict[str, int]:
    """Return how much the whole system has done, by field. Raises ``OutageError``."""
    found = await store.call("HMGET", TOTALS, *TOTAL_NUMBERS)
    return {name: int(raw) if raw and raw.isdigit() else 0 for name, raw in zip(TOTAL_NUMBERS, found, strict=True)}
