"""Programs of models that call tools: each call is made once, under the rules of every other call."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from pydantic_core import to_json

from pentad.contracts.approvals import ApprovalRule
from pentad.contracts.ids import rfc3339
from pentad.contracts.instructions import DIRECT_CALL, Instruction
from pentad.contracts.suspensions import MAX_INNER_CALLS, MAX_STATE
from pentad.contracts.tools import Effect, ToolOutcome
from pentad.services.tool_worker.builtins.catalogue import BUILTINS
from pentad.services.tool_worker.builtins.programs.program_tool import ProgramTool
from pentad.services.tool_worker.sources import OnProgress, ToolInvocation
from pentad.shared.plugins.definition import ToolDefinition
from pentad.shared.plugins.registry import define
from pentad.shared.presence.published import TOOLS as TOOLS_OF_WORKERS
from pentad.shared.store.store import Store
from tests.integration.handlers.flow import Flow
from tests.integration.handlers.test_approvals import (
    MAIL,
    YES,
    calling,
    decide,
    edited,
    no,
    ran,
    refused_decision,
    result,
    waiting,
)
from tests.integration.handlers.test_direct_calls import call_of
from tests.integration.handlers.test_own_tools import told


class _Noting(ProgramTool):
    """The tool, which notes how its stretches were begun and ended."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.stretches: list[tuple[ToolInvocation, ToolOutcome]] = []

    async def run(self, invocation: ToolInvocation, on_progress: OnProgress, *, alone: bool = False) -> ToolOutcome:
        outcome = await super().run(invocation, on_progress, alone=alone)
        self.stretches.append((invocation, outcome))
        return outcome


def look_up(place: str, days: int = 1) -> dict[str, Any]:
    """Tells the weather."""
    ran.append(place)
    if place == "Atlantis":
        raise ValueError("there is no such place")
    return {"place": place, "degrees": len(place), "days": days}


TOOLS: dict[str, ToolDefinition] = {
    "get_weather": define(look_up, name="get_weather", effect=Effect.PURE),
    "get-weather": define(look_up, name="get-weather", effect=Effect.PURE),
    "send_mail": MAIL,
}
Programs = Callable[..., Awaitable[Flow]]


@pytest.fixture
async def tool(store: Store) -> AsyncIterator[_Noting]:
    made = _Noting(store)
    await made.start(lambda: None)
    assert set(made.tools) == {"run_program"}
    yield made
    await made.stop(0)


@pytest.fixture
def started(store: Store, tmp_path: Path, tool: _Noting) -> Programs:
    """Return a flow in which the model has run this program."""
    ran.clear()

    async def start(code: str, message: Mapping[str, Any] = MappingProxyType({}), **settings: Any) -> Flow:
        asked = calling(("run_program", to_json({"code": code}).decode()))
        published = [each.spec for each in {**BUILTINS, **TOOLS}.values()]
        await TOOLS_OF_WORKERS.publish(store, [*published, *tool.tools.values()])
        flow = await Flow(store, tmp_path, asked, tools=TOOLS, sources=[tool], **settings).prepare()
        await flow.say("go", **message)
        await flow.drive()
        return flow

    return start


async def ended(flow: Flow) -> Any:
    """What the model was told of the program, which has ended well."""
    assert await flow.status() == "completed"
    text = (await result(flow))["content"]
    assert not text.startswith("error: "), text
    return json.loads(text)


async def failed(flow: Flow) -> str:
    assert await flow.status() == "completed"
    text: str = (await result(flow))["content"]
    assert text.startswith("error: "), text
    return text


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ('w = get_weather(place="Oslo")\nw["degrees"] + 1', 5),
        ('w = get_weather(place="Oslo")\nresult = w["degrees"]', 4),
        ('(await get_weather(place="Oslo"))["days"]', 1),
        ('[get_weather(place=p)["degrees"] for p in ["Oslo", "Paris", "Roma"]]', [4, 5, 4]),
        ('import asyncio\na, b = await asyncio.gather(get_weather(place="a"), get_weather(place="bb"))\n'
         'a["degrees"], b["degrees"], get_weather(place="ccc")["degrees"]', [1, 2, 3]),
        ('import asyncio\nasync def one(p):\n    return (await get_weather(place=p))["degrees"]\n'
         'async def main():\n    return await asyncio.gather(*[one(p) for p in ["a", "bb"]])\nasyncio.run(main())',
         [1, 2]),
        ('import asyncio\ntasks = []\nfor p in ["a", "bb"]:\n    tasks.append(get_weather(place=p))\n'
         '[w["degrees"] for w in await asyncio.gather(*tasks)]', [1, 2]),
        ('def main():\n    return get_weather(place="Oslo", days=3)["days"]\nresult = main()', 3),
        ('f = calculator\nf(expression="6*7")', 42),
        ('call_tool("get-weather", place="Oslo")["degrees"]', 4),
        ('echo(text="no JSON")', "no JSON"),
        ('try:\n    get_weather(place="Atlantis")\nexcept RuntimeError as e:\n    result = "such" in str(e)', True),
        ('try:\n    get_weather(plaice="Oslo")\nexcept RuntimeError as e:\n    result = "place" in str(e)', True),
        ('try:\n    nothing(a=1)\nexcept NameError as e:\n    result = "nothing" in str(e)', True),
        ('get_weather("Oslo", days=2)["days"]', 2),
        ('get_weather("Oslo", 3)["days"]', 3),
        ('try:\n    run_program(code="1")\nexcept RuntimeError as error:\n    result = "no tool" in str(error)', True),
        ('import datetime\necho(text=str(datetime.date(2026, 1, 2)))', "2026-01-02"),
    ],
)  # fmt: skip
async def test_a_program_calls_tools_as_models_write_it(
    started: Programs, store: Store, code: str, expected: Any
) -> None:
    flow = await started(code)
    assert (await ended(flow))["result"] == expected
    task = await flow.task()
    assert (await store.call("HLEN", task.calls), await store.call("ZCARD", task.signals)) == (0, 0)
    assert not [name for name in await store.call("HKEYS", task.big) if name.startswith(b"asks:")]


