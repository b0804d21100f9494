"""The window of a model is learned when its server names it, in each protocol, whatever becomes of the request."""

from __future__ import annotations

import pytest

from pentad.shared.models.ports import ModelTooLong
from tests.integration.models.conftest import Start
from tests.support.models.replies import fail, say

WORDS = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9044 tokens."


async def test_a_refused_prompt_tells_the_window(start: Start) -> None:
    bench = await start(fail(400, message=WORDS + " sk-secret-key"))
    with pytest.raises(ModelTooLong) as refused:
        await bench.ask()
    assert (refused.value.limit, refused.value.asked) == (8192, 9044)
    assert bench.client.window == 8192
    (told,) = bench.client.learned
    assert told.startswith("it takes 8,192 tokens in all: it says \"This model's maximum context length is 8192")
    assert "sk-secret-key" not in told


async def test_a_request_that_a_stranger_wrote_tells_no_window(start: Start) -> None:
    bench = await start(fail(400, message=WORDS))
    with pytest.raises(ModelTooLong):
        await bench.ask(teaches=False)
    assert bench.client.window is None


async def test_a_refusal_that_a_shorter_answer_has_overcome_tells_the_window_too(start: Start) -> None:
    """Promise: the next prompt need not be refused for the window to be known."""
    words = "input length and `max_tokens` exceed context limit: 7000 + 4000 > 8192, decrease input length"
    bench = await start(fail(400, message=words), say("there"), parameters={"max_tokens": 4000})
    assert (await bench.ask()).text == "there"
    assert bench.client.window == 8192
