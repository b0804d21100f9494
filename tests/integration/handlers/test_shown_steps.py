"""The steps of a task are shown whole and alike, while it lives and from its record."""

from pathlib import Path
from typing import Any

import pytest

from pentad.contracts.commands import WakeUp
from pentad.contracts.records import TaskStep
from pentad.contracts.streams import ARCHIVE, SESSION_WAKE, TASK_WAKE
from pentad.services.gateway.tasks import step_list
from pentad.services.gateway.tasks.queries import Queries
from pentad.services.gateway.tasks.step_list import StepList
from pentad.shared.models.ports import ChatRequest, ModelAnswer
from pentad.shared.store.store import Store
from pentad.shared.work.entry import Entry
from tests.integration.handlers.flow import Flow, answer

ECHO, WRONG = ("echo", '{"text":"ü"}'), ("echo", "{no json")


def script(request: ChatRequest) -> ModelAnswer:
    """Call two tools, the second one wrongly, and then answer."""
    if b'"role":"tool"' in request.messages[-1]:
        return answer("done")
    return answer("Let me see.", ECHO, WRONG)


async def steps_of(queries: Queries, task: str, limit: int = 50) -> list[TaskStep]:
    """All steps, page by page."""
    found: list[TaskStep] = []
    listed, after = StepList(queries), 0
    while True:
        page = await listed.page("default", task, limit, after)
        assert page is not None
        assert len(page.items) <= limit
        found += map(TaskStep.model_validate, page.items)
        if page.next is None:
            return found
        assert int(page.next) > after, "each page has a step"
        after = int(page.next)


async def archived(flow: Flow, task: str) -> None:
    keys = await flow.task_named(task)
    await flow.store.call("HSET", keys.header, "ended_at", 1)
    await flow.archiving.handle(Entry(ARCHIVE.key(0), "1-1", WakeUp(actor=f"default/{task}").to_json()))
    assert not await flow.store.call("EXISTS", keys.header)


def roles(step: TaskStep) -> list[Any]:
    return [message["role"] for message in step.messages]


@pytest.fixture
async def flow(store: Store, tmp_path: Path) -> Flow:
    """A task of two turns with two steps each."""
    flow = await Flow(store, tmp_path, script, pause_s=0.02).prepare()
    await flow.say("first")
    await flow.drive()
    await flow.say("second", task_id=(await flow.task()).task)
    await flow.drive()
    return flow


async def test_each_step_has_what_it_added_its_answer_and_its_calls_with_their_results(
    store: Store, flow: Flow
) -> None:
    task, queries = (await flow.task()).task, Queries(store, flow.records, 1)
    one, two, three, four = steps = await steps_of(queries, task)
    assert [step.step for step in steps] == [1, 2, 3, 4]
    assert [roles(step) for step in steps] == [["user", "assistant"], ["tool", "tool", "assistant"]] * 2
    assert (one.messages[0]["content"], three.messages[0]["content"]) == ("first", "second")
    assert [step.messages[-1]["content"] for step in steps] == ["Let me see.", "done"] * 2
    good, wrong = one.calls
    assert (good.tool, good.args, good.result, good.error) == ("echo", {"text": "ü"}, "ü", None)
    assert (wrong.args, wrong.result) == ({}, None), "as later prompts have it"
    assert wrong.error is not None
    assert not wrong.error.startswith("error: "), "the word is the model's"
    assert [call.tool_call_id for call in one.calls] == [m["tool_call_id"] for m in two.messages[:2]]
    assert [call.tool_call_id for call in three.calls] != [call.tool_call_id for call in one.calls]
    assert (two.calls, four.calls) == ([], [])
    assert {(step.model, step.instruction, step.usage.input_tokens) for step in steps} == {("scripted", "executor", 5)}
    assert all((step.duration_ms or 0) >= 20 for step in steps), "the model has taken this long"
    assert one.manifest.digest != two.manifest.digest


async def test_an_archived_task_has_the_same_steps_and_pages_join_to_the_whole(store: Store, flow: Flow) -> None:
    task, queries = (await flow.task()).task, Queries(store, flow.records, 1)
    whole = await steps_of(queries, task)
    for limit in (1, 2, 3):
        assert await steps_of(queries, task, limit) == whole, f"live, {limit} on a page"
    await archived(flow, task)
    for limit in (1, 2, 3, 50):
        assert await steps_of(queries, task, limit) == whole, f"archived, {limit} on a page"


async def test_a_page_ends_early_after_long_messages(store: Store, flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_list, "MAX_PAGE_CHARS", 10)
    task, queries = (await flow.task()).task, Queries(store, flow.records, 1)
    page = await StepList(queries).page("default", task, 50, 0)
    assert page is not None
    assert (len(page.items), page.next) == (1, "1")
    assert len(await steps_of(queries, task)) == 4


async def test_a_call_that_is_open_has_no_outcome_and_its_result_is_found_when_it_has_come(
    store: Store, tmp_path: Path
) -> None:
    flow = await Flow(store, tmp_path, script).prepare()
    await flow.say("first")
    await flow.once(SESSION_WAKE)
    task, queries = (await flow.task()).task, Queries(store, flow.records, 1)
    assert await steps_of(queries, task) == []
    await flow.once()
    (step,) = await steps_of(queries, task)
    open_call = step.calls[0]
    assert (open_call.result, open_call.error) == (None, None)
    assert open_call.at == step.at
    await flow.drive()
    assert (await steps_of(queries, task))[0].calls[0].result == "ü"


async def test_nobody_else_s_task_has_steps_to_show(store: Store, flow: Flow) -> None:
    task, listed = (await flow.task()).task, StepList(Queries(store, flow.records, 1))
    assert await listed.page("other", task, 50, 0) is None
    for name in ("task-9-none", "task-0-none", "no id/"):
        assert await listed.page("default", name, 50, 0) is None
    behind = await listed.page("default", task, 50, 1_000)
    assert behind is not None
    assert (behind.items, behind.next) == ([], None)


async def test_the_results_of_calls_that_the_end_of_the_task_gave_up_are_shown(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, script).prepare()
    await flow.say("first")
    await flow.once(SESSION_WAKE)
    await flow.once(TASK_WAKE)
    keys, queries = await flow.task(), Queries(store, flow.records, 1)
    await flow.actors.post(keys, "cancel", b"{}", ("active",), "cancel")
    await flow.once(TASK_WAKE)
    (step,) = await steps_of(queries, keys.task)
    assert step.calls[0].error is not None


async def test_a_task_tells_its_last_user_message_and_its_end_until_it_goes_on(store: Store, tmp_path: Path) -> None:
    flow = await Flow(store, tmp_path, script).prepare()
    queries = Queries(store, flow.records, 1)
    await flow.say("first")
    await flow.once(SESSION_WAKE)
    task = (await flow.task()).task
    begun = await queries.task("default", task)
    assert begun is not None
    assert begun.last_user_message_at is not None, "also before its first step"
    assert begun.completed_at is None
    await flow.drive()
    ended = await queries.task("default", task)
    assert ended is not None
    assert ended.completed_at is not None
    assert ended.completed_at >= ended.last_user_message_at == begun.last_user_message_at  # type: ignore[operator]
    await flow.say("second", task_id=task)
    await flow.once(SESSION_WAKE)
    again = await queries.task("default", task)
    assert again is not None
    assert again.completed_at is None
    assert again.last_user_message_at >= ended.completed_at  # type: ignore[operator]
