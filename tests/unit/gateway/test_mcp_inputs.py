"""Questions of MCP and their answers: a decision is about what the person has seen; a state names ids alone."""

from base64 import urlsafe_b64encode
from typing import Any

import pytest
from pydantic_core import to_json

from pentad.contracts.approvals import PendingApproval, digest_of_args
from pentad.contracts.graphs import GraphSpec
from pentad.contracts.instructions import Instruction
from pentad.contracts.tokens import Right
from pentad.contracts.tools import Effect
from pentad.contracts.turn_states import TurnState
from pentad.services.gateway.domain.frames import UnreadableError
from pentad.services.gateway.edge.access import Caller
from pentad.services.gateway.edge.tokens import Grant
from pentad.services.gateway.protocols.mcp_server.catalogue import PAGE_TOOLS, tool_of, tools_page
from pentad.services.gateway.protocols.mcp_server.inputs import (
    PersonsReply,
    decisions_of,
    questions_of,
    read_state,
    text_of_answer,
)

KEY = Caller("acme", admin=False, key=b"k")


def pending(call: str, args: dict[str, Any], form: dict[str, Any] | None = None) -> PendingApproval:
    return PendingApproval(
        task_id="task-0-a",
        session_id="s1",
        tool_call_id=call,
        tool="mail",
        args=args,
        args_digest=digest_of_args(args),
        effect=Effect.UNSAFE,
        reason="it costs",
        asked_at="2026-01-01T00:00:00Z",
        expires_at="2026-01-02T00:00:00Z",
        needs="approval" if form is None else "input",
        form=form,
    )


def waiting(*calls: PendingApproval, reason: str = "approval") -> TurnState:
    return TurnState(
        session_id="s1", message_id="m1", task_id="task-0-a", status="waiting", reason=reason, waiting=list(calls)
    )


def accept(**content: Any) -> PersonsReply:
    return PersonsReply("accept", content)


def test_a_decision_is_about_the_arguments_that_the_person_has_seen() -> None:
    asked = questions_of(waiting(pending("c1", {"to": "a"}), pending("c2", {"to": "b"}), pending("c3", {})))
    assert asked is not None
    state, questions = asked
    assert questions["c1"].message == 'it costs\nmail({"to":"a"})'
    back = read_state(state.written())
    assert back == state
    replies = {
        "c1": accept(approved=True, reason=""),
        "c2": accept(approved=True, args='{"to": "c"}'),
        "c3": PersonsReply("decline", {}),
        "c4": accept(approved=True),
    }
    made = dict(decisions_of(back, replies))
    assert set(made) == {"c1", "c2", "c3"}
    assert (made["c1"].approved, made["c1"].args_digest) == (True, digest_of_args({"to": "a"}))
    assert made["c2"].args == {"to": "c"}
    assert not made["c3"].approved
    assert decisions_of(back, {"c1": PersonsReply("cancel", {})}) == []


@pytest.mark.parametrize(
    "content", [{}, {"approved": "yes"}, {"approved": True, "args": "[1]"}, {"approved": True, "x": 1}]
)
def test_an_answer_that_is_no_decision_is_refused(content: dict[str, Any]) -> None:
    asked = questions_of(waiting(pending("c1", {})))
    assert asked is not None
    with pytest.raises(UnreadableError):
        decisions_of(asked[0], {"c1": PersonsReply("accept", content)})


def test_a_form_is_asked_for_its_plain_fields() -> None:
    plain = {"type": "object", "properties": {"age": {"type": "integer", "x-secret": 1}}, "required": ["age"]}
    nested = {"type": "object", "properties": {"tags": {"type": "array", "items": {"type": "string"}}}}
    asked = questions_of(waiting(pending("c1", {}, plain), pending("c2", {}, nested)))
    assert asked is not None
    state, questions = asked
    assert questions["c1"].form == {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
    assert [call.id for call in state.calls] == ["c1"], "what no form can ask is told in words"
    [(name, decision)] = decisions_of(state, {"c1": accept(age=7)})
    assert (name, decision.approved, decision.args) == ("c1", True, {"age": 7})
    assert questions_of(waiting(pending("c2", {}, nested))) is None


def test_a_question_is_answered_by_one_message() -> None:
    asked = questions_of(waiting(reason="question"))
    assert asked is not None
    assert asked[0].answer_id == read_state(asked[0].written()).answer_id
    assert text_of_answer({"answer": accept(answer="Monday")}) == "Monday"
    assert text_of_answer({"answer": PersonsReply("cancel", {})}) is None
    with pytest.raises(UnreadableError):
        text_of_answer({"answer": accept(answer="")})
    assert questions_of(waiting(reason="paused")) is None


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"{}",
        b"[" * 5000,
        to_json({"session": "s", "message": "m", "task": "t", "tenant": "bolt"}),
        to_json({"session": "a/b", "message": "m", "task": "t"}),
        to_json({"session": "s", "message": "m", "task": "t", "calls": [{"id": "c", "digest": ""}] * 17}),
    ],
)
def test_a_state_that_is_none_of_ours_is_refused(said: bytes) -> None:
    for text in (urlsafe_b64encode(said).decode(), said.decode(), "é" * 100, "A" * 20_000):
        with pytest.raises(UnreadableError, match="requestState"):
            read_state(text)


def instruction(name: str, **more: Any) -> Instruction:
    return Instruction(name=name, system_prompt="x", **more)


def test_the_list_of_tools_has_pages() -> None:
    known = {each.name: each for each in (instruction(f"i{number:03}") for number in range(250))}
    names, after = list[str](), None
    for _ in range(4):
        page, after = tools_page(KEY, known, after)
        assert len(page) <= PAGE_TOOLS
        names += [tool.name for tool in page]
        if after is None:
            break
    assert after is None
    assert names[:2] == ["run", "send"]
    assert [name for name in names if name.startswith("run__")] == [f"run__{name}" for name in known]


@pytest.mark.parametrize(
    ("may", "shown"),
    [
        (("read",), {"run_state"}),
        (("read", "send"), {"run", "send", "run_state", "cancel", "run__poet"}),
        (("approve",), {"decide"}),
    ],
)
def test_a_token_is_shown_what_it_may_use(may: tuple[Right, ...], shown: set[str]) -> None:
    token = Caller("acme", admin=False, grant=Grant("acme", "s1", None, may, 0, 1))
    tools, _ = tools_page(token, {"poet": instruction("poet")}, None)
    assert {tool.name for tool in tools} == shown


def test_schemas_stand_in_the_tools_where_they_can() -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string"}}}
    inside = {"type": "object", "properties": {"a": {"$ref": "#/properties/b"}, "b": {"type": "string"}}}
    large = {"type": "object", "description": "x" * 20_000}
    graph = {"name": "g", "nodes": [{"key": "n", "kind": "llm", "instruction": "poet"}], "entry": "n", "ends": ["n"]}
    tool = tool_of(GraphSpec.model_validate(graph | {"state_schema": schema}))
    assert tool.input_schema["properties"]["state"] == {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}}
    assert tool.input_schema["$defs"] == {"A": {"type": "string"}}
    for each in (inside, large):
        told = tool_of(instruction("i", output="json", output_schema=each)).output or {}
        assert told["properties"]["data"] == {}
        assert "$defs" not in told
