"""A model that asks to be left alone: waited for where the task has the time, and told at once where it has not."""

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from pentad.contracts.ids import rfc3339
from pentad.contracts.models import ModelEntry
from pentad.shared.keys import timers
from pentad.shared.models.model_list import merged
from pentad.shared.models.model_makers import make_of_entry
from pentad.shared.models.model_pool import ModelPool, OpenGate
from pentad.shared.store.store import Store
from tests.integration.handlers.flow import SESSION, Flow, answer
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import Reply, fail, say

LIMITED = "Rate limit reached for m on tokens per min (TPM). Please try again in {}."


@asynccontextmanager
async def flowing(
    store: Store, folder: Path, script: Callable[[dict[str, Any]], Reply], **settings: Any
) -> AsyncIterator[tuple[Flow, ScriptedModel]]:
    """Tasks with one model, at a real server, without a fallback."""
    async with ScriptedModel(script) as server:
        entry = ModelEntry(id="only", endpoint=server.base_url, model="m", default=True)
        models = ModelPool(lambda known: make_of_entry(known.entry), OpenGate(), merged((), [entry], ()))
        yield await Flow(store, folder, lambda _: answer("never"), models=models, **settings).prepare(), server
        await models.aclose()


async def failures(store: Store) -> list[str]:
    """What the session was told of tasks that have failed."""
    told = [from_json(fields[1]) for _, fields in await store.call("XRANGE", SESSION.events, "-", "+")]
    return [event["detail"] for event in told if event["type"] == "task_end" and event["status"] == "failed"]


async def test_a_delay_that_is_longer_than_the_tasks_time_ends_it_at_once(store: Store, tmp_path: Path) -> None:
    """Promise: no task burns its time waiting for a model that has said that it will not answer within it; the next one
    is told the same without asking."""
    limited = fail(429, message=LIMITED.format("9m38.016s"))
    async with flowing(store, tmp_path, lambda _: limited, pentad_step_timeout_s=60) as (flow, server):
        for text in ("one", "two"):
            await flow.say(text)
            await flow.drive()
        first, second = await failures(store)
        assert re.match(
            r"the model asks to wait 579 s, and the task has (60|5\d) s left: give the model a fallback", first
        )
        assert "Rate limit reached for m" in first
        assert "the model asks to wait 57" in second
        assert len(server.chats) == 1


async def test_a_delay_beyond_the_circuits_is_told_to_the_next_task_as_it_was_stated(
    store: Store, tmp_path: Path
) -> None:
    """Promise: a model that is probed sooner than it has asked for makes nobody wait in vain."""
    limited = fail(503, message="maintenance", retry_after=3600)
    async with flowing(store, tmp_path, lambda _: limited, pentad_step_timeout_s=600) as (flow, server):
        for text in ("one", "two", "three", "four"):
            await flow.say(text)
            await flow.drive()
        told = await failures(store)
        assert len(told) == 4
        assert all(
            re.match(r"the model asks to wait 3,[56]\d\d s, and the task has [56]\d\d s left", each) for each in told
        )
        assert len(server.chats) == 3, "the fourth finds it left alone, for a minute"


async def test_a_delay_beyond_the_deadline_ends_the_task_before_it(store: Store, tmp_path: Path) -> None:
    """Promise: the deadline is the task's time too."""
    limited = fail(429, message=LIMITED.format("45s"))
    async with flowing(store, tmp_path, lambda _: limited, pentad_step_timeout_s=600) as (flow, _):
        await flow.say("go", deadline=rfc3339(await store.clock() + 30_000))
        await flow.drive()
        [told] = await failures(store)
    assert "the model asks to wait 45 s" in told
    assert "set a later deadline" in told


async def test_a_delay_that_fits_is_waited_for(store: Store, tmp_path: Path) -> None:
    """Promise: where the task has the time it waits as long as the server has asked for, and is answered."""
    replies = [fail(429, message=LIMITED.format("20s")), say("now I can")]
    async with flowing(store, tmp_path, lambda _: replies.pop(0), pentad_step_timeout_s=60) as (flow, server):
        begun = await store.clock()
        await flow.say("go")
        await flow.drive()
        task = await flow.task()
        due = int(await store.call("ZSCORE", timers(0), f"retry {task.actor}"))
        assert 20_000 <= due - begun < 60_000
        assert await flow.status() == "active"
        assert (await failures(store), len(server.chats)) == ([], 1)
