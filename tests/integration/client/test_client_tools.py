"""Tools that a program brings along: described by their functions, run by its turn, and always with an outcome."""

import asyncio
import json
import threading
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import pentad
from pentad.client.client_tools import brought_tools
from pentad.contracts.client_tools import MAX_CLIENT_RESULT, MAX_CLIENT_TOOLS
from pentad.contracts.events import SessionEvent, event_adapter
from pentad.contracts.turns import TurnTracker
from tests.support.clients.fake_gateway import FakeGateway, fake_gateway, turn_events
from tests.support.clients.fake_wire import AT, Json, Script
from tests.support.waiting import in_time, wait_until

TASK = "task-0-a"


def get_place(exact: bool = False) -> dict[str, Any]:
    """Where the user is.

    Args:
        exact: whether to the metre
    """
    return {"city": "Berlin", "exact": exact}


async def wait_for_ever() -> str:
    """Wait."""
    await asyncio.Event().wait()
    return ""


def calling(*calls: tuple[str, Any], waits: str = "client_tools", **more: Any) -> Script:
    """A turn whose model calls these tools of the client, and waits for what comes of it."""

    def events(message: Json) -> list[Json]:
        about = {"task_id": TASK, "correlation_id": message["message_id"]}
        made = [
            {"type": "tool_call", "tool_call_id": f"c{number}", "tool": tool, "args": args, "client": True} | more
            for number, (tool, args) in enumerate(calls)
        ]
        waiting = {"type": "task_status", "status": "waiting", "reason": waits}
        routed, *_ = turn_events(TASK)(message)
        return [event | about for event in (routed, *made, waiting)]

    return events


def goes_on(body: Json) -> list[Json]:
    """What follows the only result: the call has ended, and the model answers."""
    told = {"tool_call_id": body["tool_call_id"], "tool": "get_place", "duration_ms": 0}
    answer = f"so: {json.dumps(body.get('result', body.get('error')))}"
    return [
        {"type": "tool_result", "task_id": TASK, "result": "", **told},
        {"type": "message", "task_id": TASK, "step": 2, "attempt": 1, "content": answer},
        {"type": "task_end", "task_id": TASK, "status": "completed", "steps": 2},
    ]


@asynccontextmanager
async def talking(script: Script, **options: Any) -> AsyncIterator[tuple[FakeGateway, pentad.Agent]]:
    """A gateway that plays this turn, and an agent that talks to it."""
    async with fake_gateway(script=script, **options) as gateway, pentad.connect(gateway.url) as agent, in_time():
        yield gateway, agent


def told(gateway: FakeGateway) -> list[Json]:
    """The outcomes of calls that have come."""
    return [body for _, body in gateway.results]


async def test_a_function_is_described_called_with_its_arguments_and_answered_within_one_ask() -> None:
    script = calling(("get_place", {"exact": True}))
    async with talking(script, on_result=goes_on) as (gateway, agent):
        answer = await agent.ask("where am I?", tools=[get_place])
    assert json.loads(answer.removeprefix("so: ")) == '{"city":"Berlin","exact":true}'
    [message] = gateway.messages
    [tool] = message["tools"]
    assert (tool["name"], tool["description"]) == ("get_place", "Where the user is.")
    assert tool["parameters"]["properties"]["exact"] == {
        "type": "boolean",
        "default": False,
        "description": "whether to the metre",
    }
    assert [call for call, _ in gateway.results] == ["c0"]


async def test_an_async_function_and_one_in_a_dictionary_run_at_once() -> None:
    both = asyncio.Barrier(2)

    async def first() -> str:
        """First."""
        await both.wait()
        return "one"

    async def second(word: str) -> str:
        await both.wait()
        return word

    more = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
    tools = [first, {"name": "other", "description": "Second", "parameters": more, "run": second}]
    script = calling(("first", {}), ("other", {"word": "two"}))
    async with talking(script) as (gateway, agent):
        turn = asyncio.create_task(agent.ask("both", tools=tools, session_id="s1"))
        await wait_until("both results", lambda: len(gateway.results) == 2)
        assert sorted(body["result"] for body in told(gateway)) == ["one", "two"]
        assert not turn.done(), "the turn goes on beyond the wait"
        gateway.say("s1", *goes_on({"tool_call_id": "c0", "result": 1}))
        assert await turn == "so: 1"
        assert gateway.messages[0]["tools"][1] == {"name": "other", "description": "Second", "parameters": more}


async def test_a_program_without_a_loop_brings_tools_along() -> None:
    where: list[str] = []

    def place() -> None:
        """Where."""
        where.append(threading.current_thread().name)

    def program(url: str) -> str:
        with pentad.connect_sync(url) as agent:
            return agent.ask("where?", tools=[place])

    async with fake_gateway(script=calling(("place", {})), on_result=goes_on) as gateway, in_time():
        assert await asyncio.to_thread(program, gateway.url) == 'so: ""'
    assert where == ["client's tool"], "a plain function holds up no loop"


