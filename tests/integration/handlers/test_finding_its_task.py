"""Each message of a conversation finds its task, and says why."""

from pathlib import Path
from typing import Any

import pytest
from pydantic_core import from_json

from pentad.shared.actors.headers import pairs
from pentad.shared.actors.session_header import RECENT_TASKS, SessionHeader, answer_field, excerpt, session_header
from pentad.shared.digests.task_digest import MOST_BYTES, digest_of
from pentad.shared.keys import SessionKeys
from pentad.shared.models.ports import ChatRequest
from pentad.shared.store.store import Store
from tests.integration.handlers.flow import SESSION, Flow, answer
from tests.integration.handlers.test_flow import events

CONVERSATION = [
    ("I want to book a flight from Berlin to Lisbon next Friday.", "flight", "Which time suits you for the flight?"),
    ("In the morning, please.", "flight", "There is a flight at 8:15. Shall I book it?"),
    ("Can you also find me a vegetarian restaurant near the opera?", "dinner", "For how many people is the table?"),
    ("For four people.", "dinner", "The Green Fork has a table for four. What time?"),
    ("By the way, write a short poem about autumn leaves.", "poem", "Golden autumn leaves fall down. Do you like it?"),
    ("Make the poem about leaves rhyme.", "poem", "Leaves of gold, autumn is old. Do you like the rhyme?"),
    ("Is the flight from Berlin to Lisbon direct?", "flight", "Yes, the morning flight to Lisbon is direct."),
    ("What does the flight to Lisbon cost?", "flight", "The flight to Lisbon is 120 euros."),
    ("Does the restaurant near the opera have vegetarian desserts?", "dinner", "Yes, the restaurant has desserts."),
    ("Then book the table at the restaurant for eight.", "dinner", "The restaurant table is booked for eight."),
    ("Add a second verse about autumn leaves to the poem.", "poem", "Here is a second verse about autumn leaves."),
    ("Thank you, goodbye.", "poem", "You are welcome!"),
]


async def session_of(store: Store) -> SessionHeader:
    return session_header(pairs(await store.call("HGETALL", SESSION.header)))


def answering(request: ChatRequest) -> Any:
    """What the conversation has as the answer to the last thing said."""
    last = from_json(request.messages[-1])["content"]
    return answer(next((reply for text, _, reply in CONVERSATION if text == last), "done"))


async def routed(store: Store, session: SessionKeys = SESSION) -> list[dict[str, Any]]:
    return [event for event in await events(store, session) if event["type"] == "message_routed"]


async def test_twelve_interleaved_messages_find_their_three_tasks(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, answering).prepare()
    for text, _, _ in CONVERSATION:
        await flow.say(text)
        await flow.drive()
    decisions = await routed(store)
    names = {decisions[n]["task_id"]: CONVERSATION[n][1] for n in (0, 2, 4)}
    found = [names.get(event["task_id"], "another") for event in decisions]
    assert found == [task for _, task, _ in CONVERSATION]
    weighed = [event for event in decisions if event["stage"] == "similarity"]
    assert len(weighed) >= 9
    assert all(event["scores"].keys() == set(event["candidates"]) for event in weighed)
    assert all(0 < event["confidence"] <= 1 and event["reason"] for event in decisions)


async def test_what_a_task_is_compared_by_lies_in_its_session_and_grows_with_what_is_said(
    store: Store, tmp_path: Path
) -> None:
    flow = await Flow(store, tmp_path, answering).prepare()
    await flow.say(CONVERSATION[0][0])
    await flow.drive()
    first = await session_of(store)
    task = (await flow.task()).task
    assert (first.recent, {**first.digests}, {**first.answers}) == ((task,), {}, {task: CONVERSATION[0][2]})
    await flow.say(CONVERSATION[1][0])
    await flow.drive()
    second = await session_of(store)
    digest = digest_of(second.digests[task])
    assert digest is not None
    assert len(digest.known) > len(digest.goal) > 0
    assert {**second.answers} == {task: CONVERSATION[1][2]}


async def test_a_session_remembers_few_tasks_and_little_of_each(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, lambda _: answer("word " * 20_000)).prepare()
    subjects = "flight dinner poem garden taxes car novel holiday recipe bicycle piano kitchen".split()
    for subject in [*subjects, *subjects]:
        await flow.say(f"Hello, I want you to find a {subject} for me, and a better {subject} than the last one.")
        await flow.drive()
    session = await session_of(store)
    assert len(session.recent) <= RECENT_TASKS
    assert {*session.digests, *session.answers} <= {*session.recent}
    size = sum(len(value) for value in await store.call("HGETALL", SESSION.header))
    assert size < RECENT_TASKS * (MOST_BYTES + 1_300)


MOST_HEADER_BYTES = 50_000
"""Ten digests and ten excerpts of answers whose characters have four bytes each."""


async def test_ten_live_tasks_with_long_messages_and_answers_leave_a_header_of_bounded_bytes(
    store: Store, tmp_path: Path
) -> None:
    """As long as a message may be, with ever new words; answers in characters of four bytes."""

    def words(task: int, turn: int) -> str:
        return " ".join(f"word{task}x{turn}x{n}" for n in range(4_000))

    flow = await Flow(store, tmp_path, lambda _: answer("")).prepare()
    flow._served = flow._served[:1]  # nobody works on them: they live, and the test leaves their answers
    for task in range(2 * RECENT_TASKS):
        await flow.say(f"Hello! Please write an essay number {task} on {words(task, 0)}")
        await flow.drive()
    live = (await session_of(store)).recent
    assert len(live) == RECENT_TASKS
    for turn in (1, 2):
        for task, name in enumerate(live):
            await store.call("HSET", SESSION.header, answer_field(name), excerpt("\U00020000" * 60_000))
            await flow.say(words(task, turn), task_id=name)
            await flow.drive()
    for name in live:
        await store.call("HSET", SESSION.header, answer_field(name), excerpt("\U00020000" * 60_000))
    session = await session_of(store)
    assert {*session.digests} == {*session.answers} == {*live}
    size = sum(len(part) for part in await store.call("HGETALL", SESSION.header))
    assert RECENT_TASKS * 1_000 < size < MOST_HEADER_BYTES


