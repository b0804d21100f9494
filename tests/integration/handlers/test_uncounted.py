"""A budget of tokens ends a turn also where the model's server counts none: they are estimated, and said to be."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pentad.shared.store.store import Store
from tests.integration.handlers.flow import Flow, answer
from tests.integration.handlers.test_models import events
from tests.integration.handlers.test_thinking_models import Servers, servers
from tests.support.models.replies import Reply, call, say

__all__ = ["servers"]


def script(request: dict[str, Any]) -> Reply:
    """A model that would call its tool for ever, behind a server that counts no tokens."""
    calls = sum(message["role"] == "tool" for message in request["messages"])
    return replace(call(("echo", {"text": f"again {calls}"})) if calls < 4 else say("enough"), usage=False)


@pytest.mark.parametrize(("tokens", "ends"), [(5, "budget_exceeded"), (1_000_000, "answered")])
async def test_a_budget_of_tokens_holds_where_none_are_counted(
    store: Store, tmp_path: Path, servers: Servers, tokens: int, ends: str
) -> None:
    models = await servers.pool(script)
    flow = await Flow(store, tmp_path, lambda _: answer("never"), models=models).prepare()
    await flow.say("go", budget={"tokens": tokens})
    await flow.drive()
    told = await events(store)
    assert told[-1]["reason"] == ends
    if ends == "budget_exceeded":
        assert len(servers.running[0].chats) == 1, "the first answer is more than the budget"
    else:
        usage = told[-1]["usage"]
        assert usage["input_tokens"] > 100
        assert usage["output_tokens"] > 0