async def test_a_result_is_sent_again_until_it_is_taken_over_cut_connections() -> None:
    answers = deque([(503, {"title": "doubtful", "in_doubt": True}), (429, {"title": "busy"}), (502, {})])
    count: list[int] = []

    def counted() -> int:
        """Count."""
        count.append(1)
        return len(count)

    script = calling(("counted", {}))
    async with talking(script, on_result=goes_on, result_answers=answers, cut_after=deque([2])) as (gateway, agent):
        assert await agent.ask("count", tools=[counted]) == 'so: "1"'
    assert told(gateway) == [{"result": "1"}] * 4
    assert len(gateway.connections) == 2


async def test_a_call_that_is_told_again_or_is_another_programs_is_not_run() -> None:
    seen: list[bool] = []

    def place(mine: bool = True) -> str:
        """Where."""
        seen.append(mine)
        return "here"

    def script(message: Json) -> list[Json]:
        routed, made, waiting = calling(("place", {}))(message)
        other = made | {"tool_call_id": "c9", "args": {"mine": False}, "correlation_id": "another"}
        ended = {"type": "tool_result", "task_id": TASK, "tool_call_id": "c9", "tool": "place", "duration_ms": 0}
        return [routed, other, made, made, ended, waiting]

    async with talking(script, on_result=goes_on) as (gateway, agent):
        assert await agent.ask("where?", tools=[place]) == 'so: "here"'
    assert (seen, [call for call, _ in gateway.results]) == ([True], ["c0"])


def raises(error: BaseException) -> Any:
    def tool() -> None:
        raise error

    return tool


class Untold(Exception):  # noqa: N818 - it cannot even say that it is an error
    """An error whose words cannot be read."""

    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    ("function", "args", "error"),
    [
        (raises(ValueError("no")), {}, "tool 'tool' failed: ValueError: no"),
        (raises(SystemExit(3)), {}, "tool 'tool' failed: SystemExit: 3"),
        (raises(StopIteration()), {}, "tool 'tool' failed: RuntimeError: coroutine raised StopIteration"),
        (raises(Untold()), {}, "tool 'tool' failed: Untold"),
        (raises(ValueError("a\ud800")), {}, "tool 'tool' failed: ValueError: a?"),
        (lambda: {1, object()}, {}, "tool 'tool' returned a set that cannot become JSON"),
        (lambda: "\u00e9" * MAX_CLIENT_RESULT, {}, "more than 524,288 bytes"),
        (lambda word=1: word, {"other": 1}, "argument 'other' is unknown: it takes word"),
    ],
)
async def test_a_call_that_fails_is_told_to_the_model(function: Any, args: Json, error: str) -> None:
    function.__name__ = "tool"
    async with talking(calling(("tool", args)), on_result=goes_on) as (gateway, agent):
        await agent.ask("where?", tools=[function])
    [body] = told(gateway)
    assert error in body["error"]


async def test_a_result_that_is_refused_becomes_a_failure_that_says_why() -> None:
    answers = deque([(413, {"title": "too large"})])
    script = calling(("get_place", {}))
    async with talking(script, on_result=goes_on, result_answers=answers) as (gateway, agent):
        await agent.ask("where?", tools=[get_place])
    assert told(gateway)[1:] == [{"error": "too large"}]


async def test_a_result_that_comes_too_late_is_dropped_and_one_that_can_never_be_sent_ends_the_turn() -> None:
    script = calling(("get_place", {}))
    async with talking(script, result_answers=deque([(409, {"title": "late"})])) as (gateway, agent):
        asked = asyncio.create_task(agent.ask("where?", tools=[get_place], session_id="s1"))
        await wait_until("the result", lambda: gateway.results)
        gateway.say("s1", *goes_on({"tool_call_id": "c0", "result": 1}))
        assert await asked == "so: 1"
    async with talking(script, result_answers=deque([(401, {"title": "gone"})] * 9)) as (gateway, agent):
        with pytest.raises(pentad.NotAuthorized):
            await agent.ask("where?", tools=[get_place])


async def test_long_arguments_are_fetched_whole() -> None:
    def shout(text: str) -> str:
        """Shout."""
        return text.upper()

    script = calling(("shout", '{"text": "who'), ref="c0.args")
    async with talking(script, on_result=goes_on, values={"c0.args": '{"text": "whole"}'}) as (gateway, agent):
        await agent.ask("shout", tools=[shout])
    assert told(gateway) == [{"result": "WHOLE"}]


async def test_a_call_without_a_function_ends_the_turn_and_is_answered_by_hand() -> None:
    raw = {"name": "get_place", "description": "Where the user is"}
    async with talking(calling(("get_place", {}))) as (gateway, agent):
        turn = agent.turn("where?", tools=[raw])
        events = [one.event async for one in turn]
        assert turn.end is not None
        assert (turn.end.outcome, turn.end.reason) == ("waiting", "client_tools")
        [call] = [event for event in events if isinstance(event, pentad.ToolCallEvent)]
        await agent.management.send_result(call.task_id or "", call.tool_call_id, result={"city": "Bonn"})
        await agent.management.send_result(call.task_id or "", call.tool_call_id, error="nobody knows")
        with pytest.raises(pentad.Refused):
            await agent.management.send_result(TASK, "c0", result=1, error="both")
    assert told(gateway) == [{"result": {"city": "Bonn"}}, {"error": "nobody knows"}]


