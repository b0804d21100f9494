"""Forks and comparisons over REST: what a client hears, and which bodies are refused."""

import argparse
import asyncio
import json
from typing import Any

import httpx2
import pytest
from pydantic_core import to_json

import pentad
from pentad.cli.tasks import run_task
from pentad.contracts.events import TaskUsage
from pentad.contracts.instructions import Instruction
from pentad.contracts.records import Manifest, StepRecord, TranscriptMeta
from pentad.services.gateway.app import GatewayService
from pentad.shared.actors.headers import pairs
from pentad.shared.actors.step_prompt import chain
from pentad.shared.actors.transcript import entry
from pentad.shared.instructions.instruction_list import kept_under, version_of
from pentad.shared.keys import TaskKeys, load
from pentad.shared.settings import Settings
from tests.integration.gateway.speaker import AT, TASK, Speaker
from tests.support.waiting import in_time

OPTIONS = dict.fromkeys(("url", "instruction", "step", "fork", "compare", "content", "model"))
OPTIONS |= {"path": False, "mermaid": False, "json": False, "debug": False, "prompt": False, "id": TASK}
PLAIN = Instruction(name="executor", system_prompt="You are plain.", tools=[])


async def answered(speaker: Speaker, task: str = TASK, text: str = "42") -> TaskKeys:
    """A task with one step, which has answered a question."""
    keys = await speaker.task(task, "completed", step=1, log_length=2)
    said = entry({"role": "user", "content": "q"}, TranscriptMeta(at=AT, message_id="m1"))
    told = entry({"role": "assistant", "content": text}, TranscriptMeta(at=AT, step=1, attempt=1, model="m"))
    await speaker.store.call("RPUSH", keys.log, said, told)
    version = version_of(PLAIN)
    manifest = Manifest(
        messages=(0, 1),
        instruction="executor",
        instruction_version=version,
        tools="",
        model="m",
        digest=chain("", [b'{"role":"user","content":"q"}'], b"", "", "m"),
    )
    record = StepRecord(step=1, attempt=1, at=AT, finish_reason="stop", usage=TaskUsage(), manifest=manifest)
    await speaker.store.call("RPUSH", keys.steps, record.to_json())
    await speaker.store.call("HSET", keys.big, kept_under(version), PLAIN.to_json())
    return keys


async def test_a_fork_is_begun_once_and_is_a_task_of_a_session_of_its_own(
    http: httpx2.AsyncClient, speaker: Speaker
) -> None:
    await answered(speaker)
    body = {"step": 1, "content": "why?", "message_id": "mine"}
    told = [await http.post(f"/v1/tasks/{TASK}/fork", json=body) for _ in range(2)]
    assert [each.status_code for each in told] == [202, 202]
    begun = told[0].json()
    assert begun == told[1].json()
    assert (begun["message_id"], begun["effects"]) == ("mine", [])
    task = (await http.get(f"/v1/tasks/{begun['task_id']}")).json()
    assert (task["status"], task["session_id"], task["steps"]) == ("active", begun["session_id"], 1)
    assert (task["forked_from"]["task_id"], task["forked_from"]["step"]) == (TASK, 1)
    sessions = [each["session_id"] for each in (await http.get("/v1/sessions")).json()["items"]]
    assert begun["session_id"] in sessions
    turns = (await http.get(f"/v1/sessions/{begun['session_id']}/messages")).json()["items"]
    assert [turn["content"] for turn in turns] == ["q", "42", "why?"]
    assert (await http.post(f"/v1/tasks/{TASK}/fork", json=body | {"content": "what?"})).status_code == 409


