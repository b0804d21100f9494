"""The document 002, the five-part Agent, heading by heading, by public calls against a whole system.

What it shares with the document 000 is shown there.
"""

import asyncio
import json
import logging
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from playwright.async_api import expect
from pydantic import BaseModel

import pentad
from pentad.shared.sandbox.sandbox import landlock_here
from tests.acceptance.seeds.rows import shown, walked
from tests.acceptance.seeds.systems import system
from tests.support.browser.chromium import open_page
from tests.support.models.replies import call, fail, say
from tests.support.outside.web_server import reply, web_server
from tests.support.waiting import in_time, wait_until

pytestmark = pytest.mark.acceptance

HELLO = [{"role": "user", "content": "hello"}]
ADDING = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
TOOL = {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": ADDING}}
CITY = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


async def test_models_are_called_as_the_documents_call_them(tmp_path: Path) -> None:
    more = {"llm_temperature": 0.1, "llm_max_tokens": 900}
    async with system(tmp_path, embedding=True, **more) as (agent, script, server):
        with walked("1. Model manager"), shown("`LLM.complete(messages, config)` (000)"):
            asked: dict[str, Any] = {"model": "default", "temperature": 0.3, "max_tokens": 50}
            completion = await agent.models.complete(HELLO, tools=[TOOL], **asked)
            assert completion.content == "good day"
            sent = script.asked[-1]
            assert (sent["temperature"], sent["max_tokens"]) == (0.3, 50)
            assert sent["tools"][0]["function"]["name"] == "add"
        with walked("Model manager: types"), shown("`CompletionChunk`, `LLMChunk`"):
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
        with walked("Model manager: duties"), shown("`registerModel`, `getModel`, `listModels`"):
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
        with walked("Model manager: points of its design"), shown("a fallback model (002)"):
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
        with walked("Instruction set: types"), shown("`InstructionConfig`"):
            fields: dict[str, Any] = {"name": "city", "description": "Finds a city.", "system_prompt": "Find it."}
            fields |= {"tools": ["calculator"], "model": "default", "output": "json", "output_schema": CITY}
            fields |= {"tool_rounds": 3}
            name = fields.pop("name")
            await agent.management.register_instruction(name, **fields)
            kept = await agent.inspection.instruction("city")
            assert {key: kept[key] for key in fields} == fields
        with walked("2. Instruction set"), shown("`register`, `get`, `list`, `execute`"):
            assert {"city", "given"} <= {each["name"] for each in await agent.inspection.instructions()}
            script.next = [say('{"name": "Rome"}')]
            found = await agent.run("city", "of seven hills")
        with walked("Instruction set: duties"), shown("`InstructionResultJSON.data`"):
            assert found == {"name": "Rome"}
            script.next = [say('{"name": "Rome"}')]
            assert await agent.run("city", "of seven hills", output=City) == City(name="Rome", people=0)
        with walked("Instruction set: points of its design"), shown("`toolCallsHistory`"):
            script.next = [call(("calculator", {"expression": "6*7"})), say('{"name": "Rome"}')]
            run = await agent.execute("city", "of seven hills")
            assert [(each.tool, each.result) for each in run.tool_calls] == [("calculator", "42")]
            assert run.task_id is not None
            steps = await agent.inspection.steps(run.task_id)
            assert [[each.tool for each in step.calls] for step in steps] == [["calculator"], []]
        with (
            walked("Instruction set: what is built in"),
            shown("`router`, `executor`"),
        ):
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


def weather(city: str) -> str:
    """Weather of a city right now."""
    return f"{city}: 21 degrees, clear"


async def test_a_tool_is_registered_while_the_system_runs(tmp_path: Path) -> None:
    async with (
        web_server(stock=reply(b'{"tea": 3}', "application/json")) as web,
        system(tmp_path, pentad_web_allow=web.place) as (agent, script, _),
    ):
        with shown("`management.registerTool` (002)"):
            schema = {"type": "object", "properties": {"of": {"type": "string"}}}
            await agent.management.register_tool(name="stock", url=f"{web.url}/stock", method="GET", parameters=schema)

            async def is_offered() -> bool:
                return any(each["name"] == "stock" and each["alive"] for each in await agent.inspection.tools())

            await wait_until("a worker has it", is_offered)
            script.next = [call(("stock", {"of": "tea"})), say("three")]
            assert str(await agent.ask("how much tea is there?")) == "three"
            assert script.asked[-1]["messages"][-1]["content"] == '{"tea": 3}'
            assert [each.target for each in web.received] == ["/stock?of=tea"]
            assert (await agent.management.reload_plugins())["done"]


async def memory_answers(agent: pentad.Agent) -> None:
    """Wait until the memory is open: on a busy machine that takes longer than a first call waits for it."""

    async def answers() -> bool:
        try:
            await agent.management.add_node("concept", "Patience", user_id="bob")
        except pentad.GatewayUnreachable:
            return False
        return True

    await wait_until("the memory to be open", answers)


async def test_what_is_known_is_kept_and_walked_as_in_the_documents(tmp_path: Path) -> None:
    async with system(tmp_path) as (agent, _, _):
        manage, inspect = agent.management, agent.inspection
        await memory_answers(agent)
        with walked("Memory: types"), shown("`KnowledgeNode` `concept fact procedure question answer`"):
            kinds = ("concept", "fact", "procedure", "question", "answer")
            made = [await manage.add_node(kind, f"A {kind} about tides", user_id="ada") for kind in kinds]
            assert [node.kind for node in made] == [*kinds]
        ids = [node.id for node in made]
        with shown("`KnowledgeEdge`"):
            types = ("related_to", "followed_by", "derived_from", "part_of")
            edges = [await manage.add_edge(ids[n], ids[n + 1], kind, user_id="ada") for n, kind in enumerate(types)]
            assert [edge.type for edge in edges] == [*types]
            against = await manage.add_edge(ids[4], ids[0], "contradicts", user_id="ada")
            assert against.type == "contradicts"
        with walked("4. Memory", "Memory: duties"), shown("`addNode`, `addEdge`, `getNode`, `getNeighbors`"):
            assert (await inspect.memory_node(ids[1], user_id="ada")).text == "A fact about tides"
            near = await inspect.memory_neighbours(ids[1], depth=1, user_id="ada")
            assert {node.id for node in near.nodes} == {*ids[:3]}
        with walked("Memory: points of its design"), shown("`source {taskId, timestamp}`"):
            node = await inspect.memory_node(ids[1], user_id="ada")
            assert node.source is not None
            assert (node.source.by_hand, bool(node.source.at)) == (True, True)
            assert [each.at for each in node.supports] == [node.source.at]
        with shown("`traverse(start, strategy, maxDepth)`"):
            for strategy in ("bfs", "dfs", "astar"):
                seen = await inspect.memory_neighbours(ids[1], strategy=strategy, depth=3, user_id="ada")
                assert {node.id for node in seen.nodes} == {*ids}
        with (
            walked("To be discussed", "3. How the graph of what is known is built"),
            shown("all relations are judged"),
        ):
            one = await manage.add_node("fact", "Tides follow the Moon", user_id="ada")
            assert (await manage.add_node("fact", "Tides follow the Moon", user_id="ada")).id == one.id
        with shown("`WorkingMemory`, `EpisodicMemory`, `SemanticMemory`, `MemoryManager` (004)"):
            kept = agent.session("seeds", user_id="ada").memory
            await kept.add("I like the sea", kind="episodic", user_id="ada")
            await kept.add("The sea is salty", kind="semantic", user_id="ada")
            await kept.add("hello sea", kind="working")

            async def all_found() -> bool:
                try:
                    hits = await kept.retrieve("the sea", user_id="ada")
                except pentad.GatewayUnreachable:
                    return False
                return {"I like the sea", "The sea is salty", "hello sea"} <= {hit.content for hit in hits}

            await wait_until("all three kinds", all_found)
            assert {*await kept.stats()} == {"working", "episodic", "semantic"}
            assert await kept.clear("semantic", user_id="ada") >= 1


async def test_knowledge_is_archived_and_walked_by_instructions(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"pentad_extract": "auto", "pentad_retrieve": "auto", "pentad_grace_s": 1}
    facts = [f"Mimi Solberg {does}." for does in ("lives in Tromso", "works on a ferry", "sails", "bakes", "skis")]
    facts += [f"Mimi Solberg has a {thing}." for thing in ("cat", "boat", "brother", "garden", "piano")]
    known = {
        "nodes": [
            {"id": f"n{number}", "kind": "fact", "text": text, "importance": 0.9, "segments": [1]}
            for number, text in enumerate(facts)
        ],
        "edges": [{"from": "n0", "to": "n1", "type": "related_to", "weight": 0.8, "segments": [1]}],
    }
    async with system(tmp_path, **settings) as (agent, script, _):
        ada = agent.session("seeds", user_id="ada")
        with walked("How memory is archived"):
            script.by_prompt = {
                "You keep the long-term memory of an assistant. You get what was said": say(json.dumps(known)),
                "You keep the long-term memory of an assistant. You get, as JSON": say(
                    '{"strategy": "bfs", "start_nodes": ["k1"]}'
                ),
            }
            await ada.ask("Mimi Solberg lives in Tromso and works on a ferry.")

            async def learned() -> bool:
                try:
                    hits = await ada.inspection.search_memory("where does Mimi Solberg live?", limit=20)
                except pentad.GatewayUnreachable:
                    return False
                return {*facts} <= {hit.content for hit in hits}

            await wait_until("what is known to be learned", learned)
            stats = await agent.inspection.memory_stats()
            assert stats.nodes is not None
            assert stats.nodes >= len(facts)
        with walked("How memory is retrieved"):
            await ada.ask("Tell me about Mimi Solberg and her ferry", task_id="new")
            asked = [request["messages"][0]["content"] for request in script.asked]
            assert any("strategy is bfs for all" in prompt for prompt in asked)
            quoted = [str(m["content"]) for m in script.asked[-1]["messages"] if m["role"] == "user"]
            assert any("works on a ferry" in text and "Tell me" not in text for text in quoted)


async def test_a_task_is_archived_when_its_grace_is_over_and_a_list_is_told_of_changes(tmp_path: Path) -> None:
    async with system(tmp_path, pentad_grace_s=1) as (agent, _, _):
        ada = agent.session("seeds", user_id="ada")
        with walked("5. Observables"), shown("an observable list of tasks, `observe(...)`"):
            seen = []
            observing = ada.observe(memory=True, interval_s=0.2)
            async with in_time():
                async for tasks in observing:
                    seen.append(tasks)
                    if len(seen) == 1:
                        assert [*tasks] == []
                        await ada.ask("hello")
                    elif tasks and tasks[0].status == "completed" and tasks.memory is not None:
                        break
            await observing.aclose()
        with walked("4. The life of a task"), shown("archived five minutes after the end"):
            [task] = await agent.inspection.tasks(session_id="seeds")

            async def archived() -> bool:
                return (await agent.inspection.task(task.task_id)).archived_at is not None

            await wait_until("its grace to be over", archived)


async def test_an_agent_is_created_used_and_shut_down_as_in_the_documents(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "the-argument-that-nobody-prints"
    heard = logging.getLogger("seeds")
    haiku = {"name": "haiku", "system_prompt": "You write haiku."}
    given: dict[str, Any] = {"models": [{"id": "spare", "protocol": "offline"}], "instructions": [haiku]}
    given |= {"tools": [weather], "logger": heard, "pentad_log_level": "debug"}
    heard.setLevel(logging.DEBUG)
    with caplog.at_level(logging.DEBUG, "seeds"):
        async with system(tmp_path, **given) as (agent, script, _):
            with (
                walked("Overview", "5. The facade", "The facade: how it is set up"),
                shown("`createAgent(config)` (000, 002)"),
            ):
                assert "spare" in {each["id"] for each in await agent.inspection.models()}
                assert (await agent.inspection.instruction("haiku"))["system_prompt"] == "You write haiku."
                assert "weather" in {each["name"] for each in await agent.inspection.tools()}
            with walked("The facade: example of its use"), shown("`agent.run(input)` → text (001)"):
                assert await agent.ask("hello") == "good day"
            with shown("`trace`, `steps` of a result (004)"):
                script.next = [call(("echo", {"text": secret})), say("it is said")]
                traced = await agent.ask("say it", trace=True)
                assert (traced.value, traced.steps) == ("it is said", 2)
                assert (await agent.execute("haiku", "spring")).steps == 1
            address = (tmp_path / "gateway.url").read_text().strip()
            with shown("HTTP, SSE, monitoring"), await asyncio.to_thread(urlopen, f"{address}/metrics") as answer:
                assert b"pentad_" in answer.read()
            with (
                walked("The facade: duties", "The facade: types"),
                shown("`inspection`, `management`, `shutdown`"),
            ):
                other = pentad.connect(address)
                assert await other.inspection.tasks() == await agent.inspection.tasks()
                with pytest.raises(pentad.NotFound):
                    await other.management.cancel_task("task-0-nobody")
                await other.shutdown()
    with shown("`Logger` given to the agent"):
        assert {record.name for record in caplog.records if record.name.startswith("pentad")}
    with shown("`verbose` (001)"):
        assert "tool_calls" in caplog.text
    with shown("tool arguments are printed with `verbose`"):
        assert secret not in caplog.text


@pytest.mark.skipif(not landlock_here(), reason="this kernel has no Landlock")
async def test_scripts_are_kept_and_run_and_calls_depend_on_each_other(tmp_path: Path) -> None:
    bought: list[str] = []

    def buy(what: str) -> str:
        """Buys."""
        bought.append(what)
        return f"bought {what}"

    def wrap(what: str) -> str:
        """Wraps what was bought."""
        return f"wrapped {what} of {bought}"

    tools = [pentad.tool(effect="pure")(buy), pentad.tool(effect="pure", after=["buy"])(wrap)]
    async with system(tmp_path, tools=tools, pentad_code="on") as (agent, script, _):
        with shown("`dependsOn` (002)"):
            script.next = [call(("wrap", {"what": "book"}), ("buy", {"what": "book"})), say("done")]
            traced = await agent.ask("a present, please", trace=True)
            assert [each.result for each in traced.trace[0].calls] == ["wrapped book of ['book']", "bought book"]
        with shown("`createScriptTool(config.scriptRepo)`"):
            double = {"name": "double", "code": "result = 2 * args", "description": "Doubles."}
            await agent.tools.execute("script_save", double, user_id="ada")
            doubled = await agent.tools.execute("script_run", {"name": "double", "args": 21}, user_id="ada")
            assert json.loads(doubled) == {"result": 42}
            ran = await agent.tools.execute("run_python", {"code": "print(6 * 7)"})
            assert json.loads(ran)["printed"] == "42\n"


async def test_a_person_sees_a_task_and_the_memory_in_the_console(tmp_path: Path) -> None:
    async with system(tmp_path) as (agent, _, _):
        url = (tmp_path / "gateway.url").read_text().split()[0]
        with shown("the visual debugging interface (002)"):
            await agent.session("seeds").ask("hello")
            [task] = await agent.inspection.tasks(session_id="seeds")
            async with open_page(f"{url}/console#/tasks/{task.task_id}/steps/1?view=prompt") as page:
                await expect(page.get_by_text("Word for word what the model was asked")).to_be_visible()
                await page.get_by_role("link", name="Memory").click()
                await expect(page.get_by_label("How much is remembered")).to_contain_text("tasks")
