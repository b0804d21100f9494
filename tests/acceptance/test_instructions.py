"""Instructions in a running system: of a file, of a plugin, registered later; run by name from everywhere."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import pentad
from pentad.shared.instructions.builtin import BUILT_IN
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import Reply, call, say
from tests.support.ports import free_port
from tests.support.processes.up import PENTAD, ROOT, Up
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance

COUNT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
IN_FILE: dict[str, Any] = {
    "name": "tally", "system_prompt": "Count.", "tools": ["calculator"], "output": "json", "output_schema": COUNT
}  # fmt: skip
SUM = ("calculator", {"expression": "1+2"})


class Scripted:
    """A model that gives each user's words their own answers, one after the other."""

    def __init__(self, **answers: list[Reply]) -> None:
        self._answers = {word: iter(replies) for word, replies in answers.items()}

    def __call__(self, request: dict[str, Any]) -> Reply:
        said = next(m["content"] for m in request["messages"] if m["role"] == "user")
        return next(self._answers[said])


@asynccontextmanager
async def system(folder: Path, script: Any) -> AsyncIterator[tuple[Up, pentad.Agent, ScriptedModel]]:
    async with ScriptedModel(script) as model:
        (file := folder / "instructions.json").write_text(json.dumps({"instructions": [IN_FILE]}))
        settings = {"LLM_BASE_URL": model.base_url, "PENTAD_INSTRUCTIONS": str(file)}
        settings["PENTAD_PLUGINS"] = "tests.support.plugins.poet"
        with Up(folder, settings, (str(PENTAD), "up", "--port", str(free_port()))) as up:
            url = await up.ready()
            async with pentad.connect(url, admin_key=up.admin_key) as agent:
                yield up, agent, model


async def test_prose_cut_json_and_wrong_types_are_repaired_and_a_fourth_wrong_answer_fails(tmp_path: Path) -> None:
    wrong = [say("three, I think"), say('{"n":'), say('{"n":"3"}')]
    right = say('```json\n{"n": 3}\n```')
    script = Scripted(repaired=[*wrong, right], failing=[*wrong, say('{"m":3}')], called=[call(SUM), right])
    async with system(tmp_path, script) as (_, agent, model):
        assert await agent.run("tally", "repaired") == {"n": 3}
        assert len(model.chats) == 4
        with pytest.raises(
            pentad.RunFailed, match="instruction tally gave no answer: model_error: the model's answer"
        ) as failed:
            await agent.run("tally", "failing")
        assert (failed.value.run.status, failed.value.run.value) == ("failed", None)
        assert len(model.chats) == 8
        run = await agent.execute("tally", "called")
        assert (run.value, run.status) == ({"n": 3}, "completed")
        assert [(made.tool, made.args, made.result) for made in run.tool_calls] == [(*SUM, "3")]
        assert run.usage.output_tokens > 0
        assert {tool["function"]["name"] for tool in model.chats[-1]["tools"]} == {"calculator"}


async def test_one_that_is_registered_runs_at_once_and_a_task_keeps_the_one_that_it_began_with(tmp_path: Path) -> None:
    prompts: list[str] = []

    def script(request: dict[str, Any]) -> Reply:
        prompts.append(request["messages"][0]["content"].partition("\n")[0])
        return say("so it is")

    async with system(tmp_path, script) as (_, agent, _model):
        assert {each["name"]: each["source"] for each in await agent.inspection.instructions()} == {
            "counter": "plugin",
            **dict.fromkeys(BUILT_IN, "built_in"),
            "poet": "plugin",
            "tally": "file",
        }
        shown = await agent.management.register_instruction("judge", system_prompt="First.", tools=["gavel"])
        assert shown["warning"] == "no worker has these tools now: gavel"
        run = await agent.execute("judge", "go", session_id="court")
        assert (run.content, run.status) == ("so it is", "completed")
        await agent.management.register_instruction("judge", system_prompt="Second.")
        await agent.execute("judge", "go on", session_id="court")

        async def renewed() -> bool:
            await agent.run("judge", "go")
            return prompts[-1] == "Second."

        await wait_until("the new one to be known", renewed)
        assert prompts[:2] == ["First.", "First."]
        transcript = await agent.inspection.transcript(run.task_id or "")
        assert transcript.messages[-1]["content"] == "so it is"
        await agent.management.delete_instruction("judge")
        await agent.execute("judge", "and a last one", session_id="court")
        assert prompts[-1] == "First.", "its task keeps it"
        with pytest.raises(pentad.Conflict, match="PENTAD_INSTRUCTIONS"):
            await agent.management.delete_instruction("tally")


