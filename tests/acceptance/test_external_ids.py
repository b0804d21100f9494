"""Ids of users, sessions and messages as other systems write them: e-mail addresses, `auth0|…`, Slack's channels."""

import asyncio
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest

import pentad
from tests.support.clients.api import Api
from tests.support.clients.line import Line
from tests.support.processes.up import PENTAD, Up
from tests.support.redis.raw_redis import dead_letters, publish, redis_at
from tests.support.waiting import wait_until

pytestmark = pytest.mark.acceptance

SESSION, USER, MESSAGE = 'slack:C01:99.1{0}"é%', "auth0|a.b+tag@example.com", "m:1|x"
EVENTS = "pentad:{0}:events:default:slack%3AC01%3A99.1%7B0%7D%22%C3%A9%25"


async def test_any_printable_id_is_taken_on_every_way_in_and_out(tmp_path: Path) -> None:
    """REST, WebSocket, SSE, the stream, the command and the client take ids of other systems; erasing finds them."""
    with Up(tmp_path) as up:
        url = await up.ready()
        at = quote(SESSION, safe="")
        async with Api(url) as api:
            body = {"content": "what is 6*7?", "session_id": SESSION, "message_id": MESSAGE, "user_id": USER}
            assert await api.post("/v1/messages", body) == {"session_id": SESSION, "message_id": MESSAGE}
            async with Line(url, at, after="0") as line:
                await line.until("task_end")
                assert line.frames[0]["session_id"] == SESSION
                await line.turn("what is 7*7?", count=2, user_id=USER, message_id="m:2")
            redis_url = (up.data / "redis.url").read_text()
            await publish(redis_url, {"content": "what is 8*8?", "session_id": SESSION, "message_id": "m:3"})
            command = [str(PENTAD), "send", "what is 9*9?", "--session", SESSION]
            known = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PENTAD_URL": url, "PYTHONUTF8": "1"}
            sent = await asyncio.to_thread(
                subprocess.run, command, env=known, capture_output=True, text=True, timeout=60, check=False
            )
            assert (sent.returncode, sent.stdout) == (0, "9*9 = 81\n"), sent.stderr
            async with pentad.connect(url) as agent:
                answer = await agent.session(SESSION).ask("what is 3*3?")
                assert "9" in str(answer)
                listed = await agent.inspection.tasks(session_id=SESSION)
            assert {task.session_id for task in listed} == {SESSION}
            async with redis_at(redis_url) as redis:
                assert await redis.exists(EVENTS)
                assert not [key for key in await redis.keys("*") if SESSION in key or USER in key]
            async with api.sse(at) as events:
                first = await anext(events)
                assert first["session_id"] == SESSION
            sessions = await api.get("/v1/sessions")
            assert [each["session_id"] for each in sessions["items"]] == [SESSION]
            messages = (await api.get(f"/v1/sessions/{at}/messages"))["items"]
            said = {m["content"] for m in messages if m["role"] == "user"}
            assert said == {f"what is {sum_}?" for sum_ in ("6*7", "7*7", "8*8", "9*9", "3*3")}
            assert await dead_letters(redis_url) == []
            assert await api.delete(f"/v1/users/{quote(USER, safe='')}") == {"user_id": USER}
            assert await api.delete(f"/v1/sessions/{at}") == {"session_id": SESSION}

            async def gone() -> bool:
                tasks = await api.get(f"/v1/tasks?session_id={at}")
                return not tasks["items"] and not (await api.get("/v1/sessions"))["items"]

            await wait_until("the session to be erased", gone)
            await api.get(f"/v1/sessions/{at}/messages", 404)
