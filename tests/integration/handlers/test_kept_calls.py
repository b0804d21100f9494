"""Tool calls that wait for more than a worker: for a word of the person, for what their tool needs, for other calls."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import to_json

from pentad.contracts.streams import SESSION_WAKE, TASK_WAKE
from pentad.contracts.suspensions import MAX_ROUNDS, InnerCall, Needs, Resumption, Suspension
from pentad.contracts.tools import Effect, ToolOutcome, ToolSpec
from pentad.services.tool_worker.given_tools import GivenTools
from pentad.services.tool_worker.sources import OnProgress, ToolInvocation
from pentad.shared.plugins.companions import NOT_MADE, Made
from pentad.shared.plugins.definition import ToolDefinition
from pentad.shared.plugins.registry import define
from pentad.shared.store.store import Store
from tests.integration.handlers.flow import Flow
from tests.integration.handlers.test_approvals import (
    TO_ADA,
    TO_BOB,
    TOOLS,
    YES,
    asked_flow,
    calling,
    decide,
    edited,
    no,
    ran,
    refused_decision,
    result,
    waiting,
)
from tests.integration.handlers.test_own_tools import told, transcript


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


# A message decides


@pytest.mark.parametrize(
    ("words", "runs"),
    [("yes", True), (" Yes, please! ", True), ("OK.", True), ("好的", True), ("no", False), ("拒绝", False)],
)
async def test_yes_or_no_of_the_person_decides_about_the_only_open_call(
    store: Store, tmp_path: Path, words: str, runs: bool
) -> None:
    flow = await asked_flow(store, tmp_path, TO_ADA)
    await flow.say(words, user_id="ann")
    await flow.drive()
    assert (await flow.status(), ran) == ("completed", ["ada"] if runs else [])
    (event,) = await told(store, "approval")
    assert (event["approved"], event["by"]) == (runs, "ann")
    messages = await transcript(flow)
    assert [m["content"] for m in messages if m["role"] == "user"] == ["go", words]
    assert (await result(flow))["metadata"]["approved_by"] == "ann"
    other = await refused_decision(flow, no() if runs else YES)
    assert (other.status, "the first decision counts" in other.detail) == (409, True)


async def test_of_two_open_calls_a_message_decides_about_none(store: Store, tmp_path: Path) -> None:
    flow = await asked_flow(store, tmp_path, TO_ADA, TO_BOB)
    await flow.say("yes")
    await flow.drive()
    assert (await flow.status(), ran, len(await waiting(flow))) == ("waiting", [], 2)


async def test_a_message_whose_sender_may_not_decide_decides_nothing(store: Store, tmp_path: Path) -> None:
    flow = await asked_flow(store, tmp_path, TO_ADA)
    await flow.say("yes", decides=False)
    await flow.drive()
    assert (await flow.status(), ran) == ("waiting", [])


async def test_a_message_from_before_the_question_does_not_answer_it(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, calling(TO_ADA), tools=TOOLS).prepare()
    await flow.say("go")
    await flow.once()
    now = await store.clock()
    await flow.ingested("yes", f"{now - 60_000}-77")
    await flow.drive()
    assert ran == []


# The tool asks


def _reason(to: str) -> str | bool:
    return "ada is the boss" if to == "ada" else False


async def given(store: Store, folder: Path, tool: ToolDefinition, *calls: tuple[str, str], **more: Any) -> Flow:
    """A flow in which the model has called tools of the program's own."""
    source = GivenTools([tool], 4)
    await source.start(lambda: None)
    flow = await Flow(store, folder, calling(*calls), sources=[source], **more).prepare()
    await flow.say("go")
    await flow.drive()
    return flow


def send(to: str) -> str:
    """Sends a mail."""
    ran.append(to)
    return f"sent to {to}"


async def test_a_tool_says_itself_which_calls_a_person_must_allow(store: Store, tmp_path: Path) -> None:
    tool = define(send, name="send_mail", approval="ask_if", ask_if=_reason)
    flow = await given(store, tmp_path, tool, TO_ADA, TO_BOB)
    assert (await flow.status(), ran) == ("waiting", ["bob"])
    (asks,) = await told(store, "approval_request")
    assert (asks["args"], asks["reason"]) == ({"to": "ada"}, "ada is the boss")
    assert (await refused_decision(flow, edited(whom="eve"))).status == 422
    await decide(flow, edited(to="eve"))
    await flow.drive()
    assert (await flow.status(), ran) == ("completed", ["bob", "eve"])


