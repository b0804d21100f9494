"""Three subjects in one conversation of a running system with the offline model: whose text is whose."""

from pathlib import Path

import pytest

import pentad
from tests.support.processes.stage import PLUGINS
from tests.support.processes.terminal import Terminal
from tests.support.processes.up import Up
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance


async def all_completed(url: str, count: int) -> bool:
    """Whether so many tasks have ended well, and there is no other."""
    async with pentad.connect(url) as agent:
        return [task.status for task in await agent.inspection.tasks(session_id="s1")] == ["completed"] * count


async def test_three_subjects_in_one_chat_are_three_tasks_and_each_answer_says_whose_it_is(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with Up(tmp_path / "up", {"PENTAD_PLUGINS": PLUGINS}) as up:
        url = await up.ready()
        async with Terminal("chat", url, tmp_path, session="s1") as chat:
            await chat.shows("session s1", "what you say", "you>")

            async def answers(count: int) -> None:
                """The offline model has said so often that it knows no more, and nothing goes on."""
                said = "(and LLM_MODEL_ID) to talk to a real model."
                await wait_until("the answer", lambda: sum(said in row for row in chat.rows) == count)
                await wait_until("the idle prompt", lambda: chat.rows[-1] == "you>" and said in chat.rows[-2])
                await wait_until("the end", lambda: all_completed(url, count))

            chat.type("I want to book a flight from Berlin to Lisbon next Friday.\r")
            await answers(1)
            chat.type("Can you also find me a vegetarian restaurant near the opera?\r")
            await answers(2)
            chat.type("By the way, write a short poem about autumn leaves.\r")
            await answers(3)
            chat.type(f"/task 3 please wait_for_file {gate}\r")
            await wait_until("the tool to begin", gate.exists)
            chat.type("/task 1 what is 6*7?\r")
            answered = "[1 I want to book a flight…] 6*7 = 42"
            await wait_until("the answer beside the other task", lambda: answered in chat.rows)
            with gate.open("a") as file:
                file.write("go\n")
            await chat.shows("[3 By the way, write a sho…] wait_for_file: the file says go", "you>")
            await wait_until("the ends", lambda: all_completed(url, 3))  # answers are shown while they are being given
            chat.type("/tasks\r")
            await chat.shows("completed", "completed", "completed", "you>")
            chat.type("\x04")
            assert await chat.code() == 0
        async with pentad.connect(url) as agent:
            tasks = await agent.inspection.tasks(session_id="s1")
            tools = {tool["name"] for tool in await agent.inspection.tools()}
            assert await agent.ask("what is 2**10?") == "2**10 = 1024"
    assert [task.status for task in tasks] == ["completed"] * 3
    assert {"calculator", "wait_for_file"} <= tools
