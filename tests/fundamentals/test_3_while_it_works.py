"""Chapter 3: a task that works can be told more, and can be stopped."""

import pentad
from pentad.contracts.events import MessageEvent, MessageRouted, TaskEnd, ToolProgress, ToolResultEvent
from tests.fundamentals.conftest import Running


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