@pytest.mark.parametrize("wrong", [lambda to: 1 / 0, lambda to: 5])
async def test_a_tool_that_cannot_say_whether_a_call_may_be_made_has_the_person_asked(
    store: Store, tmp_path: Path, wrong: Callable[..., Any]
) -> None:
    flow = await given(store, tmp_path, define(send, name="send_mail", approval="ask_if", ask_if=wrong), TO_ADA)
    assert (await flow.status(), ran) == ("waiting", [])
    (asks,) = await told(store, "approval_request")
    assert "could not say whether this call may be made" in asks["reason"]
    await decide(flow, no())
    await flow.drive()
    assert (await flow.status(), ran) == ("completed", [])


async def test_arguments_that_do_not_fit_ask_nobody(store: Store, tmp_path: Path) -> None:
    tool = define(send, name="send_mail", approval="ask_if", ask_if=lambda: True)
    flow = await given(store, tmp_path, tool, ("send_mail", '{"whom":"ada"}'))
    assert (await flow.status(), await told(store, "approval_request")) == ("completed", [])
    assert "to" in (await result(flow))["content"]


# The tool needs something to go on


class Suspending:
    """A source of one tool, which asks for something so often before it has a result."""

    quick = False

    def __init__(self, asks: Sequence[Suspension | ToolOutcome], **spec: Any) -> None:
        self._asks = asks
        made = ToolSpec.model_validate({"name": "book", "effect": "unsafe"} | spec)
        self.tools: Mapping[str, ToolSpec] = {"book": made}
        self.runs: list[ToolInvocation] = []

    async def start(self, changed: Callable[[], None]) -> None:
        """Do nothing."""

    async def stop(self, grace_s: float) -> None:
        """Do nothing."""

    async def run(self, invocation: ToolInvocation, on_progress: OnProgress, *, alone: bool = False) -> ToolOutcome:
        self.runs.append(invocation)
        asked = self._asks[min(len(self.runs), len(self._asks)) - 1]
        return asked if isinstance(asked, ToolOutcome) else ToolOutcome("suspended", "", suspension=asked)


FORM = {"type": "object", "properties": {"seats": {"type": "integer", "minimum": 1}}, "required": ["seats"]}
BOOKED = ToolOutcome("ok", "booked")


def needs(what: Needs = "input", **fields: Any) -> Suspension:
    return Suspension(needs=what, message="how many seats?", form=FORM, state="opaque", **fields)


async def booking(store: Store, folder: Path, *asks: Suspension | ToolOutcome, **spec: Any) -> tuple[Flow, Suspending]:
    source = Suspending(asks, **spec)
    flow = await Flow(store, folder, calling(("book", "{}")), sources=[source]).prepare()
    await flow.say("go")
    await flow.drive()
    return flow, source


async def test_a_call_that_needs_values_waits_and_goes_on_with_them(store: Store, tmp_path: Path) -> None:
    flow, source = await booking(store, tmp_path, needs(), BOOKED)
    assert (await flow.status(), len(source.runs)) == ("waiting", 1)
    (asks,) = await told(store, "approval_request")
    assert (asks["needs"], asks["reason"], asks["form"]) == ("input", "how many seats?", FORM)
    (shown,) = await waiting(flow)
    assert (shown["needs"], shown["form"]) == ("input", FORM)
    assert (await refused_decision(flow, YES)).status == 422
    assert (await refused_decision(flow, edited(seats=0))).status == 422
    await decide(flow, edited(seats=2))
    await flow.drive()
    resumed = source.runs[1].resumed
    assert resumed is not None
    assert (resumed.accepted, resumed.content, resumed.state, resumed.round) == (True, {"seats": 2}, "opaque", 1)
    assert (await flow.status(), (await result(flow))["content"]) == ("completed", "booked")
    task = await flow.task()
    assert await store.call("HLEN", task.calls) == 0
    assert not [name for name in await store.call("HKEYS", task.big) if name.startswith(b"asks:")]


