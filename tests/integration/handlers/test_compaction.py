"""Long conversations: prompts stay in the window, what was said stays, and every prompt is provable."""

import re
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from pydantic_core import from_json, to_json

from pentad.contracts.instructions import Instruction
from pentad.services.gateway.tasks.queries import Queries
from pentad.shared.actors.headers import pairs, task_header
from pentad.shared.actors.transcript import shown
from pentad.shared.models.ports import ChatRequest, ModelAnswer, ModelRefused, ModelTooLong, ToolCallDraft, Usage
from pentad.shared.store.store import Store
from tests.integration.handlers.flow import Flow
from tests.support.models.prompts import ill_formed

WINDOW = 3_000
TALKER = Instruction(name="talker", system_prompt="You are talking.", tools=["echo"], tool_rounds=None)
WORDS = " ".join(f"word{n}" for n in range(60))
Answer = str | tuple[str, str]


class Talk:
    """A model with a window: it refuses what is longer, and summarises by carrying on every code with its number."""

    def __init__(self, says: Callable[[list[dict[str, Any]]], Answer], window: int = WINDOW) -> None:
        self.says, self.window = says, window
        self.asked: list[ChatRequest] = []
        """All requests that were answered."""
        self.summaries = 0
        self.refused = 0

    def tokens(self, request: ChatRequest) -> int:
        """The tokens of a prompt as this model counts them."""
        return sum(map(len, request.messages)) // 4 + len(request.tools or b"") // 4

    def __call__(self, request: ChatRequest) -> ModelAnswer:
        used = self.tokens(request)
        if used > self.window:
            self.refused += 1
            raise ModelTooLong("too long", self.window, used)
        messages = [from_json(line) for line in request.messages]
        assert ill_formed(messages) == []
        self.asked.append(request)
        if messages[0]["content"].startswith("You shorten"):
            self.summaries += 1
            found = re.findall(r"\[\d+\][^\[\n]*?(code-\w+)|(code-\w+ \[\d+\])", messages[1]["content"])
            codes = [one or two for one, two in found]
            numbers = re.findall(r"\[(\d+)\] user: [^\n]*?(code-\w+)", messages[1]["content"])
            told = [f"{code} [{number}]" for number, code in numbers] + [code for code in codes if "[" in code]
            return made("The codes are " + ", ".join(dict.fromkeys(told)), used)
        return made(self.says(messages), used)


def made(said: Answer, used: int) -> ModelAnswer:
    calls = () if isinstance(said, str) else (ToolCallDraft(*said),)
    return ModelAnswer(said if isinstance(said, str) else "", "", calls, "stop", Usage(used, 20), "scripted")


async def flow_of(store: Store, folder: Path, talk: Talk, known: bool = True, **settings: Any) -> Flow:
    instructions = settings.pop("instructions", [TALKER])
    flow = await Flow(store, folder, talk, instructions=instructions, **settings).prepare()
    flow.model.window = talk.window if known else None
    return flow


async def events(flow: Flow, kind: str) -> list[dict[str, Any]]:
    entries = await flow.store.call("XRANGE", "pentad:{0}:events:default:s1", "-", "+")
    return [event for _, fields in entries if (event := from_json(fields[1]))["type"] == kind]


async def proved(flow: Flow, talk: Talk, every: int = 1) -> int:
    """The requests that were answered are rebuilt, byte for byte, from what is kept of the task. ``every``: how many
    there are for each that is looked at.
    """
    queries, task = Queries(flow.store, flow.records, 1), (await flow.task()).task
    for step, request in [*enumerate(talk.asked, 1)][::every]:
        prompt = await queries.prompt("default", task, step)
        assert prompt is not None
        assert prompt.proved
        assert [to_json(message) for message in prompt.messages] == list(request.messages)
        assert (prompt.tools and to_json(prompt.tools)) == request.tools
    assert await queries.prompt("default", task, len(talk.asked) + 1) is None
    return len(talk.asked)


