"""Models and instructions of the documents, by public calls against a whole system and a scripted model."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import pentad
from tests.acceptance.seeds.rows import shown
from tests.acceptance.seeds.systems import system
from tests.support.models.replies import call, fail, say
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance

HELLO = [{"role": "user", "content": "hello"}]
ADDING = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
TOOL = {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": ADDING}}
CITY = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


async def test_models_are_called_as_the_documents_call_them(tmp_path: Path) -> None:
    more = {"llm_temperature": 0.1, "llm_max_tokens": 900}
    async with system(tmp_path, embedding=True, **more) as (agent, script, server):
        with shown("`LLM.complete(messages, config)` (000)"):
            asked: dict[str, Any] = {"model": "default", "temperature": 0.3, "max_tokens": 50}
            completion = await agent.models.complete(HELLO, tools=[TOOL], **asked)
            assert completion.content == "good day"
            sent = script.asked[-1]
            assert (sent["temperature"], sent["max_tokens"]) == (0.3, 50)
            assert sent["tools"][0]["function"]["name"] == "add"
        with shown("`CompletionChunk`, `LLMChunk`"):
            script.next = [say("good day", thinking="hmm", chunks=2)]
            chunks = [chunk async for chunk in agent.models.complete(HELLO, stream=True)]
            assert "".join(chunk.content or "" for chunk in chunks) == "good day"
            assert "".join(chunk.thinking or "" for chunk in chunks) == "hmm"
            assert chunks[-1].completion is not None
            assert chunks[-1].completion.content == "good day"
        with shown("`LLMResponse.stop_reason`"):
            script.next = [say("cut", finish="length"), call(("add", {"a": 1}))]
            reasons = [(await agent.models.complete(HELLO, tools=[TOOL])).finish_reason for _ in range(3)]
            assert reasons == ["length", "tool_calls", "stop"]
        with shown("`callEmbedding(id, text)`"):
            one, other = await agent.models.embed(["tea", "coffee"])
            assert len(one) == len(other) == 64
        with shown("`EMBED_MODEL_TYPE`"):
            assert any(each.path.endswith("/embeddings") for each in server.seen.requests), "openai asks its server"
        with shown("`temperature`, `maxTokens`"):
            await agent.models.complete(HELLO)
            assert (script.asked[-1]["temperature"], script.asked[-1]["max_tokens"]) == (0.1, 900)
            warm = {"system_prompt": "You are warm.", "tools": [], "temperature": 0.9}
            await agent.management.register_instruction("warm", **warm)
            await agent.run("warm", "hello")
            assert (script.asked[-1]["temperature"], script.asked[-1]["max_tokens"]) == (0.9, 900)


async def test_models_are_registered_as_the_documents_register_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEEDS_API_KEY", "a-secret-of-the-seeds")
    async with system(tmp_path, models=[{"id": "mine", "protocol": "offline"}]) as (agent, script, server):
        with shown("`registerModel`, `getModel`, `listModels`"):
            fields: dict[str, Any] = {"endpoint": server.base_url, "model": "scripted", "api_key_env": "SEEDS_API_KEY"}
            await agent.management.register_model("theirs", **fields)
            assert (await agent.inspection.model("theirs"))["source"]
            assert {"mine", "theirs"} <= {each["id"] for each in await agent.inspection.models()}
        with shown("`ModelInstance.endpoint`, `model`, `apiKey`"):
            entry = await agent.inspection.model("theirs")
            assert (entry["endpoint"], entry["model"]) == (server.base_url, "scripted")
            assert entry["api_key_env"] == "SEEDS_API_KEY"
            assert "a-secret-of-the-seeds" not in json.dumps(entry)
            with pytest.raises(pentad.Refused, match="api_key_env"):
                await agent.management.register_model("open", api_key="a-secret-of-the-seeds")
            await agent.models.complete(HELLO, model="theirs")
            assert server.seen.requests[-1].headers["authorization"] == "Bearer a-secret-of-the-seeds"
        with shown("a fallback model (002)"):
            nowhere = "http://127.0.0.1:9/v1"
            await agent.management.register_model("first", endpoint=nowhere, model="x", fallbacks=["theirs"])
            await agent.management.register_instruction("careful", system_prompt="Answer.", model="first", tools=[])
            assert await agent.run("careful", "hello") == "good day"
        with shown("a provider for Anthropic"):
            place = server.base_url.removesuffix("/v1")
            await agent.management.register_model("claude", protocol="anthropic", endpoint=place, model="scripted")
            assert (await agent.models.complete(HELLO, model="claude")).content == "good day"
            assert server.seen.requests[-1].path.endswith("/v1/messages")
        with shown("`RetryConfig` (001)"):
            await agent.management.register_instruction("once", system_prompt="Answer.", tools=[], retry=2)
            script.next = [fail(500, message="no words that would say so"), say("at last")]
            assert await agent.run("once", "hello") == "at last"
        with shown("errors are retried when their text has certain words"):
            asked = len(script.asked)
            script.next = [fail(401, message="rate limit: please retry later")]
            with pytest.raises(pentad.RunFailed):
                await agent.run("once", "hello")
            assert len(script.asked) == asked + 1, "what is refused is not asked again, whatever it says"


class City(BaseModel):
    name: str
    people: int = 0


async def test_instructions_are_registered_and_run_as_the_documents_do(tmp_path: Path) -> None:
    given = {"name": "given", "system_prompt": "You were given."}
    async with system(tmp_path, instructions=[given]) as (agent, script, _):
        with shown("`InstructionConfig`"):
            fields: dict[str, Any] = {"name": "city", "description": "Finds a city.", "system_prompt": "Find it."}
            fields |= {"tools": ["calculator"], "model": "default", "output": "json", "output_schema": CITY}
            fields |= {"tool_rounds": 3}
            name = fields.pop("name")
            await agent.management.register_instruction(name, **fields)
            kept = await agent.inspection.instruction("city")
            assert {key: kept[key] for key in fields} == fields
        with shown("`register`, `get`, `list`, `execute`"):
            assert {"city", "given"} <= {each["name"] for each in await agent.inspection.instructions()}
            script.next = [say('{"name": "Rome"}')]
            found = await agent.run("city", "of seven hills")
        with shown("`InstructionResultJSON.data`"):
            assert found == {"name": "Rome"}
            script.next = [say('{"name": "Rome"}')]
            assert await agent.run("city", "of seven hills", output=City) == City(name="Rome", people=0)
        with shown("`toolCallsHistory`"):
            script.next = [call(("calculator", {"expression": "6*7"})), say('{"name": "Rome"}')]
            run = await agent.execute("city", "of seven hills")
            assert [(each.tool, each.result) for each in run.tool_calls] == [("calculator", "42")]
            assert run.task_id is not None
            steps = await agent.inspection.steps(run.task_id)
            assert [[each.tool for each in step.calls] for step in steps] == [["calculator"], []]
        with shown("`router`, `executor`, `memory_archiver`, `memory_retriever`"):
            names = {"router", "executor", "memory_archiver", "memory_retriever"}
            assert names <= {each["name"] for each in await agent.inspection.instructions()}
            await agent.management.register_instruction("executor", system_prompt="You are a parrot.")

            async def parrots() -> bool:
                await agent.ask("hello")
                return str(script.asked[-1]["messages"][0]["content"]).startswith("You are a parrot.")

            await wait_until("all runners to know it", parrots)
        with shown("instruction templates (002, phase 5)"):
            await agent.management.register_instruction("for", system_prompt="Say {{metadata.tone}} things.", tools=[])
            await agent.run("for", "hello", metadata={"tone": "kind"})
            assert "kind" in script.asked[-1]["messages"][0]["content"].splitlines()[0]