@pytest.mark.parametrize("words", ["3", '{"seats": 3}'])
async def test_a_message_gives_the_one_value_that_a_call_needs(store: Store, tmp_path: Path, words: str) -> None:
    flow, source = await booking(store, tmp_path, needs(), BOOKED)
    await flow.say("a window seat, please")
    await flow.drive()
    assert await flow.status() == "waiting"
    await flow.say(words)
    await flow.drive()
    assert (await flow.status(), len(source.runs)) == ("completed", 2)
    assert source.runs[1].resumed is not None
    assert source.runs[1].resumed.content == {"seats": 3}


async def test_a_person_who_declines_lets_the_tool_know(store: Store, tmp_path: Path) -> None:
    flow, source = await booking(store, tmp_path, needs(), BOOKED)
    await decide(flow, no("not today"))
    await flow.drive()
    assert source.runs[1].resumed is not None
    assert (source.runs[1].resumed.accepted, await flow.status()) == (False, "completed")


async def test_a_call_that_asks_without_end_is_given_up(store: Store, tmp_path: Path) -> None:
    flow, source = await booking(store, tmp_path, needs())
    for n in range(1, MAX_ROUNDS + 1):
        assert (await flow.status(), len(source.runs)) == ("waiting", n)
        await flow.say("1")
        await flow.drive()
    assert (await flow.status(), len(source.runs)) == ("completed", MAX_ROUNDS + 1)
    assert "it is given up" in (await result(flow))["content"]


# Nobody knows what has become of it


async def test_a_person_says_what_has_become_of_a_call_whose_outcome_is_unknown(store: Store, tmp_path: Path) -> None:
    lost = ToolOutcome("interrupted", "its process was lost")
    flow, source = await booking(store, tmp_path, lost, BOOKED, on_unknown="ask")
    (asks,) = await told(store, "approval_request")
    assert (asks["needs"], "outcome unknown" in asks["reason"]) == ("outcome", True)
    await decide(flow, edited(outcome="done", result="seat 12"))
    await flow.drive()
    found = await result(flow)
    assert (found["content"], found["metadata"]["outcome"], len(source.runs)) == ("seat 12", "done", 1)


@pytest.mark.parametrize(("said", "runs", "told_model"), [("try again", 2, "booked"), ("not done", 1, "was not made")])
async def test_a_person_has_a_call_made_again_or_says_that_it_was_not(
    store: Store, tmp_path: Path, said: str, runs: int, told_model: str
) -> None:
    lost = ToolOutcome("interrupted", "its process was lost")
    flow, source = await booking(store, tmp_path, lost, BOOKED, on_unknown="ask")
    await flow.say(said)
    await flow.drive()
    assert (len(source.runs), await flow.status()) == (runs, "completed")
    assert told_model in (await result(flow))["content"]


@pytest.mark.parametrize(
    ("found", "sent", "told_model"),
    [(Made("seat 12"), 0, "seat 12"), (NOT_MADE, 1, "sent to ada"), (None, 0, "outcome unknown")],
)
async def test_a_tool_finds_out_what_has_become_of_a_call_whose_worker_was_lost(
    store: Store, tmp_path: Path, found: Any, sent: int, told_model: str
) -> None:
    tool = define(send, name="send_mail", effect="unsafe", reconcile=lambda to: found)
    source = GivenTools([tool], 4)
    await source.start(lambda: None)
    flow = await Flow(store, tmp_path, calling(TO_ADA), sources=[source]).prepare()
    await flow.say("go")
    await flow.once(SESSION_WAKE)
    await flow.once(TASK_WAKE)
    task = await flow.task()
    (call,) = await store.call("HKEYS", task.calls)
    await store.call("HSET", task.calls, call, "started another-worker 1")
    await flow.drive()
    assert (await flow.status(), len(ran)) == ("completed", sent)
    assert told_model in (await result(flow))["content"]


# Calls of one answer in order


