"""The tools that run and keep scripts: offered where they can be confined, with owners that see their own alone."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pentad.contracts.instructions import DIRECT_CALL
from pentad.contracts.tools import Effect, ToolOutcome
from pentad.services.tool_worker.builtins.code.code_tools import CodeTools
from pentad.services.tool_worker.builtins.code.own_scripts import OwnScripts
from pentad.services.tool_worker.sources import ToolInvocation
from pentad.services.tool_worker.tool_value import MAX_ARTIFACTS
from pentad.shared.keys import TaskKeys, erased_user
from pentad.shared.models.tool_forms import what_servers_refuse
from pentad.shared.owners import Owner
from pentad.shared.plugins.context import ToolContext
from pentad.shared.plugins.definition import description_gaps
from pentad.shared.sandbox.limits import ScriptLimits
from pentad.shared.sandbox.sandbox import Sandbox, landlock_here
from pentad.shared.scripts.script_store import ScriptStore
from pentad.shared.scripts.stored_script import StoredScript
from pentad.shared.settings import load_settings
from pentad.shared.store.store import Store
from tests.support.waiting import in_time, wait_until

pytestmark = pytest.mark.skipif(not landlock_here(), reason="this kernel has no Landlock")
ALICE = ToolContext(session_id="s1", task_id="task-0-1", user_id="alice")
BOB = ToolContext(session_id="s2", task_id="task-0-2", user_id="bob")
NAMELESS = ToolContext(session_id="s3", task_id="task-0-3")
KEPT = {"script_save", "script_list", "script_read", "script_run"}

SLEEPS = "import time\nopen('begun', 'w').close()\ntime.sleep(600)"


def begun(tools: CodeTools) -> list[Path]:
    """The folders of scripts that sleep."""
    return [path.parent for path in Path(tools._sandbox.home or "/nowhere").glob("*/begun")]


@pytest.fixture
def scripts(tmp_path: Path) -> ScriptStore:
    return ScriptStore(str(tmp_path / "scripts"))


@pytest.fixture
async def tools(store: Store, scripts: ScriptStore) -> AsyncIterator[CodeTools]:
    made = CodeTools(Sandbox(ScriptLimits(wall_s=20)), OwnScripts(scripts, store, 1))
    await made.start(lambda: None)
    yield made
    await made.stop(0)


@pytest.fixture
async def program(store: Store) -> ToolContext:
    """The context of a call that the tenant's own program makes."""
    await store.call("HSET", TaskKeys(0, "default", "task-0-9").header, "instruction", DIRECT_CALL)
    return ToolContext(session_id="tool-call:c-1", task_id="task-0-9")


async def run(tools: CodeTools, tool: str, context: ToolContext = ALICE, /, **args: Any) -> ToolOutcome:
    async with in_time():
        return await tools.run(ToolInvocation(tool, args, 50, context), lambda *_: None)


async def done(tools: CodeTools, tool: str, context: ToolContext = ALICE, /, **args: Any) -> Any:
    outcome = await run(tools, tool, context, **args)
    assert outcome.ok, outcome
    return json.loads(outcome.text)


async def save(tools: CodeTools, context: ToolContext, code: str, name: str = "sum", **args: Any) -> ToolOutcome:
    return await run(tools, "script_save", context, name=name, code=code, description="Adds.", **args)


async def test_tools_describe_themselves_in_a_form_that_model_servers_take(tools: CodeTools) -> None:
    assert set(tools.tools) == {"run_python", *KEPT}
    for spec in tools.tools.values():
        assert list(description_gaps(spec)) == []
        assert list(what_servers_refuse(spec.description, spec.parameters)) == []
        assert all(argument["description"] for argument in spec.parameters["properties"].values())
    assert {name for name, spec in tools.tools.items() if spec.effect is not Effect.PURE} == {"script_save"}
    assert tools.tools["script_save"].effect is Effect.IDEMPOTENT


async def test_code_gives_its_result_what_it_prints_and_the_files_it_leaves(tools: CodeTools) -> None:
    code = "import statistics\nprint('busy')\nopen('a.csv', 'w').write('1,2')\nresult = statistics.mean(args['of'])"
    told = await done(tools, "run_python", code=code, args={"of": [1, 2, 6]})
    left = ["[the file a.csv of 3 bytes, text/csv, which is not kept: set PENTAD_FILES]"]
    assert told == {"result": 3, "printed": "busy\n", "files": left}


