"""A tool's large result and a file that it returns: prompts hold a part, a model reads on, the record has the whole."""

import re
from base64 import encodebytes, urlsafe_b64encode
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pydantic_core import from_json, to_json

from pentad.contracts.instructions import Instruction
from pentad.contracts.tools import RESULT_READ
from pentad.services.tool_worker.builtins.result_read import KeptResults, result_reading_tool
from pentad.shared.data_urls import data_url
from pentad.shared.memory.points import cut_task, texts_of
from pentad.shared.models.ports import ChatRequest, ModelAnswer
from pentad.shared.plugins.context import ToolContext
from pentad.shared.store.store import Store
from tests.integration.handlers.flow import Flow, answer
from tests.integration.handlers.test_recall import record

LONG = "0123456789" * 9_000
_RANDOM = Random(24).randbytes(6_000)
_DRAWING = "data:image/svg+xml,%3Csvg%20xmlns='http://www.w3.org/2000/svg'%3E" + "%3Cg/%3E" * 40 + "%3C/svg%3E"
FILE = data_url(b"\x89PNG\r\n\x1a\n" + bytes(200_000))


def echo(text: str) -> tuple[str, str]:
    return ("echo", to_json({"text": text}).decode())


async def flow_of(store: Store, folder: Path, text: str, **more: Any) -> tuple[Flow, list[ChatRequest]]:
    asked: list[ChatRequest] = []

    def script(request: ChatRequest) -> ModelAnswer:
        asked.append(request)
        return answer("", echo(text)) if len(asked) == 1 else answer("done")

    flow = await Flow(store, folder, script, **more).prepare()
    await flow.say("go", instruction="executor" if "instructions" not in more else "brief")
    await flow.drive()
    return flow, asked


def result_of(request: ChatRequest) -> str:
    (message,) = [line for line in map(from_json, request.messages) if line["role"] == "tool"]
    return str(message["content"])


def reading(store: Store, most: int = 32_768) -> Any:
    return result_reading_tool(KeptResults(store, 1, most)).function


async def context_of(flow: Flow) -> tuple[ToolContext, str]:
    """Of a call of the flow's task, and the id of its call with the result."""
    task = await flow.task()
    (line,) = [m for m in (await record(flow)).messages if m["role"] == "tool"]
    return ToolContext("call-0-9", "call-0-9", 1, "default", None, "s1", task.task), line["tool_call_id"]


async def test_a_prompt_holds_a_part_of_a_long_result_and_the_model_reads_all_of_it(
    store: Store, tmp_path: Path
) -> None:
    flow, asked = await flow_of(store, tmp_path, LONG)
    shown = result_of(asked[1])
    assert len(shown) <= 32_768
    context, ref = await context_of(flow)
    assert f"ref {ref}, offset" in shown
    pieces, offset = "", 0
    while offset < len(LONG):
        piece, _, note = (await reading(store)(context, ref, offset)).rpartition("\n")
        pieces, offset = pieces + piece, offset + len(piece)
        assert note.startswith(f"[Characters {offset - len(piece)} to {offset} of {len(LONG)}; ")
    assert pieces == LONG
    assert note.endswith("this is the end.]")


@pytest.mark.parametrize("text", [FILE, "a small one: " + data_url(b"\xff\xd8\xff" + bytes(300))])
async def test_a_file_is_never_in_a_prompt_and_the_record_has_it(store: Store, tmp_path: Path, text: str) -> None:
    flow, asked = await flow_of(store, tmp_path, text)
    assert "which is not shown here" in result_of(asked[1])
    assert all(b"base64" not in line for line in asked[1].messages if b'"role":"tool"' in line)
    kept = await record(flow)
    context, ref = await context_of(flow)
    assert kept.results == {ref: text}
    assert "base64" not in await reading(store)(context, ref)


