"""Approval policies of a running system: followed at once, and held to by persons, tokens and edited arguments."""

import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

import pentad
from tests.support.models.model_server import ScriptedModel
from tests.support.processes.gates import Gates, plan, planned
from tests.support.processes.up import Up
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.acceptance

SOON_S = 5.0
"""Seconds within which a change is followed even on a busy machine; about one is promised."""


def calls(tag: str) -> str:
    """A message at which the model calls a tool that passes an open gate."""
    return plan([("gate_unsafe", {"gate": "all", "tag": tag})])


@pytest.fixture
def gates(tmp_path: Path) -> Gates:
    made = Gates(tmp_path / "gates")
    made.open("all")
    return made


async def test_a_rule_applies_within_a_second_and_a_deny_holds_for_edited_arguments(
    tmp_path: Path, gates: Gates
) -> None:
    async with ScriptedModel(planned, record=False) as model:
        with Up(tmp_path, {"LLM_BASE_URL": model.base_url, **gates.environment}) as up:
            url = await up.ready()
            async with (
                httpx2.AsyncClient(base_url=url, trust_env=False, timeout=PATIENCE_S) as http,
                pentad.connect(url, admin_key=up.admin_key) as agent,
            ):
                assert await agent.ask(calls("free"), session_id="s0") == "done"
                tool = "gate_*"
                await agent.management.register_policy(name="ask", then="ask", tool=tool, expires_s=600)
                denies = {"tag": {"matches": "evil"}}
                await agent.management.register_policy(name="deny", then="deny", tool=tool, args=denies, order=900)
                begun, tried = time.monotonic(), 0

                async def denied() -> bool:
                    nonlocal tried
                    tried += 1
                    session = f"evil{tried}"
                    await _say(http, calls(session), session)
                    return await _ended_or_waits(agent, session) == "completed" and not gates.ledger(tag=session)

                await wait_until("the rule to be followed", denied)
                took = time.monotonic() - begun
                print(f"a rule was followed {took:.3f} s after it was added")
                assert took < SOON_S
                told = len(gates.ledger())
                await _say(http, calls("good"), "s1")
                waiting = await _waiting(agent, "s1")
                decided = await agent.management.approve(
                    waiting.task_id, waiting.tool_call_id, args={"gate": "all", "tag": "evil"}
                )
                assert decided.approved
                assert await _ended_or_waits(agent, "s1") == "completed"
                assert len(gates.ledger()) == told, "nothing has run"
                await agent.management.delete_policy("deny")
                await agent.management.delete_policy("ask")
                assert await agent.inspection.approval_policies() == []


async def _say(http: httpx2.AsyncClient, text: str, session: str) -> None:
    sent = await http.post("/v1/messages", json={"content": text, "session_id": session})
    assert sent.is_success, sent.text


async def _status(agent: pentad.Agent, session: str) -> str:
    found = await agent.inspection.tasks(session_id=session)
    return found[0].status if found else ""


async def _ended_or_waits(agent: pentad.Agent, session: str) -> str:
    """The status of the session's task once it goes on no more."""

    async def settled() -> str:
        status = await _status(agent, session)
        return status if status in ("completed", "failed", "waiting") else ""

    return await wait_until(f"the task of {session} to end or wait", settled)


async def _waiting(agent: pentad.Agent, session: str) -> Any:
    async def there() -> Any:
        return next((each for each in await agent.inspection.approvals() if each.session_id == session), None)

    return await wait_until(f"a call of {session} to wait", there)


KEYS = {"PENTAD_API_KEYS": "ka:acme", "PENTAD_ADMIN_KEY": "boss"}


@pytest.mark.parametrize(
    ("ways", "by"),
    [
        pytest.param(
            [("bob", "send approve"), (None, "send approve"), ("ann", "send"), ("ann", "send approve")], "token"
        ),
        pytest.param([(None, ""), ("bob", ""), ("key", ""), ("ann", "")], "key"),
    ],
)
async def test_yes_in_a_message_counts_from_an_approver_alone_by_its_token_or_as_the_key_says(
    tmp_path: Path, gates: Gates, ways: list[tuple[str | None, str]], by: str
) -> None:
    (file := tmp_path / "rules.toml").write_text('[[policies]]\nname = "a"\nthen = "ask"\napprovers = ["ann"]\n')
    environment = {**KEYS, **gates.environment, "PENTAD_POLICIES": str(file)}
    async with ScriptedModel(planned, record=False) as model:
        with Up(tmp_path, {"LLM_BASE_URL": model.base_url, **environment}) as up:
            url = await up.ready()
            async with (
                httpx2.AsyncClient(base_url=url, trust_env=False, timeout=PATIENCE_S) as http,
                pentad.connect(url, api_key="ka") as agent,
            ):

                async def post(path: str, body: dict[str, Any], bearer: str = "ka") -> dict[str, Any]:
                    sent = await http.post(path, json=body, headers={"Authorization": f"Bearer {bearer}"})
                    assert sent.is_success, sent.text
                    return dict(sent.json())

                await post("/v1/messages", {"content": calls("it"), "session_id": "s1"})
                waiting = await _waiting(agent, "s1")
                yes = {"content": "yes", "session_id": "s1", "task_id": waiting.task_id}
                for user, may in ways:
                    who = {} if user is None else {"user_id": user}
                    if by == "key":
                        await post("/v1/messages", yes | who)
                    else:
                        token = await post("/v1/tokens", {"session_id": "s1", "may": may.split(), **who})
                        await post("/v1/messages", yes, token["token"])
                await wait_until("the call to run", lambda: gates.ledger(tag="it"))
                assert await _ended_or_waits(agent, "s1") == "completed"
                transcript = await agent.inspection.transcript(waiting.task_id)
                (result,) = [message for message in transcript.messages if message["role"] == "tool"]
                assert result["metadata"]["approved_by"] == "ann", "the first yes that counted"
