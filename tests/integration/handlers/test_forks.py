"""A fork shares the past of a task up to a step, byte for byte, and leaves that task as it is."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import from_json

from pentad.contracts.commands import ToolCallCommand, WakeUp
from pentad.contracts.instructions import Instruction, agent_tool
from pentad.contracts.streams import ARCHIVE, SESSION_WAKE, TASK_WAKE, TOOL_CALLS
from pentad.services.gateway.domain.move import MoveRequest
from pentad.services.gateway.edge.problems import ProblemError
from pentad.services.gateway.tasks.forks import Forked
from pentad.services.gateway.tasks.message_moves import MessageMoves
from pentad.shared.actors.headers import TaskHeader
from pentad.shared.actors.sessions import load_task
from pentad.shared.keys import SessionKeys, TaskKeys, load
from pentad.shared.models.ports import ChatRequest, ModelAnswer
from pentad.shared.segments.passages import passages_of
from pentad.shared.store.store import Store
from pentad.shared.work.entry import Entry
from tests.integration.handlers.flow import Flow, answer
from tests.integration.handlers.graph_flow import GraphFlow, NodeModel, ask, graph, llm
from tests.support.forking import Forking

NAMES = Instruction(
    name="names",
    system_prompt="You work on {{goal}} in {{session_id}} for {{user_id}} since {{started_at}}.",
    tools=["echo", "ask_user"],
)
LONG = 30


class Counting:
    """A model that calls a tool until it has so many results, and then answers. Keeps what it was asked."""

    def __init__(self, calls: int, *tools: tuple[str, str]) -> None:
        self.calls, self.tools = calls, tools
        self.asked: dict[str, list[list[bytes]]] = defaultdict(list)
        """Messages of the requests, by the task that asked."""

    def __call__(self, request: ChatRequest) -> ModelAnswer:
        self.asked[request.caller.partition("/")[2]].append(list(request.messages))
        results = sum(from_json(line)["role"] == "tool" for line in request.messages)
        if results >= self.calls:
            return answer(f"done after {results}")
        return answer("", *(self.tools or (("echo", f'{{"text":"call {results}"}}'),)))


class World:
    """A flow whose tasks are forked."""

    def __init__(self, flow: Flow, model: Any) -> None:
        self.flow, self.store, self.model = flow, flow.store, model
        book = flow._served[1][2]._model_steps._instructions._book  # type: ignore[attr-defined]
        self.forking = Forking(flow.store, flow.records, flow.settings, book)

    @classmethod
    async def of(cls, store: Store, folder: Path, model: Callable[[ChatRequest], ModelAnswer], **more: Any) -> "World":
        """A world with the instruction ``names``."""
        more.setdefault("instructions", [NAMES])
        return cls(await Flow(store, folder, model, **more).prepare(), model)

    async def begun(self, content: str = "begin", **fields: Any) -> str:
        """Send a message, serve until nothing is left to do, and return the task."""
        await self.flow.say(content, **{"instruction": "names", "user_id": "ada"} | fields)
        await self.flow.drive()
        return (await self.flow.task()).task

    async def fork(self, task: str, step: int, message_id: str = "f1", **fields: Any) -> Forked:
        """Fork, and serve until nothing is left to do."""
        begun = await self.forking.fork(task, step, message_id, **fields)
        await self.flow.drive()
        return begun

    async def header(self, task: str) -> TaskHeader:
        found = await load_task(self.store, TaskKeys(0, "default", task))
        assert found is not None
        return found

    async def transcript(self, task: str) -> list[dict[str, Any]]:
        return await self.forking.queries.transcript("default", task) or []

    async def kept(self, task: str) -> dict[str, Any]:
        """Everything that Redis has of a task."""
        keys = TaskKeys(0, "default", task)
        return {key: await self.store.call("DUMP", key) for key in keys.all()}

    async def archive(self, task: str) -> None:
        """Let the archiver write the task's record, and remove it from Redis."""
        await self.store.call("HSET", TaskKeys(0, "default", task).header, "ended_at", 1)
        await self.flow.archiving.handle(Entry(ARCHIVE.key(0), "1-1", WakeUp(actor=f"default/{task}").to_json()))
        assert not await self.store.call("EXISTS", TaskKeys(0, "default", task).header)

    async def events(self, session: str, kind: str) -> list[dict[str, Any]]:
        found = await self.store.call("XRANGE", SessionKeys(0, "default", session).events, "-", "+")
        told = [from_json(fields[1]) for _, fields in found]
        return [event for event in told if event["type"] == kind]

    async def check_prompts(self, task: str, step: int, source: str) -> None:
        """Every step of a fork is proved, and those that it shares are those of its source."""
        for number in range(1, (await self.header(task)).step + 1):
            prompt = await self.forking.queries.prompt("default", task, number)
            assert prompt is not None
            assert prompt.proved, number
            if number <= step:
                other = await self.forking.queries.prompt("default", source, number)
                assert other is not None
                assert (prompt.messages, prompt.digest) == (other.messages, other.digest)

    async def refused(self, task: str, step: int, **fields: Any) -> str:
        with pytest.raises(ProblemError) as refused:
            await self.fork(task, step, **fields)
        return f"{refused.value.status} {refused.value.detail}"


