"""Hooks of a plug-in, in real child processes of a tool-worker, on the steps of tasks, nodes, sub-graphs and agents."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import from_json

from pentad.contracts.approvals import ApprovalRule
from pentad.contracts.hooks import HookCommand, HookFacts, HookSpec, StepHooks
from pentad.contracts.instructions import Instruction
from pentad.contracts.streams import DEAD, HOOKS, HOOKS_REPLY
from pentad.services.gateway.tasks.queries import Queries
from pentad.services.tool_worker.app import ToolWorker
from pentad.shared.actors.headers import pairs
from pentad.shared.actors.transcript import shown
from pentad.shared.models.ports import ChatRequest, ModelAnswer
from pentad.shared.presence import published
from pentad.shared.settings import Settings
from pentad.shared.store.store import Store
from tests.integration.handlers.flow import SESSION, Flow, answer
from tests.integration.handlers.graph_flow import graph, llm, tool
from tests.support.waiting import wait_until

PLUGIN = "tests.support.plugins.hooking"
ENDED = ("completed", "failed", "cancelled")


class Model:
    """Calls `echo` with each text that it is told, then answers; keeps what it was asked."""

    def __init__(self, *texts: str, says: str = "done") -> None:
        self.texts, self.says = list(texts), says
        self.asked: list[list[dict[str, Any]]] = []

    def __call__(self, request: ChatRequest) -> ModelAnswer:
        self.asked.append([from_json(line) for line in request.messages])
        if self.texts:
            return answer("", ("echo", f'{{"text":"{self.texts.pop(0)}"}}'))
        return answer(self.says)


class Hooked:
    """A flow beside a tool-worker that has the hooks."""

    def __init__(self, flow: Flow, folder: Path) -> None:
        self.flow, self.folder = flow, folder

    def behave(self, **how: str) -> None:
        """Have hooks behave so from now on."""
        for name, what in how.items():
            (self.folder / name).write_text(what)

    def told(self) -> list[str]:
        path = self.folder / "told"
        return path.read_text().splitlines() if path.exists() else []

    async def say(self, text: str, **fields: Any) -> None:
        await self.flow.hooks.catalog.read()
        await self.flow.say(text, **fields)

    async def ended(self) -> str:
        """Serve until the first task has ended; return its status."""

        async def over() -> bool:
            await self.flow.drive()
            return (await self.header())["status"] in ENDED

        await wait_until("the end of the task", over, 40)
        return (await self.header())["status"]

    async def header(self) -> dict[str, str]:
        names = await self.flow.store.call("ZRANGE", "pentad:{0}:tasks:default", 0, -1)
        for name in names:
            keys = await self.flow.task_named(name.decode())
            raw = pairs(await self.flow.store.call("HGETALL", keys.header))
            header = {field: value.decode() for field, value in raw.items()}
            if not header.get("parent"):
                return header | {"task": name.decode()}
        return {"status": ""}

    async def events(self, kind: str) -> list[dict[str, Any]]:
        entries = await self.flow.store.call("XRANGE", SESSION.events, "-", "+")
        events = [from_json(fields[fields.index(b"data") + 1]) for _, fields in entries]
        return [event for event in events if event["type"] == kind]

    async def hooks_of(self, step: int) -> StepHooks | None:
        keys = await self.flow.task_named((await self.header())["task"])
        record = from_json(await self.flow.store.call("LINDEX", keys.steps, step - 1))
        kept = record["manifest"].get("hooks")
        return StepHooks.model_validate(kept) if kept is not None else None

    async def transcript(self) -> list[dict[str, Any]]:
        keys = await self.flow.task_named((await self.header())["task"])
        return [shown(line) for line in await self.flow.store.call("LRANGE", keys.log, 0, -1)]


@pytest.fixture
async def worker(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ToolWorker]:
    monkeypatch.setenv("HOOKING", str(tmp_path))
    settings = Settings(redis_url=store.url, pentad_plugins=(PLUGIN,), pentad_tool_env=("HOOKING",))
    made = ToolWorker(settings)
    await made.start()
    yield made
    await made.stop()


Make = Callable[..., Awaitable[Hooked]]


@pytest.fixture
async def make(store: Store, tmp_path: Path) -> AsyncIterator[Make]:
    made: list[Hooked] = []

    async def one(model: Any, **more: Any) -> Hooked:
        made.append(Hooked(await Flow(store, tmp_path, model, **more).prepare(), tmp_path))
        return made[-1]

    yield one
    for each in made:
        await each.flow.hooks.aclose()


async def test_the_model_is_sent_what_hooks_make_of_the_prompt_and_that_prompt_is_rebuilt_to_the_byte(
    store: Store, worker: ToolWorker, make: Make
) -> None:
    model = Model("one")
    run = await make(model)
    run.behave(before_model="mark")
    await run.say("hello")
    assert await run.ended() == "completed"
    queries = Queries(store, run.flow.records, 1)
    task = (await run.header())["task"]
    for step, sent in enumerate(model.asked, 1):
        assert sent[0]["content"].endswith(" Be brief.")
        assert sent[1] == {"role": "system", "content": "noted"}
        rebuilt = await queries.prompt("default", task, step)
        assert rebuilt is not None
        assert rebuilt.proved
        assert rebuilt.messages == sent
        kept = await run.hooks_of(step)
        assert kept is not None
        assert kept.prompt is not None
        assert kept.prompt.hooks == [f"{PLUGIN}.mark"]
        assert sum(len(each.messages) for each in kept.prompt.splices[0]) == 2, "the changed lines, not the prompt"


async def test_an_answer_is_kept_and_told_as_hooks_make_it(worker: ToolWorker, make: Make) -> None:
    run = await make(Model(says="a bad answer"))
    await run.say("hello")
    assert await run.ended() == "completed"
    (message,) = await run.events("message")
    assert message["content"] == "a good answer"
    assert (await run.transcript())[-1]["content"] == "a good answer"
    kept = await run.hooks_of(1)
    assert kept is not None
    (value,) = kept.values
    assert value.kind == "after_model"
    assert value.original == '{"text":"a bad answer","calls":[]}'
    assert value.before != value.after


async def test_a_refused_call_is_not_made_outranks_later_hooks_and_the_model_is_told(
    worker: ToolWorker, make: Make
) -> None:
    model = Model("forbidden")
    run = await make(model)
    await run.say("hello")
    assert await run.ended() == "completed"
    refused = f"echo: refused by hook {PLUGIN}.guard: that is forbidden"
    (result,) = await run.events("tool_result")
    assert result["error"] == refused
    assert model.asked[1][-1]["content"] == f"error: {refused}"
    assert not [line for line in run.told() if line.startswith("later")]


async def test_arguments_that_a_hook_changes_are_those_of_the_call(worker: ToolWorker, make: Make) -> None:
    run = await make(Model("change me"))
    await run.say("hello")
    assert await run.ended() == "completed"
    (call,) = await run.events("tool_call")
    assert call["args"] == {"text": "changed"}
    assert "later changed" in run.told(), "the next hook sees what the one before has made"
    kept = await run.hooks_of(1)
    assert kept is not None
    assert [(value.kind, value.subject) for value in kept.values] == [("before_tool", "echo")]


async def test_a_hooks_refusal_outranks_an_approval_and_asks_nobody(worker: ToolWorker, make: Make) -> None:
    run = await make(Model("forbidden"), pentad_approve="all")
    await run.say("hello")
    assert await run.ended() == "completed"
    assert await run.events("approval_request") == []


async def test_who_is_asked_for_an_approval_sees_the_arguments_that_hooks_have_left(
    worker: ToolWorker, make: Make
) -> None:
    run = await make(Model("change me"), pentad_approve="all")
    await run.say("hello")

    async def asked() -> bool:
        await run.flow.drive()
        return bool(await run.events("approval_request"))

    await wait_until("the request", asked, 40)
    (asks,) = await run.events("approval_request")
    assert asks["args"] == {"text": "changed"}


@pytest.mark.parametrize("denied", ["change me", "changed"])
async def test_a_deny_holds_for_what_the_model_asks_and_for_what_hooks_make_of_it(
    worker: ToolWorker, make: Make, denied: str
) -> None:
    rule = {"name": "no", "args": {"text": {"equals": denied}}, "then": "deny"}
    run = await make(Model("change me"), policies=[ApprovalRule.model_validate(rule)])
    await run.say("hello")
    assert await run.ended() == "completed"
    (result,) = await run.events("tool_result")
    assert result["error"] == "echo: this call is not allowed here: the policy no denies it"


async def test_a_result_is_what_hooks_make_of_it_and_what_it_was_is_kept_nowhere_in_the_task(
    worker: ToolWorker, make: Make
) -> None:
    model = Model("the secret")
    run = await make(model)
    await run.say("hello")
    assert await run.ended() == "completed"
    assert model.asked[1][-1]["content"] == "the ******"
    kept = await run.hooks_of(2)
    assert kept is not None
    (value,) = kept.values
    assert (value.kind, value.original) == ("after_tool", None)


@pytest.mark.parametrize("how", ["raise", "hang", "die", "megabytes", "nonsense"])
async def test_a_hook_that_misbehaves_fails_its_step_with_a_reason_and_its_neighbours_go_on(
    worker: ToolWorker, tmp_path: Path, how: str, make: Make
) -> None:
    run = await make(Model("one"))
    run.behave(before_model=how)
    await run.say("hello")
    assert await run.ended() == "failed"
    (error,) = await run.events("error")
    assert error["code"] == "hook_error"
    assert f"hook '{PLUGIN}.mark'" in error["message"]
    (tmp_path / "before_model").unlink()
    await run.say("again", session=SESSION)
    header = await run.header()
    assert header["reason"] == "hook_error"

    async def answered() -> bool:
        await run.flow.drive()
        return any(end["status"] == "completed" for end in await run.events("task_end"))

    await wait_until("the next turn, with the same hooks", answered, 40)


async def test_a_result_whose_hook_fails_never_reaches_a_model_or_the_transcript(
    worker: ToolWorker, make: Make
) -> None:
    model = Model("the secret")
    run = await make(model)
    run.behave(after_tool="raise")
    await run.say("hello")
    assert await run.ended() == "failed"
    assert len(model.asked) == 1
    assert [line["content"] for line in await run.transcript() if line["role"] == "tool"] == [
        f"error: this result is withheld: hook '{PLUGIN}.redact' failed: RuntimeError: on purpose"
    ]


async def test_a_failing_hook_keeps_the_cost_of_the_answer(worker: ToolWorker, make: Make) -> None:
    run = await make(Model())
    run.behave(after_model="raise")
    await run.say("hello")
    assert await run.ended() == "failed"
    assert (await run.header())["input_tokens"] == "5"


async def test_a_refusal_holds_in_a_sub_graph_of_a_sub_graph_in_its_tool_node_and_its_models_calls(
    worker: ToolWorker, make: Make
) -> None:
    inner = graph(
        "inner",
        [tool("run", "echo", {"text": "forbidden"}, on_error="say"), llm("say", tools=["echo"])],
        ("run", "say"),
    )
    middle = graph("middle", [{"key": "in", "kind": "graph", "graph": "inner"}])
    outer = graph("outer", [{"key": "in", "kind": "graph", "graph": "middle"}])
    model = Model("forbidden")
    run = await make(model, graphs=[inner, middle, outer])
    await run.say("hello", instruction="outer")
    assert await run.ended() == "completed"
    results = [event["error"] for event in await run.events("tool_result") if event.get("tool") == "echo"]
    assert len(results) == 2
    assert all("refused by hook" in error for error in results), results


async def test_a_failing_hook_is_the_failure_of_a_graphs_node_which_its_graph_may_handle(
    worker: ToolWorker, make: Make
) -> None:
    made = graph("g", [llm("a", on_error="b"), tool("b", "echo", {"text": "fine"})], ("a", "b"))
    run = await make(Model(), graphs=[made])
    run.behave(before_model="raise")
    await run.say("hello", instruction="g")
    assert await run.ended() == "completed"
    (end,) = [event for event in await run.events("node_end") if event["node"] == "a"]
    assert "on purpose" in end["error"]


async def test_the_beginning_and_the_end_of_a_task_are_told(worker: ToolWorker, make: Make) -> None:
    run = await make(Model("one"))
    await run.say("hello")
    assert await run.ended() == "completed"
    assert [line for line in run.told() if line.startswith("task_start")] == ["task_start default hello"]
    await wait_until("the end is told", lambda: "task_end completed answered done" in run.told())


async def test_a_hook_without_a_living_worker_fails_the_step_and_is_never_skipped(
    store: Store, monkeypatch: pytest.MonkeyPatch, make: Make
) -> None:
    spec = HookSpec(name="gone.guard", kind="before_model")
    await published.HOOKS.publish(store, [spec])
    monkeypatch.setattr(published, "SILENT_MS", -1)
    model = Model()
    run = await make(model)
    await run.say("hello")
    assert await run.ended() == "failed"
    (error,) = await run.events("error")
    assert "no tool-worker has hook 'gone.guard' any more" in error["message"]
    assert model.asked == []


async def test_a_hook_of_other_instructions_does_not_concern_a_task(store: Store, make: Make) -> None:
    spec = HookSpec(name="gone.guard", kind="before_model", instructions=("other",))
    await published.HOOKS.publish(store, [spec])
    run = await make(Model(), instructions=[Instruction(name="other", system_prompt="You wait.")])
    await run.say("hello")
    assert await run.ended() == "completed"


async def test_a_request_that_nobody_may_make_is_set_aside(store: Store, worker: ToolWorker) -> None:
    facts = HookFacts(tenant_id="default")
    given: dict[str, Any] = {"request_id": "ab", "at": "2026-01-01T00:00:00.000Z", "wait_ms": 1, "kind": "before_tool"}
    foreign = HookCommand(hook="m.f", tenant_id="default", facts=facts, subject="{}", reply_to="pentad:dead", **given)
    for data in (foreign.to_json(), b"no JSON", b"x" * (9 << 20)):
        await store.call("XADD", HOOKS.key(0), "*", "data", data)

    async def set_aside() -> bool:
        return bool(await store.call("XLEN", DEAD.key(0)) == 3)

    await wait_until("three dead letters", set_aside)
    assert not await store.call("KEYS", HOOKS_REPLY.key(0, reply="*"))


async def test_without_hooks_a_step_sends_redis_nothing_for_them(
    store: Store, monkeypatch: pytest.MonkeyPatch, make: Make
) -> None:
    sent: list[str] = []
    real = Store.call

    async def counted(self: Store, *command: Any, **more: Any) -> Any:
        sent.append(" ".join(str(part) for part in command[:2]))
        return await real(self, *command, **more)

    monkeypatch.setattr(Store, "call", counted)
    run = await make(Model("one"))
    await run.flow.say("hello")
    await run.flow.drive()
    assert await run.flow.status() == "completed"
    assert sent
    assert not [command for command in sent if "hooks" in command]
    assert not await store.call("EXISTS", HOOKS.key(0))
