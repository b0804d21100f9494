"""Three tasks of a session want to work and two may: the third waits, also over the death of everything."""

from functools import partial
from pathlib import Path

import pytest

import pentad as face
from tests.acceptance.test_face import pentad
from tests.support.clients.api import Api
from tests.support.processes.stage import PLUGINS
from tests.support.processes.up import Up
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance

SUBJECTS = (
    "I want to book a flight from Berlin to Lisbon next Friday.",
    "Can you also find me a vegetarian restaurant near the opera?",
    "By the way, write a short poem about autumn leaves.",
)


async def statuses(url: str, tasks: list[str]) -> list[str]:
    async with Api(url) as api:
        return [(await api.get(f"/v1/tasks/{task}"))["status"] for task in tasks]


async def begun(url: str) -> list[str]:
    """A task for each subject, in their order, each answered at once."""
    async with Api(url) as api:
        for subject in SUBJECTS:
            await api.post("/v1/messages?wait=20", {"content": subject, "session_id": "s1"}, status=200)
        items = (await api.get("/v1/tasks?session_id=s1"))["items"]
    goals = {task["goal"]: task["task_id"] for task in items}
    return [goals[subject] for subject in SUBJECTS]


async def test_the_third_task_of_two_waits_for_its_turn(tmp_path: Path) -> None:
    gates = [tmp_path / f"gate-{n}" for n in range(3)]
    settings = {"PENTAD_PLUGINS": PLUGINS, "PENTAD_TASKS_PER_SESSION": "2", "PENTAD_REDIS_FSYNC": "always"}
    with Up(tmp_path / "up", settings) as up:
        url = await up.ready()
        tasks = await begun(url)
        async with Api(url) as api:
            for task, gate in zip(tasks, gates, strict=True):
                said = {"content": f"please wait_for_file {gate}", "session_id": "s1", "task_id": task}
                await api.post("/v1/messages", said)
                await wait_until("it to work or to wait", partial(settled, url, task, gate))
            (waits,) = (await api.get("/v1/tasks?status=pending"))["items"]
        assert (waits["task_id"], waits["waiting_for"]) == (
            tasks[2],
            ["as many tasks of its session are active as may be: 2"],
        )
        listed = pentad(up, "tasks", "--status", "pending")
        assert (tasks[2] in listed.stdout, tasks[0] in listed.stdout) == (True, False)
        async with face.connect(url) as agent:
            assert [task.task_id for task in await agent.inspection.tasks("pending")] == [tasks[2]]
        up.kill_everything()
        up.start()
        url = await up.ready()
        assert await statuses(url, tasks) == ["active", "active", "pending"]
        await wait_until("both calls to run again", lambda: all(twice(gate) for gate in gates[:2]))
        assert not gates[2].exists()
        with gates[1].open("a") as file:
            file.write("go\n")
        await wait_until("the third to work", gates[2].exists)
        assert await statuses(url, tasks) == ["active", "completed", "active"]
        for gate in (gates[0], gates[2]):
            with gate.open("a") as file:
                file.write("go\n")
        await wait_until("their ends", lambda: all_completed(url, tasks))


def begins(gate: Path) -> bool:
    return gate.exists()


def twice(gate: Path) -> bool:
    return gate.read_text().count("begun") == 2


async def settled(url: str, task: str, gate: Path) -> bool:
    return begins(gate) or await statuses(url, [task]) == ["pending"]


async def all_completed(url: str, tasks: list[str]) -> bool:
    return await statuses(url, tasks) == ["completed"] * 3
