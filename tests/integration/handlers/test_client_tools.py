"""Tools of clients: offered beside ours, called by the model, answered by the client, each call once."""

from pathlib import Path
from typing import Any

import pytest
from pydantic_core import from_json

from pentad.contracts.client_tools import MAX_CLIENT_TOOLS_BYTES
from pentad.contracts.commands import InboundMessage
from pentad.contracts.instructions import Instruction
from pentad.contracts.streams import SESSION_WAKE, TASK_WAKE
from pentad.contracts.turns import NEEDS_CLIENT
from pentad.services.gateway.domain.client_result import SentResult
from pentad.services.gateway.edge.problems import ProblemError
from pentad.services.gateway.tasks.client_results import ClientResults
from pentad.services.gateway.tasks.queries import Queries
from pentad.shared.actors.step_prompt import tools_kept_under
from pentad.shared.keys import timers
from pentad.shared.models.ports import ChatRequest, ModelAnswer
from pentad.shared.segments.passages import passages_of
from pentad.shared.store.store import Store
from tests.integration.handlers.flow import Flow, answer
from tests.integration.handlers.graph_flow import graph, llm
from tests.integration.handlers.test_own_tools import ECHO, roles, said, told, transcript
from tests.support.forking import Forking

PLACE = {"type": "object", "properties": {"exact": {"type": "boolean"}}}
TOOLS = [{"name": "get_place", "description": "Where the user is", "parameters": PLACE}]
WHERE = ("get_place", '{"exact":true}')


class Client:
    """A flow whose model calls these tools at the first message, and the client of its one task."""

    def __init__(self, store: Store, flow: Flow) -> None:
        self.store, self.flow = store, flow
        self.offered: list[set[str]] = []
        """Names of the tools of each prompt."""
        self._results = ClientResults(store, Queries(store, flow.records, 1), flow.settings)

    async def calls(self) -> list[dict[str, Any]]:
        """The calls that clients are asked to make."""
        return [event for event in await told(self.store, "tool_call") if event.get("client")]

    async def send(self, text: str, call: str = "", *, ok: bool = True) -> None:
        """Send the result of a call, the first if none is named."""
        call = call or (await self.calls())[0]["tool_call_id"]
        await self._results.accept("default", (await self.flow.task()).task, call, SentResult(text, ok))


async def client(store: Store, folder: Path, *calls: tuple[str, str], **more: Any) -> Client:
    made: Client

    def script(request: ChatRequest) -> ModelAnswer:
        made.offered.append({each["function"]["name"] for each in from_json(request.tools or b"[]")})
        return answer("", *calls) if said(request) == "where am I?" else answer(f"so: {said(request)}")

    made = Client(store, await Flow(store, folder, script, **more).prepare())
    return made


async def test_a_call_of_a_clients_tool_waits_for_its_result(store: Store, tmp_path: Path) -> None:
    asked = await client(store, tmp_path, WHERE)
    await asked.flow.say("where am I?", tools=TOOLS)
    await asked.flow.drive()
    assert await asked.flow.status() == "waiting"
    (call,) = await asked.calls()
    assert (call["tool"], call["args"]) == ("get_place", {"exact": True})
    (status,) = await told(store, "task_status")
    assert (status["status"], status["reason"]) == ("waiting", NEEDS_CLIENT)
    assert {"get_place", "echo"} <= asked.offered[0]
    await asked.send("in Berlin")
    await asked.flow.drive()
    assert await asked.flow.status() == "completed"
    messages = await transcript(asked.flow)
    assert roles(messages) == ["user", "assistant", "tool", "assistant"]
    assert [m["content"] for m in messages[2:]] == ["in Berlin", "so: in Berlin"]
    (result,) = await told(store, "tool_result")
    assert (result["tool_call_id"], result["result"], result["tool"]) == (
        call["tool_call_id"],
        "in Berlin",
        "get_place",
    )
    assert "get_place" in asked.offered[1], "the turn goes on with the client's tools"
    assert await store.call("ZSCORE", timers(0), f"wait {(await asked.flow.task()).actor}") is None


async def test_the_schemas_of_a_clients_tools_are_kept_with_the_step(store: Store, tmp_path: Path) -> None:
    """So that the prompt of the step can be rebuilt, in the archive too."""
    asked = await client(store, tmp_path, WHERE)
    await asked.flow.say("where am I?", tools=TOOLS)
    await asked.flow.drive()
    keys = await asked.flow.task()
    digest = (await store.call("HGET", keys.header, "tools")).decode()
    kept = from_json(await store.call("HGET", keys.big, tools_kept_under(digest)))
    assert {"type": "function", "function": TOOLS[0]} in kept
    shown = await Queries(store, asked.flow.records, 1).prompt("default", keys.task, 1)
    assert shown is not None
    assert shown.tools == kept


