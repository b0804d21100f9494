"""The request of every step is rebuilt, byte for byte, while its task lives and from its record (manifests)."""

from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic_core import from_json, to_json

from pentad.contracts.commands import WakeUp
from pentad.contracts.instructions import Instruction
from pentad.contracts.records import StepPrompt
from pentad.contracts.streams import ARCHIVE, SESSION_WAKE
from pentad.services.gateway.domain.move import MoveRequest
from pentad.services.gateway.tasks.message_moves import MessageMoves
from pentad.services.gateway.tasks.queries import Queries
from pentad.shared.errors import DamagedError
from pentad.shared.models.ports import ChatRequest, ModelAnswer
from pentad.shared.store.store import Store
from pentad.shared.vectors.edge_vectors import EdgeVectors
from pentad.shared.work.entry import Entry
from tests.integration.handlers.flow import Flow, answer
from tests.support.recalling import recalling
from tests.support.remembering import remember
from tests.unit.segments.transcripts import answered, said

CAREFUL = Instruction(
    name="careful",
    system_prompt="You work on {{goal}} for {{user_id}} since {{started_at}}.",
    output="json",
    output_schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    tool_rounds=1,
    recall=True,
)
FIRST = "what is my cat called?"


class Model:
    """Calls a tool, answers what is no JSON, and then what is: three steps a turn. Keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: dict[str, list[ChatRequest]] = defaultdict(list)
        """By the actor that asked."""

    def __call__(self, request: ChatRequest) -> ModelAnswer:
        self.asked[request.caller].append(request)
        if request.may_call:
            return answer("", ("echo", '{"text":"ü\\u2028"}'))
        last = from_json(request.messages[-1])
        return answer('{"n": 1}' if "cannot be used" in last["content"] else "no number")


@pytest.fixture
async def vectors(tmp_path: Path) -> AsyncIterator[EdgeVectors]:
    made = EdgeVectors(tmp_path / "vectors")
    await remember(made, "default", "task-0-old", [said("my cat is called Ada", by="ada"), answered("Fine.")])
    yield made
    await made.aclose()


def check(prompt: StepPrompt, asked: ChatRequest) -> None:
    """The rebuilt prompt is what the model was asked, each part of it."""
    assert prompt.proved
    assert [to_json(message) for message in prompt.messages] == list(asked.messages)
    assert to_json(prompt.tools) == asked.tools
    assert prompt.tool_choice == (None if asked.may_call else "none")
    assert (prompt.answer_schema and to_json(prompt.answer_schema)) == asked.answer_schema


async def check_all(queries: Queries, model: Model, task: str) -> int:
    """Every step of a task against what was asked; returns how many there were."""
    asked = model.asked[f"default/{task}"]
    for step, request in enumerate(asked, 1):
        prompt = await queries.prompt("default", task, step)
        assert prompt is not None
        assert prompt.step == step
        check(prompt, request)
    assert await queries.prompt("default", task, len(asked) + 1) is None
    return len(asked)


async def test_every_step_of_a_long_task_is_rebuilt_with_its_moves_repairs_and_recalls(
    store: Store, tmp_path: Path, vectors: EdgeVectors
) -> None:
    model = Model()
    flow = await Flow(
        store, tmp_path, model, instructions=[CAREFUL], recall=recalling(store, vectors)
    ).prepare()  # fmt: skip
    queries = Queries(store, flow.records, 1)
    moving = MessageMoves(store, queries)
    await flow.say(FIRST, instruction="careful", user_id="ada")
    await flow.drive()
    task = (await flow.task()).task
    for content in ("and the dog?", "and the bird?", "and the fish?"):
        await flow.say(content, user_id="ada", task_id=task)
        await flow.drive()
    for message in ("u1", "u3"):  # the first one, so that the goal becomes another, and one from the middle
        await moving.move("default", task, MoveRequest(message, "new"))
        await flow.drive()
    await flow.say("and the snake?", user_id="ada", task_id=task)
    await flow.drive()
    others = [name.partition("/")[2] for name in model.asked if name != f"default/{task}"]
    assert await check_all(queries, model, task) == 15, "five turns of three steps"
    assert [await check_all(queries, model, other) for other in others] == [3, 3]
    goals = [
        from_json(request.messages[0])["content"].partition(" for ")[0] for request in model.asked[f"default/{task}"]
    ]
    assert (goals[0], goals[-1]) == (f"You work on {FIRST}", "You work on and the dog?")
    assert any(b"recalled" in line for line in model.asked[f"default/{task}"][0].messages)

    await store.call("HSET", (await flow.task_named(task)).header, "ended_at", 1)
    await flow.archiving.handle(Entry(ARCHIVE.key(0), "1-1", WakeUp(actor=f"default/{task}").to_json()))
    assert not await store.call("EXISTS", (await flow.task_named(task)).header)
    assert await check_all(queries, model, task) == 15, "from the record"


async def test_a_prompt_that_was_tampered_with_is_not_proved_and_one_that_lost_something_is_damage(
    store: Store, tmp_path: Path
) -> None:
    flow = await Flow(store, tmp_path, Model(), instructions=[CAREFUL.model_copy(update={"recall": False})]).prepare()
    await flow.say(FIRST, instruction="careful")
    await flow.drive()
    keys, queries = await flow.task(), Queries(store, flow.records, 1)
    entry = await store.call("LINDEX", keys.log, 0)
    await store.call("LSET", keys.log, 0, entry.replace(b"cat", b"dog"))
    prompt = await queries.prompt("default", keys.task, 2)
    assert prompt is not None
    assert not prompt.proved
    await store.call("LSET", keys.log, 0, entry)
    restored = await queries.prompt("default", keys.task, 2)
    assert restored is not None
    assert restored.proved
    await store.call("LTRIM", keys.log, 0, 1)
    with pytest.raises(DamagedError, match="has lost messages"):
        await queries.prompt("default", keys.task, 3)
    (name,) = [name for name in await store.call("HKEYS", keys.big) if name.startswith(b"instruction:")]
    await store.call("HDEL", keys.big, name)
    with pytest.raises(DamagedError, match="has lost what its steps name as instruction:"):
        await queries.prompt("default", keys.task, 1)


async def test_nobody_else_s_task_and_no_step_that_there_is_not(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, Model()).prepare()
    await flow.say(FIRST)
    await flow.once(SESSION_WAKE)
    task, queries = (await flow.task()).task, Queries(store, flow.records, 1)
    assert await queries.prompt("default", task, 1) is None
    assert await queries.prompt("other", task, 1) is None
    assert await queries.prompt("default", "task-9-none", 1) is None
