"""Programs that models write, hostile ones too: each has an end, within its bounds, and leaves the worker as it was."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pentad.contracts.suspensions import InnerResult, Resumption
from pentad.contracts.tools import ToolOutcome, ToolSpec
from pentad.services.tool_worker.builtins.programs import interpreters
from pentad.services.tool_worker.builtins.programs.callable_tools import CallableTools
from pentad.services.tool_worker.builtins.programs.interpreters import Interpreters
from pentad.services.tool_worker.builtins.programs.program_run import ProgramLimits, ProgramRun
from pentad.services.tool_worker.builtins.programs.program_tool import MAX_CODE_CHARS, ProgramTool
from pentad.services.tool_worker.sources import ToolInvocation
from pentad.shared.models.tool_forms import what_servers_refuse
from pentad.shared.plugins.definition import description_gaps
from pentad.shared.presence.published import TOOLS
from pentad.shared.sandbox.sandbox import landlock_here
from pentad.shared.store.store import Store
from tests.support.waiting import in_time, wait_until

LIMITS = ProgramLimits(stretch_s=0.5, total_s=1.0, memory_bytes=16 * 1024 * 1024)
CALLED = {"get_weather": ("place", "days"), "now": ()}


@pytest.fixture
async def tool(store: Store) -> AsyncIterator[ProgramTool]:
    """The tool with small limits; two other tools are published."""
    await TOOLS.publish(store, [_spec(name, *names) for name, names in CALLED.items()])
    made = ProgramTool(store)
    await made.start(lambda: None)
    assert made._interpreters is not None
    await made._interpreters.aclose()
    made._interpreters = Interpreters(CallableTools(store), LIMITS)
    await made._interpreters.open()
    yield made
    await made.stop(0)


def _spec(name: str, *parameters: str) -> ToolSpec:
    properties = {each: {"type": "string"} for each in parameters}
    return ToolSpec(name=name, description="A tool.", parameters={"type": "object", "properties": properties})


async def run(tool: ProgramTool, code: Any, resumed: Resumption | None = None, seconds: float = 30) -> ToolOutcome:
    async with in_time():
        return await tool.run(ToolInvocation("run_program", {"code": code}, seconds, resumed=resumed), lambda *_: None)


async def finished(tool: ProgramTool, code: str, *results: str) -> dict[str, Any]:
    """What a program gives when its calls, one after the other, have these results."""
    outcome = await run(tool, code)
    for text in results:
        outcome = await run(tool, code, _resumed(outcome, InnerResult(ok=True, text=text)))
    assert outcome.ok, outcome
    told: dict[str, Any] = json.loads(outcome.text)
    return told


def _resumed(outcome: ToolOutcome, *results: InnerResult) -> Resumption:
    assert outcome.suspension is not None, outcome
    return Resumption(needs="calls", state=outcome.suspension.state, results=list(results))


async def test_the_tool_describes_itself_in_a_form_that_model_servers_take(tool: ProgramTool) -> None:
    (spec,) = tool.tools.values()
    assert (list(description_gaps(spec)), spec.effect) == ([], "pure")
    assert list(what_servers_refuse(spec.description, spec.parameters)) == []


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("while True: pass", "TimeoutError"),
        ("while True:\n    try:\n        while True: pass\n    except BaseException: pass", "TimeoutError"),
        ("9**9**9", "MemoryError"),
        ("x = 10\nwhile True: x = x * x", "Error"),
        ("'a' * 10**11", "MemoryError"),
        ("x = 10**1000000\ny = x*x*x*x*x*x*x*x*x*x*x*x*x*x", "Error"),
        ("[0] * 10**10", "MemoryError"),
        ("x = [1]\nwhile True: x += x", "MemoryError"),
        ("x = []\nwhile True: x.append('y' * 1000)", "MemoryError"),
        ("def f(): return f()\nf()", "RecursionError"),
        ("class A:\n    def __repr__(self): return repr(self)\nrepr(A())", "Error"),
        ("while True: print('x' * 1000)", "Error"),
        ("import os\nos.environ['PATH']", "not supported"),
        ("import os\nos.system('id')", "Error"),
        ("import subprocess", "ModuleNotFoundError"),
        ("import socket", "ModuleNotFoundError"),
        ("import ctypes", "ModuleNotFoundError"),
        ("open('/etc/passwd').read()", "PermissionError"),
        ("import pathlib\npathlib.Path('/etc/passwd').read_text()", "Error"),
        ("open('x', 'w').write('y')", "Error"),
        ("__import__('os')", "NameError"),
        ("eval('__import__(\"os\")')", "NameError"),
        ("().__class__.__bases__[0].__subclasses__()", "Error"),
        ("(lambda: 0).__globals__", "Error"),
        ("input()", "NameError"),
        ("raise SystemExit('bye')", "SystemExit: bye"),
        ("raise ValueError('x' * 100000)", "ValueError"),
        ("def (", "SyntaxError"),
        ("this is no Python", "SyntaxError"),
        ("\0", "Error"),
        ("(" * 10_000, "Error"),
        ("-" * 30_000 + "1", "Error"),
        ("await " * 5_000 + "x", "Error"),
        ("import time\ntime.sleep(3600)", "may sleep"),
        ("import asyncio\nawait asyncio.sleep(3600)", "may sleep"),
        ("import time\ntime.sleep(-1)", "Error"),
        ("for n in range(5000):\n    try: nothing()\n    except NameError: pass", "suspension limit"),
        ("import asyncio\nx = asyncio.gather(now())\n1", "without awaiting its calls of now"),
        ("call_tool()", "TypeError"),
        ("call_tool(5)", "TypeError"),
        ("call_tool('no such tool')", "NameError"),
        ("get_weather(place={1, 2})", "a set, which JSON does not have"),
        ("get_weather(place=print)", "which JSON does not have"),
        ("get_weather(place=float('nan'))", "nan, which JSON does not have"),
        ("get_weather(place={(1, 2): 3})", "keys are no texts"),
        ("get_weather(place=b'x')", "bytes, which JSON does not have"),
        ("x = []\nfor _ in range(200): x = [x]\nget_weather(place=x)", "has more than 64 levels"),
        ("get_weather(place='x' * 100_000)", "the limit is 65,536"),
        ("get_weather('a', 2, 3)", "has 2 parameters"),
        ("get_weather('a', place='b')", "given 'place' twice"),
        ("now('x')", "now(name=...)"),
        ("a" * 65 + "(b=1)", "NameError"),
        ("object().x.y", "Error"),
    ],
)  # fmt: skip
async def test_a_program_that_goes_wrong_is_told_so_and_the_next_one_works(
    tool: ProgramTool, code: str, words: str
) -> None:
    outcome = await run(tool, code)
    assert (outcome.kind, words in outcome.text) == ("error", True), outcome.text[:2000]
    assert len(outcome.text) < 50_000
    assert await finished(tool, "1 + 1") == {"result": 2}


@pytest.mark.parametrize("code", ["", "x" * (MAX_CODE_CHARS + 1), 5, None])
async def test_code_that_does_not_fit_is_told(tool: ProgramTool, code: Any) -> None:
    outcome = await run(tool, code)
    assert (outcome.kind, "code" in outcome.text) == ("error", True)


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("[1, (2, None), {'a': 1.5}, {3}]", [1, [2, None], {"a": 1.5}, [3]]),
        ("float('inf')", "Infinity"),
        ("10**30", 10**30),
        ("'\\x1b[0m'", "\x1b[0m"),
        ("b'x'", "x"),
        ("import datetime\ndatetime.date(2026, 1, 2)", "2026-01-02"),
        ("class P:\n    def __init__(self): self.x = 1\nP()", {"x": 1}),
        ("x = []\nx.append(x)\nx", ["[...]"]),
        ("import re\nre.match('(a*)*b', 'a' * 40)", None),
        ("result = 3", 3),
        ("result = 3\n4", 4),
        ("result = 3\nprint('x')", 3),
        ("None", None),
        ("print", "open"),
    ],
)
async def test_a_result_is_the_last_expression_or_what_is_assigned(tool: ProgramTool, code: str, result: Any) -> None:
    told = (await finished(tool, code))["result"]
    assert told == result or (code == "print" and "print" in told)


async def test_what_is_printed_and_the_result_are_cut(tool: ProgramTool) -> None:
    told = await finished(tool, "print('p' * 100_000)\n'r' * 200_000")
    assert told["printed"].endswith("[cut: longer than 32768 bytes]")
    assert told["result"].endswith("[cut: longer than 131072 bytes]")
    assert len(json.dumps(told)) < 200_000


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1]}', "{'a': [1]}"),
        ("4.5", "4.5"),
        ("plain", "'plain'"),
        ("NaN", "'NaN'"),
        ("", "''"),
        ("[" * 500, None),
    ],
)
async def test_a_result_that_is_json_comes_parsed_and_any_other_as_text(
    tool: ProgramTool, text: str, value: str | None
) -> None:
    assert (await finished(tool, "repr(now())", text))["result"] == (repr(text) if value is None else value)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 190 + "]" * 190,
        str(10**4000),
        "[" + "1," * 30_000 + "1]",
        '{"": {"__class__": 1}}',
        '"\\u0000"',
        "1e999",
        '"\\ud800"',
    ],
)
async def test_any_result_of_a_call_reaches_the_program_or_fails_it_in_words(tool: ProgramTool, text: str) -> None:
    code = "x = now()\nlen(str(x))"
    outcome = await run(tool, code, _resumed(await run(tool, code), InnerResult(ok=True, text=text)))
    assert outcome.kind == "ok" or (outcome.kind == "error" and "Traceback" in outcome.text), outcome
    print(outcome.kind, outcome.text[:300])


async def test_results_that_do_not_belong_to_what_was_asked_are_refused(tool: ProgramTool) -> None:
    resumed = _resumed(await run(tool, "now()"))
    outcome = await run(tool, "now()", resumed)
    assert (outcome.kind, "waits for 1 results and has got 0" in outcome.text) == ("error", True), outcome


async def test_a_program_computes_no_longer_than_it_may_altogether(tool: ProgramTool) -> None:
    code = "import time\nwhile True:\n    t = time.time()\n    while time.time() - t < 0.3: pass\n    now()"
    outcome, calls = await run(tool, code), 0
    while outcome.kind == "suspended":
        calls += 1
        outcome = await run(tool, code, _resumed(outcome, InnerResult(ok=True, text="1")))
    assert (outcome.kind, "TimeoutError" in outcome.text, calls <= 3) == ("error", True, True), outcome


async def test_a_program_beyond_the_time_of_its_call_is_ended(tool: ProgramTool) -> None:
    outcome = await run(tool, "import time\ntime.sleep(9)", seconds=0.2)
    assert outcome.kind == "timeout"
    assert await finished(tool, "1 + 1") == {"result": 2}


@contextmanager
def worker_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], int]]:
    """Give the id of the interpreter's process that runs."""
    seen = list[int]()
    begin = ProgramRun._begun

    async def noting(run: Any) -> Any:
        seen.append(run.session.worker_pid)
        return await begin(run)

    with monkeypatch.context() as patched:
        patched.setattr(ProgramRun, "_begun", noting)
        yield lambda: seen[-1] if seen else 0


