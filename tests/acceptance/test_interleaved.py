"""Three tasks live in one session of ``pentad up`` as it is installed: twelve interleaved messages find their tasks.

A tool of each task waits for a file, so that all three are live while people write.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.test_moving import contents
from tests.support.clients.api import Api
from tests.support.clients.line import Event, Line
from tests.support.models.prompts import ill_formed
from tests.support.models.replies import Reply, call, fail, say
from tests.support.processes.stage import PLUGINS, Stage, new_session
from tests.support.processes.up import Up
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance

FLIGHT = "I want to book a flight from Berlin to Lisbon next Friday"
DINNER = "Can you also find me a vegetarian restaurant near the opera"
POEM = "By the way, write a short poem about autumn leaves"
OPENINGS = {"flight": FLIGHT, "dinner": DINNER, "poem": POEM}
PLAIN = [
    ("Is the flight from Berlin to Lisbon direct?", "flight"),
    ("Does the restaurant near the opera have vegetarian desserts?", "dinner"),
    ("What does the flight to Lisbon cost?", "flight"),
    ("Let the poem about the leaves rhyme.", "poem"),
    ("The table at the restaurant near the opera is for four.", "dinner"),
    ("Could the poem have a second verse about autumn leaves?", "poem"),
    ("A flight on Friday morning, to Lisbon.", "flight"),
    ("The vegetarian restaurant should have a garden.", "dinner"),
    ("The leaves of the poem should be golden.", "poem"),
]
"""What words alone find the task of."""
UNCLEAR = [
    ("A seat at the window would be nice.", "flight"),
    ("Four of us are coming.", "dinner"),
    ("Make it a little sadder.", "poem"),
    ("Thursday would do as well.", "flight"),
    ("Somewhere with a terrace, if possible.", "dinner"),
    ("Not longer than eight lines.", "poem"),
    ("Hand luggage is enough.", "flight"),
    ("One of them is allergic to nuts.", "dinner"),
    ("It is for my grandmother.", "poem"),
]
"""What needs somebody who knows the subjects."""


async def routed(line: Line, content: str, **fields: str) -> Event:
    """Say it; returns what was decided."""
    said = await line.say(content, **fields)
    return await line.until("message_routed", lambda e: e["message_id"] == said)


async def three_live(line: Line, folder: Path) -> dict[str, str]:
    """A task for each subject, all at work; returns their ids by subject."""
    tasks = {}
    for subject, opening in OPENINGS.items():
        gate = folder / subject
        event = await routed(line, f"{opening}, then please wait_for_file {gate}")
        assert event["decision"] == "new", event
        tasks[subject] = event["task_id"]
        await wait_until(f"the tool of {subject}", gate.exists)
    assert len(set(tasks.values())) == 3
    return tasks


async def find_their_tasks(line: Line, tasks: dict[str, str], said: Sequence[tuple[str, str]]) -> list[Event]:
    """Say all of it; each goes to its task. Returns the decisions."""
    decisions = [await routed(line, content) for content, _ in said]
    names = {task: subject for subject, task in tasks.items()}
    assert [(e["decision"], names.get(e["task_id"])) for e in decisions] == [("append", subject) for _, subject in said]
    assert all(e["reason"] and 0 < e["confidence"] <= 1 for e in decisions)
    return decisions


async def let_go(line: Line, tasks: dict[str, str], folder: Path) -> None:
    """The tools end, and with them the tasks."""
    for subject in tasks:
        with (folder / subject).open("a") as file:
            file.write("go\n")
    ended = set(tasks.values())
    await wait_until("the tasks to end", lambda: ended <= {e["task_id"] for e in line.answers("task_end")})
    assert {e["status"] for e in line.answers("task_end")} == {"completed"}


async def has_what_was_said(api: Api, tasks: dict[str, str], said: Sequence[tuple[str, str]]) -> None:
    """Each transcript is well-formed, and has the messages of its subject, in order, and no other's."""
    for subject, task in tasks.items():
        kept = await contents(api, task)
        others = {text for text, where in said if where != subject}
        mine = [text for text, where in said if where == subject]
        assert [text for text in kept if text in {*mine, *others}] == mine


