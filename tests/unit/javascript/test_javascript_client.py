"""The JavaScript client in ``clients/js``: its own tests, and that its types, its package and its code say the same."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from pentad.services.gateway.api_docs.openapi import VERSION
from tests.support.javascript.node_tests import NO_NODE, NODE, passed_in_node
from tests.support.javascript.packages import installed
from tests.support.processes.up import ROOT

CLIENT = ROOT / "clients" / "js"
_TYPESCRIPT = ("typescript@5.9.3", "@types/node@20")
_USE = """
import { Busy, approvalsOf, callsOf, clientCallsOf, connect, emptySession, reduce } from "CLIENT"
import type { OwnTool, SessionEvent, SessionState } from "CLIENT"

const client = connect({ url: "http://127.0.0.1:1", getToken: async () => ({ token: "t", session_id: "s" }) })
const session = client.session("s1", { after: "now" })
session.on("event", (event: SessionEvent, state: SessionState) => {
  if (event.type === "tool_call") event.tool.concat(state.cursor)
  // @ts-expect-error: only a tool's result has one
  event.result
})
async function use(): Promise<void> {
  for await (const text of session.send("hi", { taskId: "new", files: ["a"] }).text()) text.concat("")
  const blob: Blob = await session.files.get("a")
  const answer: Response = await client.request("GET", "/v1/tools", { as: "response", signal: AbortSignal.timeout(1) })
  const found = await client.request<{ items: string[] }>("GET", "/v1/tools")
  found.items[0].concat(answer.statusText, blob.type)
  for (const each of approvalsOf(session.state)) await session.approve(each, { args: { a: 1 } })
  const run: OwnTool["run"] = ({ exact }, { call, signal }) => (exact && !signal.aborted ? [call.tool] : null)
  await session.ask("where?", { tools: [{ name: "place", parameters: { type: "object" }, run }, { name: "by_hand" }] })
  for (const each of clientCallsOf(session.state)) await session.sendResult(each, [each.tool])
  // @ts-expect-error: a tool has a name
  session.send("where?", { tools: [{ run }] })
  const [entry] = session.state.order
  if (entry.kind === "step") {
    const task = session.state.tasks[entry.task_id]
    callsOf(task, task.steps[0]).map((call) => call.approval?.args_digest)
  }
  await session.ask("x").catch((error) => (error instanceof Busy ? error.retryAfter : null))
  // @ts-expect-error: a state is never changed
  session.state.cursor = "0"
}
reduce(emptySession(), { type: "client_accepted", message_id: "m" })
// @ts-expect-error: there is no such event
reduce(emptySession(), { type: "client_wondered" })
use()
"""


@pytest.mark.skipif(NODE is None, reason=NO_NODE)
def test_its_reducer_and_its_sessions_do_as_their_tests_say() -> None:
    files = sorted(f"test/{path.name}" for path in CLIENT.glob("test/*.test.mjs"))
    assert passed_in_node(CLIENT, *files) >= 95


def test_its_types_name_what_it_exports() -> None:
    code, types = ((CLIENT / name).read_text() for name in ("pentad.js", "pentad.d.ts"))
    values = r"^export (?:async )?(?:function\*?|class|const) (\w+)"
    assert set(re.findall(values, code, re.MULTILINE)) == set(re.findall(values, types, re.MULTILINE))


def test_its_package_is_of_this_version_and_has_no_dependency() -> None:
    package = json.loads((CLIENT / "package.json").read_text())
    code = (CLIENT / "pentad.js").read_text()
    assert (package["version"], f'VERSION = "{VERSION}"' in code) == (VERSION, True)
    assert not {"dependencies", "peerDependencies", "optionalDependencies"} & set(package)
    assert [name for name in package["files"] if not (CLIENT / name).is_file()] == []
    assert not re.search(r"^import |import\(|eval\(|new Function|innerHTML", code, re.MULTILINE), (
        "one module, strict CSP"
    )


def test_its_package_holds_what_an_import_needs_and_no_tests(tmp_path: Path) -> None:
    if NODE is None:
        pytest.skip(NO_NODE)
    packed = subprocess.run(
        ["npm", "pack", "--json", "--dry-run"], cwd=CLIENT, capture_output=True, text=True, timeout=60, check=True
    )
    [package] = json.loads(packed.stdout)
    assert {each["path"] for each in package["files"]} == {"README.md", "package.json", "pentad.d.ts", "pentad.js"}


@pytest.fixture(scope="module")
def typescript() -> Path:
    folder = installed(*_TYPESCRIPT)
    if folder is None:
        pytest.skip("the compiler of TypeScript cannot be installed here: it needs node, npm and its registry")
    return folder


def test_its_types_hold_for_who_uses_it(typescript: Path) -> None:
    use = typescript / "use.mts"
    use.write_text(_USE.replace('"CLIENT"', f'"{CLIENT / "pentad.js"}"'))
    options = ["--noEmit", "--strict", "--target", "es2023", "--lib", "es2023,dom,dom.asynciterable"]
    command = [*("npx", "tsc", *options, "--module", "nodenext", "--moduleResolution", "nodenext"), use.name]
    checked = subprocess.run(command, cwd=typescript, capture_output=True, text=True, timeout=120, check=False)
    assert (checked.returncode, checked.stdout) == (0, "")
