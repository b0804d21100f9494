"""Scripts of models in the whole system: offered where an operator turns them on, kept beside the records, confined."""

import json
from pathlib import Path

import pytest

import pentad
from pentad.shared.sandbox.sandbox import landlock_here

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