async def test_a_program_goes_on_in_another_worker_from_what_redis_keeps_of_it(
    started: Programs, store: Store, tool: _Noting
) -> None:
    """Each stretch runs in a process of its own, and begins with nothing but the suspension of the one before."""
    code = 'print("first")\na = get_weather("a")\nprint("second")\n[a["degrees"], get_weather("bb")["degrees"]]'
    flow = await started(code)
    assert await ended(flow) == {"result": [1, 2], "printed": "first\nsecond\n"}
    assert ran == ["a", "bb"]
    kinds = [outcome.kind for _, outcome in tool.stretches]
    assert kinds == ["suspended", "suspended", "ok"]
    outer, *made = await told(store, "tool_call")
    assert [(e["tool"], e["args"], e["parent_call_id"]) for e in made] == [
        ("get_weather", {"place": place}, outer["tool_call_id"]) for place in ("a", "bb")
    ]


async def test_awaited_calls_are_made_at_once_and_no_more_than_a_call_may_wait_for(
    started: Programs, tool: _Noting
) -> None:
    code = "import asyncio\nlen(await asyncio.gather(*[get_weather(place=str(n)) for n in range(20)]))"
    flow = await started(code)
    assert (await ended(flow))["result"] == 20
    wanted = [len(outcome.suspension.calls) for _, outcome in tool.stretches if outcome.suspension is not None]
    assert wanted == [MAX_INNER_CALLS, 20 - MAX_INNER_CALLS]
    assert sorted(ran) == sorted(str(n) for n in range(20))


# Rules of other calls hold for those of a program


MAILS = 'a = get_weather(place="a")\nb = send_mail(to="ada")\n[a["degrees"], b]'


async def test_a_call_of_a_program_waits_for_its_approval(started: Programs) -> None:
    flow = await started(MAILS)
    assert (await flow.status(), ran, len(await waiting(flow))) == ("waiting", ["a"], 1)
    await decide(flow, YES)
    await flow.drive()
    assert ((await ended(flow))["result"], ran) == ([1, "sent to ada"], ["a", "ada"])


async def test_awaited_calls_wait_for_their_approvals_together(started: Programs, store: Store) -> None:
    code = 'import asyncio\nawait asyncio.gather(send_mail(to="ada"), get_weather(place="a"), send_mail(to="bob"))'
    flow = await started(code)
    assert (await flow.status(), ran, len(await waiting(flow))) == ("waiting", ["a"], 2)
    for asked in reversed(await told(store, "approval_request")):
        await decide(flow, YES, asked["tool_call_id"])
        await flow.drive()
    first, _, last = (await ended(flow))["result"]
    assert (first, last, ran) == ("sent to ada", "sent to bob", ["a", "bob", "ada"])


async def test_edited_arguments_of_a_call_of_a_program_are_those_that_are_used(started: Programs) -> None:
    flow = await started(MAILS)
    assert (await refused_decision(flow, edited(whom="eve"))).status == 422
    await decide(flow, edited(to="eve"))
    await flow.drive()
    assert ((await ended(flow))["result"], ran) == ([1, "sent to eve"], ["a", "eve"])


async def test_a_refused_call_raises_in_the_program_with_the_reason(started: Programs) -> None:
    flow = await started('try:\n    send_mail(to="ada")\nexcept RuntimeError as error:\n    result = str(error)')
    await decide(flow, no("not her"))
    await flow.drive()
    assert ("not her" in (await ended(flow))["result"], ran) == (True, [])


