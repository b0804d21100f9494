"""Two model servers at once, one of them failing: who is asked, and what the caller sees, in each protocol."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import pairwise
from statistics import median
from time import monotonic
from typing import Any

import pytest

from pentad.contracts.models import ModelEntry
from pentad.shared.models.model_list import merged
from pentad.shared.models.model_makers import make_of_entry
from pentad.shared.models.model_pool import ModelPool, OpenGate
from pentad.shared.models.ports import ChatRequest, ModelAnswer, ModelCutOff, ModelFailed, ModelMisconfigured
from tests.integration.models.conftest import USER
from tests.support.models.model_server import Script, ScriptedModel
from tests.support.models.replies import Reply, cut, fail, say
from tests.support.waiting import PATIENCE_S, wait_until

REQUEST = ChatRequest((USER,), None, PATIENCE_S)


class Two:
    """A main model with a spare one."""

    def __init__(self, main: ScriptedModel, spare: ScriptedModel, pool: ModelPool) -> None:
        self.main, self.spare, self.pool = main, spare, pool
        self.said: list[str] = []

    async def ask(self) -> ModelAnswer | ModelFailed:
        return await self.pool.ask(None, REQUEST, lambda _, text: self.said.append(text))

    async def by(self) -> str:
        answer = await self.ask()
        return answer.model_id if isinstance(answer, ModelAnswer) else type(answer).__name__

    @property
    def state(self) -> str:
        return next(iter(self.pool.live)).circuit.state


class Servers(AsyncExitStack):
    """What a test has opened, and the protocol of its main model."""

    protocol = "openai"


@pytest.fixture(params=["openai", "anthropic"])
async def stack(request: pytest.FixtureRequest) -> AsyncIterator[Servers]:
    async with Servers() as made:
        made.protocol = request.param
        yield made


async def two(stack: Servers, main: Script, **fields: Any) -> Two:
    first = await stack.enter_async_context(ScriptedModel(main))
    second = await stack.enter_async_context(ScriptedModel(lambda _: say("I am the spare")))
    entries = [
        ModelEntry.model_validate(
            {
                "id": "main",
                "protocol": stack.protocol,
                "endpoint": first.base_url,
                "model": "m1",
                "default": True,
                "fallbacks": ["spare"],
                **fields,
            }
        ),
        ModelEntry(id="spare", endpoint=second.base_url, model="m2"),
    ]
    pool = ModelPool(lambda known: make_of_entry(known.entry), OpenGate(), merged((), entries, ()))
    stack.push_async_callback(pool.aclose)
    return Two(first, second, pool)


async def test_parameters_and_key_go_to_their_own_server_alone(stack: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAIN_API_KEY", "sk-main")
    both = await two(stack, lambda _: fail(503), api_key_env="MAIN_API_KEY", parameters={"temperature": 0.25})
    assert await both.by() == "spare"
    (asked,), (spared,) = both.main.seen.requests, both.spare.seen.requests
    assert (asked.body["model"], asked.body["temperature"]) == ("m1", 0.25)
    assert "sk-main" in str(asked.headers)
    assert (spared.body["model"], "temperature" in spared.body) == ("m2", False)
    assert "sk-main" not in str(spared.headers)


async def test_a_variable_that_is_not_set_is_told_and_the_spare_answers(stack: Servers) -> None:
    both = await two(stack, lambda _: say("never"), api_key_env="SURELY_UNSET_API_KEY")
    assert await both.by() == "spare"
    assert both.main.chats == []
    error = next(iter(both.pool.live)).circuit.error
    assert "SURELY_UNSET_API_KEY is not set" in str(error)


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500, 503])
async def test_a_failure_before_the_first_word_goes_to_the_spare_without_a_pause(stack: Servers, status: int) -> None:
    both = await two(stack, lambda _: fail(status))
    assert await both.by() == "spare"
    assert both.said == ["I am the spare"]
    assert len(both.main.chats) == 1, "with a spare at hand nothing is asked twice"


async def test_a_request_that_one_server_refuses_in_each_form_goes_to_the_spare(stack: Servers) -> None:
    """Promise: a refusal that teaches nothing ends no task that another model can answer."""
    both = await two(stack, lambda _: fail(400))
    assert await both.by() == "spare"
    assert len(both.main.chats) == 1
    assert both.state == "ok"


async def test_a_conversation_that_is_too_long_goes_to_the_spare(stack: Servers) -> None:
    """Promise: a model with a larger context is asked where there is one."""
    both = await two(stack, lambda _: fail(400, message="prompt is too long: 213462 tokens > 200000 maximum"))
    assert await both.by() == "spare"


async def test_a_used_up_quota_goes_to_the_spare_and_is_not_asked_for_again(stack: Servers) -> None:
    """Promise: a quota that is used up is final at once for its model, and the chain's next answers."""
    both = await two(stack, lambda _: fail(429, message="You exceeded your current quota, please check your plan"))
    assert [await both.by() for _ in range(3)] == ["spare"] * 3
    assert len(both.main.chats) == 1


async def test_a_limit_with_a_stated_delay_is_left_alone_at_once(stack: Servers) -> None:
    """Promise: within a delay that a server states no other request is sent to it."""
    both = await two(stack, lambda _: fail(429, message="Rate limit reached. Please try again in 6m0s."))
    assert [await both.by() for _ in range(5)] == ["spare"] * 5
    assert len(both.main.chats) == 1
    left = next(iter(both.pool.live)).circuit.left(monotonic())
    assert 350 < left <= 360


