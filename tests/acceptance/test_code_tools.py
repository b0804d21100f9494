"""Scripts of models in the whole system: offered where an operator turns them on, kept beside the records, confined."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pentad
from pentad.shared.sandbox.sandbox import landlock_here
from tests.support.models.replies import Reply, call, say
from tests.support.processes.stage import Stage, new_session, stage
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(not landlock_here(), reason="this kernel has no Landlock")
NAMES = {"run_program", "run_python", "script_save", "script_list", "script_read", "script_run"}


async def _offered(agent: pentad.Agent) -> set[str]:
    return NAMES.intersection([tool["name"] for tool in await agent.inspection.tools()])


async def test_no_script_is_run_by_default(tmp_path: Path) -> None:
    async with pentad.start(tmp_path) as agent:
        assert await _offered(agent) == set()


async def test_scripts_run_confined_and_are_kept_for_their_user_and_the_tenant(tmp_path: Path) -> None:
    async with pentad.start(tmp_path, pentad_code="on") as agent:
        assert await _offered(agent) == NAMES
        execute = agent.tools.execute
        assert json.loads(await execute("run_python", {"code": "result = 6 * args['by']", "args": {"by": 7}})) == {
            "result": 42
        }
        called = {"code": 'calculator(expression="6*7") + len(echo(text="four"))'}
        assert json.loads(await execute("run_program", called)) == {"result": 46}
        with pytest.raises(pentad.ToolFailed, match=r"PermissionError|FileNotFoundError"):
            await execute("run_python", {"code": f"open({str(tmp_path / 'admin.key')!r}).read()"})
        with pytest.raises(pentad.ToolFailed, match="PermissionError"):
            await execute("run_python", {"code": "import socket\nsocket.create_connection(('127.0.0.1', 80))"})
        alice = {"name": "double", "code": "result = 2 * args", "description": "Doubles."}
        await execute("script_save", alice, user_id="alice")
        assert json.loads(await execute("script_run", {"name": "double", "args": 21}, user_id="alice"))["result"] == 42
        with pytest.raises(pentad.ToolFailed, match="there is no script 'double'"):
            await execute("script_run", {"name": "double", "args": 21}, user_id="bob")
        with pytest.raises(pentad.ToolFailed, match="POST /v1/tools/script_save/call"):
            await execute("script_save", alice | {"scope": "tenant"}, user_id="alice")
        await execute("script_save", alice | {"scope": "tenant", "name": "shared"})
        listed = json.loads(await execute("script_list", {}, user_id="bob"))
        assert [(script["name"], script["scope"]) for script in listed] == [("shared", "tenant")]
        assert list((tmp_path / "scripts" / "default" / "shared" / "shared").glob("*.json"))
    async with pentad.start(tmp_path, pentad_code="on") as agent:
        ran = await agent.tools.execute("script_run", {"name": "double", "args": 1}, user_id="alice")
        assert json.loads(ran)["result"] == 2


@pytest.fixture
def coding(tmp_path: Path) -> Iterator[Stage]:
    """``pentad up`` whose models are offered scripts."""
    with stage(tmp_path / "up", {"PENTAD_CODE": "on"}) as system:
        yield system


async def test_files_that_a_script_leaves_are_files_of_the_session(coding: Stage) -> None:
    code, session = "import os\nos.mkdir('out')\nopen('out/a.csv', 'w').write('1,2')", new_session()

    def script(request: dict[str, Any]) -> Reply:
        last = request["messages"][-1]
        return say(last["content"]) if last["role"] == "tool" else call(("run_python", {"code": code}))

    async with coding.api() as api, coding.model(script), coding.line(session) as line:
        await wait_until("it is offered", lambda: _has(api))
        await line.say("write a file")
        await line.until("task_end")
        [result] = line.answers("tool_result")
        [kept] = result["artifacts"]
        assert json.loads(result["result"])["files"] == [f"[file {kept['path']}: text/csv, 3 bytes]"]
    async with pentad.connect(coding.url) as agent:
        assert await agent.files(session).get(kept["path"]) == b"1,2"


async def _has(api: Any) -> bool:
    return "run_python" in {each["name"] for each in (await api.get("/v1/tools"))["items"]}