@pytest.mark.parametrize(
    ("task", "body", "status", "says"),
    [
        (TASK, {"step": 1}, 409, "give `content`"),
        (TASK, {"step": 2}, 409, "no step 2"),
        (TASK, {"step": 1, "content": "x", "model": "nope"}, 404, "model"),
        (TASK, {"step": 1, "content": "x", "instruction": "nope"}, 404, "instruction"),
        (TASK, {"content": "x"}, 422, "step:"),
        (TASK, {"step": 1, "x": 1}, 422, "x: not known"),
        (TASK, {"step": 1, "content": "y" * 65_537}, 422, "content:"),
        (TASK, ["step"], 400, "object"),
        ("task-0-nope", {"step": 0}, 404, "no task"),
        ("task-9-nope", {"step": 0}, 404, "no task"),
    ],
)
async def test_what_cannot_be_forked_is_a_problem_that_says_why(
    http: httpx2.AsyncClient, speaker: Speaker, task: str, body: Any, status: int, says: str
) -> None:
    await answered(speaker)
    refused = await http.post(f"/v1/tasks/{task}/fork", json=body)
    assert refused.status_code == status, refused.text
    assert says in refused.json()["detail"]
    assert await speaker.store.call("ZCARD", "pentad:{0}:tasks:default") == 1, "nothing has begun"


async def test_bodies_that_are_no_json_or_too_long_are_refused(http: httpx2.AsyncClient, speaker: Speaker) -> None:
    await answered(speaker)
    assert (await http.post(f"/v1/tasks/{TASK}/fork", content=b"{")).status_code == 400
    assert (await http.post(f"/v1/tasks/{TASK}/fork", content=b" " * (2 << 20))).status_code == 413


@pytest.mark.parametrize("damage", ["step", "entry", "instruction", "short"])
async def test_a_task_that_cannot_be_read_is_410_and_nothing_begins(
    http: httpx2.AsyncClient, speaker: Speaker, damage: str
) -> None:
    keys = await answered(speaker)
    if damage == "step":
        await speaker.store.call("LSET", keys.steps, 0, "{")
    elif damage == "entry":
        await speaker.store.call("LSET", keys.log, 0, "{")
    elif damage == "short":
        await speaker.store.call("DEL", keys.log)
    else:
        await speaker.store.call("DEL", keys.big)
    refused = await http.post(f"/v1/tasks/{TASK}/fork", json={"step": 1, "content": "x"})
    assert refused.status_code == 410, refused.text
    assert await speaker.store.call("ZCARD", "pentad:{0}:tasks:default") == 1