SLOW = "import time\nfor _ in range(20): time.sleep(0.2)"


async def test_an_interpreter_that_is_lost_is_no_fault_of_its_program(
    tool: ProgramTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with worker_process(monkeypatch) as pid:
        running = asyncio.create_task(run(tool, SLOW))
        await wait_until("the program to run", pid)
        os.kill(pid(), signal.SIGKILL)
        assert (await running).kind == "interrupted"
    assert await finished(tool, "1 + 1") == {"result": 2}


async def test_a_program_that_loses_its_interpreter_again_has_brought_it_down(
    tool: ProgramTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with worker_process(monkeypatch) as pid:
        call = ToolInvocation("run_program", {"code": SLOW}, 30)
        running = asyncio.create_task(tool.run(call, lambda *_: None, alone=True))
        await wait_until("the program to run", pid)
        os.kill(pid(), signal.SIGKILL)
        assert (await running).kind == "crashed"


async def test_a_cancelled_call_ends_its_interpreter(tool: ProgramTool, monkeypatch: pytest.MonkeyPatch) -> None:
    with worker_process(monkeypatch) as pid:
        running = asyncio.create_task(run(tool, SLOW))
        await wait_until("the program to run", pid)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await wait_until("its process to end", lambda: not Path(f"/proc/{pid()}/cmdline").exists())


@pytest.mark.skipif(not landlock_here(), reason="this kernel has no Landlock")
async def test_an_interpreter_is_confined_and_holds_nothing_of_the_worker(
    tool: ProgramTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENTAD_TEST_SECRET", "never-told")
    with worker_process(monkeypatch) as pid:
        running = asyncio.create_task(run(tool, SLOW))
        await wait_until("the program to run", pid)
        process = Path(f"/proc/{pid()}")
        status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines())
        held = {end.name: os.readlink(end) for end in (process / "fd").iterdir()}
        environment, leads = (process / "environ").read_bytes(), os.getsid(pid()) == pid()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert (status["Seccomp"], status["NoNewPrivs"], int(status["CapEff"], 16)) == ("2", "1", 0)
    assert (environment, set(held)) == (b"", {"0", "1", "2"})
    assert leads, "Ctrl-C in the terminal of the worker is not for it"


async def test_an_operator_may_leave_the_confining_to_the_interpreter(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interpreters, "landlock_here", lambda: 0)
    made = ProgramTool(store, confined=False)
    await made.start(lambda: None)
    try:
        assert await finished(made, "6 * 7") == {"result": 42}
    finally:
        await made.stop(0)


async def test_without_the_package_the_tool_is_not_offered_and_the_log_says_what_to_install(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)
    for name in [name for name in sys.modules if name.startswith("pentad.services.tool_worker.builtins.programs.")]:
        monkeypatch.delitem(sys.modules, name)
    made = ProgramTool(store)
    await made.start(lambda: None)
    assert (dict(made.tools), "pip install 'pentad[code]'" in caplog.text) == ({}, True)
    await made.stop(0)


@pytest.mark.parametrize("version", [0, 7])
async def test_where_the_kernel_cannot_confine_it_the_tool_is_not_offered(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, version: int
) -> None:
    monkeypatch.setattr(interpreters, "landlock_here", lambda: version)
    monkeypatch.setattr(interpreters, "find_monty_binary", lambda: "/nowhere/monty")
    made = ProgramTool(store)
    await made.start(lambda: None)
    assert (dict(made.tools), "run_program is not offered" in caplog.text) == ({}, True)
    await made.stop(0)