async def test_twelve_messages_find_their_three_live_tasks_without_a_model(tmp_path: Path) -> None:
    with Up(tmp_path / "up", {"PENTAD_PLUGINS": PLUGINS}) as up:
        url = await up.ready()
        async with Line(url, new_session()) as line, Api(url) as api:
            tasks = await three_live(line, tmp_path)
            decisions = await find_their_tasks(line, tasks, PLAIN)
            assert {e["stage"] for e in decisions} == {"similarity"}
            wrong = await routed(line, "Thursday at eleven would be better.")
            assert wrong["task_id"] == tasks["poem"], "words cannot know"
            await line.send(type="move", message_id=wrong["message_id"], to=tasks["dinner"])
            moved = await line.until("message_moved")
            assert (moved["from_task_id"], moved["to_task_id"]) == (tasks["poem"], tasks["dinner"])
            await let_go(line, tasks, tmp_path)
            said = [*PLAIN, ("Thursday at eleven would be better.", "dinner")]
            await has_what_was_said(api, tasks, said)
            assert (await api.get(f"/v1/tasks/{tasks['poem']}"))["status"] == "completed"


class Knowing:
    """A model that does each subject's work, and says where a message belongs; ``instead``: what it says first then."""

    def __init__(self, said: Sequence[tuple[str, str]]) -> None:
        self._subjects = dict(said)
        self.instead: list[Reply | Callable[[Reply], Reply]] = []
        self.asked_where: list[dict[str, Any]] = []

    def __call__(self, request: dict[str, Any]) -> Reply:
        messages = request["messages"]
        assert ill_formed(messages) == []
        if messages[1]["content"].startswith('{"tasks":'):
            return self._where(request)
        last = messages[-1]["content"]
        if messages[-1]["role"] == "user" and "wait_for_file" in last:
            return call(("wait_for_file", {"path": last.rpartition(" ")[2]}))
        return say("this is done")

    def _where(self, request: dict[str, Any]) -> Reply:
        self.asked_where.append(request)
        question = json.loads(request["messages"][1]["content"])
        subject = self._subjects.get(question["message"], "")
        about = [t["task"] for t in question["tasks"] if subject and t["began_with"].startswith(OPENINGS[subject])]
        meant = {"task": about[0] if about else "new", "confidence": 0.9, "reason": f"it is about the {subject}"}
        if not self.instead:
            return say(json.dumps(meant))
        instead = self.instead.pop(0)
        return instead if isinstance(instead, Reply) else instead(say(json.dumps(meant)))


async def test_twelve_messages_find_their_three_live_tasks_with_a_model(pentad_up: Stage, tmp_path: Path) -> None:
    model = Knowing(UNCLEAR)
    async with pentad_up.model(model), pentad_up.line() as line, pentad_up.api() as api:
        tasks = await three_live(line, tmp_path)
        prose, cut, elsewhere = say("the flight, I think"), say('{"task":"1","conf'), say('{"task":"nine"}')
        model.asked_where.clear()
        model.instead = [prose, cut, elsewhere]
        decisions = await find_their_tasks(line, tasks, UNCLEAR)
        by_model = [e for e in decisions if e["stage"] == "model"]
        assert len(by_model) >= 6, [(e["stage"], e["reason"]) for e in decisions]
        assert {e["confidence"] for e in by_model} == {0.9}
        assert len(model.asked_where) == len(by_model) + 3, "it was asked again for what could not be used"

        unsure = f"{json.dumps({'task': '2', 'confidence': 0.3, 'reason': 'a guess'})}"
        model.instead = [say(unsure)]
        told = [await routed(line, "Tuesday at noon would be better.")]
        model.instead = [lambda reply: say(reply.text, first_delay=30)]
        told.append(await routed(line, "Or rather a little earlier than that."))
        model.instead = [fail(503)] * 8  # whoever asks again
        told.append(await routed(line, "Otherwise at the weekend."))
        model.instead.clear()
        assert [e["stage"] for e in told] == ["similarity"] * 3, told
        for event, why in zip(told, ("is not sure", "not answered within 5 s", "no model confirms it"), strict=True):
            assert why in event["reason"]

        wrong = told[0]
        to = next(task for task in tasks.values() if task != wrong["task_id"])
        await api.post(f"/v1/tasks/{wrong['task_id']}/move", {"message_id": wrong["message_id"], "to": to})
        await line.until("message_moved")
        await let_go(line, tasks, tmp_path)
        held = {task: await contents(api, task) for task in tasks.values()}
        assert [task for task, kept in held.items() if "Tuesday at noon would be better." in kept] == [to]
        await has_what_was_said(api, tasks, UNCLEAR)
