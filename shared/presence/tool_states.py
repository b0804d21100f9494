"""How tools do for one tenant: how many of its calls wait for a limit, and whether calls are refused for a while."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from pentad.contracts.tools import ToolSpec
from pentad.shared.immutable import immutable
from pentad.shared.keys import tool_breaker, tool_limit
from pentad.shared.store.store import Command, Store


@immutable
class ToolState:
    """How one tool does for one tenant."""

    waiting: int = 0
    """Calls of the tenant that wait until a limit lets them run."""
    refused: str | None = None
    """Reason why calls of the tenant are refused; None: they are made."""
    refused_until_ms: int | None = None
    """Time in ms until which they are refused."""


def refusal_text(tool: str, row: int, reason: str, until_ms: int | None) -> str:
    """Return why a call is refused. ``until_ms``: until when calls are; None: until a trial has ended."""
    failed = f"{tool} has failed {row} times in a row (last: {reason})"
    if until_ms is None:
        return f"{failed}; another call tries it just now, and calls are refused until that has ended"
    until = datetime.fromtimestamp(until_ms / 1000, UTC)
    return f"{failed}; calls are refused until {until:%H:%M:%S} UTC"


async def tool_states(store: Store, tenant: str, specs: Iterable[ToolSpec], now: int) -> Mapping[str, ToolState]:
    """Return how these tools do for a tenant at this time, in ms of the server's clock, by name."""
    guarded = [spec for spec in specs if spec.guarded]
    lines: list[Command] = [("ZCARD", f"{_turns(spec)}:{tenant}") for spec in guarded]
    breakers: list[Command] = [
        ("HMGET", tool_breaker(f"{spec.name}:{tenant}"), "until", "row", "reason") for spec in guarded
    ]
    found = await store.calls([*lines, *breakers])
    states = zip(guarded, found[: len(guarded)], found[len(guarded) :], strict=True)
    return {spec.name: _state(spec.name, int(waiting), breaker, now) for spec, waiting, breaker in states}


def _turns(spec: ToolSpec) -> str:
    return tool_limit(spec.limited_as or spec.name)[-1]


def _state(tool: str, waiting: int, breaker: tuple[bytes | None, bytes | None, bytes | None], now: int) -> ToolState:
    until, row, reason = breaker
    if until is None or int(until) <= now:
        return ToolState(waiting)
    why = refusal_text(tool, int(row or 0), (reason or b"").decode(errors="replace"), int(until))
    return ToolState(waiting, why, int(until))