async def test_of_many_files_that_code_leaves_the_rest_is_named(tools: CodeTools) -> None:
    code = "for n in range(20):\n    open(f'{n:02}.bin', 'wb').write(bytes(9))"
    left = (await done(tools, "run_python", code=code))["files"]
    assert [line.partition(" ")[0] for line in left] == ["[the"] * MAX_ARTIFACTS + ["[file"] * (20 - MAX_ARTIFACTS)
    assert left[-1] == f"[file 19.bin: 9 bytes, not kept: of one call {MAX_ARTIFACTS} are]"


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("def main(args):\n  return args", [1]),
        ("def main():\n  return 'without'", "without"),
        ("def main(a, b=2):\n  return a", [1]),
        ("def main(args):\n  return 1\nresult = 2", 2),
        ("if __name__ == '__main__':\n  result = 1", None),
        ("result = {1: {2, 3}, 'x': float('inf'), (1, 2): b'b'}", {"1": ["2", "3"], "x": "inf", "(1, 2)": "b'b'"}),
        ("import datetime\nresult = datetime.date(2026, 1, 2)", "2026-01-02"),
        ("result = 'before'\nraise SystemExit", "before"),
        ("", None),
        ("import zoneinfo, datetime\nresult = str(zoneinfo.ZoneInfo('Asia/Tokyo'))", "Asia/Tokyo"),
        ("import sqlite3\nresult = sqlite3.connect('own.db').execute('select 1').fetchone()", [1]),
        ("import wave, colorsys, plistlib\nresult = 'imported'", "imported"),
    ],
)
async def test_a_result_is_what_is_assigned_or_returned(tools: CodeTools, code: str, result: Any) -> None:
    if not code:
        code = "pass"
    assert (await done(tools, "run_python", code=code, args=[1]))["result"] == result


async def test_an_exception_is_told_with_the_line_of_the_script_and_what_was_printed(tools: CodeTools) -> None:
    outcome = await run(tools, "run_python", code="print('so far')\ndef f():\n  return {}['no']\nf()")
    assert outcome.kind == "error"
    assert outcome.text.startswith('run_python: Traceback (most recent call last):\n  File "script.py", line 4')
    assert "return {}['no']" in outcome.text
    assert outcome.text.endswith("KeyError: 'no'\n\nIt had printed:\nso far\n")


async def test_arguments_that_do_not_fit_are_told(tools: CodeTools) -> None:
    assert "code" in (await run(tools, "run_python", args=[])).text
    assert "name" in (await run(tools, "script_run", name="../x")).text


async def test_a_script_beyond_its_time_is_a_timeout() -> None:
    tools = CodeTools(Sandbox(ScriptLimits(wall_s=0.3)), None)
    await tools.start(lambda: None)
    try:
        assert (await run(tools, "run_python", code="while True: pass")).kind == "timeout"
    finally:
        await tools.stop(0)


async def test_a_script_that_is_lost_with_its_interpreter_may_run_again(tools: CodeTools) -> None:
    running = asyncio.create_task(run(tools, "run_python", code=SLEEPS))
    await wait_until("the script to begin", lambda: begun(tools))
    assert tools._sandbox.interpreter is not None
    os.kill(tools._sandbox.interpreter, signal.SIGKILL)
    assert (await running).kind == "interrupted"
    assert (await done(tools, "run_python", code="result = 1"))["result"] == 1


async def test_a_saved_script_is_listed_read_and_run(tools: CodeTools) -> None:
    assert (await save(tools, ALICE, "result = sum(args)")).ok
    assert (await save(tools, ALICE, "result = sum(args) + 1")).ok
    (listed,) = await done(tools, "script_list")
    assert (listed["name"], listed["description"], listed["scope"]) == ("sum", "Adds.", "user")
    read = await done(tools, "script_read", name="sum")
    assert read["code"] == "result = sum(args) + 1"
    assert len(read["versions"]) == 2
    earlier = await done(tools, "script_read", name="sum", digest=read["versions"][1])
    assert earlier["code"] == "result = sum(args)"
    assert (await done(tools, "script_run", name="sum", args=[1, 2]))["result"] == 4