@pytest.mark.parametrize("content", ["Cancel that, please.", "算了"])
async def test_cancel_that_cancels_the_live_task_and_begins_none(store: Store, tmp_path: Path, content: str) -> None:
    flow = await Flow(store, tmp_path, lambda _: answer("", ("echo", '{"text":"x"}'))).prepare()
    tools = flow._served.pop(2)
    await flow.say("Find me a flight.")
    await flow.drive()
    await flow.say(content)
    await flow.drive()
    told = await events(store)
    (result,) = [event for event in told if event["type"] == "control_result"]
    assert (result["action"], result["message_id"]) == ("cancel", "u2")
    assert "Find me a flight." in result["content"]
    assert [event["decision"] for event in await routed(store)] == ["new", "control"]
    assert await flow.status() == "cancelled"
    assert (await session_of(store)).recent == ()
    flow._served.append(tools)
    await flow.drive()


async def test_a_task_is_paused_and_resumed_in_words(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, lambda _: answer("found")).prepare()
    runner = flow._served.pop(1)
    await flow.say("Find me a flight.")
    await flow.drive()
    flow._served.insert(1, runner)
    for content in ("pause that", "please continue"):
        await flow.say(content)
        await flow.drive()
    told = await events(store)
    assert [e["action"] for e in told if e["type"] == "control_result"] == ["pause", "resume"]
    statuses = [e["status"] for e in told if e["type"] in ("task_status", "task_end")]
    assert statuses == ["waiting", "active", "completed"]
    assert [event["decision"] for event in await routed(store)] == ["new", "control", "control"]


async def test_how_far_are_you_is_answered_at_once_and_changes_nothing(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, lambda _: answer("", ("echo", '{"text":"x"}'))).prepare()
    tools = flow._served.pop(2)
    await flow.say("Find me a flight.")
    await flow.drive()
    await flow.say("How far are you?")
    await flow.drive()
    (result,) = [event for event in await events(store) if event["type"] == "control_result"]
    assert (result["action"], "waiting for echo" in result["content"]) == ("progress", True)
    assert await flow.status() == "active"
    flow._served.append(tools)
    flow.model.script = lambda _: answer("found")
    await flow.drive()
    assert await flow.status() == "completed"


async def test_a_task_of_a_version_before_is_weighed_by_what_it_began_with(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, answering).prepare()
    await flow.say(CONVERSATION[0][0])
    await flow.drive()
    task = (await flow.task()).task
    await store.call("DEL", SESSION.header)
    await store.call("HSET", SESSION.header, "done", task, "done_at", await store.clock())
    await flow.say(CONVERSATION[6][0])
    await flow.drive()
    assert [event["task_id"] for event in await routed(store)] == [task, task]


async def test_a_digest_that_cannot_be_read_is_as_if_there_were_none(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, answering).prepare()
    for text, _, _ in CONVERSATION[:2]:
        await flow.say(text)
        await flow.drive()
    task = (await flow.task()).task
    await store.call("HSET", SESSION.header, f"digest:{task}", b"\xff damaged", f"answer:{task}", b"\xff\xfe")
    await flow.say(CONVERSATION[6][0])
    await flow.drive()
    assert [event["task_id"] for event in await routed(store)] == [task] * 3


async def test_a_new_task_is_told_that_another_one_is_working_on_what_has_no_answer(
    store: Store, tmp_path: Path
) -> None:
    seen: list[list[str]] = []

    def model(request: ChatRequest) -> Any:
        said = [from_json(raw) for raw in request.messages[1:]]
        seen.append([f"{line['role']}: {line['content']}" for line in said])
        return answer("", ("echo", '{"text":"x"}')) if said[-1]["content"] == CONVERSATION[0][0] else answer("Done.")

    flow = await Flow(store, tmp_path, model).prepare()
    flow._served.pop()  # no tool worker: the first task's call stays open
    await flow.say(CONVERSATION[0][0])
    await flow.drive()
    await flow.say(CONVERSATION[4][0])
    await flow.drive()
    await flow.say("What is new? By the way, please write a letter to the bank.")
    await flow.drive()
    begun = [event["decision"] for event in await routed(store)]
    flight, elsewhere = f"user: {CONVERSATION[0][0]}", "assistant: [Another task has been given this.]"
    poem = f"user: {CONVERSATION[4][0]}"
    assert (begun, seen[:2]) == (["new", "new", "new"], [[flight], [flight, elsewhere, poem]])
    assert seen[2][:-1] == [flight, elsewhere, poem, "assistant: Done."], "an answer stands for itself"


async def test_a_message_that_asks_for_a_new_task_begins_one_each_time(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, answering).prepare()
    for text in (CONVERSATION[0][0], CONVERSATION[1][0], CONVERSATION[1][0]):
        await flow.say(text, task_id="new")
        await flow.drive()
    decisions = await routed(store)
    assert [(each["decision"], each["stage"]) for each in decisions] == [("new", "rule")] * 3
    assert len({each["task_id"] for each in decisions}) == 3
    await flow.say(CONVERSATION[0][0], task_id=decisions[1]["task_id"])
    await flow.drive()
    assert (await routed(store))[3]["task_id"] == decisions[1]["task_id"], "it is a task like any other"
