"""Operators' rules about tool calls, from the model's answer to what becomes of the call."""

from pathlib import Path
from typing import Any

import pytest

from pentad.contracts.approvals import ApprovalRule
from pentad.contracts.graphs import GraphSpec
from pentad.contracts.ids import milliseconds
from pentad.contracts.instructions import DIRECT_CALL, Instruction
from pentad.contracts.tools import ToolOutcome
from pentad.services.gateway.domain.approval import AskedDecision
from pentad.services.gateway.edge.problems import ProblemError
from pentad.services.gateway.tasks.approvals import Decider
from pentad.shared.keys import timers
from pentad.shared.metrics import approvals
from pentad.shared.plugins.registry import define
from pentad.shared.registries.registrations import REGISTERED_POLICIES
from pentad.shared.store.store import Store
from tests.integration.handlers.flow import Flow
from tests.integration.handlers.test_approvals import (
    ECHO,
    TO_ADA,
    TO_BOB,
    YES,
    calling,
    decide,
    edited,
    gateway,
    no,
    ran,
    refused_decision,
    result,
    send_mail,
    waiting,
)
from tests.integration.handlers.test_direct_calls import call_of, nobody
from tests.integration.handlers.test_kept_calls import BOOKED, booking, given, needs
from tests.integration.handlers.test_own_tools import told

FREE = {"send_mail": define(send_mail)}
GUARDED = {"send_mail": define(send_mail, approval="always")}
NOT_TO_EVE = {"name": "not-to-eve", "args": {"to": {"equals": "eve"}}, "then": "deny", "reason": "eve is a stranger"}
DENIED = "this call is not allowed here: eve is a stranger"
TO_EVE = ("send_mail", '{"to":"eve"}')


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


def rules(*rows: dict[str, Any]) -> tuple[ApprovalRule, ...]:
    return tuple(ApprovalRule.model_validate({"name": f"r{n}"} | each) for n, each in enumerate(rows))


async def flow_with(
    store: Store, folder: Path, rows: Any, *calls: tuple[str, str], tools: Any = FREE, **more: Any
) -> Flow:
    """A flow under these rules in which the model has made these calls."""
    flow = await Flow(store, folder, calling(*calls), tools=tools, policies=rules(*rows), **more).prepare()
    await flow.say("go")
    await flow.drive()
    return flow


async def test_a_rule_has_a_person_asked_and_says_why_whom_and_how_long(store: Store, tmp_path: Path) -> None:
    asks = {"tool": "send_*", "then": "ask", "reason": "mail leaves the house", "approvers": ["ann"], "expires_s": 60}
    flow = await flow_with(store, tmp_path, [asks], TO_ADA, ECHO)
    assert (await flow.status(), ran) == ("waiting", [])
    (event,) = await told(store, "approval_request")
    assert (event["tool"], event["reason"], event["approvers"]) == ("send_mail", "mail leaves the house", ["ann"])
    (shown,) = await waiting(flow)
    assert shown["approvers"] == ["ann"]
    assert milliseconds(shown["expires_at"]) - milliseconds(shown["asked_at"]) == 60_000
    due = await store.call("ZSCORE", timers(0), f"expiry {(await flow.task()).actor}")
    assert float(due) == milliseconds(shown["expires_at"])
    await decide(flow, YES)
    await flow.drive()
    assert (await flow.status(), ran) == ("completed", ["ada"])


async def test_a_denied_call_asks_nobody_and_is_its_result(store: Store, tmp_path: Path) -> None:
    denied = approvals.labels("denied").value
    flow = await flow_with(store, tmp_path, [NOT_TO_EVE], TO_EVE, tools=GUARDED)
    assert (await flow.status(), ran) == ("completed", [])
    assert await told(store, "approval_request") == []
    assert (await result(flow))["content"] == f"error: send_mail: {DENIED}"
    assert [e["error"] for e in await told(store, "tool_result")] == [f"send_mail: {DENIED}"]
    assert approvals.labels("denied").value == denied + 1


async def test_without_a_reason_the_model_is_told_the_name_of_the_rule(store: Store, tmp_path: Path) -> None:
    flow = await flow_with(store, tmp_path, [{"name": "no-mail", "tool": "send_*", "then": "deny"}], TO_ADA)
    assert (await result(flow))["content"].endswith("not allowed here: the policy no-mail denies it")


async def test_a_rule_that_allows_outranks_the_tool_and_the_setting(store: Store, tmp_path: Path) -> None:
    allows = {"args": {"to": {"matches": "^a"}}, "then": "allow"}
    flow = await flow_with(store, tmp_path, [allows], TO_ADA, TO_BOB, tools=GUARDED, pentad_approve="all")
    assert (await flow.status(), ran) == ("waiting", ["ada"])
    assert [each["args"] for each in await waiting(flow)] == [{"to": "bob"}]


