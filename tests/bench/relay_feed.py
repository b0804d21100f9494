"""Many tasks whose models talk at once, as the task-runner writes it.

``python -m tests.bench.relay_feed URL TASKS RATE``

Begins when a line comes on stdin that says for how many seconds; prints how many tokens each task said.
"""

import asyncio
import sys
import time

from pentad.contracts.ids import rfc3339
from pentad.services.task_runner.delta_writer import DeltaWriter
from pentad.shared.events.ephemeral import EphemeralEvents
from pentad.shared.keys import SessionKeys
from pentad.shared.settings import load_settings
from pentad.shared.store.store import Store
from tests.bench.stamping_model import stamp

_TICK_S = 0.001


def session_name(number: int) -> str:
    """The session of one of the tasks."""
    return f"talk-{number}"


def _writer(store: Store, number: int, attempt: int) -> DeltaWriter:
    settings = load_settings({})
    session = session_name(number)
    task = f"t0-0123456789abcdef{number:04}"
    head: dict[str, object] = {"event_id": "step-0123456789abcdef0123456789abcdef.1", "at": rfc3339(0)}
    head |= {"tenant_id": "default", "session_id": session, "task_id": task, "correlation_id": "m-1"}
    head |= {"causation_id": "step-0123456789abcdef0123456789abcdef", "version": 1, "step": 1, "attempt": attempt}
    keys = SessionKeys(0, "default", session)
    events = EphemeralEvents(store, keys, settings.pentad_events_maxlen, settings.pentad_events_ttl_s)
    return DeltaWriter(events, keys, head, settings.pentad_coalesce_ms, lambda: None)


async def _talk(writers: list[DeltaWriter], rate: int, seconds: float) -> int:
    """Every writer gets ``rate`` tokens a second, each at its own moment within the period."""
    total = round(rate * seconds)
    begun, said = time.monotonic(), 0
    wanted = total * len(writers)
    while said < wanted:
        due = min(wanted, int((time.monotonic() - begun) * rate * len(writers)))
        for number in range(said, due):
            writers[number % len(writers)].add("content", stamp())
        said = due
        await asyncio.sleep(_TICK_S)
    return total


async def _main(url: str, tasks: int, rate: int) -> None:
    store = Store(url)
    print("ready", flush=True)
    attempt = 0
    while line := await asyncio.to_thread(sys.stdin.readline):
        attempt += 1
        print(await _talk([_writer(store, n, attempt) for n in range(tasks)], rate, float(line)), flush=True)


if __name__ == "__main__":
    import uvloop

    uvloop.run(_main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