@pytest.mark.parametrize(
    "ends",
    [
        {"type": "tool_result", "tool_call_id": "c0", "tool": "wait_for_ever", "error": "a message", "duration_ms": 0},
        {"type": "task_end", "status": "cancelled", "steps": 1},
    ],
    ids=lambda event: event["type"],
)
async def test_a_function_that_never_ends_is_cancelled_when_its_call_is_given_up(ends: Json) -> None:
    gave_up = asyncio.Event()

    async def hang() -> None:
        """Hang."""
        try:
            await asyncio.Event().wait()
        finally:
            gave_up.set()

    async with fake_gateway(script=calling(("hang", {}))) as gateway, pentad.connect(gateway.url) as agent:
        asked = asyncio.create_task(agent.ask("hang", tools=[hang], session_id="s1"))
        await wait_until("the call", lambda: gateway.events["s1"])
        gateway.say("s1", ends | {"task_id": TASK})
        async with in_time():
            await gave_up.wait()
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
    assert gateway.results == []


async def test_leaving_a_turn_gives_its_calls_up() -> None:
    async with talking(calling(("wait_for_ever", {}))) as (gateway, agent):
        events = agent.send("wait", tools=[wait_for_ever])
        async for event in events:
            if event.type == "task_status":
                break
        await events.aclose()
    assert gateway.results == []


async def test_a_turn_that_waits_for_a_person_as_well_ends_when_its_calls_have_their_results() -> None:
    async with talking(calling(("get_place", {}), waits="approval")) as (gateway, agent):
        turn = agent.turn("where?", tools=[get_place])
        assert [one.event.type async for one in turn][-1] == "task_status"
    assert len(gateway.results) == 1


@pytest.mark.parametrize(
    ("tools", "why"),
    [
        ("get_place", "a list of at most 128"),
        ([get_place] * (MAX_CLIENT_TOOLS + 1), "a list of at most 128"),
        ([get_place, get_place], r"tools\[1\]: another of these tools is called 'get_place'"),
        ([len], r"tools\[0\]: @tool takes a function"),
        ([{"description": "no name"}], r"tools\[0\]: a tool needs a name"),
        ([{"name": "a", "runs": get_place}], r"tools\[0\]: 'runs' is not known here"),
        ([{"name": "a b", "run": get_place}], r"tools\[0\]: .*letters"),
        ([{"name": "ask_user", "run": get_place}], r"tools\[0\]: every task has a tool 'ask_user'"),
        ([pentad.tool(name="asks", approval="always")(lambda: 1)], r"tools\[0\]: tool 'asks' asks for approval"),
    ],
)
def test_what_is_no_tool_is_refused_where_it_is_given(tools: Any, why: str) -> None:
    with pytest.raises(pentad.Refused, match=why):
        brought_tools(tools)


def test_a_function_that_wants_a_context_is_refused() -> None:
    def place(context: pentad.ToolContext) -> str:
        """Where."""
        return str(context)

    with pytest.raises(pentad.Refused, match="no ToolContext where a client runs its tools"):
        brought_tools([place])


def event_of(kind: str, **fields: Any) -> SessionEvent:
    about = {"event_id": "e", "at": AT, "tenant_id": "t", "session_id": "s", "task_id": TASK, "correlation_id": "m"}
    found: SessionEvent = event_adapter.validate_python({**about, "type": kind, **fields})
    return found


def called(call: str, tool: str, **more: Any) -> SessionEvent:
    return event_of("tool_call", tool_call_id=call, tool=tool, args={}, client=True, **more)


WAITS = event_of("task_status", status="waiting", reason="client_tools")


@pytest.mark.parametrize(
    ("runs", "events", "ends"),
    [
        ({"a"}, [called("1", "a"), WAITS], False),
        (set(), [called("1", "a"), WAITS], True),
        ({"a"}, [called("1", "a"), called("2", "b"), WAITS], True),
        (
            {"a"},
            [called("2", "b"), event_of("tool_result", tool_call_id="2", tool="b", result="", duration_ms=0), WAITS],
            False,
        ),
        ({"a"}, [called("1", "a", correlation_id="other"), WAITS], True),
        ({"a"}, [called("1", "a"), event_of("task_status", status="waiting", reason="approval")], True),
    ],
)
def test_a_turn_goes_on_beyond_a_wait_for_what_its_follower_runs_alone(
    runs: set[str], events: list[SessionEvent], ends: bool
) -> None:
    turn = TurnTracker("m", task_id=TASK, runs=frozenset(runs))
    for event in events:
        turn = turn.after(event)
    assert (turn.end is not None) is ends