async def test_a_rule_that_allows_keeps_the_tool_from_asking_itself(store: Store, tmp_path: Path) -> None:
    tool = define(send_mail, approval="ask_if", ask_if=lambda: True)
    allows = rules({"args": {"to": {"equals": "ada"}}, "then": "allow"})
    flow = await given(store, tmp_path, tool, TO_ADA, TO_BOB, policies=allows)
    assert (await flow.status(), ran) == ("waiting", ["ada"])


async def test_a_call_that_no_rule_is_about_is_made_as_without_any(store: Store, tmp_path: Path) -> None:
    others = [
        {"tool": "echo", "then": "deny"},
        {"tenant_id": "bolt", "then": "deny"},
        {"effect": "pure", "then": "ask"},
    ]
    flow = await flow_with(store, tmp_path, others, TO_ADA)
    assert (await flow.status(), ran) == ("completed", ["ada"])


@pytest.mark.parametrize("tools", [FREE, GUARDED])
async def test_edited_arguments_do_not_get_around_a_deny(store: Store, tmp_path: Path, tools: Any) -> None:
    flow = await flow_with(store, tmp_path, [NOT_TO_EVE, {"then": "ask"}], TO_ADA, tools=tools)
    decided = await decide(flow, edited(to="eve"))
    assert decided.approved
    await flow.drive()
    assert (await flow.status(), ran) == ("completed", [])
    found = await result(flow)
    assert found["content"] == f"error: {DENIED}"
    assert (found["metadata"]["approval"], found["metadata"]["approved_by"]) == ("approved", "ann")


async def test_what_was_denied_may_be_edited_into_nothing_that_runs(store: Store, tmp_path: Path) -> None:
    """A denied call waits for nobody: there is nothing that a person could edit."""
    flow = await flow_with(store, tmp_path, [NOT_TO_EVE, {"then": "ask"}], TO_EVE)
    call = (await told(store, "tool_call"))[0]["tool_call_id"]
    assert (await refused_decision(flow, edited(to="ada"), call)).status in (404, 409)
    assert ran == []


async def test_a_deny_that_has_come_since_counts_when_the_call_is_allowed(store: Store, tmp_path: Path) -> None:
    flow = await flow_with(store, tmp_path, [{"then": "ask"}], TO_EVE, TO_BOB)
    flow.policies.use_file(rules(NOT_TO_EVE))
    for asks in await told(store, "approval_request"):
        await decide(flow, YES, asks["tool_call_id"])
    await flow.drive()
    assert (await flow.status(), ran) == ("completed", ["bob"])


async def test_a_refused_call_is_told_as_refused_although_a_deny_has_come(store: Store, tmp_path: Path) -> None:
    flow = await flow_with(store, tmp_path, [{"then": "ask"}], TO_EVE)
    flow.policies.use_file(rules(NOT_TO_EVE))
    await decide(flow, no("not her"))
    await flow.drive()
    assert (await result(flow))["content"] == "error: the person has refused this call: not her"


async def test_a_call_that_waited_for_others_is_denied_when_its_turn_comes(store: Store, tmp_path: Path) -> None:
    tools = GUARDED | {"log_mail": define(log_mail, after=["send_mail"])}
    flow = await flow_with(store, tmp_path, [], TO_ADA, ("log_mail", "{}"), tools=tools)
    flow.policies.use_file(rules({"tool": "log_mail", "then": "deny"}))
    await decide(flow, YES)
    await flow.drive()
    assert (await flow.status(), ran) == ("completed", ["ada"])


def log_mail() -> str:
    """Logs a mail."""
    ran.append("logged")
    return "logged"


async def test_a_tool_that_asks_itself_is_held_to_a_deny_with_edited_arguments(store: Store, tmp_path: Path) -> None:
    tool = define(send_mail, approval="ask_if", ask_if=lambda: True)
    flow = await given(store, tmp_path, tool, TO_ADA, policies=rules(NOT_TO_EVE))
    assert await flow.status() == "waiting"
    await decide(flow, edited(to="eve"))
    await flow.drive()
    assert (await flow.status(), ran) == ("completed", [])


@pytest.mark.parametrize(
    ("asks", "says"),
    [
        (needs(), edited(seats=2)),
        (needs(), no("not today")),
        (ToolOutcome("interrupted", "its process was lost"), edited(outcome="try again")),
    ],
)
async def test_a_call_that_has_stopped_on_its_way_does_not_go_on_once_it_is_denied(
    store: Store, tmp_path: Path, asks: Any, says: AskedDecision
) -> None:
    flow, source = await booking(store, tmp_path, asks, BOOKED, on_unknown="ask")
    flow.policies.use_file(rules({"tool": "book", "then": "deny", "reason": "no more"}))
    await decide(flow, says)
    await flow.drive()
    assert (await flow.status(), len(source.runs)) == ("completed", 1)
    assert (await result(flow))["content"] == "error: this call is not allowed here: no more"
    task = await flow.task()
    assert await store.call("HLEN", task.calls) == 0
    assert not [name for name in await store.call("HKEYS", task.big) if name.startswith(b"asks:")]


