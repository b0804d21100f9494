"""Tool calls that a person must allow: they wait, are decided about once, and then run or are answered in words."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import from_json, to_json

from pentad.contracts.approvals import digest_of_args
from pentad.contracts.instructions import DIRECT_CALL, Instruction, agent_tool
from pentad.contracts.streams import TOOL_CALLS
from pentad.contracts.tools import ToolOutcome
from pentad.services.gateway.domain.approval import AskedDecision
from pentad.services.gateway.edge.problems import ProblemError
from pentad.services.gateway.tasks.approvals import Approvals, Decider
from pentad.services.gateway.tasks.queries import Queries
from pentad.services.tool_worker.call_closer import CallCloser
from pentad.shared.actors.approvals import KeptRequest, kept_request
from pentad.shared.actors.transcript import shown
from pentad.shared.keys import approvals, timers
from pentad.shared.models.ports import ChatRequest, ModelAnswer
from pentad.shared.plugins.registry import define
from pentad.shared.store.store import Store
from pentad.shared.work.entry import Entry
from tests.integration.handlers.flow import Flow, answer
from tests.integration.handlers.test_direct_calls import call_of, nobody
from tests.integration.handlers.test_own_tools import roles, said, told, transcript

ran: list[str] = []


def send_mail(to: str) -> str:
    """Sends a mail."""
    ran.append(to)
    return f"sent to {to}"


MAIL = define(send_mail, approval="always")
TOOLS = {"send_mail": MAIL}
TO_ADA = ("send_mail", '{"to":"ada"}')
TO_BOB = ("send_mail", '{"to":"bob"}')
ECHO = ("echo", '{"text":"x"}')
YES = AskedDecision(True, None, "", "")


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


def no(reason: str = "") -> AskedDecision:
    return AskedDecision(False, None, reason, "")


def edited(**args: Any) -> AskedDecision:
    return AskedDecision(True, args, "", "")


def calling(*calls: tuple[str, str]) -> Callable[[ChatRequest], ModelAnswer]:
    """Makes these calls at the message "go", and answers all else with what it was told last."""
    return lambda request: answer("", *calls) if said(request) == "go" else answer(f"so: {said(request)}")


async def asked_flow(store: Store, folder: Path, *calls: tuple[str, str], **settings: Any) -> Flow:
    """A flow in which the model has made these calls."""
    flow = await Flow(store, folder, calling(*calls), tools=TOOLS, **settings).prepare()
    await flow.say("go")
    await flow.drive()
    return flow


def gateway(flow: Flow) -> Approvals:
    return Approvals(flow.store, Queries(flow.store, flow.records, 1), flow.settings)


async def waiting(flow: Flow) -> list[dict[str, Any]]:
    return (await gateway(flow).page("default", 50, None, None)).items


async def decide(flow: Flow, asked: AskedDecision, call: str | None = None, by: str = "ann") -> Any:
    task = (await flow.task()).task
    call = call or (await told(flow.store, "approval_request"))[0]["tool_call_id"]
    return await gateway(flow).decide("default", task, call, asked, Decider(by, by))


async def refused_decision(flow: Flow, asked: AskedDecision, call: str | None = None) -> ProblemError:
    with pytest.raises(ProblemError) as refused:
        await decide(flow, asked, call)
    return refused.value


async def result(flow: Flow) -> dict[str, Any]:
    """The one result in the transcript, as it is shown: with its metadata."""
    (found,) = [
        m for m in map(shown, await flow.store.call("LRANGE", (await flow.task()).log, 0, -1)) if m["role"] == "tool"
    ]
    return found


async def test_a_call_waits_until_a_person_allows_it_and_then_runs_once(store: Store, tmp_path: Path) -> None:
    flow = await asked_flow(store, tmp_path, TO_ADA)
    assert (await flow.status(), ran) == ("waiting", [])
    (asks,) = await told(store, "approval_request")
    assert (asks["tool"], asks["args"], asks["effect"]) == ("send_mail", {"to": "ada"}, "unsafe")
    assert asks["args_digest"] == digest_of_args({"to": "ada"})
    assert asks["reason"] == "the tool asks for an approval of each call"
    assert [(e["status"], e["reason"]) for e in await told(store, "task_status")] == [("waiting", "approval")]
    assert [each["tool_call_id"] for each in await waiting(flow)] == [asks["tool_call_id"]]
    assert await store.call("XLEN", TOOL_CALLS.key(0, queue="default")) == 0
    decided = await decide(flow, YES)
    assert (decided.approved, decided.by) == (True, "ann")
    await flow.drive()
    assert (await flow.status(), ran) == ("completed", ["ada"])
    found = await result(flow)
    assert found["content"] == "sent to ada"
    assert found["metadata"] == {"approval": "approved", "approved_by": "ann"}
    (event,) = await told(store, "approval")
    assert (event["tool_call_id"], event["approved"], event["by"]) == (asks["tool_call_id"], True, "ann")


async def test_nothing_of_a_decided_call_is_left_behind(store: Store, tmp_path: Path) -> None:
    flow = await asked_flow(store, tmp_path, TO_ADA, TO_BOB)
    task = await flow.task()
    first, second = [e["tool_call_id"] for e in await told(store, "approval_request")]
    assert await store.call("ZSCORE", timers(0), f"expiry {task.actor}") is not None
    await decide(flow, YES, first)
    await decide(flow, no(), second)
    await flow.drive()
    assert await store.call("ZSCORE", timers(0), f"expiry {task.actor}") is None
    assert not await store.call("EXISTS", approvals(0, "default"))
    assert await store.call("HLEN", task.calls) == 0
    kept = await store.call("HKEYS", task.big)
    assert not [name for name in kept if name.startswith(b"asks:")]


async def test_a_refused_call_never_runs_and_the_model_is_told_why(store: Store, tmp_path: Path) -> None:
    flow = await asked_flow(store, tmp_path, TO_ADA)
    await decide(flow, no("not to her"))
    await flow.drive()
    assert (await flow.status(), ran) == ("completed", [])
    found = await result(flow)
    assert found["content"] == "error: the person has refused this call: not to her"
    assert found["metadata"] == {"approval": "refused", "approved_by": "ann"}
    assert [e["error"] for e in await told(store, "tool_result")] == ["the person has refused this call: not to her"]


async def test_the_call_runs_with_the_arguments_that_were_allowed(store: Store, tmp_path: Path) -> None:
    flow = await asked_flow(store, tmp_path, TO_ADA)
    decided = await decide(flow, edited(to="eve"))
    assert decided.args == {"to": "eve"}
    await flow.drive()
    assert ran == ["eve"]
    found = await result(flow)
    assert found["content"] == '(A person has changed the arguments of this call to {"to":"eve"})\nsent to eve'
    assert found["metadata"] == {"approval": "approved", "approved_by": "ann", "approved_args": '{"to":"eve"}'}
    assert [e["args"] for e in await told(store, "approval")] == [{"to": "eve"}]


@pytest.mark.parametrize("args", [{"to": 7}, {}, {"to": "eve", "cc": "bob"}, {"to": None}])
async def test_arguments_that_do_not_fit_the_tool_decide_nothing(
    store: Store, tmp_path: Path, args: dict[str, Any]
) -> None:
    flow = await asked_flow(store, tmp_path, TO_ADA)
    problem = await refused_decision(flow, edited(**args))
    assert (problem.status, problem.detail[:5]) == (422, "args:")
    assert await told(store, "approval") == []
    await decide(flow, YES)
    await flow.drive()
    assert ran == ["ada"]


async def test_other_calls_run_while_a_person_is_asked(store: Store, tmp_path: Path) -> None:
    flow = await asked_flow(store, tmp_path, TO_ADA, ECHO)
    assert [e["result"] for e in await told(store, "tool_result")] == ["x"]
    assert (await flow.status(), flow.model.asked) == ("waiting", 1)
    await decide(flow, YES)
    await flow.drive()
    assert [m["content"] for m in await transcript(flow)][2:4] == ["sent to ada", "x"]
    assert await flow.status() == "completed"


async def test_a_task_is_active_until_its_other_calls_have_ended(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, calling(TO_ADA, ECHO), tools=TOOLS).prepare()
    tools = flow._served.pop()
    await flow.say("go")
    await flow.drive()
    assert await flow.status() == "active"
    flow._served.append(tools)
    await flow.drive()
    assert await flow.status() == "waiting"


async def test_several_calls_wait_at_once_and_each_has_its_own_decision(store: Store, tmp_path: Path) -> None:
    flow = await asked_flow(store, tmp_path, TO_ADA, TO_BOB)
    first, second = [e["tool_call_id"] for e in await told(store, "approval_request")]
    assert {each["tool_call_id"] for each in await waiting(flow)} == {first, second}
    await decide(flow, no(), first)
    await flow.drive()
    assert (await flow.status(), flow.model.asked) == ("waiting", 1)
    assert [each["tool_call_id"] for each in await waiting(flow)] == [second]
    await decide(flow, YES, second)
    await flow.drive()
    assert (await flow.status(), ran) == ("completed", ["bob"])
    told_model = [m["content"] for m in await transcript(flow) if m["role"] == "tool"]
    assert told_model == ["error: the person has refused this call: no reason was given", "sent to bob"]


async def test_the_first_decision_is_the_only_one(store: Store, tmp_path: Path) -> None:
    flow = await asked_flow(store, tmp_path, TO_ADA)
    first = await decide(flow, YES)
    assert await decide(flow, YES, by="bob") == first
    assert (await refused_decision(flow, no())).status == 409
    assert (await refused_decision(flow, edited(to="eve"))).status == 409
    assert await decide(flow, edited(to="ada")) == first, "the same arguments are no change"
    await flow.drive()
    assert await decide(flow, YES) == first, "also when the call has been made"
    assert (await refused_decision(flow, no())).status == 409
    assert ran == ["ada"]
    assert len(await told(store, "approval")) == 1


async def test_of_decisions_at_the_same_instant_one_counts(store: Store, tmp_path: Path) -> None:
    flow = await asked_flow(store, tmp_path, TO_ADA)
    every = [decide(flow, asked, by=f"p{n}") for n in range(8) for asked in (YES, no(), edited(to="eve"))]
    outcomes = await asyncio.gather(*every, return_exceptions=True)
    taken = {(each.approved, each.by) for each in outcomes if not isinstance(each, BaseException)}
    refused = [each for each in outcomes if isinstance(each, ProblemError)]
    assert len(taken) == 1
    assert {each.status for each in refused} == {409}
    await flow.drive()
    assert len(ran) <= 1
    assert len(await told(store, "approval")) == 1


async def test_a_decision_that_names_other_arguments_is_refused(store: Store, tmp_path: Path) -> None:
    flow = await asked_flow(store, tmp_path, TO_ADA)
    seen = digest_of_args({"to": "bob"})
    problem = await refused_decision(flow, AskedDecision(True, None, "", seen))
    assert (problem.status, "other arguments" in problem.detail) == (409, True)
    await decide(flow, AskedDecision(True, None, "", digest_of_args({"to": "ada"})))


async def test_a_cancel_beside_an_approval_runs_nothing(store: Store, tmp_path: Path) -> None:
    flow = await asked_flow(store, tmp_path, TO_ADA)
    await decide(flow, YES)
    await flow.actors.post(await flow.task(), "cancel", b"{}", ("waiting",), "cancel")
    await flow.drive()
    assert (await flow.status(), ran) == ("cancelled", [])
    assert (await decide(flow, YES)).approved, "the decision stays what it was"
    assert await waiting(flow) == []


async def test_a_call_whose_task_has_ended_cannot_be_allowed(store: Store, tmp_path: Path) -> None:
    flow = await asked_flow(store, tmp_path, TO_ADA)
    await flow.actors.post(await flow.task(), "cancel", b"{}", ("waiting",), "cancel")
    await flow.drive()
    problem = await refused_decision(flow, YES)
    assert (problem.status, "has ended" in problem.detail) == (409, True)
    assert (await told(store, "tool_result"))[0]["error"] == "the task was cancelled"


async def test_a_call_that_waits_for_none_is_unknown(store: Store, tmp_path: Path) -> None:
    flow = await asked_flow(store, tmp_path, TO_ADA)
    assert (await refused_decision(flow, YES, "call-0-none")).status == 404


async def expire(flow: Flow) -> None:
    """Let the time to decide pass, and its timer fire."""
    task = await flow.task()
    raw = from_json(await flow.store.call("HGET", task.header, "open"))
    for call in raw:
        if len(call) > 4:
            state = (await flow.store.call("HGET", task.calls, call[0])).decode().split(" ")
            await flow.store.call("HSET", task.calls, call[0], f"asks 1 {state[2]}")
            call[4] = 1
    await flow.store.call("HSET", task.header, "open", to_json(raw))
    await flow.actors.post(task, "expiry", b"{}", ("waiting",))


async def test_a_call_about_which_nobody_decides_in_time_is_not_made(store: Store, tmp_path: Path) -> None:
    flow = await asked_flow(store, tmp_path, TO_ADA)
    await expire(flow)
    late = await refused_decision(flow, YES)
    assert (late.status, "time to decide" in late.detail) == (409, True), "also before the task has noticed"
    await flow.drive()
    assert (await flow.status(), ran) == ("completed", [])
    found = await result(flow)
    assert "nobody has decided within 3600 s" in found["content"]
    assert found["metadata"] == {"approval": "expired"}
    (event,) = await told(store, "approval")
    assert (event["approved"], event["reason"], event.get("by")) == (False, "expired", None)
    assert (await refused_decision(flow, no())).status == 409
    assert (await refused_decision(flow, YES)).status == 409


async def test_a_message_that_says_neither_yes_nor_no_decides_nothing_and_is_seen_by_the_next_step(
    store: Store, tmp_path: Path
) -> None:
    flow = await asked_flow(store, tmp_path, TO_ADA)
    await flow.say("yes but to bob")
    await flow.drive()
    assert (await flow.status(), ran, flow.model.asked) == ("waiting", [], 1)
    await decide(flow, YES)
    await flow.drive()
    messages = await transcript(flow)
    assert roles(messages) == ["user", "assistant", "tool", "user", "assistant"]
    assert (messages[3]["content"], await flow.status()) == ("yes but to bob", "completed")


async def test_a_paused_task_keeps_the_decision_until_it_is_resumed(store: Store, tmp_path: Path) -> None:
    flow = await asked_flow(store, tmp_path, TO_ADA)
    task = await flow.task()
    await flow.actors.post(task, "pause", b"{}", ("waiting",), "pause")
    await flow.drive()
    await decide(flow, YES)
    await flow.drive()
    assert (await flow.status(), ran) == ("waiting", [])
    await flow.actors.post(task, "resume", b"{}", ("waiting",), "resume")
    await flow.drive()
    assert (await flow.status(), ran) == ("completed", ["ada"])


async def test_no_time_limit_of_the_step_ends_a_call_that_waits(store: Store, tmp_path: Path) -> None:
    flow = await asked_flow(store, tmp_path, TO_ADA, pentad_step_timeout_s=0.001)
    await flow.actors.post(await flow.task(), "timeout", b"{}", ("waiting",))
    await flow.drive()
    assert await flow.status() == "waiting"


@pytest.mark.parametrize(("mode", "asks"), [("never", 0), ("unsafe", 1), ("all", 2)])
async def test_an_operator_may_ask_for_approvals_of_tools_that_do_not(
    store: Store, tmp_path: Path, mode: str, asks: int
) -> None:
    plain = {"send_mail": define(send_mail)}
    script = calling(TO_ADA, ECHO, ("complete_task", '{"summary":"done"}'))
    flow = await Flow(store, tmp_path, script, tools=plain, pentad_approve=mode).prepare()
    await flow.say("go")
    await flow.drive()
    assert len(await told(store, "approval_request")) == asks


async def test_a_call_that_cannot_be_made_asks_nobody(store: Store, tmp_path: Path) -> None:
    flow = await asked_flow(store, tmp_path, ("send_mail", "{broken"), ("nope", "{}"), pentad_approve="all")
    assert await told(store, "approval_request") == []
    assert await flow.status() == "completed"


async def test_a_question_and_an_approval_of_one_answer_are_both_waited_for(store: Store, tmp_path: Path) -> None:
    flow = await asked_flow(store, tmp_path, ("ask_user", '{"question":"Which city?"}'), TO_ADA)
    assert (await told(store, "task_status"))[-1]["reason"] == "question"
    await flow.say("Berlin")
    await flow.drive()
    assert ((await told(store, "task_status"))[-1]["reason"], await flow.status()) == ("approval", "waiting")
    await decide(flow, YES)
    await flow.drive()
    assert (await flow.status(), ran) == ("completed", ["ada"])


async def test_large_arguments_are_cut_in_events_and_run_whole(store: Store, tmp_path: Path) -> None:
    long = "x" * 20_000
    flow = await asked_flow(store, tmp_path, ("send_mail", to_json({"to": long}).decode()))
    (asks,) = await told(store, "approval_request")
    assert isinstance(asks["args"], str)
    assert len(asks["args"]) == 16 * 1024
    whole = await Queries(store, flow.records, 1).value("default", (await flow.task()).task, asks["ref"])
    assert whole == to_json({"to": long}).decode()
    await decide(flow, YES)
    await flow.drive()
    assert ran == [long]


async def test_a_call_outside_a_conversation_waits_as_one_of_a_model_does(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, nobody, tools=TOOLS).prepare()
    await flow.say(call_of("send_mail", to="ada"), instruction=DIRECT_CALL, task_id="new")
    await flow.drive()
    assert (await flow.status(), ran) == ("waiting", [])
    await decide(flow, YES)
    await flow.drive()
    assert (await flow.status(), ran) == ("completed", ["ada"])


async def test_an_agent_that_another_has_called_asks_for_its_own_calls(store: Store, tmp_path: Path) -> None:
    helper = Instruction(name="helper", system_prompt="You send mails.", tools=["send_mail"])
    boss = Instruction(name="boss", system_prompt="You lead.", tools=[agent_tool("helper")])

    def script(request: ChatRequest) -> ModelAnswer:
        told_last, system = said(request), str(from_json(request.messages[0])["content"])
        if "You lead." in system:
            return answer("", ("agent_helper", '{"task":"mail ada"}')) if told_last == "go" else answer("all done")
        return answer("", TO_ADA) if told_last == "mail ada" else answer("mailed")

    flow = await Flow(store, tmp_path, script, instructions=[helper, boss], tools=TOOLS).prepare()
    await flow.say("go", instruction="boss")
    await flow.drive()
    (asks,) = await waiting(flow)
    assert asks["session_id"] == "s1"
    await gateway(flow).decide("default", asks["task_id"], asks["tool_call_id"], YES, Decider("ann", "ann"))
    await flow.drive()
    assert ran == ["ada"]
    (end,) = [e for e in await told(store, "task_end") if not e.get("parent_task_id")]
    assert end["status"] == "completed"


async def test_the_result_of_a_call_whose_decision_a_failover_took_back_ends_its_wait(
    store: Store, tmp_path: Path
) -> None:
    """The new primary lacks the decision, and the worker that made the call brings its result."""
    flow = await asked_flow(store, tmp_path, TO_ADA)
    task, [asks] = await flow.task(), await told(store, "approval_request")
    kept = KeptRequest.model_validate_json(await store.call("HGET", task.big, kept_request(asks["tool_call_id"])))
    entry = Entry(TOOL_CALLS.key(0, queue="default"), "1-1", b"")
    closer = CallCloser(store, flow.settings, 0)
    await closer.close(entry, kept.command, task, ToolOutcome("ok", "sent to ada"))
    await flow.drive()
    assert await flow.status() == "completed"
    assert (await result(flow))["content"] == "sent to ada"
    assert not await store.call("EXISTS", approvals(0, "default"))
    assert await store.call("ZSCORE", timers(0), f"expiry {task.actor}") is None
    assert not [name for name in await store.call("HKEYS", task.big) if name.startswith(b"asks:")]
    assert (await refused_decision(flow, YES, asks["tool_call_id"])).status == 409


async def test_who_says_something_while_a_call_waits_is_told_so_once(store: Store, tmp_path: Path) -> None:
    """Promise: a message to a task that stays waiting repeats its ``task_status: waiting``, which ends the turn."""
    flow = await asked_flow(store, tmp_path, TO_ADA)
    for count, text in enumerate(("use the new address", "and the old one too"), start=2):
        await flow.say(text)
        await flow.drive()
        await flow.drive()
        waits = [(e["status"], e["reason"]) for e in await told(store, "task_status")]
        assert waits == [("waiting", "approval")] * count
    await decide(flow, YES)
    await flow.drive()
    assert (await flow.status(), ran) == ("completed", ["ada"])
    assert roles(await transcript(flow))[-3:] == ["user", "user", "assistant"]