async def test_a_fork_at_each_step_of_a_long_task_has_its_prompts_byte_for_byte_and_leaves_it_untouched(
    store: Store, tmp_path: Path
) -> None:
    model = Counting(LONG - 1)
    world = await World.of(store, tmp_path, model, pentad_step_limit=LONG)
    task = await world.begun()
    asked = list(model.asked[task])
    assert len(asked) == LONG
    before = await world.kept(task)
    for step in range(LONG):
        begun = await world.fork(task, step, f"f{step}", content=f"changed {step}")
        assert (await world.header(begun.task_id)).status == "completed"
        first = model.asked[begun.task_id][0]
        assert first[:-1] == asked[step], "the prompt of the next step"
        assert from_json(first[-1]) == {"role": "user", "content": f"changed {step}"}
        await world.check_prompts(begun.task_id, step, task)
    assert await world.kept(task) == before
    assert model.asked[task] == asked, "nothing of it was asked again"
    assert await store.call("HGETALL", load(0)) == [b"mail", b"0"], "no message is counted as waiting"


async def test_a_fork_without_a_message_goes_on_by_itself_as_the_task_did(store: Store, tmp_path: Path) -> None:
    model = Counting(3)
    world = await World.of(store, tmp_path, model)
    task = await world.begun()
    begun = await world.fork(task, 2)
    assert model.asked[begun.task_id][0] == model.asked[task][2]
    header = await world.header(begun.task_id)
    assert (header.status, header.step, header.input_tokens) == ("completed", 4, 2 * 5), "only its own steps cost"
    (start,) = await world.events(begun.session_id, "task_start")
    assert start["forked_from"] == {"task_id": task, "step": 2}
    assert (start["correlation_id"], start["goal"]) == ("f1", "begin")
    (end,) = await world.events(begun.session_id, "task_end")
    assert end["status"] == "completed"
    shown = await world.forking.queries.task("default", begun.task_id)
    assert shown is not None
    assert shown.forked_from is not None
    assert (shown.forked_from.task_id, shown.forked_from.step, shown.forked_from.session_id) == (task, 2, "s1")
    listed = await world.forking.queries.sessions("default", 10, None)
    assert begun.session_id in [each["session_id"] for each in listed.items]


async def test_a_fork_of_a_fork_and_of_an_archived_task_share_the_same_past(store: Store, tmp_path: Path) -> None:
    model = Counting(4)
    world = await World.of(store, tmp_path, model)
    task = await world.begun()
    await world.archive(task)
    first = await world.fork(task, 3, content="one")
    second = await world.fork(first.task_id, 2, content="two")
    assert model.asked[first.task_id][0][:-1] == model.asked[task][3]
    assert model.asked[second.task_id][0][:-1] == model.asked[task][2], "its prompts name the first task's session, too"
    await world.archive(first.task_id)
    third = await world.fork(first.task_id, 4, "f3", content="three")
    assert model.asked[third.task_id][0][:-1] == model.asked[first.task_id][1]
    for fork, step in ((second, 2), (third, 4)):
        await world.check_prompts(fork.task_id, step, first.task_id)


async def test_the_message_after_a_fork_belongs_to_the_fork(store: Store, tmp_path: Path) -> None:
    model = Counting(1)
    world = await World.of(store, tmp_path, model)
    begun = await world.fork(await world.begun(), 1, content="again")
    await world.flow.say("and then", SessionKeys(0, "default", begun.session_id), user_id="ada")
    await world.flow.drive()
    assert [m["content"] for m in (await world.transcript(begun.task_id)) if m["role"] == "user"][-1] == "and then"