async def test_a_failed_call_that_is_not_caught_ends_the_program_and_says_what_it_had_made(started: Programs) -> None:
    flow = await started('print("so far")\nget_weather(place="a")\nsend_mail(to="ada")')
    await decide(flow, no("not her"))
    await flow.drive()
    text = await failed(flow)
    assert "not her" in text
    assert "Calls that it had made before, which are not undone: get_weather (1), send_mail (1)" in text
    assert text.endswith("It had printed:\nso far\n")


async def test_a_policy_denies_a_call_of_a_program(started: Programs) -> None:
    rule = ApprovalRule.model_validate({"name": "no-mail", "tool": "send_mail", "then": "deny"})
    flow = await started(
        'try:\n    send_mail(to="ada")\nexcept RuntimeError as error:\n    result = str(error)', policies=[rule]
    )
    assert ("no-mail" in (await ended(flow))["result"], ran) == (True, [])


async def test_a_program_calls_only_tools_that_its_instruction_offers(started: Programs) -> None:
    few = Instruction(name="few", system_prompt="Work.", tools=["run_program", "echo"])
    flow = await started('echo(text="x")\nget_weather(place="a")', {"instruction": "few"}, instructions=[few])
    text = await failed(flow)
    assert ("there is no tool 'get_weather'" in text, ran) == (True, [])


async def test_a_program_that_is_called_outside_a_conversation_calls_any_tool(
    started: Programs, store: Store, tool: _Noting
) -> None:
    flow = await started("1")
    await flow.say(
        call_of("run_program", code='get_weather(place="a")["degrees"]'), instruction=DIRECT_CALL, task_id="new"
    )
    await flow.drive()
    ends = await told(store, "tool_result")
    assert (json.loads(ends[-1]["result"]), ran) == ({"result": 1}, ["a"])


async def test_a_cancelled_task_ends_its_program_while_it_waits(started: Programs, store: Store, tool: _Noting) -> None:
    flow = await started(MAILS)
    task = await flow.task()
    await flow.actors.post(task, "cancel", b"{}", ("waiting",), "cancel")
    await flow.drive()
    assert (await flow.status(), ran, len(tool.stretches)) == ("cancelled", ["a"], 2)
    assert (await store.call("HLEN", task.calls), await waiting(flow)) == (0, [])


async def test_a_deadline_ends_a_program_that_waits(started: Programs, store: Store, tool: _Noting) -> None:
    due = await store.clock() + 60_000
    flow = await started(MAILS, {"deadline": rfc3339(due)})
    task = await flow.task()
    assert (tool.stretches[0][0].context.deadline, await flow.status()) == (
        datetime.fromisoformat(rfc3339(due)),
        "waiting",
    )
    await store.call("HSET", task.header, "deadline", await store.clock() - 1)
    assert await flow.actors.post(task, "deadline", b"{}", ("waiting",), "deadline") == "waiting"
    await flow.drive()
    assert (await flow.status(), ran, len(tool.stretches)) == ("failed", ["a"], 2)
    assert (await store.call("HLEN", task.calls), await waiting(flow)) == (0, [])


# Bounds of a program that waits


async def test_a_program_that_holds_too_much_is_told_so_and_its_call_is_not_made(started: Programs) -> None:
    code = 'import random\nx = [random.random() for _ in range(60000)]\nprint("here")\nget_weather(place="a")'
    text = await failed(await started(code))
    assert f"the limit is {MAX_STATE:,}" in text or "too much to be kept" in text
    assert (ran, "Calls that it had made" in text, "here" in text) == ([], False, True)


async def test_a_program_makes_no_more_calls_than_a_call_may(started: Programs) -> None:
    code = "import asyncio\nfor n in range(40):\n    await asyncio.gather(*[echo(text='x') for _ in range(16)])"
    text = await failed(await started(code))
    assert "it has made 256 calls, and may make no more" in text
    assert "echo (256)" in text


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda state: state.replace('"version":"', '"version":"0.'), "from version 0."),
        (lambda state: state.replace('"dump":"', '"dump":"AAAA'), "is damaged"),
        (lambda state: "{}", "cannot be read"),
    ],
)
async def test_a_program_that_cannot_go_on_from_what_was_kept_says_why(
    started: Programs, tool: _Noting, damage: Callable[[str], str], words: str
) -> None:
    await ended(await started('get_weather(place="a")'))
    resumed = tool.stretches[1][0]
    assert resumed.resumed is not None
    worse = resumed.resumed.model_copy(update={"state": damage(resumed.resumed.state)})
    outcome = await tool.run(
        ToolInvocation(resumed.tool, resumed.args, 10, resumed.context, resumed=worse), lambda *_: None
    )
    assert (outcome.kind, words in outcome.text) == ("error", True), outcome