async def test_a_past_that_is_too_long_is_refused(
    http: httpx2.AsyncClient, speaker: Speaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await answered(speaker)
    monkeypatch.setattr("pentad.services.gateway.tasks.forks.MAX_FORK_BYTES", 100)
    refused = await http.post(f"/v1/tasks/{TASK}/fork", json={"step": 1, "content": "x"})
    assert (refused.status_code, "too long" in refused.json()["detail"]) == (409, True)
    monkeypatch.setattr("pentad.services.gateway.tasks.forks.MAX_FORK_ENTRIES", 1)
    refused = await http.post(f"/v1/tasks/{TASK}/fork", json={"step": 1, "content": "x"})
    assert (refused.status_code, "too long" in refused.json()["detail"]) == (409, True)


async def test_a_fork_was_erased_and_is_not_made_again(http: httpx2.AsyncClient, speaker: Speaker) -> None:
    await answered(speaker)
    body = {"step": 1, "content": "why?", "message_id": "mine"}
    begun = (await http.post(f"/v1/tasks/{TASK}/fork", json=body)).json()
    keys = TaskKeys(0, "default", begun["task_id"])
    await speaker.store.call("HSET", keys.erased, "at", 1)
    for key in keys.all():
        await speaker.store.call("DEL", key)
    refused = await http.post(f"/v1/tasks/{TASK}/fork", json=body)
    assert (refused.status_code, "erased" in refused.json()["detail"]) == (409, True)


async def test_the_message_of_a_fork_comes_from_who_spoke_last(http: httpx2.AsyncClient, speaker: Speaker) -> None:
    keys = await answered(speaker)
    said = TranscriptMeta(at=AT, message_id="m1", user_id="ada", metadata={"time_zone": "Asia/Tokyo", "k": "v"})
    await speaker.store.call("LSET", keys.log, 0, entry({"role": "user", "content": "q"}, said))
    begun = (await http.post(f"/v1/tasks/{TASK}/fork", json={"step": 1, "content": "why?"})).json()
    fork = TaskKeys(0, "default", begun["task_id"])
    (mail,) = await speaker.store.call("ZRANGE", fork.messages, 0, -1)
    assert b'"user_id":"ada"' in mail
    counted = pairs(await speaker.store.call("HGETALL", load(0)))
    assert (counted["mail"], counted["tenant:default"]) == (b"1", b"1"), "it waits like every message"
    assert to_json({"time_zone": "Asia/Tokyo", "k": "v"}) in mail
    header = pairs(await speaker.store.call("HGETALL", fork.header))
    assert (header["speaker"], header["correlation"]) == (b"ada", begun["message_id"].encode())


async def test_tasks_are_compared(http: httpx2.AsyncClient, speaker: Speaker) -> None:
    await answered(speaker)
    await answered(speaker, "task-0-other", "43")
    found = (await http.get(f"/v1/tasks/{TASK}/compare/task-0-other")).json()
    assert (found["same_steps"], found["parts_at"], found["differs"]) == (0, 1, ["answer"])
    (step,) = found["steps"]
    assert (step["same_prompt"], step["same_answer"], step["a"]["model"]) == (True, False, "m")
    assert (await http.get(f"/v1/tasks/{TASK}/compare/task-0-nope")).status_code == 404
    assert (await http.get(f"/v1/tasks/task-0-nope/compare/{TASK}")).status_code == 404
    assert (await http.get(f"/v1/tasks/{TASK}/compare/a%20b")).status_code == 404


async def command(gateway: GatewayService, **given: Any) -> int:
    """Run ``pentad task`` as the command line would, in a thread with a loop of its own."""
    args = argparse.Namespace(**(OPTIONS | given))
    async with in_time():
        return await asyncio.to_thread(run_task, args, Settings(pentad_url=gateway.address))


async def test_the_command_line_forks_and_compares(
    gateway: GatewayService, speaker: Speaker, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = await answered(speaker)
    await answered(speaker, "task-0-other", "43")
    call = {"id": "call-0-1", "type": "function", "function": {"name": "mail", "arguments": "{}"}}
    later = entry(
        {"role": "assistant", "content": "42", "tool_calls": [call]}, TranscriptMeta(at=AT, step=1, model="m")
    )
    await speaker.store.call("LSET", keys.log, 1, later)
    assert await command(gateway, fork=0) == 0
    begun, effect = capsys.readouterr().out.splitlines()
    assert begun.endswith(f"goes on from step 0 of {TASK}")
    assert effect == "not repeated: mail (unsafe), call-0-1"
    assert await command(gateway, compare="task-0-other") == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first == "the tasks part at step 1: answer, calls"
    assert last.split() == ["1", "answer,", "calls", "m:", "mail", "m:", "stop"]
    assert await command(gateway, fork=1, content="why?", json=True) == 0
    assert json.loads(capsys.readouterr().out).keys() == {"task_id", "session_id", "message_id", "effects"}
    assert await command(gateway, compare="task-0-other", json=True) == 0
    assert json.loads(capsys.readouterr().out)["parts_at"] == 1
    for wrong in (
        {"content": "x"},
        {"model": "m"},
        {"fork": 1, "compare": "task-0-other"},
        {"fork": 1, "prompt": True},
    ):
        with pytest.raises(pentad.Refused):
            await command(gateway, **wrong)


async def test_the_python_client_forks_and_compares(gateway: GatewayService, speaker: Speaker) -> None:
    await answered(speaker)
    async with pentad.connect(gateway.address) as agent:
        begun = [await agent.management.fork(TASK, 1, "why?", message_id="mine") for _ in range(2)]
        assert begun[0] == begun[1]
        found = await agent.inspection.compare(TASK, begun[0].task_id)
        assert (found.same_steps, found.parts_at, found.a.task_id) == (1, None, TASK)
        assert (await agent.inspection.task(begun[0].task_id)).forked_from is not None
        with pytest.raises(pentad.Conflict, match="no step 9"):
            await agent.management.fork(TASK, 9)
        with pytest.raises(pentad.NotFound):
            await agent.inspection.compare(TASK, "task-0-nope")
