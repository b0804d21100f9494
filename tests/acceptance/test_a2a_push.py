"""Push notifications of A2A: official clients ask for them, and each update comes, whoever is killed."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.client import Client, ClientConfig, create_client
from a2a.types.a2a_pb2 import (
    AuthenticationInfo,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    ListTaskPushNotificationConfigsRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    Task,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import A2AError
from google.protobuf.json_format import ParseDict

from tests.support.javascript.packages import installed
from tests.support.models.replies import Reply, call, say
from tests.support.outside.webhook_receiver import BROKEN, OK, Receiver, webhook_receiver
from tests.support.processes.crew import crew
from tests.support.processes.stage import Stage, new_session
from tests.support.processes.up import ROOT
from tests.support.redis.redis_server import RedisServer
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.acceptance
COUNTS = {"gateway": 2, "router": 1, "task-runner": 1, "tool-worker": 1}


@pytest.fixture(params=["JSONRPC", "HTTP+JSON"])
def binding(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@asynccontextmanager
async def client(url: str, binding: str, *, streaming: bool = True) -> AsyncIterator[Client]:
    async with httpx.AsyncClient(timeout=PATIENCE_S, trust_env=False) as http:
        config = ClientConfig(httpx_client=http, supported_protocol_bindings=[binding], streaming=streaming)
        yield await create_client(url, client_config=config)


def config(receiver: Receiver, **more: Any) -> TaskPushNotificationConfig:
    secret = AuthenticationInfo(scheme="Bearer", credentials="cred-456")
    return TaskPushNotificationConfig(url=receiver.url(), token="tok-123", authentication=secret, **more)


async def task_of(agent: Client, text: str, pushed: TaskPushNotificationConfig, **more: Any) -> Task:
    """Send a message with a config, and return the task that the first answer or event is."""
    message = Message(message_id=new_session(), role=Role.ROLE_USER, parts=[Part(text=text)], **more)
    wanted = SendMessageConfiguration(task_push_notification_config=pushed)
    async for update in agent.send_message(SendMessageRequest(message=message, configuration=wanted)):
        return update.task
    raise AssertionError("there is no answer")


def updates(receiver: Receiver) -> list[StreamResponse]:
    """Return the updates that came, each once, in the order of their first coming, as the SDK reads them."""
    found = dict[str, Any]()
    for each in receiver.requests():
        found.setdefault(each.headers["webhook-id"], json.loads(each.body))
    return [ParseDict(each, StreamResponse()) for each in found.values()]


def states(receiver: Receiver) -> list[TaskState]:
    return [u.status_update.status.state for u in updates(receiver) if u.HasField("status_update")]


def has_ended(receiver: Receiver) -> bool:
    return TaskState.TASK_STATE_COMPLETED in states(receiver)


def script(request: dict[str, Any]) -> Reply:
    last = request["messages"][-1]
    if last["role"] == "tool":
        return say(f"it says {last['content']}", chunks=3)
    return call(("echo", {"text": "hello"})) if last["content"] == "echo" else say("hello")


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_message_brings_its_config_and_its_task_is_told(asking: Stage, binding: str, streaming: bool) -> None:
    """The tool call waits for a person: the client hangs up, and the decision comes from elsewhere."""
    async with (
        asking.model(script),
        webhook_receiver() as receiver,
        client(asking.url, binding, streaming=streaming) as agent,
    ):
        task = await task_of(agent, "echo", config(receiver))
        await wait_until("the wait", lambda: TaskState.TASK_STATE_INPUT_REQUIRED in states(receiver))
        asked = next(u for u in updates(receiver) if u.status_update.status.state == states(receiver)[-1])
        (_, data) = asked.status_update.status.message.parts
        assert data.data.struct_value["tool"] == "echo"
        path = f"/v1/tasks/{task.id}/approvals/{data.data.struct_value['tool_call_id']}"
        async with httpx.AsyncClient(base_url=asking.url, timeout=PATIENCE_S, trust_env=False) as http:
            assert (await http.post(path, json={"approved": True})).status_code == 200
        await wait_until("the end", lambda: has_ended(receiver))
        texts = [u.artifact_update.artifact.parts[0].text for u in updates(receiver) if u.HasField("artifact_update")]
        assert texts == ["it says hello"]
        assert {(u.status_update.task_id or u.artifact_update.task_id) for u in updates(receiver)} == {task.id}
        for request in receiver.requests():
            assert request.headers["authorization"] == "Bearer cred-456"
            assert request.headers["x-a2a-notification-token"] == "tok-123"


async def test_the_client_in_python_keeps_lists_and_deletes_configs(asking: Stage, binding: str) -> None:
    async with asking.model(script), webhook_receiver() as receiver, client(asking.url, binding) as agent:
        task = await task_of(agent, "hi", config(receiver))
        await wait_until("the end", lambda: has_ended(receiver))
        made = await agent.create_task_push_notification_config(config(receiver, id="c1", task_id=task.id))
        assert (made.id, made.task_id, made.url, made.token) == ("c1", task.id, receiver.url(), "")
        one = GetTaskPushNotificationConfigRequest(task_id=task.id, id="c1")
        assert await agent.get_task_push_notification_config(one) == made
        all_of_it = ListTaskPushNotificationConfigsRequest(task_id=task.id)
        found = (await agent.list_task_push_notification_configs(all_of_it)).configs
        assert sorted(each.id for each in found) == sorted([task.id, "c1"])
        for name in ("c1", "c1", task.id):
            gone = DeleteTaskPushNotificationConfigRequest(task_id=task.id, id=name)
            await agent.delete_task_push_notification_config(gone)
        assert not (await agent.list_task_push_notification_configs(all_of_it)).configs
        with pytest.raises(A2AError):
            await agent.get_task_push_notification_config(one)
        seen = len(receiver.requests())
        again = await task_of(agent, "hi", config(receiver, id="c2"), context_id=task.context_id)
        await wait_until("its end", lambda: len(receiver.requests()) > seen and has_ended(receiver))
        assert again.context_id == task.context_id


async def test_a_private_address_is_refused(asking: Stage, binding: str) -> None:
    async with asking.model(script), client(asking.url, binding) as agent:
        with pytest.raises(A2AError, match="PENTAD_WEB_ALLOW"):
            await task_of(agent, "hi", TaskPushNotificationConfig(url="http://10.0.0.1/"))


async def test_the_client_in_javascript_gets_them(asking: Stage, binding: str) -> None:
    packages = installed("@a2a-js/sdk@1.3.0")
    if packages is None:
        pytest.skip("the official client of A2A cannot be installed here: it needs node, npm and its registry")
    name = packages / f"a2a_push-{new_session()}.mjs"
    name.write_text((ROOT / "tests" / "support" / "javascript" / "a2a_push.mjs").read_text())
    async with asking.model(script), webhook_receiver() as receiver:
        process = await asyncio.create_subprocess_exec(
            "node", str(name), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, cwd=packages
        )
        asked = {"url": asking.url, "binding": binding, "id": new_session(), "receiver": receiver.url()}
        told, _ = await process.communicate(json.dumps(asked).encode())
        name.unlink()
        seen = json.loads(told)
        assert (seen["made"]["id"], seen["found"]["url"], seen["left"]) == ("second", receiver.url(), ["first"])
        await wait_until("the end", lambda: has_ended(receiver))
        assert updates(receiver)[-1].status_update.task_id == seen["taskId"]


async def test_every_update_comes_while_gateways_are_killed(tmp_path: Path) -> None:
    """Who has answered a message with its task has kept the config; what was not taken comes from another gateway."""
    async with (
        RedisServer() as server,
        webhook_receiver(hook=BROKEN) as receiver,
        crew(server.url, tmp_path, COUNTS, PENTAD_WEB_ALLOW=receiver.place) as team,
    ):
        tasks = list[str]()
        for number in range(6):
            victim, other = (team.named("gateway")[(number + each) % 2] for each in range(2))
            async with client(victim.url, "JSONRPC") as agent:
                tasks.append((await task_of(agent, f"what is {number}+1?", config(receiver))).id)
            team.kill(victim)
            receiver.answer("hook", BROKEN if number % 2 else OK)
            await wait_until("a request", partial(_asked, receiver, tasks[-1]))
            team.start(victim)
            await team.ready(victim)
            assert other.running is not None
        receiver.answer("hook", OK)
        await wait_until("all ends", lambda: _ended(receiver) >= set(tasks))
        for task in tasks:
            own = [u for u in updates(receiver) if task in (u.status_update.task_id, u.artifact_update.task_id)]
            assert own[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED
            assert sum(u.HasField("artifact_update") for u in own) >= 1


def _asked(receiver: Receiver, task: str) -> bool:
    return any(task.encode() in each.body for each in receiver.requests())


def _ended(receiver: Receiver) -> set[str]:
    ended = TaskState.TASK_STATE_COMPLETED
    return {u.status_update.task_id for u in updates(receiver) if u.status_update.status.state == ended}
