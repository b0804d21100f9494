"""Moving a message over REST and WebSocket: what is asked of the task, and what a client hears when it cannot be."""

import httpx2
import pytest

from pentad.contracts.commands import InboundMessage
from pentad.contracts.records import TranscriptMeta
from pentad.services.gateway.app import GatewayService
from pentad.shared.actors.mail import MoveMail, SessionMessage, UserMail
from pentad.shared.actors.transcript import entry
from pentad.shared.keys import TaskKeys
from tests.integration.gateway.conftest import opened
from tests.integration.gateway.speaker import AT, TASK, Speaker

OTHER = "task-0-other"


async def two_tasks(speaker: Speaker) -> TaskKeys:
    """One with a message in its transcript and one in its mailbox, and another; returns the first."""
    keys = await speaker.task()
    await speaker.task(OTHER, "completed")
    store = speaker.store
    await store.call("RPUSH", keys.log, entry({"role": "user", "content": "q"}, TranscriptMeta(at=AT, message_id="m1")))
    message = InboundMessage(content="q", session_id="s1", message_id="m2")
    await store.call("ZADD", keys.messages, 7, b"7 user " + UserMail(message=message, entry_id="1-1", at=AT).to_json())
    for name in ("m1", "m2"):
        turn = SessionMessage(role="user", content="q", task_id=TASK, at=AT, message_id=name)
        await store.call("RPUSH", speaker.keys.turns, turn.to_json())
    return keys


async def asked(speaker: Speaker, keys: TaskKeys) -> list[MoveMail]:
    """The moves that the task was asked for."""
    found = await speaker.store.call("ZRANGE", keys.signals, 0, -1)
    return [MoveMail.model_validate_json(raw.split(b" move ", 1)[1]) for raw in found]


async def test_a_move_is_mail_once_and_interrupts_the_task(http: httpx2.AsyncClient, speaker: Speaker) -> None:
    keys = await two_tasks(speaker)
    for _ in range(2):
        answered = await http.post(f"/v1/tasks/{TASK}/move", json={"message_id": "m1", "to": OTHER})
        assert (answered.status_code, answered.json()) == (202, {"message_id": "m1", "to": OTHER})
    assert (await http.post(f"/v1/tasks/{TASK}/move", json={"message_id": "m2", "to": "new"})).status_code == 202
    assert await asked(speaker, keys) == [
        MoveMail(message_id="m1", to=OTHER), MoveMail(message_id="m2", to="new", number=7)
    ]  # fmt: skip
    assert await speaker.store.call("HGET", keys.header, "control") == b"move"


@pytest.mark.parametrize(
    ("task", "body", "status", "says"),
    [
        (TASK, {"message_id": "m9", "to": "new"}, 404, "no message"),
        ("task-0-nope", {"message_id": "m1", "to": "new"}, 404, "no task"),
        (TASK, {"message_id": "m1", "to": "task-0-nope"}, 404, "no task"),
        (TASK, {"message_id": "m1", "to": "task-9-other"}, 404, "no task"),
        (TASK, {"message_id": "m1", "to": "task-0-foreign"}, 409, "another session"),
        (TASK, {"message_id": "m1", "to": TASK}, 409, "already"),
        (TASK, {"message_id": "m1"}, 422, "to:"),
        (TASK, {"message_id": ["m1"], "to": "new"}, 422, "message_id:"),
        (TASK, {"message_id": "a b", "to": "new"}, 422, "message_id:"),
        (TASK, "new", 400, "object"),
    ],
)
async def test_what_cannot_be_moved_is_a_problem_that_says_why(
    http: httpx2.AsyncClient, speaker: Speaker, task: str, body: object, status: int, says: str
) -> None:
    keys = await two_tasks(speaker)
    await Speaker(speaker.store, "s2").task("task-0-foreign")
    refused = await http.post(f"/v1/tasks/{task}/move", json=body)
    assert (refused.status_code, says in refused.json()["detail"]) == (status, True), refused.text
    assert await asked(speaker, keys) == []


async def test_a_task_is_asked_for_so_many_messages_at_once(http: httpx2.AsyncClient, speaker: Speaker) -> None:
    keys = await two_tasks(speaker)
    for n in range(64):
        await speaker.store.call("ZADD", keys.signals, n, f"{n} move {{{n}}}")
    refused = await http.post(f"/v1/tasks/{TASK}/move", json={"message_id": "m1", "to": "new"})
    assert (refused.status_code, "retry-after" in refused.headers) == (429, True)


async def test_over_a_websocket_the_task_is_the_one_that_has_the_message(
    gateway: GatewayService, speaker: Speaker
) -> None:
    keys = await two_tasks(speaker)
    async with opened(gateway.address) as client:
        await client.send(type="move", message_id="m1", to="new")
        await client.send(type="ping")
        assert await client.receive() == {"type": "pong"}
        assert await asked(speaker, keys) == [MoveMail(message_id="m1", to="new")]
        for frame, code in (
            ({"message_id": "m9", "to": "new"}, "bad_message"),
            ({"message_id": "m1", "to": 7}, "bad_message"),
            ({"message_id": "m1", "to": TASK}, "not_allowed"),
            ({"message_id": "m1", "to": "task-0-nope"}, "unknown_task"),
        ):
            await client.send(type="move", **frame)
            assert (await client.receive())["code"] == code
    async with opened(gateway.address, "session_id=another") as client:
        await client.send(type="move", message_id="m1", to="new")
        assert (await client.receive())["code"] == "bad_message"