async def test_the_first_result_is_the_only_one(store: Store, tmp_path: Path) -> None:
    asked = await client(store, tmp_path, WHERE)
    await asked.flow.say("where am I?", tools=TOOLS)
    await asked.flow.drive()
    await asked.send("in Berlin")
    await asked.send("in Berlin")  # the answer to the first was lost
    for other in (asked.send("in Bonn"), asked.send("in Berlin", ok=False)):
        with pytest.raises(ProblemError) as refused:
            await other
        assert (refused.value.status, "another result" in refused.value.detail) == (409, True)
    await asked.flow.drive()
    assert [m["content"] for m in await transcript(asked.flow) if m["role"] == "tool"] == ["in Berlin"]
    await asked.send("in Berlin")
    with pytest.raises(ProblemError, match="has ended"):
        await asked.send("in Berlin", "call-0-other")


async def test_a_failure_of_the_client_is_told_to_the_model(store: Store, tmp_path: Path) -> None:
    asked = await client(store, tmp_path, WHERE)
    await asked.flow.say("where am I?", tools=TOOLS)
    await asked.flow.drive()
    await asked.send("the user does not say", ok=False)
    await asked.flow.drive()
    assert (await transcript(asked.flow))[2]["content"] == "error: the user does not say"
    assert [e["error"] for e in await told(store, "tool_result")] == ["the user does not say"]


async def test_a_long_result_is_kept_whole(store: Store, tmp_path: Path) -> None:
    asked = await client(store, tmp_path, WHERE)
    await asked.flow.say("where am I?", tools=TOOLS)
    await asked.flow.drive()
    await asked.send("x" * 40_000)
    (event,) = await told(store, "tool_result")
    assert (len(event["result"]), event["ref"]) == (16 * 1024, event["tool_call_id"])
    await asked.flow.drive()
    keys = await asked.flow.task()
    assert await Queries(store, asked.flow.records, 1).value("default", keys.task, event["ref"]) == "x" * 40_000


async def test_all_results_of_a_step_are_waited_for_ours_too(store: Store, tmp_path: Path) -> None:
    asked = await client(store, tmp_path, WHERE, ECHO, WHERE)
    await asked.flow.say("where am I?", tools=TOOLS)
    await asked.flow.drive()
    assert await asked.flow.status() == "waiting"
    first, second = [each["tool_call_id"] for each in await asked.calls()]
    await asked.send("Bonn", second)
    await asked.flow.drive()
    assert await asked.flow.status() == "waiting"
    await asked.send("Berlin", first)
    await asked.flow.drive()
    assert [m["content"] for m in await transcript(asked.flow) if m["role"] == "tool"] == ["Berlin", "x", "Bonn"]


async def test_a_result_may_come_while_our_own_tools_run(store: Store, tmp_path: Path) -> None:
    asked = await client(store, tmp_path, WHERE, ECHO)
    await asked.flow.say("where am I?", tools=TOOLS)
    for stream in (SESSION_WAKE, TASK_WAKE):
        await asked.flow.once(stream)
    await asked.send("Berlin")
    await asked.flow.drive()
    assert await asked.flow.status() == "completed"
    assert not await told(store, "task_status"), "nobody had to be waited for"


async def test_a_message_instead_of_a_result_gives_the_call_up(store: Store, tmp_path: Path) -> None:
    asked = await client(store, tmp_path, WHERE)
    await asked.flow.say("where am I?", tools=TOOLS)
    await asked.flow.drive()
    await asked.flow.say("never mind")
    await asked.flow.drive()
    messages = await transcript(asked.flow)
    assert roles(messages) == ["user", "assistant", "tool", "user", "assistant"]
    assert messages[2]["content"] == "error: the client has sent a message instead of a result"
    assert messages[4]["content"] == "so: never mind"
    assert "get_place" not in asked.offered[1], "that message brings no tools"
    with pytest.raises(ProblemError, match="has ended"):
        await asked.send("in Berlin")


async def test_a_result_that_comes_before_a_message_counts(store: Store, tmp_path: Path) -> None:
    asked = await client(store, tmp_path, WHERE)
    await asked.flow.say("where am I?", tools=TOOLS)
    await asked.flow.drive()
    await asked.send("in Berlin")
    await asked.flow.say("and tomorrow?", tools=TOOLS)
    await asked.flow.drive()
    assert [m["content"] for m in (await transcript(asked.flow))[2:]] == [
        "in Berlin",
        "and tomorrow?",
        "so: and tomorrow?",
    ]


@pytest.mark.parametrize("policy", ["interrupt", "queue"])
async def test_whatever_becomes_of_messages_one_ends_the_wait(store: Store, tmp_path: Path, policy: Any) -> None:
    asked = await client(
        store, tmp_path, WHERE, instructions=[Instruction(name="polite", system_prompt="Help.", on_message=policy)]
    )
    await asked.flow.say("where am I?", tools=TOOLS, instruction="polite")
    await asked.flow.drive()
    await asked.flow.say("never mind")
    await asked.flow.drive()
    assert await asked.flow.status() == "completed"


async def test_a_cancelled_task_takes_no_result(store: Store, tmp_path: Path) -> None:
    asked = await client(store, tmp_path, WHERE)
    await asked.flow.say("where am I?", tools=TOOLS)
    await asked.flow.drive()
    keys = await asked.flow.task()
    await asked.flow.actors.post(keys, "cancel", b"{}", ("waiting",), "cancel")
    await asked.flow.drive()
    assert await asked.flow.status() == "cancelled"
    with pytest.raises(ProblemError) as refused:
        await asked.send("in Berlin")
    assert refused.value.status == 409
    assert await store.call("EXISTS", keys.calls) == 0