def ordered(name: str, effect: Effect = Effect.PURE, **more: Any) -> ToolDefinition:
    def run(text: str = "") -> str:
        ran.append(name)
        if text == "fail":
            raise ValueError("it failed")
        return f"{name} {text}".strip()

    return define(run, name=name, effect=effect, **more)


async def in_order(store: Store, folder: Path, tools: Sequence[ToolDefinition], *calls: tuple[str, str]) -> Flow:
    named = {tool.spec.name: tool for tool in tools}
    flow = await Flow(store, folder, calling(*calls), tools=named).prepare()
    await flow.say("go")
    await flow.drive()
    return flow


async def results(flow: Flow) -> list[str]:
    return [m["content"] for m in await transcript(flow) if m["role"] == "tool"]


async def test_a_call_waits_for_the_calls_that_come_before_it(store: Store, tmp_path: Path) -> None:
    tools = [ordered("deploy", after=["build", "test"]), ordered("build"), ordered("test", after=["build"])]
    flow = await in_order(store, tmp_path, tools, ("deploy", "{}"), ("test", "{}"), ("build", "{}"))
    assert (ran, await flow.status()) == (["build", "test", "deploy"], "completed")
    assert await results(flow) == ["deploy", "test", "build"]


async def test_calls_of_a_tool_that_names_itself_are_made_one_after_the_other(store: Store, tmp_path: Path) -> None:
    flow = await in_order(
        store,
        tmp_path,
        [ordered("step", after=["step"])],
        *[("step", to_json({"text": str(n)}).decode()) for n in range(3)],
    )
    assert (ran, await results(flow)) == (["step"] * 3, ["step 0", "step 1", "step 2"])


async def test_what_comes_after_a_failed_call_is_not_made_and_told(store: Store, tmp_path: Path) -> None:
    tools = [ordered("build"), ordered("test", after=["build"]), ordered("deploy", after=["test"])]
    flow = await in_order(store, tmp_path, tools, ("build", '{"text":"fail"}'), ("test", "{}"), ("deploy", "{}"))
    assert (ran, await flow.status()) == (["build"], "completed")
    _, second, third = await results(flow)
    assert second == "error: this call was not made: it comes after build, which has failed"
    assert third == "error: this call was not made: it comes after test, which has failed"


async def test_calls_that_wait_for_each_other_are_not_made(store: Store, tmp_path: Path) -> None:
    tools = [ordered("hen", after=["egg"]), ordered("egg", after=["hen"])]
    flow = await in_order(store, tmp_path, tools, ("hen", "{}"), ("egg", "{}"), ("echo", '{"text":"x"}'))
    assert (ran, await flow.status()) == ([], "completed")
    assert ["wait for each other" in each for each in await results(flow)] == [True, True, False]


async def test_a_call_after_one_that_a_person_must_allow_waits_for_both(store: Store, tmp_path: Path) -> None:
    tools = [ordered("plan", approval="always"), ordered("act", after=["plan"], approval="always")]
    flow = await in_order(store, tmp_path, tools, ("plan", "{}"), ("act", "{}"))
    assert (await flow.status(), [e["tool"] for e in await told(store, "approval_request")]) == ("waiting", ["plan"])
    await decide(flow, YES)
    await flow.drive()
    requests = await told(store, "approval_request")
    assert (ran, [e["tool"] for e in requests]) == (["plan"], ["plan", "act"])
    await decide(flow, YES, requests[1]["tool_call_id"])
    await flow.drive()
    assert (ran, await flow.status()) == (["plan", "act"], "completed")


async def test_what_comes_after_a_refused_call_is_not_made(store: Store, tmp_path: Path) -> None:
    tools = [ordered("plan", approval="always"), ordered("act", after=["plan"])]
    flow = await in_order(store, tmp_path, tools, ("plan", "{}"), ("act", "{}"))
    await decide(flow, no())
    await flow.drive()
    assert (ran, await flow.status(), await store.call("HKEYS", (await flow.task()).calls)) == ([], "completed", [])


async def test_a_tool_without_the_other_in_its_answer_waits_for_nothing(store: Store, tmp_path: Path) -> None:
    await in_order(store, tmp_path, [ordered("build"), ordered("test", after=["build"])], ("test", "{}"))
    assert ran == ["test"]