async def said(flow: Flow, text: str, **more: Any) -> None:
    await flow.say(text, instruction="talker", **more)
    await flow.drive()


@pytest.mark.parametrize(
    ("window", "turns"),
    [
        pytest.param(WINDOW, 80, id="four windows"),
        pytest.param(8_000, 1_200, id="25 windows", marks=pytest.mark.slow),
    ],
)
async def test_a_conversation_of_many_windows_stays_in_one_and_knows_its_first_page(
    store: Store, tmp_path: Path, window: int, turns: int
) -> None:
    """Promise: no prompt passes the window, what was said first is answered, and a turn does not cost more and more."""
    talk = Talk(lambda messages: f"Noted. {WORDS[:200]}", window)
    flow = await flow_of(store, tmp_path, talk)
    for n in range(turns):
        await said(flow, f"code-{n} is mine. {WORDS}" if n < 3 else f"more {n}: {WORDS}")
    whole = sum(len(raw) for raw in await store.call("LRANGE", (await flow.task()).log, 0, -1)) // 4
    assert whole > (4 if turns == 80 else 25) * window
    assert talk.refused == 0
    assert talk.summaries > 5
    last = b" ".join(talk.asked[-1].messages).decode()
    assert "code-0 [0]" in last
    assert "code-2 [" in last
    costs = [talk.tokens(request) for request in talk.asked]
    tenth = len(costs) // 10
    middle, end = median(costs[len(costs) // 2 - tenth :][: 2 * tenth]), median(costs[-2 * tenth :])
    assert end <= 1.3 * middle
    assert await proved(flow, talk, every=max(1, turns // 80)) == turns + talk.summaries
    told = await events(flow, "compacted")
    assert len(told) == talk.summaries
    assert all(event["tokens_after"] < event["tokens_before"] and event["from"] < event["to"] for event in told)


async def test_one_long_turn_keeps_its_question_and_its_calls_with_their_results(store: Store, tmp_path: Path) -> None:
    steps = iter(range(60))

    def says(messages: list[dict[str, Any]]) -> Answer:
        assert any(message["content"] == "the question" for message in messages if message["role"] == "user")
        n = next(steps)
        return ("echo", to_json({"text": f"{n} {WORDS}"}).decode()) if n < 50 else "done"

    talk = Talk(says)
    flow = await flow_of(store, tmp_path, talk, pentad_step_limit=52)
    await said(flow, "the question")
    assert await flow.status() == "completed"
    assert talk.summaries > 3
    assert talk.refused == 0
    await proved(flow, talk)


async def test_a_refusal_that_names_the_window_leads_to_a_summary(store: Store, tmp_path: Path) -> None:
    """Promise: a window that nobody knew is learned, and the task that was refused goes on."""
    talk = Talk(lambda messages: "yes")
    flow = await flow_of(store, tmp_path, talk, known=False)
    flow.model.script = lambda request: _learning(flow, talk, request)
    for n in range(30):
        await said(flow, f"{n} {WORDS}")
    assert talk.refused == 1
    assert talk.summaries >= 1
    assert [event["status"] for event in await events(flow, "task_end")] == ["completed"] * 30
    await proved(flow, talk)


def _learning(flow: Flow, talk: Talk, request: ChatRequest) -> ModelAnswer:
    try:
        return talk(request)
    except ModelTooLong as refused:
        flow.model.window = refused.limit
        raise


async def test_pinned_messages_stay_as_they_are(store: Store, tmp_path: Path) -> None:
    talk = Talk(lambda messages: "yes")
    flow = await flow_of(store, tmp_path, talk)
    await said(flow, "always say please", metadata={"pinned": "1"})
    for n in range(60):
        await said(flow, f"{n} {WORDS}")
    assert talk.summaries > 2
    asked = [r for r in talk.asked if b"You shorten" not in r.messages[0]]
    assert all(b'{"role":"user","content":"always say please"}' in request.messages for request in asked)


async def test_max_messages_leaves_older_ones_out_without_a_model(store: Store, tmp_path: Path) -> None:
    plain = TALKER.model_copy(update={"max_messages": 10})
    talk = Talk(lambda messages: "yes", window=100_000)
    flow = await flow_of(store, tmp_path, talk, known=False, instructions=[plain])
    for n in range(30):
        await said(flow, f"message {n}")
    assert talk.summaries == 0
    sizes = [len(request.messages) - 1 for request in talk.asked]
    assert max(sizes) == 10
    assert min(sizes[10:]) >= 5
    last = [from_json(line)["content"] for line in talk.asked[-1].messages]
    assert last[1].startswith("[Left out here: earlier messages, up to message ")
    assert last[-1] == "message 29"
    await proved(flow, talk)


async def test_where_nobody_summarises_the_older_messages_are_left_out(store: Store, tmp_path: Path) -> None:
    """Promise: a summary that its model refuses to write does not end the task."""
    talk = Talk(lambda messages: "yes")

    def refusing(request: ChatRequest) -> ModelAnswer:
        if b"You shorten" in request.messages[0]:
            raise ModelRefused("not today")
        return talk(request)

    flow = await flow_of(store, tmp_path, talk)
    flow.model.script = refusing
    for n in range(40):
        await said(flow, f"{n} {WORDS}")
    assert talk.refused == 0
    assert [event["status"] for event in await events(flow, "task_end")] == ["completed"] * 40
    assert b"[Left out here:" in b"".join(talk.asked[-1].messages)
    await proved(flow, talk)


async def test_a_summary_costs_of_the_budget_and_is_no_step_of_the_turn(store: Store, tmp_path: Path) -> None:
    talk = Talk(lambda messages: "yes")
    flow = await flow_of(store, tmp_path, talk, pentad_step_limit=1)
    for n in range(40):
        await said(flow, f"{n} {WORDS}")
    keys = await flow.task()
    header = task_header("default", keys.task, pairs(await store.call("HGETALL", keys.header)))
    assert header is not None
    assert header.status == "completed"
    assert header.step == 40 + talk.summaries
    assert header.usage.input_tokens == sum(talk.tokens(request) for request in talk.asked)


async def test_one_message_that_no_window_takes_is_left_out(store: Store, tmp_path: Path) -> None:
    talk = Talk(lambda messages: "yes")
    flow = await flow_of(store, tmp_path, talk)
    await said(flow, WORDS * 3)
    steps = [from_json(raw.split(b"\n")[1]) for raw in await store.call("LRANGE", (await flow.task()).log, 0, -1)]
    assert len(steps) == 2
    await said(flow, WORDS * 40)
    assert (await events(flow, "task_end"))[-1]["status"] == "failed"
    await said(flow, "and now?")
    assert (await events(flow, "task_end"))[-1]["status"] == "completed"
    assert "message 2 of this conversation" in b"".join(talk.asked[-1].messages).decode()


async def test_what_is_summarised_is_still_said(store: Store, tmp_path: Path) -> None:
    """Promise: originals stay in the transcript, where memory and inspection read them."""
    talk = Talk(lambda messages: "yes")
    flow = await flow_of(store, tmp_path, talk)
    for n in range(30):
        await said(flow, f"{n} {WORDS}")
    lines = [shown(raw) for raw in await store.call("LRANGE", (await flow.task()).log, 0, -1)]
    asked = [line["content"] for line in lines if line["role"] == "user"]
    assert asked == [f"{n} {WORDS}" for n in range(30)]


@pytest.mark.parametrize("share", [0, 0.7])
async def test_a_share_of_nothing_turns_it_off(store: Store, tmp_path: Path, share: float) -> None:
    talk = Talk(lambda messages: "yes", window=10**6)
    flow = await flow_of(store, tmp_path, talk, pentad_compact_share=share)
    flow.model.window = WINDOW
    for n in range(40):
        await said(flow, f"{n} {WORDS}")
    assert (talk.summaries > 0) == (share > 0)
