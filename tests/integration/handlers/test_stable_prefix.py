"""Each request of a task begins as the one before it, byte for byte, so that model servers can cache it."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pentad.contracts.dates import LocalDate
from pentad.contracts.instructions import Instruction
from pentad.services.task_runner.questions import Questions
from pentad.shared.models.anthropic.chat import AnthropicChat
from pentad.shared.models.model_pool import pool_of
from pentad.shared.models.openai_chat import OpenAIChat
from pentad.shared.models.ports import ChatModel
from pentad.shared.store.store import Store
from tests.integration.handlers.flow import Flow
from tests.support.models.model_server import ScriptedModel
from tests.support.models.replies import Reply, call, say

STEPS = 20
WORKER = Instruction(name="worker", system_prompt="Work on {{goal}}. It is {{now}}.", tool_rounds=STEPS)
DATED = Instruction(name="dated", system_prompt="Work.", tool_rounds=STEPS)


def client_of(protocol: str, url: str) -> ChatModel:
    return OpenAIChat(url, None, "m") if protocol == "openai" else AnthropicChat(url, "k", "m")


async def bodies(store: Store, folder: Path, protocol: str, instruction: Instruction) -> list[bytes]:
    """The bodies of the requests of a task of twenty steps, each of which calls a tool but the last."""
    asked: list[Any] = []

    def script(body: dict[str, Any]) -> Reply:
        asked.append(body)
        return call(("echo", {"text": f"ü{len(asked)}"})) if len(asked) < STEPS else say("done")

    async with ScriptedModel(script) as server:
        client = client_of(protocol, server.base_url)
        flow = Flow(
            store, folder, lambda _: pytest.fail("the server is to be asked"), instructions=[instruction],
            models=pool_of(client), pentad_step_limit=STEPS + 1,
        )  # fmt: skip
        await flow.prepare()
        await flow.say("the goal", instruction=instruction.name)
        await flow.drive()
        await client.aclose()
        return [request.raw for request in server.seen.requests]


@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
async def test_a_request_begins_as_the_one_before_it(store: Store, tmp_path: Path, protocol: str) -> None:
    """Promise: system, tools and transcript stay as they are; what a step adds stands at the end."""
    sent = await bodies(store, tmp_path, protocol, WORKER)
    assert len(sent) == STEPS
    assert all(b'"tools":[' in body for body in sent)
    for before, after in pairwise(sent):
        assert before.endswith(b"}]}")
        assert after.startswith(before[:-2])
        assert len(after) > len(before)


@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
async def test_at_a_days_end_the_date_alone_is_another(
    store: Store, tmp_path: Path, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = LocalDate.of(1_798_758_000_000, "UTC"), LocalDate.of(1_798_768_800_000, "UTC")
    days = iter([old] * (STEPS // 2) + [new] * STEPS)
    monkeypatch.setattr(Questions, "today", lambda *_: next(days))
    sent = await bodies(store, tmp_path, protocol, DATED)
    changed = [number for number, (before, after) in enumerate(pairwise(sent), 1) if not after.startswith(before[:-2])]
    assert changed == [STEPS // 2]
    before, after = sent[STEPS // 2 - 1 : STEPS // 2 + 1]
    assert after.startswith(before[:-2].replace(old.words.encode(), new.words.encode()))