async def test_a_fork_is_made_once_for_its_id_and_another_under_its_id_is_refused(store: Store, tmp_path: Path) -> None:
    model = Counting(2)
    world = await World.of(store, tmp_path, model)
    task = await world.begun()
    begun = [await world.fork(task, 1, content="x") for _ in range(2)]
    assert begun[0] == begun[1]
    assert "another fork" in await world.refused(task, 1, content="y")
    assert "another fork" in await world.refused(task, 2, content="x")
    await world.archive(begun[0].task_id)
    assert (await world.fork(task, 1, content="x")).task_id == begun[0].task_id
    assert len(await store.call("ZRANGE", "pentad:{0}:tasks:default", 0, -1)) == 2
    assert (await world.fork(task, 1, "f2", content="x")).task_id != begun[0].task_id


async def test_other_instructions_and_models_count_from_the_fork_on(store: Store, tmp_path: Path) -> None:
    other = Instruction(name="other", system_prompt="You are other.", tools=["echo"])
    model = Counting(2)
    world = await World.of(store, tmp_path, model, instructions=[NAMES, other])
    task = await world.begun()
    begun = await world.fork(task, 1, content="x", instruction="other")
    system = [from_json(asked[0])["content"] for asked in model.asked[begun.task_id]]
    assert all(text.startswith("You are other.") for text in system)
    assert [from_json(a) for a in model.asked[begun.task_id][0][1:-1]] == [
        from_json(a) for a in model.asked[task][1][1:]
    ]
    await world.check_prompts(begun.task_id, 1, task)
    faster = await world.forking.fork(task, 1, "f2", model="fast")
    keys = TaskKeys(0, "default", faster.task_id)
    version = (await world.header(faster.task_id)).instruction_version
    kept = Instruction.model_validate_json(await store.call("HGET", keys.big, f"instruction:{version}"))
    assert kept == NAMES.model_copy(update={"model": "fast"})
    assert "404" in await world.refused(task, 1, message_id="f3", model="nope")
    assert "404" in await world.refused(task, 1, message_id="f3", instruction="nope")


async def test_results_that_had_come_are_shared_and_calls_without_one_are_given_up(
    store: Store, tmp_path: Path
) -> None:
    two = [("echo", '{"text":"first"}'), ("echo", '{"text":"second"}')]
    model = Counting(2, *two)
    world = await World.of(store, tmp_path, model)
    await world.flow.say("begin", instruction="names", user_id="ada")
    for only in (SESSION_WAKE, TASK_WAKE):
        await world.flow.once(only)
    key = TOOL_CALLS.key(0, queue="default")
    reply = await store.call("XREADGROUP", "GROUP", TOOL_CALLS.group or "", "flow", "COUNT", 1, "STREAMS", key, ">")
    ((entry_id, fields),) = reply[0][1]
    await world.flow._served[2][2].handle(Entry(key, entry_id.decode(), fields[1]))  # one of both has run
    task = (await world.flow.task()).task
    assert len((await world.header(task)).open) == 2
    before = await world.kept(task)
    begun = await world.forking.fork(task, 1, content="hurry")
    assert await world.kept(task) == before, "it goes on waiting"
    assert [each.tool_call_id for each in begun.effects] == [(await world.header(task)).open[1].id], "it may run"
    await world.flow.drive()
    said = [from_json(line) for line in model.asked[begun.task_id][0]][-3:]
    assert [m["role"] for m in said] == ["tool", "tool", "user"]
    assert (said[0]["content"], said[2]["content"]) == ("first", "hurry")
    assert said[1]["content"].startswith("error: given up: this task was forked from")
    assert [m["content"] for m in (await world.transcript(task)) if m["role"] == "tool"] == ["first", "second"]


async def test_a_fork_of_a_task_that_waits_for_an_answer_takes_its_message_as_the_answer(
    store: Store, tmp_path: Path
) -> None:
    model = Counting(1, ("ask_user", '{"question":"which?"}'))
    world = await World.of(store, tmp_path, model)
    task = await world.begun()
    assert (await world.header(task)).waits
    begun = await world.fork(task, 1, content="the red one")
    said = [from_json(line) for line in model.asked[begun.task_id][0]][-2:]
    assert (said[0]["content"], said[1]["content"]) == ("The user's answer follows.", "the red one")
    assert (await world.header(task)).waits, "the other still waits"
    alone = await world.fork(task, 1, "f2")
    assert "given up" in from_json(model.asked[alone.task_id][0][-1])["content"]