async def test_a_clients_tool_takes_the_place_of_ours_with_its_name(store: Store, tmp_path: Path) -> None:
    asked = await client(store, tmp_path, ECHO)
    await asked.flow.say("where am I?", tools=[{"name": "echo", "description": "mine"}])
    await asked.flow.drive()
    assert [each["tool"] for each in await asked.calls()] == ["echo"]


async def test_arguments_that_are_no_json_are_answered_at_once(store: Store, tmp_path: Path) -> None:
    asked = await client(store, tmp_path, ("get_place", "[1]"))
    await asked.flow.say("where am I?", tools=TOOLS)
    await asked.flow.drive()
    assert await asked.calls() == []
    assert await asked.flow.status() == "completed"


async def test_nodes_of_a_graph_have_them_unless_they_call_no_tools(store: Store, tmp_path: Path) -> None:
    offered = dict[str, set[str]]()

    def script(request: ChatRequest) -> ModelAnswer:
        offered[request_node(request)] = {each["function"]["name"] for each in from_json(request.tools or b"[]")}
        calls = request_node(request) == "finder" and b'"tool"' not in request.messages[-1]
        return answer("", WHERE) if calls else answer("done")

    two = graph("two", [llm("finder", tools=None), llm("writer")], ("finder", "writer"))
    flow = await Flow(store, tmp_path, script, graphs=[two]).prepare()
    asked = Client(store, flow)
    await flow.say("where am I?", tools=TOOLS, instruction="two")
    await flow.drive()
    assert await flow.status() == "waiting"
    await asked.send("in Berlin")
    await flow.drive()
    assert await flow.status() == "completed"
    assert ("get_place" in offered["finder"], "get_place" in offered["writer"]) == (True, False)


def request_node(request: ChatRequest) -> str:
    """The node that asks the model."""
    return str(from_json(request.messages[0])["content"]).partition(".")[0].removeprefix("You are ")


async def test_a_fork_gives_the_call_up_that_waits_in_its_origin(store: Store, tmp_path: Path) -> None:
    asked = await client(store, tmp_path, WHERE)
    await asked.flow.say("where am I?", tools=TOOLS)
    await asked.flow.drive()
    origin = await asked.flow.task()
    fork = await Forking(store, asked.flow.records, asked.flow.settings).fork(origin.task, 1)
    await asked.flow.drive()
    keys = await asked.flow.task_named(fork.task_id)
    log = [from_json(raw.split(b"\n", 1)[1]) for raw in await store.call("LRANGE", keys.log, 0, -1)]
    assert [m["content"] for m in log if m["role"] == "tool"] == [
        f"error: given up: this task was forked from {origin.task} before the call had a result"
    ]
    assert await store.call("HGET", origin.header, "status") == b"waiting", "the origin waits as before"


def nested(levels: int) -> dict[str, Any]:
    """An object in an object, and so on."""
    made: dict[str, Any] = {}
    for _ in range(levels):
        made = {"properties": made}
    return made


@pytest.mark.parametrize(
    ("tools", "why"),
    [
        ([{"name": "ask_user"}], "a name of Pentad's own"),
        ([{"name": "a b"}], "pattern"),
        ([{"name": "a"}, {"name": "a"}], "the same name"),
        ([{"name": "a", "parameters": {"type": "string"}}], "an object"),
        ([{"name": f"t{n}"} for n in range(129)], "128"),
        ([{"name": "a", "parameters": nested(99)}], "100 levels"),
        ([{"name": f"t{n}", "description": "x" * 16_000} for n in range(9)], f"{MAX_CLIENT_TOOLS_BYTES:,}"),
    ],
)
def test_tools_that_cannot_be_offered_are_refused(tools: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        InboundMessage(content="x", tools=tools)


async def test_the_deepest_tools_that_are_taken_can_be_read_by_all(store: Store, tmp_path: Path) -> None:
    asked = await client(store, tmp_path, WHERE)
    deepest = [{"name": "get_place", "parameters": nested(97)}]
    await asked.flow.say("where am I?", tools=deepest)
    await asked.flow.drive()
    assert len(await asked.calls()) == 1


async def test_a_clients_tool_is_remembered_whatever_its_name(store: Store, tmp_path: Path) -> None:
    """A name of a tool that quotes memory does not make a client's words quotes, which nobody would remember."""
    asked = await client(store, tmp_path, ("memory_search", '{"query":"the boat"}'))
    await asked.flow.say("where am I?", tools=[{"name": "memory_search"}])
    await asked.flow.drive()
    await asked.send("the boat is red")
    await asked.flow.drive()
    messages = await Queries(store, asked.flow.records, 1).transcript("default", (await asked.flow.task()).task)
    assert messages is not None
    assert "origin" not in messages[2]
    assert [passage.text for passage in passages_of(messages)] == [
        "where am I?",
        'memory_search {"query":"the boat"}',
        "the boat is red",
        "so: the boat is red",
    ]
