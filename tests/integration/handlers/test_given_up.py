"""What our own errors end is set aside visibly: a dead letter with its reason and what led there, and a count."""

from pathlib import Path
from typing import Any

import pytest
from pydantic_core import from_json

from pentad.contracts.streams import DEAD, SESSION_WAKE, TASK_WAKE
from pentad.shared import metrics
from pentad.shared.errors import OutageError
from pentad.shared.models.ports import ChatRequest
from pentad.shared.store.store import Store
from pentad.shared.work.entry import Entry
from tests.integration.handlers.flow import SESSION, Flow, answer
from tests.support.counting import Counts

ECHO = ("echo", '{"text":"x"}')


def script(request: ChatRequest) -> Any:
    return answer("done") if b'"tool"' in request.messages[-1] else answer("", ECHO)


async def letters(store: Store) -> list[dict[str, Any]]:
    return [from_json(fields[1]) for _, fields in await store.call("XRANGE", DEAD.key(0), "-", "+")]


def ids(letter: dict[str, Any]) -> list[str]:
    return [link["id"] for link in letter["chain"]]


async def told(store: Store, *kinds: str) -> list[dict[str, Any]]:
    events = [from_json(fields[1]) for _, fields in await store.call("XRANGE", SESSION.events, "-", "+")]
    return [event for event in events if event["type"] in kinds]


async def test_a_message_that_cannot_be_routed_names_itself_and_the_next_is_routed(
    store: Store, tmp_path: Path
) -> None:
    flow = await Flow(store, tmp_path, script, pentad_max_attempts=1).prepare()
    tools = flow._served.pop()
    await flow.say("go")
    await flow.drive()
    await store.call("HSET", SESSION.header, "done_at", "junk")
    counts = Counts()
    await flow.say("and?")
    await flow.drive()
    (letter,), (error,) = await letters(store), await told(store, "error")
    assert (letter["stream"], letter["kind"], ids(letter)) == (SESSION_WAKE.key(0), "session_mail", ["u2"])
    assert letter["reason"].startswith("ValueError: ")
    assert (error["code"], error["message_id"]) == ("internal", "u2")
    assert [counts.of(m, stream=SESSION_WAKE.name) for m in (metrics.failed, metrics.dead)] == [1, 1]
    await store.call("HDEL", SESSION.header, "done_at")
    flow._served.append(tools)
    await flow.say("and now?")
    await flow.drive()
    assert [e["message_id"] for e in await told(store, "message_routed")] == ["u1", "u3"]
    assert await flow.status() == "completed"


async def test_a_task_that_cannot_be_continued_names_its_message_and_itself(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, script, pentad_max_attempts=1).prepare()
    tools = flow._served.pop()
    await flow.say("go")
    await flow.drive()
    task = await flow.task()
    await store.call("RPUSH", task.log, "junk")
    flow._served.append(tools)
    counts = Counts()
    await flow.drive()
    (letter,), (end,) = await letters(store), await told(store, "task_end")
    assert (letter["stream"], letter["kind"], ids(letter)) == (TASK_WAKE.key(0), "task_mail", ["u1", task.task])
    assert letter["reason"]
    assert (end["status"], end["reason"]) == ("failed", "internal")
    assert [counts.of(m, stream=TASK_WAKE.name) for m in (metrics.failed, metrics.dead)] == [1, 1]


async def test_an_outage_within_a_step_ends_nothing_and_counts_nothing(store: Store, tmp_path: Path) -> None:
    def away_at_first(_: ChatRequest) -> Any:
        if flow.model.asked == 1:
            raise OutageError("a store is unavailable")
        return answer("done")

    flow = await Flow(store, tmp_path, away_at_first, pentad_max_attempts=1).prepare()
    counts = Counts()
    await flow.say("go")
    with pytest.raises(OutageError):
        await flow.once()
    key, runner = TASK_WAKE.key(0), flow._served[1][2]
    ((entry, fields),) = await store.call("XRANGE", key, "-", "+")
    await runner.handle(Entry(key, entry.decode(), fields[1]))  # as the consumer does once Redis answers
    assert (await flow.status(), flow.model.asked, await letters(store)) == ("completed", 2, [])
    assert [counts.of(m, stream=TASK_WAKE.name) for m in (metrics.failed, metrics.dead)] == [0, 0]


async def test_what_a_turn_appends_is_counted_per_stream(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, script).prepare()
    counts = Counts()
    await flow.say("go")
    await flow.drive()
    assert await flow.status() == "completed"
    published = [
        counts.of(metrics.published, stream=stream, type=kind)
        for stream, kind in (("tool-calls", "ToolCallCommand"), ("task-wake", "user"), ("events", "TaskEnd"))
    ]
    assert published == [1, 1, 1]