async def test_a_fork_has_moves_and_exclusions_of_its_past_and_none_that_came_later(
    store: Store, tmp_path: Path
) -> None:
    model = Counting(0)
    world = await World.of(store, tmp_path, model)
    task = await world.begun()
    for content in ("two", "three"):
        await world.flow.say(content, task_id=task, user_id="ada")
        await world.flow.drive()
    moving = MessageMoves(store, world.forking.queries)
    await moving.move("default", task, MoveRequest("u1", "new"))
    await world.flow.drive()
    await world.flow.say("four", task_id=task, user_id="ada")
    await world.flow.drive()
    early = await world.fork(task, 2, content="x")
    late = await world.fork(task, 4, "f2", content="x")
    assert model.asked[early.task_id][0][:-1] == model.asked[task][2], "with the message that was moved away later"
    assert model.asked[late.task_id][0][:-2] == model.asked[task][3]
    await world.check_prompts(early.task_id, 2, task)
    await world.check_prompts(late.task_id, 4, task)
    with pytest.raises(ProblemError, match="no message"):
        await moving.move("default", late.task_id, MoveRequest("u2", "new"))


async def test_what_a_fork_shares_is_not_remembered_again(store: Store, tmp_path: Path) -> None:
    world = await World.of(store, tmp_path, Counting(1))
    task = await world.begun("my cat is called Ada")
    begun = await world.fork(task, 1, content="my dog is called Bo")
    assert next(each.text for each in passages_of(await world.transcript(task))) == "my cat is called Ada"
    assert [each.text for each in passages_of(await world.transcript(begun.task_id))] == [
        "my dog is called Bo", "done after 1"
    ]  # fmt: skip


async def test_tools_of_a_fork_see_the_memory_as_of_its_step(store: Store, tmp_path: Path) -> None:
    world = await World.of(store, tmp_path, Counting(2))
    task = await world.begun()
    begun = await world.fork(task, 1)
    shown = (await world.forking.queries.step_records(TaskKeys(0, "default", task), 0, 1))[0]
    calls = [
        ToolCallCommand.model_validate_json(fields[1])
        for _, fields in await store.call("XRANGE", TOOL_CALLS.key(0, queue="default"), "-", "+")
    ]
    seen = {call.task_id: call.as_of for call in calls}
    assert seen == {task: None, begun.task_id: shown.at}


async def test_effects_after_the_fork_are_told_and_not_repeated(store: Store, tmp_path: Path) -> None:
    model = Counting(2, ("note", '{"text":"x"}'))
    world = await World.of(store, tmp_path, model)
    task = await world.begun()
    made = [call["id"] for m in await world.transcript(task) for call in m.get("tool_calls") or ()]
    begun = await world.forking.fork(task, 1, content="stop here")
    assert [(each.tool_call_id, each.tool, each.effect) for each in begun.effects] == [(made[1], "note", "unsafe")]
    assert (await world.forking.fork(task, 2, "f2", content="stop")).effects == []


async def test_what_cannot_be_forked_says_why_and_what_to_do(store: Store, tmp_path: Path) -> None:
    world = await World.of(store, tmp_path, Counting(1))
    task = await world.begun()
    assert await world.refused(task, 2) == (
        f"409 step 2 of task {task} has answered: give `content` to go on from there, or name the step before to have "
        "it answered again"
    )
    assert await world.refused(task, 3) == f"409 task {task} has no step 3: it has made 2"
    assert "404" in await world.refused("task-0-nope", 1)
    assert "404" in await world.refused("task-9-nope", 1)
    await world.flow.say("not yet", SessionKeys(0, "default", "s2"), instruction="names")
    await world.flow.once(SESSION_WAKE)
    names = [name.decode() for name in await store.call("ZRANGE", "pentad:{0}:tasks:default", 0, -1)]
    (fresh,) = [name for name in names if name != task]
    assert "has made none yet" in await world.refused(fresh, 0)


async def test_a_fork_of_a_graph_goes_on_at_the_node_to_which_the_run_had_come(store: Store, tmp_path: Path) -> None:
    nodes = [llm("one"), llm("two"), llm("three")]
    shape = graph("line", nodes, ("one", "two", {"when": "it is good"}), ("one", "three"), ("two", "three"))
    model = NodeModel(judge='{"holds": [true]}')
    flow = await GraphFlow.of(store, tmp_path, model, shape)
    world = World(flow, model)
    await flow.run("line")
    root = await flow.root()
    assert root.status == "completed", root.detail
    assert model.asked == ["one", "judge", "two", "three"]
    for step, rest in ((0, ["one", "judge", "two", "three"]), (1, ["judge", "two", "three"]), (2, ["two", "three"])):
        asked = len(model.asked)
        begun = await world.fork(root.task_id, step, f"f{step}")
        assert model.asked[asked:] == rest
        assert model.requests[asked] == model.requests[step], "the same prompt"
        header = await world.header(begun.task_id)
        assert (header.status, header.detail) == ("completed", "")
        await world.check_prompts(begun.task_id, step, root.task_id)
    assert "names one" not in await world.refused(root.task_id, 1, message_id="f9", model="fast")
    assert "graph" in await world.refused(root.task_id, 1, message_id="f9", instruction="executor")


