"""Says of calls that were just queued that no living worker has their tool: they wait, and clients see why."""

import logging
from collections.abc import Iterable, Mapping

from pentad.contracts.events import ToolProgress
from pentad.contracts.ids import rfc3339
from pentad.services.task_runner.step_writer import StepWriter
from pentad.services.task_runner.tool_calls import RequestedCall
from pentad.shared.events.ephemeral import EphemeralEvents
from pentad.shared.telemetry import ThrottledLog

_say = ThrottledLog(logging.getLogger(__name__))


def tell_of_waiting(
    writer: StepWriter, events: EphemeralEvents, calls: Iterable[RequestedCall], silent: Mapping[str, int]
) -> None:
    """``silent``: tools that no living worker has, each with when one last had it, in ms."""
    for call in calls:
        seen = silent.get(call.tool)
        if seen is None or not call.queue:
            continue
        what = f"waits for a tool-worker that has {call.tool}: the last was there at {rfc3339(seen)}"
        told = ToolProgress(**writer.envelope(), tool_call_id=call.id, tool=call.tool, content=what)
        events.append(ToolProgress, told.to_json())
        events.keep()
        events.ring()
        _say.warning(call.tool, "a call of %s", what)
