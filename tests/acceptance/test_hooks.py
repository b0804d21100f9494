"""Hooks of a plug-in in a running system, as those who talk to it and its model see what they do."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import pentad
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import Reply, call, say
from tests.support.ports import free_port
from tests.support.processes.up import PENTAD, Up
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance

PLUGIN = "tests.support.plugins.hooking"
TEXTS = ("forbidden", "a secret", "to change")


def script(held: asyncio.Event) -> Any:
    """A model that echoes three texts where it is told to work, and answers; where it is told to wait, it is held."""

    def reply(request: dict[str, Any]) -> Reply:
        *_, last = request["messages"]
        if last["content"] == "work":
            return call(*(("echo", {"text": text}) for text in TEXTS))
        if last["content"] == "wait":
            return say("I have waited", chunks=2, wait=held, wait_after=1)
        return say("a bad answer" if last["role"] == "tool" else "hello")

    return reply


@asynccontextmanager
async def hooked(folder: Path, held: asyncio.Event) -> AsyncIterator[tuple[pentad.Agent, ScriptedModel]]:
    """A system with the hooks, as soon as they are asked: its runners look once a second which there are."""
    async with ScriptedModel(script(held)) as model:
        given = {"LLM_BASE_URL": model.base_url, "LLM_MODEL_ID": "scripted", "PENTAD_RECALL_TOKENS": "0"}
        given |= {"PENTAD_PLUGINS": PLUGIN, "PENTAD_TOOL_ENV": "HOOKING", "HOOKING": str(folder)}
        with Up(folder, given, (str(PENTAD), "up", "--port", str(free_port()))) as up:
            url = await up.ready()
            async with pentad.connect(url, admin_key=up.admin_key) as agent:

                async def known() -> bool:
                    await agent.ask("are you there?")
                    return bool(told(folder))

                await wait_until("the hooks to be known", known)
                yield agent, model


def told(folder: Path) -> list[str]:
    """Return what hooks have noted."""
    path = folder / "told"
    return path.read_text().splitlines() if path.exists() else []


async def test_hooks_of_a_plug_in_change_and_refuse_what_a_task_does_and_fail_no_other_task(tmp_path: Path) -> None:
    held = asyncio.Event()
    async with hooked(tmp_path, held) as (agent, model):
        (tmp_path / "before_model").write_text("mark")
        turn = agent.session("works").turn("work")
        events = [received.event async for received in turn]
        called = {event.result or event.error for event in events if isinstance(event, pentad.ToolResultEvent)}
        assert called == {f"echo: refused by hook {PLUGIN}.guard: that is forbidden", "a secret", "changed"}
        assert [event.content for event in events if isinstance(event, pentad.MessageEvent)][-1] == "a good answer"
        first, second = model.chats[-2:]
        for prompt in (first, second):
            assert prompt["messages"][0]["content"].endswith(" Be brief.")
            assert prompt["messages"][1] == {"role": "system", "content": "noted"}
        results = [message["content"] for message in second["messages"] if message["role"] == "tool"]
        assert ["that is forbidden" in result for result in results] == [True, False, False]
        assert results[1:] == ["a ******", "changed"]
        assert "task_start default work" in told(tmp_path)
        assert [line for line in told(tmp_path) if line.startswith("later ")] == ["later a secret", "later changed"]
        await wait_until(
            "the end to be told", lambda: told(tmp_path)[-1] == "task_end completed answered a good answer"
        )

        await agent.management.register_instruction("careless", system_prompt="You are careless.")
        waiting = asyncio.create_task(agent.session("waits").ask("wait"))
        await wait_until("the other task to be under way", lambda: _is_asked(model, "wait"))
        failing = agent.session("fails").turn("hello", instruction="careless")
        failed = [received.event async for received in failing]
        [error] = [event for event in failed if isinstance(event, pentad.ErrorEvent)]
        assert (error.code, "on purpose" in error.message) == ("hook_error", True)
        assert not _is_asked(model, "hello"), "the step has failed before its model is asked"
        assert not waiting.done()
        held.set()
        assert await waiting == "I have waited"
        assert (await agent.inspection.task(str(failing.task_id))).status == "failed"


def _is_asked(model: ScriptedModel, what: str) -> bool:
    return any(chat["messages"][-1]["content"] == what for chat in model.chats)