async def test_a_server_that_is_not_there_is_left_alone_after_three_calls(stack: Servers) -> None:
    both = await two(stack, lambda _: say("never"))
    await both.main.stop()
    assert [await both.by() for _ in range(10)] == ["spare"] * 10
    assert both.state == "open"


async def test_an_answer_that_does_not_begin_in_time_is_given_up_for_the_spares(stack: Servers) -> None:
    both = await two(stack, lambda _: say("never", first_delay=60), begin_s=0.2)
    assert await both.by() == "spare"
    assert both.said == ["I am the spare"]


async def test_an_answer_that_has_begun_may_take_longer(stack: Servers) -> None:
    both = await two(stack, lambda _: say("a long answer", chunks=6, delay=0.15), begin_s=0.3)
    assert await both.by() == "main"


@pytest.mark.parametrize("after", [0, 3])
async def test_a_call_that_is_cancelled_hands_over_what_was_said(stack: Servers, after: int) -> None:
    """With who said it and what is known of its price; nothing when nothing has come."""
    reply = say("one two", chunks=2, wait=asyncio.Event(), wait_after=after)
    both = await two(stack, lambda _: reply, prices={"input": 1.0, "output": 1.0})
    cut: list[ModelAnswer] = []
    request = replace(REQUEST, on_cut=cut.append)
    call = asyncio.ensure_future(both.pool.ask(None, request, lambda _, text: both.said.append(text)))
    await wait_until("the model to be asked", lambda: both.said if after else both.main.chats)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    assert call.cancelled()
    await wait_until("the line to be closed", lambda: both.main.seen.dropped == 1)
    assert [(said.text, said.model_id) for said in cut if said.text] == [("".join(both.said), "main")] * bool(after)
    assert all((said.usage.usd > 0) == (said.usage.input_tokens > 0) for said in cut)
    told = [model.learned for model in both.pool.live if model.learned]
    assert told == [], "an answer that was cut says nothing of whether its server counts tokens"


async def test_what_was_shown_of_an_answer_that_is_cut_ends_the_attempt(stack: Servers) -> None:
    both = await two(stack, lambda _: cut(2))
    assert [await both.by() for _ in range(4)] == [*["ModelCutOff"] * 3, "spare"]
    assert both.said[-1] == "I am the spare"
    assert len(both.spare.chats) == 1


async def test_a_model_whose_entry_changes_is_asked_anew_and_its_old_answers_end_in_peace(
    stack: Servers,
) -> None:
    hold = asyncio.Event()
    both = await two(stack, lambda _: say("slowly said", chunks=2, wait=hold, wait_after=2))
    asked = asyncio.create_task(both.by())
    await wait_until("its first words", lambda: both.said)
    entry = ModelEntry(id="main", endpoint=both.spare.base_url, model="m9", default=True)
    both.pool.use(merged((), [entry], ()))
    await both.pool._close_retired()
    assert await both.by() == "main"
    assert both.spare.chats[-1]["model"] == "m9"
    hold.set()
    assert await asked == "main"
    await both.pool._close_retired()
    assert both.pool._retired == []


async def test_200_calls_of_a_main_model_that_fails_three_of_ten_are_all_answered(stack: Servers) -> None:
    """Seeded. Its circuit opens and closes; a call that comes while it is open asks the spare at once."""
    chance = random.Random(11)
    kinds = [fail(500), fail(503), fail(429), cut(2)]

    def script(_: object) -> Reply:
        return chance.choice(kinds) if chance.random() < 0.3 else say("I am the main one")

    both = await two(stack, script)
    model = next(iter(both.pool.live))
    states: list[bool] = []
    while_open: list[float] = []

    async def call() -> str:
        for _ in range(5):  # the attempts of a step
            down, begun, asked = not model.circuit.may_ask(monotonic()), monotonic(), len(both.main.chats)
            answer = await both.ask()
            states.append(model.circuit.closed)
            if down and model.circuit.since < begun and not model.circuit.closed:
                while_open.append(monotonic() - begun)
            if isinstance(answer, ModelAnswer):
                return answer.model_id
            assert isinstance(answer, ModelCutOff), (answer, asked)
        raise AssertionError("a step would have failed")

    async def closes() -> bool:
        answers.append(await call())
        return any(after and not before for before, after in pairwise(states))

    answers: list[str] = []
    for _ in range(40):
        answers += await asyncio.gather(*(call() for _ in range(5)))
    await wait_until("the circuit to close", closes)
    main, spare = answers.count("main"), answers.count("spare")
    print(f"\nmain {main}, spare {spare}; a call while it was open took {median(while_open) * 1000:.1f} ms")
    assert len(answers) >= 200
    assert main + spare == len(answers)
    assert any(before and not after for before, after in pairwise(states)), "it never opened"
    assert median(while_open) < 0.5


async def test_one_model_alone_with_a_wrong_key_says_so_every_time(stack: Servers) -> None:
    both = await two(stack, lambda _: fail(401, message="no such key"), fallbacks=[])
    for _ in range(3):
        failure = await both.ask()
        assert isinstance(failure, ModelMisconfigured)
        assert "no such key" in str(failure)
    both.main.script = lambda _: say("let in")
    assert await both.by() == "main"