async def test_what_has_become_of_a_call_can_be_said_although_it_is_denied_now(store: Store, tmp_path: Path) -> None:
    lost = ToolOutcome("interrupted", "its process was lost")
    flow, source = await booking(store, tmp_path, lost, BOOKED, on_unknown="ask")
    flow.policies.use_file(rules({"tool": "book", "then": "deny"}))
    await decide(flow, edited(outcome="done", result="seat 12"))
    await flow.drive()
    assert (len(source.runs), (await result(flow))["content"]) == (1, "seat 12")


async def test_a_call_outside_a_conversation_is_held_to_the_rules(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, nobody, tools=FREE, policies=rules(NOT_TO_EVE)).prepare()
    await flow.say(call_of("send_mail", to="eve"), instruction=DIRECT_CALL, task_id="new")
    await flow.drive()
    assert (await flow.status(), ran) == ("failed", [])


GRAPH = GraphSpec.model_validate(
    {
        "name": "survey",
        "entry": "a",
        "ends": ["a"],
        "nodes": [{"key": "a", "kind": "llm", "instruction": "clerk"}],
        "edges": [],
    }
)
CLERK = Instruction(name="clerk", system_prompt="Send.")


@pytest.mark.parametrize("about", ["survey", "clerk", "cl*"])
async def test_a_rule_about_a_graph_or_its_node_holds_for_asked_and_edited_arguments(
    store: Store, tmp_path: Path, about: str
) -> None:
    policies = rules({**NOT_TO_EVE, "instruction": about}, {"then": "ask"})
    flow = await Flow(
        store, tmp_path, calling(TO_EVE, TO_ADA), tools=FREE, policies=policies, instructions=[CLERK], graphs=[GRAPH]
    ).prepare()
    await flow.say("go", instruction="survey")
    await flow.drive()
    (request,) = await told(store, "approval_request")
    assert request["args"] == {"to": "ada"}
    await decide(flow, edited(to="eve"))
    await flow.drive()
    assert (await flow.status(), ran) == ("completed", [])
    assert [e["error"] for e in await told(store, "tool_result")] == [f"send_mail: {DENIED}", DENIED]


async def test_a_registered_rule_is_followed(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, calling(TO_EVE), tools=FREE).prepare()
    (rule,) = rules(NOT_TO_EVE)
    assert await REGISTERED_POLICIES.write(store, await REGISTERED_POLICIES.read(store), rule.name, rule)
    await flow.policies.read()
    await flow.say("go")
    await flow.drive()
    assert (await flow.status(), ran) == ("completed", [])


@pytest.mark.parametrize(
    ("approvers", "who", "may"),
    [
        (["ann"], Decider("ann", "ann"), True),
        (["ann"], Decider("bob", "bob"), False),
        (["ann"], Decider("token:s1"), False),
        (["ann"], Decider("key:default", by_key=True), False),
        (["key"], Decider("key:default", by_key=True), True),
        (["ann", "key"], Decider("key:default", by_key=True), True),
        (["key"], Decider("key", "key"), False),
        (["key:default"], Decider("key:default", by_key=True), False),
        (["token:s1"], Decider("token:s1"), False),
    ],
)
async def test_only_the_approvers_of_a_rule_may_decide(
    store: Store, tmp_path: Path, approvers: list[str], who: Decider, may: bool
) -> None:
    flow = await flow_with(store, tmp_path, [{"then": "ask", "approvers": approvers}], TO_ADA)
    (asks,) = await waiting(flow)
    deciding = gateway(flow).decide("default", asks["task_id"], asks["tool_call_id"], YES, who)
    if may:
        assert (await deciding).by == who.name
    else:
        with pytest.raises(ProblemError) as refused:
            await deciding
        assert refused.value.status == 403
        assert ("API key" in refused.value.detail) is who.by_key
    await flow.drive()
    assert ran == (["ada"] if may else [])


@pytest.mark.parametrize(("user", "runs"), [("ann", True), ("bob", False), (None, False), ("key", False)])
async def test_a_yes_of_an_approver_alone_decides(store: Store, tmp_path: Path, user: str | None, runs: bool) -> None:
    flow = await flow_with(store, tmp_path, [{"then": "ask", "approvers": ["ann", "key"]}], TO_ADA)
    who: dict[str, Any] = {} if user is None else {"user_id": user}
    await flow.say("yes", **who)
    await flow.drive()
    assert ran == (["ada"] if runs else [])
