"""Law 6: a step costs what it adds, the thousandth as much as the tenth."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import Reply, call, say
from tests.support.processes.crew import crew
from tests.support.redis.bus_client import Bus
from tests.support.redis.redis_server import RedisServer

pytestmark = pytest.mark.acceptance

STEPS = 1000
WINDOW = 50
EARLY, LATE = (range(first, first + 3 * WINDOW + 1, WINDOW) for first in (10, STEPS - 3 * WINDOW))
"""Where windows begin and end. Of three the cheapest counts: a busy machine is slow, and beats come between."""


class Meter:
    """A model that asks for one small tool call per step, and reads Redis's counters between two steps.

    When the model is asked for step n, step n - 1 and its tool's result are committed and nothing else is under way:
    the difference of two readings is what the steps between them cost. ``aof`` counts what Redis wrote (commands and
    effects of scripts, reads left out), ``net`` what it was sent.
    """

    def __init__(self, redis: Any) -> None:
        self._redis = redis
        self.readings: dict[int, tuple[int, int]] = {}
        self._step = 0

    def __call__(self, request: dict[str, Any]) -> Reply:
        self._step += 1
        if self._step in (*EARLY, *LATE):
            info = self._redis.info()
            self.readings[self._step] = (info["aof_current_size"], info["total_net_input_bytes"])
        if self._step >= STEPS:
            return say("done")
        return call(("echo", {"text": f"{self._step:05d} " + "x" * 100}))

    def per_step(self, steps: Sequence[int]) -> tuple[float, float]:
        """Bytes a step in the cheapest window between readings: written by Redis, sent to Redis."""
        between = list(pairwise(self.readings[step] for step in steps))
        written, sent = (min(later[n] - earlier[n] for earlier, later in between) for n in (0, 1))
        return written / WINDOW, sent / WINDOW


@pytest.mark.slow
async def test_bytes_per_step_do_not_grow_with_the_history(tmp_path: Path) -> None:
    counts = {"router": 1, "task-runner": 1, "tool-worker": 1}
    async with RedisServer(aof="everysec", config={"auto-aof-rewrite-percentage": "0"}) as server:
        with Redis.from_url(server.url, protocol=2) as reader:
            meter = Meter(reader)
            async with (
                ScriptedModel(meter, record=False) as model,
                crew(
                    server.url, tmp_path / "run", counts, LLM_BASE_URL=model.base_url, PENTAD_STEP_LIMIT=str(STEPS + 1)
                ),
                Bus(server.url) as bus,
            ):
                await bus.send("count", "long")
                [end] = await bus.until("long", "task_end", seconds=90)
    assert (end["status"], end["steps"]) == ("completed", STEPS)
    early, late = meter.per_step(EARLY), meter.per_step(LATE)
    print(f"\nbytes a step: written {early[0]:.0f} at step 10, {late[0]:.0f} at step {STEPS}; ", end="")
    print(f"sent {early[1]:.0f} at step 10, {late[1]:.0f} at step {STEPS}")
    assert late[0] < 1.1 * early[0]
    assert late[1] < 1.1 * early[1]