async def test_a_fork_of_a_graph_has_the_results_of_its_branches_and_begins_those_anew_that_were_under_way(
    store: Store, tmp_path: Path
) -> None:
    branches = {"key": "both", "kind": "parallel", "branches": ["left", "right"], "join": "all"}
    nodes = [llm("first"), branches, llm("left"), ask("right", "who?"), llm("end")]
    shape = graph("wide", nodes, ("first", "both"), ("both", "end"))
    model = NodeModel()
    flow = await GraphFlow.of(store, tmp_path, model, shape)
    world = World(flow, model)
    await flow.run("wide")
    root, children = await flow.root(), await flow.children()
    assert sorted(child.status for child in children) == ["completed", "waiting"]
    asked = model.asked.count("left")
    begun = await world.fork(root.task_id, 1)
    header = await world.header(begun.task_id)
    assert [call.target for call in header.open] == ["branch"]
    assert model.asked.count("left") == asked, "its result was there"
    parents = [child.parent for child in await flow.children()]
    assert sorted(parents) == sorted([root.task_id] * 2 + [begun.task_id]), "the one that asks was begun anew"


async def test_a_fork_has_the_results_of_agents_and_not_their_tasks(store: Store, tmp_path: Path) -> None:
    chief = Instruction(name="chief", system_prompt="You are chief.", tools=[agent_tool("helper")])
    helper = Instruction(name="helper", system_prompt="You are helper.", tools=[], description="Helps.")

    def says(request: ChatRequest) -> ModelAnswer:
        last = from_json(request.messages[-1])
        return (
            answer(f"so {last['content']}") if last["role"] == "tool" else answer("", ("agent_helper", '{"task":"x"}'))
        )

    model = NodeModel(chief=says, helper="found")
    flow = GraphFlow(store, tmp_path, model, instructions=[chief, helper])
    await flow.prepare()
    world = World(flow, model)
    await flow.run("chief")
    root = await flow.root()
    begun = await world.fork(root.task_id, 1)
    assert model.asked == ["chief", "helper", "chief", "chief"]
    assert [m["content"] for m in await world.transcript(begun.task_id) if m["role"] == "assistant"][-1] == "so found"


async def test_a_fork_whose_source_was_erased_meanwhile_is_erased_again(store: Store, tmp_path: Path) -> None:
    world = await World.of(store, tmp_path, Counting(1))
    task = await world.begun()
    await store.call("HSET", TaskKeys(0, "default", task).erased, "at", 1)
    assert (await world.refused(task, 1)).startswith("404")
    (gone,) = world.forking.erased
    assert gone.startswith("default/task-0-")


async def test_two_tasks_are_compared_step_by_step_up_to_where_they_part(store: Store, tmp_path: Path) -> None:
    model = Counting(3)
    world = await World.of(store, tmp_path, model)
    task = await world.begun()
    model.tools = (("echo", '{"text":"other"}'),)
    begun = await world.fork(task, 2)
    found = await world.forking.comparisons.compare("default", task, begun.task_id)
    assert (found.same_steps, found.parts_at, found.differs) == (2, 3, ["calls"])
    assert [(each.same_prompt, each.same_answer) for each in found.steps] == [
        (True, True), (True, True), (True, False), (False, True)
    ]  # fmt: skip
    assert (found.usage_a.input_tokens, found.usage_b.input_tokens) == (10, 10)
    longer = await world.fork(task, 4, "f2", content="more")
    found = await world.forking.comparisons.compare("default", task, longer.task_id)
    assert (found.same_steps, found.parts_at, found.differs) == (4, 5, ["missing"])
    same = await world.forking.comparisons.compare("default", task, task)
    assert (same.same_steps, same.parts_at, same.more) == (4, None, None)
    with pytest.raises(ProblemError, match="no task"):
        await world.forking.comparisons.compare("default", task, "task-0-nope")
