"""Chapter 3: a task that works can be told more, can ask, and can be paused and stopped."""

import pentad
from pentad.contracts.events import MessageEvent, MessageRouted, TaskEnd, TaskStatusEvent, ToolProgress, ToolResultEvent
from tests.fundamentals.conftest import Running
from tests.support.waiting import wait_until


async def test_what_you_add_is_seen_by_the_next_step(agent: pentad.Agent, running: Running) -> None:
    added: list[MessageRouted] = []
    answers: list[str] = []
    async for event in agent.send("bake cherry"):
        if isinstance(event, ToolProgress):
            # The cake is in the oven. Meanwhile you have something to add, in the same conversation.
            async for theirs in agent.send("and what is 6*7?"):
                if isinstance(theirs, MessageRouted):
                    added.append(theirs)
                    (running.kitchen / "cherry.open").touch()
        elif isinstance(event, MessageEvent):
            answers.append(event.content)

    # No second task: the message joined the one that works, after the tool's result and word for word.
    assert [event.decision for event in added] == ["append"]
    (task,) = await agent.inspection.tasks(session_id=agent.session_id)
    transcript = await agent.inspection.transcript(task.task_id)
    told = [(message["role"], message["content"]) for message in transcript.messages[2:4]]
    assert told == [("tool", "a fresh cherry cake"), ("user", "and what is 6*7?")]
    # One step told of both, asked for the sum, and the next one answered it.
    assert any("a fresh cherry cake" in answer for answer in answers)
    assert any("6*7 = 42" in answer for answer in answers)


async def test_a_task_can_be_stopped(agent: pentad.Agent) -> None:
    events = []
    async for event in agent.send("bake plum"):
        events.append(event)
        if isinstance(event, ToolProgress):
            assert event.task_id is not None
            await agent.management.cancel_task(event.task_id)

    # The open call gets a result that says so, and the task its one end.
    result = next(event for event in events if isinstance(event, ToolResultEvent))
    assert result.error == "the task was cancelled"
    assert isinstance(events[-1], TaskEnd)
    assert events[-1].status == "cancelled"


async def test_a_stopped_task_takes_nothing_more(agent: pentad.Agent) -> None:
    async for event in agent.send("bake pear"):
        if isinstance(event, ToolProgress):
            assert event.task_id is not None
            await agent.management.cancel_task(event.task_id)
        task_id = event.task_id

    events = [event async for event in agent.send("what is 6*7?", task_id=task_id)]
    assert isinstance(events[0], MessageRouted)
    assert (events[0].decision, events[0].reason) == ("rejected", "the named task was cancelled")


async def test_after_that_the_conversation_goes_on_with_a_new_task(agent: pentad.Agent) -> None:
    async for event in agent.send("bake quince"):
        if isinstance(event, ToolProgress):
            assert event.task_id is not None
            await agent.management.cancel_task(event.task_id)

    # The new task begins with the session's last turns, and they say that the cake is not wanted any more.
    events = [event async for event in agent.send("what is 6*7?")]
    assert isinstance(events[0], MessageRouted)
    assert events[0].decision == "new"
    assert [event.content for event in events if isinstance(event, MessageEvent)] == ["6*7 = 42"]


async def test_a_task_can_ask_you_and_goes_on_with_your_answer(agent: pentad.Agent) -> None:
    # A model decides for itself when to ask. The offline model is told to, as it is told to use any tool: by its name.
    events = [event async for event in agent.send("ask user which city it should be")]
    assert [event.content for event in events if isinstance(event, MessageEvent)] == ["which city it should be"]
    assert isinstance(events[-1], TaskStatusEvent)
    assert (events[-1].status, events[-1].reason) == ("waiting", "question")

    # The next message is the answer: the same task goes on with it.
    answered = [event async for event in agent.send("what is 6*7?")]
    assert answered[-1].task_id == events[-1].task_id
    assert isinstance(answered[-1], TaskEnd)
    assert [event.content for event in answered if isinstance(event, MessageEvent)] == ["6*7 = 42"]


async def test_a_task_can_be_paused_and_goes_on_where_it_was(agent: pentad.Agent, running: Running) -> None:
    task_id = ""
    async for event in agent.send("bake lemon"):
        if isinstance(event, ToolProgress):
            task_id = event.task_id or ""
            await agent.management.pause_task(task_id)
    # The turn ended with the pause. The cake comes out of the oven meanwhile, and waits.
    (task,) = await agent.inspection.tasks(session_id=agent.session_id)
    assert (task.status, *task.waiting_for) == ("waiting", "paused")
    (running.kitchen / "lemon.open").touch()

    # So does what you say: you are told that the task is paused.
    events = [event async for event in agent.send("and what is 6*7?")]
    assert isinstance(events[-1], TaskStatusEvent)
    assert (events[-1].task_id, events[-1].reason) == (task_id, "paused")

    await agent.management.resume_task(task_id)
    await wait_until("its end", lambda: ended(agent, task_id))
    transcript = await agent.inspection.transcript(task_id)
    assert [m["content"] for m in transcript.messages if m["role"] != "assistant"][:3] == [
        "bake lemon",
        "a fresh lemon cake",
        "and what is 6*7?",
    ]


async def ended(agent: pentad.Agent, task_id: str) -> bool:
    """Whether the task has come to its end."""
    return (await agent.inspection.task(task_id)).status == "completed"
