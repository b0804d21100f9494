"""A task's life as people meet it: it asks, it is paused, everything is killed meanwhile, and it goes on."""

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.acceptance.test_face import pentad
from tests.support.processes.up import Up
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.acceptance


@pytest.mark.slow
async def test_a_question_and_a_pause_outlive_the_death_of_everything(tmp_path: Path) -> None:
    """Over the command line and REST; with the offline model, which asks when it is told to."""
    with Up(tmp_path, {"PENTAD_REDIS_FSYNC": "always", "PENTAD_STALE_S": "1"}) as up:
        await up.ready()
        asked = pentad(up, "send", "ask user which city", "--session", "s1")
        assert (asked.returncode, asked.stdout) == (0, "which city\n")
        task = await only_task(up)
        await wait_until("that it is stale", lambda: has_status(up, "stale"))
        assert pentad(up, "pause", task["task_id"]).returncode == 0
        await wait_until("the pause", lambda: waits_for(up, "paused"))
        up.kill_everything()
        up.start()
        await up.ready()
        told = pentad(up, "send", "what is 6*7?", "--session", "s1", "--json")
        last = json.loads(told.stdout.splitlines()[-1])
        assert (last["type"], last["status"], last["reason"]) == ("task_status", "waiting", "paused")
        up.kill_everything()
        up.start()
        url = await up.ready()
        resumed = pentad(up, "resume", task["task_id"])
        assert (resumed.returncode, resumed.stdout) == (0, f"{task['task_id']} goes on\n")
        await wait_until("its end", lambda: has_status(up, "completed"))
        async with httpx2.AsyncClient(base_url=url, trust_env=False, timeout=PATIENCE_S) as http:
            about = f"/v1/tasks/{task['task_id']}"
            said = (await http.get(f"{about}/transcript")).json()["messages"]
            assert [m["role"] for m in said] == ["user", "assistant", "tool", "user", "assistant", "tool", "assistant"]
            assert said[3]["content"] == "what is 6*7?"
            assert (await http.post(f"{about}/pause")).status_code == 409
            assert (await http.post(f"{about}/archive")).status_code == 202
            await wait_until("the record", lambda: archived(http, about))
    late = pentad(up, "pause", task["task_id"])
    assert late.returncode == 1


async def only_task(up: Up) -> dict[str, Any]:
    async with httpx2.AsyncClient(base_url=up.url, trust_env=False, timeout=PATIENCE_S) as http:
        (task,) = (await http.get("/v1/tasks")).json()["items"]
    found: dict[str, Any] = task
    return found


async def has_status(up: Up, status: str) -> bool:
    return bool((await only_task(up))["status"] == status)


async def waits_for(up: Up, what: str) -> bool:
    return what in (await only_task(up))["waiting_for"]


async def archived(http: httpx2.AsyncClient, about: str) -> bool:
    return (await http.get(about)).json().get("archived_at") is not None