async def test_the_executor_can_be_replaced(tmp_path: Path) -> None:
    prompts: list[str] = []

    def script(request: dict[str, Any]) -> Reply:
        prompts.append(request["messages"][0]["content"].partition("\n")[0])
        return say("yes")

    async with system(tmp_path, script) as (_, agent, _model):
        await agent.management.register_instruction("executor", system_prompt="Ours.")

        async def replaced() -> bool:
            async for _event in agent.send("go", session_id=f"s{len(prompts)}"):
                pass
            return prompts[-1] == "Ours."

        await wait_until("ours to be asked", replaced)


def command(up: Up, *words: str) -> "subprocess.CompletedProcess[str]":
    known = {"PATH": "/usr/bin:/bin", "HOME": str(up.folder), "PENTAD_DATA_DIR": str(up.data), "PYTHONUTF8": "1"}
    return subprocess.run([str(PENTAD), *words], env=known, capture_output=True, text=True, timeout=60, check=False)


async def test_on_the_command_line(tmp_path: Path) -> None:
    async with system(tmp_path, lambda r: say(r["messages"][0]["content"])) as (up, agent, _):
        await agent.management.register_instruction("evil", system_prompt="x", description="\x1b[31mred")
        listed = await asyncio.to_thread(command, up, "instructions")
        head, *lines = listed.stdout.splitlines()
        assert head.split()[:5] == ["INSTRUCTION", "FROM", "MODEL", "OUTPUT", "TOOLS"]
        assert [line.split()[0] for line in lines] == sorted([*BUILT_IN, "counter", "evil", "poet", "tally"])
        assert "file" in next(line for line in lines if line.startswith("tally"))
        assert "\x1b" not in listed.stdout
        as_json = await asyncio.to_thread(command, up, "instructions", "--json")
        assert [json.loads(line)["name"] for line in as_json.stdout.splitlines()][-2:] == ["tally", "unified"]
        sent = await asyncio.to_thread(command, up, "send", "write", "--instruction", "poet", "--user", "ida")
        assert (sent.returncode, sent.stdout.splitlines()[0]) == (0, "You write poems for ida.")
        unknown = await asyncio.to_thread(command, up, "send", "write", "--instruction", "nobody")
        assert unknown.returncode == 1
        assert "there is no instruction 'nobody'" in unknown.stderr


@pytest.mark.slow
async def test_a_system_that_is_killed_in_the_middle_of_a_run_finishes_it(tmp_path: Path) -> None:
    held = asyncio.Event()
    async with system(tmp_path, lambda _: say("never said", wait=held)) as (up, agent, model):
        running = asyncio.create_task(agent.run("poet", "go"))
        await wait_until("the model to be asked", lambda: bool(model.chats))
        up.kill_everything()
        model.script = lambda _: say("done")
        up.start()
        assert await running == "done"
        assert len(await agent.inspection.tasks()) == 1


async def test_a_file_with_a_mistake_stops_the_start_and_is_named(tmp_path: Path) -> None:
    (file := tmp_path / "i.toml").write_text('[[instructions]]\nname = "poet"\nprompt = "Rhyme."\n')
    with Up(tmp_path, {"PENTAD_INSTRUCTIONS": str(file)}) as up:
        assert await up.ended() != 0
    (line,) = up.err.splitlines()
    assert f"PENTAD_INSTRUCTIONS is wrong: {file}: instructions[0] ('poet').system_prompt: " in line
    assert "instructions[0] ('poet').prompt: " in line


async def test_the_example_runs(tmp_path: Path) -> None:
    def script(request: dict[str, Any]) -> Reply:
        *_, last = request["messages"]
        if "how the writer feels" in request["messages"][0]["content"]:
            return say('{"mood": "good", "why": "the sun"}')
        return say("it is done") if last["role"] == "tool" else call(SUM)

    async with system(tmp_path, script) as (up, _, model):
        example = [sys.executable, str(ROOT / "examples" / "instructions.py"), up.url, model.base_url]
        beside = os.environ | {"PENTAD_DATA_DIR": str(up.data)}
        run = partial(subprocess.run, example, env=beside, capture_output=True, text=True, timeout=60, check=False)
        done = await asyncio.to_thread(run)
    assert done.returncode == 0, done.stderr
    started, *lines = done.stdout.splitlines()
    assert started.startswith("task started: task-0-")
    assert lines == [
        "calling calculator",
        "it is done",
        "task completed",
        "mood: good",
        "completed with 1 tool call(s): it is done",
        "active tasks: 0",
        "models: default, default-embedding, letters, small",
        f"instructions: {', '.join(sorted([*BUILT_IN, 'counter', 'helper', 'mood', 'poet', 'tally']))}",
        "remembered: what is 6*7?",
    ]
