"""Chapter 1: you say something, and follow the events to the end of the turn."""

import httpx2

import pentad
from pentad.contracts.events import MessageEvent, TaskEnd, ToolCallEvent, ToolResultEvent
from tests.fundamentals.conftest import Running
from tests.support.redis.raw_redis import events_of, publish
from tests.support.waiting import wait_until


async def test_a_message_becomes_an_answer(agent: pentad.Agent) -> None:
    events = [event async for event in agent.send("what is (15+27)*3-42/6?")]

    # The router said which task takes the message; the task started, asked for a tool, answered, and ended.
    durable = [event.type for event in events if event.type not in ("content", "thinking")]
    assert durable == ["message_routed", "task_start", "tool_call", "tool_result", "message", "task_end"]

    # The answer streams as it is written, in `content` deltas; `message` is the whole of it, once.
    answer = next(event for event in events if isinstance(event, MessageEvent))
    assert answer.content == "(15+27)*3-42/6 = 119"
    assert "".join(event.content for event in events if event.type == "content") == answer.content


async def test_the_sum_was_done_by_a_tool(agent: pentad.Agent) -> None:
    events = [event async for event in agent.send("what is 6*7?")]

    # Models are bad at sums. A call and its result are joined by an id of ours.
    call = next(event for event in events if isinstance(event, ToolCallEvent))
    result = next(event for event in events if isinstance(event, ToolResultEvent))
    assert (call.tool, call.args) == ("calculator", {"expression": "6*7"})
    assert (result.tool_call_id, result.result) == (call.tool_call_id, "42")


async def test_a_follow_up_goes_on_where_you_were(agent: pentad.Agent) -> None:
    first = [event async for event in agent.send("what is 6*7?")]
    second = [event async for event in agent.send("and times 2?")]

    # The same conversation, and soon after: the task is opened again and knows what 42 was.
    assert first[0].type == second[0].type == "message_routed"
    assert (first[0].decision, second[0].decision) == ("new", "reopen")
    assert first[0].task_id == second[0].task_id
    assert [event.content for event in second if isinstance(event, MessageEvent)] == ["42*2 = 84"]


async def test_what_the_model_was_told_can_be_read(agent: pentad.Agent) -> None:
    events = [event async for event in agent.send("what is 6*7?")]

    (task,) = await agent.inspection.tasks(session_id=agent.session_id)
    transcript = await agent.inspection.transcript(task.task_id)
    assert task.status == "completed"
    assert [message["role"] for message in transcript.messages] == ["user", "assistant", "tool", "assistant"]
    end = next(event for event in events if isinstance(event, TaskEnd))
    assert (end.steps, end.usage) == (task.steps, task.usage)


async def test_over_http_a_message_may_wait_for_its_answer(running: Running) -> None:
    async with httpx2.AsyncClient(base_url=running.url, trust_env=False) as http:
        reply = await http.post("/v1/messages?wait=30", json={"content": "what is 2**10?", "session_id": "over-http"})

    assert reply.status_code == 200
    assert reply.json()["answer"] == "2**10 = 1024"


async def test_over_redis_any_client_may_publish(running: Running) -> None:
    # XADD pentad:inbound * data '{"content":"what is 9-4?","session_id":"over-redis"}'
    await publish(running.redis_url, {"content": "what is 9-4?", "session_id": "over-redis"})

    # The answer lies on the session's stream; everybody who follows the session sees the same events.
    async def answers() -> list[str]:
        events = await events_of(running.redis_url, "over-redis")
        return [event["content"] for event in events if event["type"] == "message"]

    assert await wait_until("the answer", answers) == ["9-4 = 5"]
