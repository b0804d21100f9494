"""A call of a tool that no living worker has: its person is told at once why nothing happens."""

import json
from pathlib import Path

import pytest

from pentad.contracts.streams import SESSION_WAKE, TASK_WAKE
from pentad.services.task_runner.tool_catalog import ToolCatalog
from pentad.shared.store.store import Store
from tests.integration.handlers.flow import SESSION, Flow, answer
from tests.support.waiting import wait_until


@pytest.mark.parametrize(("silent", "told"), [({"echo": 60_000}, 1), ({"calculator": 60_000}, 0), ({}, 0)])
async def test_a_call_that_waits_for_a_worker_says_since_when_there_is_none(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, silent: dict[str, int], told: int
) -> None:
    monkeypatch.setattr(ToolCatalog, "silent", silent)
    flow = await Flow(store, tmp_path, lambda _: answer("", ("echo", '{"text":"x"}'))).prepare()
    await flow.say("one")
    await flow.once(SESSION_WAKE)
    await flow.once(TASK_WAKE)

    async def events() -> list[dict[str, str]]:
        return [json.loads(fields[1]) for _, fields in await store.call("XRANGE", SESSION.events, "-", "+")]

    async def waiting() -> list[str]:
        return [event["content"] for event in await events() if event["type"] == "tool_progress"]

    assert [event["type"] for event in await events()].count("tool_call") == 1
    if told:
        await wait_until("the progress", waiting)
    assert (
        await waiting()
        == ["waits for a tool-worker that has echo: the last was there at 1970-01-01T00:01:00.000Z"][:told]
    )
