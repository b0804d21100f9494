"""`pentad top` in a real terminal, in a pipe, and while its gateway goes away."""

import json
from pathlib import Path
from typing import Any

from tests.support.clients.fake_gateway import FakeGateway, fake_gateway
from tests.support.clients.fake_wire import Json
from tests.support.processes.terminal import ROWS, Terminal, piped
from tests.support.waiting import wait_until

AT = "2030-01-01T12:00:{:02}.000Z"


def group(name: str, lag: int | None, pending: int, oldest: float | None = None, active: int = 1) -> Json:
    return {"name": name, "lag": lag, "pending": pending, "oldest_s": oldest, "consumers": 1, "active": active}


def stream(name: str, *groups: Json, queue: str | None = None) -> Json:
    return {"stream": name, "key": f"k:{name}", "shard": 0, "queue": queue, "length": 9, "groups": list(groups)}


def live(second: int = 0, turns: int = 0, **more: Any) -> Json:
    """A live system as a gateway tells it."""
    about = {"release": "0.3.0", "machine": "host", "pid": 7, "started_at": AT.format(0), "seen_at": AT.format(0)}
    task: Json = {
        "task_id": "task-0-a",
        "tenant_id": "acme",
        "session_id": "s1",
        "status": "active",
        "goal": "bake \x1b[31m",
    }
    task |= {"instruction": "executor", "created_at": AT.format(0), "updated_at": AT.format(0), "steps": 3}
    document = {
        "at": AT.format(second),
        "streams": [
            stream("task-wake", group("task-runner", 1, 2, 30.5)),
            stream("tool-calls", group("tool-worker", 8, 0, 12.0, active=0), queue="gpu"),
            stream("embed", group("embedding", 0, 0)),
        ],
        "services": [
            {"name": "router-1", "service": "router", "alive": True, "under_way": 1, "queues": [], **about},
            {
                "name": "tool-worker-1",
                "service": "tool-worker",
                "alive": False,
                "under_way": 2,
                "queues": ["gpu"],
                **about,
            },
        ],
        "models": [{"id": "fast", "kind": "llm", "default": True, "state": "open", "error": "no answer", "limit": 4}],
        "tools": {
            "total": 5,
            "alive": 4,
            "troubled": [{"name": "crm", "why": "gone"}],
            "servers": 0,
            "servers_ready": 0,
        },
        "tasks": {
            "active": 1,
            "queued": 0,
            "by_status": {"active": 1},
            "tenants": [],
            "newest": [task],
            "oldest": task,
        },
        "approvals": 2,
        "messages": 0,
        "dead_letters": 1,
        "memory_lag_s": 0.0,
        "totals": {"turns": turns, "steps": 0, "input_tokens": 10 * turns, "output_tokens": turns, "tool_calls": 0},
        "left_out": {},
    }
    return document | more


def at(terminal: Terminal, text: str) -> int:
    """The row of the screen that has this text, -1 for none."""
    return next((n for n, row in enumerate(terminal.rows) if text in row), -1)


async def sees(terminal: Terminal, *texts: str) -> None:
    await wait_until(f"{texts}", lambda: all(at(terminal, text) >= 0 for text in texts))


async def test_the_screen_shows_rates_sorts_pauses_and_leaves(tmp_path: Path) -> None:
    async with fake_gateway(operations=live()) as gateway, Terminal("top", gateway.url, tmp_path) as terminal:
        await sees(terminal, "1 task active", "2 approvals", "1 dead letter", "tools 4 of 5", "so far 0 turns")
        await sees(terminal, "tool-calls gpu", "12.0 s", "0 of 1", "silent for", "no answer", "task-0-a", "bake")
        assert at(terminal, "tool-calls gpu") < at(terminal, "task-wake")
        assert at(terminal, "embed ") < 0, "a stream without work takes no row"
        gateway.operations = live(second=2, turns=4)
        await sees(terminal, "a second: turns 2.0", "tokens 20.0 in 2.0 out")
        terminal.type("s")
        await wait_until("the other order", lambda: 0 < at(terminal, "task-wake") < at(terminal, "tool-calls gpu"))
        terminal.type("p")
        await sees(terminal, "PAUSED")
        gateway.operations = live(second=3, turns=4, dead_letters=7)
        terminal.type("p")
        await sees(terminal, "7 dead letters")
        terminal.resize(24, 80)
        await wait_until("the smaller screen", lambda: terminal.rows and len(terminal.rows) <= 24)
        await sees(terminal, "task-0-a", "q leaves")
        terminal.type("q")
        assert await terminal.code() == 0


async def test_it_comes_back_when_the_gateway_does(tmp_path: Path) -> None:
    async with fake_gateway(operations=live()) as gateway, Terminal("top", gateway.url, tmp_path) as terminal:
        await sees(terminal, "1 dead letter")
        await gateway.stop()
        await sees(terminal, "NOT LIVE for", "1 dead letter")
        again = FakeGateway(port=gateway.port, operations=live(second=9, dead_letters=3))
        await again.start()
        try:
            await sees(terminal, "3 dead letters")
            await wait_until("the end of the trouble", lambda: at(terminal, "NOT LIVE") < 0)
            terminal.type("q")
            assert await terminal.code() == 0
        finally:
            await again.stop()


async def test_many_rows_leave_room_for_every_section(tmp_path: Path) -> None:
    many = [stream(f"s{n}", group("g", n + 1, 0, 1.0)) for n in range(100)]
    async with (
        fake_gateway(operations=live(streams=many, left_out={"streams": 12})) as gateway,
        Terminal("top", gateway.url, tmp_path) as terminal,
    ):
        await sees(terminal, "more)", "not shown: 12 streams", "SERVICE", "MODEL", "TASK", "task-0-a")
        assert len(terminal.rows) <= ROWS


async def test_a_pipe_gets_one_look_and_json_the_document(tmp_path: Path) -> None:
    async with fake_gateway(operations=live(turns=3)) as gateway:
        code, out, err = await piped("top", gateway.url, tmp_path)
        assert (code, err) == (0, "")
        assert "so far 3 turns, 0 steps, 0 calls, tokens 30 in 3 out" in out
        assert "\x1b" not in out
        code, out, _ = await piped("top", gateway.url, tmp_path, json="yes")
        assert (code, json.loads(out)["totals"]["turns"]) == (0, 3)


async def test_who_is_no_operator_is_told_so_at_once(tmp_path: Path) -> None:
    async with fake_gateway(key="boss", operations=live()) as gateway:
        code, out, err = await piped("top", gateway.url, tmp_path)
    assert (code, out) == (1, "")
    assert len(err.splitlines()) == 1


async def test_an_older_gateway_is_one_line(tmp_path: Path) -> None:
    async with fake_gateway() as gateway:
        code, _, err = await piped("top", gateway.url, tmp_path)
    assert (code, err.count("\n")) == (1, 1)
    assert "pentad doctor" in err
