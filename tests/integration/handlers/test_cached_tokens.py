"""Input tokens that a server had in its cache are told with the task, its steps and its end, and counted once each."""

from dataclasses import replace
from pathlib import Path

from pentad.shared.actors.headers import pairs, task_header
from pentad.shared.models.ports import ChatRequest, ModelAnswer, Usage
from pentad.shared.store.store import Store
from tests.integration.handlers.flow import Flow, answer
from tests.integration.handlers.test_flow import ECHO
from tests.integration.handlers.test_models import events
from tests.integration.handlers.test_recall import record

CACHED = (0, 60, 85)
"""Cached tokens that the answers of a turn of three steps report."""


async def test_what_was_cached_is_told_of_each_step_and_of_the_task(store: Store, tmp_path: Path) -> None:
    answers = iter(CACHED)

    def script(request: ChatRequest) -> ModelAnswer:
        cached = next(answers)
        said = answer("", ECHO) if cached != CACHED[-1] else answer("done")
        return replace(said, usage=Usage(100, 2, cached_tokens=cached))

    flow = await Flow(store, tmp_path, script).prepare()
    await flow.say("go")
    await flow.drive()
    ended = (await events(store))[-1]
    assert ended["usage"] == {"input_tokens": 300, "output_tokens": 6, "usd": 0.0, "cached_tokens": 145}
    keys = await flow.task()
    header = task_header("default", keys.task, pairs(await store.call("HGETALL", keys.header)))
    assert header is not None
    assert (header.cached_tokens, header.describe().usage.cached_tokens) == (145, 145)
    assert [step.usage.cached_tokens for step in (await record(flow)).steps] == list(CACHED)


async def test_nothing_is_told_where_no_server_tells_of_any(store: Store, tmp_path: Path) -> None:
    """Promise: who reads an earlier version's events reads the same ones."""
    flow = await Flow(store, tmp_path, lambda _: answer("done")).prepare()
    await flow.say("go")
    await flow.drive()
    assert (await events(store))[-1]["usage"] == {"input_tokens": 5, "output_tokens": 2, "usd": 0.0}