@pytest.mark.parametrize(
    "text",
    [encodebytes(_RANDOM).decode(), urlsafe_b64encode(_RANDOM).decode(), _RANDOM.hex(), f"icon: {_DRAWING}"],
    ids=["lines", "urlsafe", "digits", "drawing"],
)
async def test_bytes_in_any_encoding_are_in_no_prompt_and_kept_whole(store: Store, tmp_path: Path, text: str) -> None:
    """Promise: how a tool encodes a file makes no difference to what its model is shown."""
    flow, asked = await flow_of(store, tmp_path, text)
    assert "which is not shown here" in result_of(asked[1])
    assert text.split()[-1][:32] not in result_of(asked[1])
    context, ref = await context_of(flow)
    assert (await record(flow)).results == {ref: text}
    assert text.split()[-1][:32] not in await reading(store)(context, ref)


async def test_a_result_that_fits_is_kept_once(store: Store, tmp_path: Path) -> None:
    flow, asked = await flow_of(store, tmp_path, LONG[:20_000])
    assert result_of(asked[1]) == LONG[:20_000]
    assert (await record(flow)).results is None


async def test_the_bound_is_a_setting(store: Store, tmp_path: Path) -> None:
    _, asked = await flow_of(store, tmp_path, LONG[:2_000], pentad_result_bytes=1024)
    assert len(result_of(asked[1])) <= 1024


async def test_the_tool_that_reads_on_is_offered_where_there_is_something_to_read(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = result_reading_tool(KeptResults(store, 1, 32_768)).spec
    monkeypatch.setattr("tests.integration.handlers.flow._SPECS", {**_specs(), RESULT_READ: spec})
    brief = Instruction(name="brief", system_prompt="Be brief.", tools=["echo"])
    _, asked = await flow_of(store, tmp_path, LONG, instructions=[brief])
    offered = [[tool["function"]["name"] for tool in from_json(request.tools or b"[]")] for request in asked]
    assert offered == [["echo"], ["echo", RESULT_READ]]


def _specs() -> dict[str, Any]:
    from tests.integration.handlers import flow

    return dict(flow._SPECS)


@pytest.mark.parametrize("ref", ["call-0-other", "tools:abc", "instruction:abc", "", "call-0-1\0", "é" * 100])
async def test_nothing_else_is_read_by_it(store: Store, tmp_path: Path, ref: str) -> None:
    flow, _ = await flow_of(store, tmp_path, LONG)
    context, _ = await context_of(flow)
    with pytest.raises(LookupError, match="no result of this task"):
        await reading(store)(context, ref)


async def test_what_else_is_kept_beside_the_task_is_not_read_by_it(store: Store, tmp_path: Path) -> None:
    flow, _ = await flow_of(store, tmp_path, LONG)
    context, ref = await context_of(flow)
    others = {name.decode() for name in await store.call("HKEYS", (await flow.task()).big)} - {ref}
    assert {name.partition(":")[0] for name in others} == {"instruction", "tools"}
    for name in others:
        with pytest.raises(LookupError, match="no result of this task"):
            await reading(store)(context, name)


async def test_another_tenants_and_another_tasks_results_are_not_read(store: Store, tmp_path: Path) -> None:
    flow, _ = await flow_of(store, tmp_path, LONG)
    context, ref = await context_of(flow)
    for tenant, task in (("other", context.task_id), ("default", "task-0-other"), ("default", "nonsense")):
        with pytest.raises(LookupError):
            await reading(store)(ToolContext("c", "c", 1, tenant, None, "s1", task), ref)


async def test_an_offset_behind_the_end_is_told_where_the_end_is(store: Store, tmp_path: Path) -> None:
    flow, _ = await flow_of(store, tmp_path, LONG)
    context, ref = await context_of(flow)
    assert (await reading(store)(context, ref, 10**9)).endswith(f"of {len(LONG)}; this is the end.]")


async def test_memory_is_made_of_none_of_a_files_bytes(store: Store, tmp_path: Path) -> None:
    """Promise: what is remembered of a task in which a file came back is its words, and no base64."""
    flow, _ = await flow_of(store, tmp_path, FILE)
    task = await flow.task()
    remembered = cut_task("default", task.task, "s1", (await record(flow)).messages)
    texts = texts_of(remembered)
    assert texts
    assert [text for text in texts if re.search(r"[A-Za-z0-9+/]{120}", text)] == []