async def test_scripts_are_seen_by_their_user_alone(tools: CodeTools) -> None:
    await save(tools, ALICE, "result = 'alice'")
    await save(tools, NAMELESS, "result = 'nameless'", "own")
    for context in (BOB, NAMELESS, ToolContext(session_id="s1"), ToolContext(tenant_id="other", user_id="alice")):
        assert "sum" not in [each["name"] for each in await done(tools, "script_list", context)]
        assert "there is no script 'sum'" in (await run(tools, "script_run", context, name="sum")).text
    assert (await done(tools, "script_run", NAMELESS, name="own"))["result"] == "nameless"
    assert not (await run(tools, "script_run", ToolContext(session_id="s4"), name="own")).ok
    assert (await done(tools, "script_run", ToolContext(session_id="s9", user_id="alice"), name="sum"))[
        "result"
    ] == "alice"


async def test_a_script_for_the_whole_tenant_is_saved_by_its_program_alone(
    tools: CodeTools, program: ToolContext
) -> None:
    for context in (ALICE, NAMELESS, ToolContext(session_id="tool-call:c-2", task_id="task-0-8")):
        refused = await save(tools, context, "result = 'evil'", scope="tenant")
        assert "POST /v1/tools/script_save/call" in refused.text
    named = ToolContext(session_id=program.session_id, task_id=program.task_id, user_id="bob")
    assert not (await save(tools, named, "result = 'evil'", scope="tenant")).ok
    assert (await save(tools, program, "result = 'shared'", scope="tenant")).ok
    assert (await done(tools, "script_run", BOB, name="sum"))["result"] == "shared"
    assert not (await run(tools, "script_run", ToolContext(tenant_id="other", user_id="bob"), name="sum")).ok
    await save(tools, BOB, "result = 'own'")
    assert (await done(tools, "script_run", BOB, name="sum"))["result"] == "own"
    assert [each["scope"] for each in await done(tools, "script_list", BOB)] == ["user"]
    assert (await done(tools, "script_run", ALICE, name="sum"))["result"] == "shared"


async def test_a_script_that_is_saved_while_its_user_is_erased_does_not_stay(
    tools: CodeTools, store: Store, scripts: ScriptStore
) -> None:
    await store.call("HSET", erased_user(0, "default", "alice"), "at", await store.clock() + 60_000)
    assert "was erased meanwhile" in (await save(tools, ALICE, "result = 1")).text
    assert await scripts.listed(Owner("default", "alice")) == []
    await store.call("HSET", erased_user(0, "default", "alice"), "at", await store.clock() - 60_000)
    assert (await save(tools, ALICE, "result = 1")).ok


async def test_a_damaged_or_absent_store_is_told(tools: CodeTools, scripts: ScriptStore, tmp_path: Path) -> None:
    await scripts.save(Owner("default", "alice"), StoredScript(name="sum", code="result = 1"), 1)
    (file,) = (tmp_path / "scripts").rglob("*.json")
    file.write_text("{")
    assert "cannot be read: it is damaged" in (await run(tools, "script_run", name="sum")).text


async def test_without_a_place_for_scripts_only_code_is_run(store: Store) -> None:
    tools = CodeTools.of(load_settings({"PENTAD_CODE": "on"}), store)
    await tools.start(lambda: None)
    try:
        assert set(tools.tools) == {"run_python"}
    finally:
        await tools.stop(0)


async def test_where_nothing_confines_no_tool_is_offered_and_the_log_says_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tools = CodeTools(Sandbox(landlock_at_most=0), None)
    await tools.start(lambda: None)
    assert tools.tools == {}
    assert "run_python and the tools of scripts are not offered" in caplog.text
    assert "Linux 5.13" in caplog.text


async def test_without_a_sandbox_scripts_are_unsafe_and_the_log_warns(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    tools = CodeTools.of(load_settings({"PENTAD_CODE": "on", "PENTAD_SANDBOX": "off"}), store)
    await tools.start(lambda: None)
    try:
        assert tools.tools["run_python"].effect is Effect.UNSAFE
        assert "PENTAD_SANDBOX=off" in caplog.text
        assert (await done(tools, "run_python", code="result = open('/etc/passwd').read(4)"))["result"] == "root"
    finally:
        await tools.stop(0)


async def test_a_cancelled_call_ends_its_script_and_removes_its_folder(tools: CodeTools) -> None:
    running = asyncio.create_task(run(tools, "run_python", code=SLEEPS))
    (folder,) = await wait_until("the script to begin", lambda: begun(tools))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not folder.exists()