# A call makes calls of its own


def inner(*calls: tuple[str, dict[str, Any]], state: str = "here") -> Suspension:
    return Suspension(needs="calls", state=state, calls=[InnerCall(tool=tool, args=args) for tool, args in calls])


async def program(store: Store, folder: Path, *asks: Suspension | ToolOutcome, **more: Any) -> tuple[Flow, Suspending]:
    source = Suspending(asks, effect="pure")
    flow = await Flow(store, folder, calling(("book", "{}")), sources=[source], **more).prepare()
    await flow.say("go")
    await flow.drive()
    return flow, source


def resumption(source: Suspending, run: int) -> Resumption:
    resumed = source.runs[run].resumed
    assert resumed is not None
    return resumed


async def test_a_call_goes_on_with_the_results_of_its_own_calls(store: Store, tmp_path: Path) -> None:
    two = inner(("echo", {"text": "a"}), ("calculator", {"expression": "6*7"}))
    flow, source = await program(store, tmp_path, two, inner(("echo", {"text": "b"}), state="further"), BOOKED)
    assert (await flow.status(), len(source.runs)) == ("completed", 3)
    first, second = resumption(source, 1), resumption(source, 2)
    assert (first.state, first.round, [r.text for r in first.results or ()]) == ("here", 1, ["a", "42"])
    assert (second.state, second.round, [r.text for r in second.results or ()]) == ("further", 2, ["b"])
    outer, *made = await told(store, "tool_call")
    assert [(e["tool"], e["parent_call_id"]) for e in made] == [
        (tool, outer["tool_call_id"]) for tool in ("echo", "calculator", "echo")
    ]
    assert await results(flow) == ["booked"]
    task = await flow.task()
    assert (await store.call("HLEN", task.calls), await store.call("ZCARD", task.signals)) == (0, 0)


async def test_a_failure_of_its_own_call_is_told_to_the_call(store: Store, tmp_path: Path) -> None:
    flow, source = await program(
        store, tmp_path, inner(("nothing", {}), ("calculator", {"expression": "1/0"}), ("book", {})), BOOKED
    )
    told_call = resumption(source, 1).results or []
    assert (await flow.status(), [r.ok for r in told_call]) == ("completed", [False, False, False])
    assert "there is no tool 'nothing'" in told_call[0].text
    assert "there is no tool 'book'" in told_call[2].text


async def test_a_call_of_a_call_waits_for_its_approval_like_any_other(store: Store, tmp_path: Path) -> None:
    wants = inner(("send_mail", {"to": "ada"}), ("echo", {"text": "x"}))
    flow, source = await program(store, tmp_path, wants, BOOKED, tools=TOOLS)
    assert (await flow.status(), ran, len(source.runs)) == ("waiting", [], 1)
    await decide(flow, YES)
    await flow.drive()
    assert (await flow.status(), ran) == ("completed", ["ada"])
    assert [r.text for r in resumption(source, 1).results or ()] == ["sent to ada", "x"]


async def test_a_refused_call_of_a_call_is_told_to_it(store: Store, tmp_path: Path) -> None:
    flow, source = await program(store, tmp_path, inner(("send_mail", {"to": "ada"})), BOOKED, tools=TOOLS)
    await decide(flow, no("not her"))
    await flow.drive()
    results_told = resumption(source, 1).results
    assert results_told is not None
    (result_told,) = results_told
    assert (result_told.ok, "not her" in result_told.text, ran) == (False, True, [])


async def test_a_cancelled_task_gives_up_the_calls_of_its_calls(store: Store, tmp_path: Path) -> None:
    flow, source = await program(store, tmp_path, inner(("send_mail", {"to": "ada"})), BOOKED, tools=TOOLS)
    task = await flow.task()
    await flow.actors.post(task, "cancel", b"{}", ("waiting",), "cancel")
    await flow.drive()
    assert (await flow.status(), ran, len(source.runs)) == ("cancelled", [], 1)
    assert await results(flow) == ["error: the task was cancelled"]
    assert (await store.call("HLEN", task.calls), await waiting(flow)) == (0, [])
