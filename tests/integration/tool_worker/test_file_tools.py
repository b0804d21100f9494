"""The tools for files: what a model reads and writes in its own session, once each, and nothing after an erasure."""

from pathlib import Path
from typing import Any

import pytest

from pentad.contracts.tools import Effect, ToolOutcome
from pentad.services.tool_worker.builtins.catalogue import Builtins
from pentad.services.tool_worker.builtins.file_tools import file_tools
from pentad.services.tool_worker.call_files import CallFiles
from pentad.services.tool_worker.sources import ToolInvocation
from pentad.shared.keys import TaskKeys
from pentad.shared.plugins.context import ToolContext
from pentad.shared.store.store import Store
from pentad.shared.workspace.workspace import FileLimits, Workspaces


class Worker:
    """The tools over empty workspaces."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.files = Workspaces(str(folder / "files"), FileLimits(1 << 20, 1 << 24))
        self.definitions = file_tools(CallFiles(store, self.files, 1), 4096)
        self._tools = Builtins(self.definitions, quick=False)

    async def run(self, tool: str, call: str = "call-0-1", session: str = "s1", **args: Any) -> ToolOutcome:
        context = ToolContext(call, call, 1, "acme", None, session, "task-0-9")
        return await self._tools.run(ToolInvocation(tool, args, 20.0, context), lambda _text, _share: None)


@pytest.fixture
def worker(store: Store, tmp_path: Path) -> Worker:
    return Worker(store, tmp_path)


def test_the_tools_are_described_and_say_what_running_twice_does(worker: Worker) -> None:
    assert {name: tool.spec.effect for name, tool in worker.definitions.items()} == {
        "file_read": Effect.PURE, "file_list": Effect.PURE, "file_search": Effect.PURE, "file_write": Effect.IDEMPOTENT,
    }  # fmt: skip
    for tool in worker.definitions.values():
        assert tool.spec.description
        assert all(argument["description"] for argument in tool.spec.parameters["properties"].values())


async def test_a_file_is_written_changed_found_and_read(worker: Worker) -> None:
    assert (await worker.run("file_list")).text == "There are no such files."
    assert (await worker.run("file_write", path="a/b.txt", content="one\ntwo\n")).text == "Wrote 8 bytes to a/b.txt."
    await worker.run("file_write", "call-0-2", path="a/b.txt", mode="append", content="three\n")
    await worker.run("file_write", "call-0-3", path="a/b.txt", mode="replace", old="two", new="2")
    assert (await worker.run("file_read", path="a/b.txt", offset=2)).text == (
        "2\nthree\n[Lines 2 to 3 of 3 (12 bytes); this is the end.]"
    )
    assert (await worker.run("file_search", query="THREE")).text.startswith("a/b.txt:3: three\n")
    listed = (await worker.run("file_list", glob="*.txt")).text
    assert listed.startswith("a/b.txt  12 bytes  text/plain  20")
    assert (await worker.run("file_list", session="s2")).text == "There are no such files."


async def test_a_call_that_runs_again_appends_once(worker: Worker) -> None:
    told = [await worker.run("file_write", path="log", mode="append", content="x") for _ in range(3)]
    assert len({each.text for each in told}) == 1
    assert await worker.files.open("acme", "s1").read("log", 100) == b"x"


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ({"path": "../x", "content": "x"}, "is no path of a file here"),
        ({"path": "x"}, "takes `content`"),
        ({"path": "x", "mode": "replace", "content": "x"}, "takes `old` and `new`"),
        ({"path": "x", "mode": "replace", "old": "a", "new": "b"}, "there is no file 'x'"),
        ({"path": "x", "content": "x", "old": "a"}, "takes `content`, and no `old`"),
        ({"path": "x", "mode": "burn", "content": "x"}, "mode"),
    ],
)
async def test_a_wrong_call_says_what_to_do(worker: Worker, args: dict[str, Any], why: str) -> None:
    outcome = await worker.run("file_write", **args)
    assert (outcome.kind, why in outcome.text) == ("error", True), outcome.text


async def test_results_fit_into_a_prompt(worker: Worker) -> None:
    await worker.run("file_write", path="long", content="word " * 200_000)
    await worker.run("file_write", "call-0-2", path="many", content="line of text\n" * 20_000)
    for number in range(40):
        await worker.files.open("acme", "s1").write(f"{'f' * 150}{number}", b"")
    for outcome in (
        await worker.run("file_read", path="long"),
        await worker.run("file_read", path="many", limit=10_000),
        await worker.run("file_list"),
        await worker.run("file_search", query="line", limit=200),
    ):
        assert outcome.ok
        assert len(outcome.text.encode()) <= 4_500


async def test_a_late_call_of_an_erased_task_leaves_no_file(worker: Worker, store: Store) -> None:
    await store.call("HSET", TaskKeys(0, "acme", "task-0-9").erased, "at", "1")
    outcome = await worker.run("file_write", path="a", content="x")
    assert (outcome.kind, "was erased" in outcome.text) == ("error", True)
    assert await worker.files.open("acme", "s1").list() == []
