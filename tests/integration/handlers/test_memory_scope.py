"""Whose is what is said without a user: written down with the message, as the settings and the instruction say."""

from pathlib import Path
from typing import Any

import pytest

from pentad.contracts.instructions import Instruction
from pentad.shared.store.store import Store
from tests.integration.handlers.flow import Flow, answer
from tests.integration.handlers.test_recall import transcript

SHARES = Instruction(name="notice-board", system_prompt="Answer.", share=True)


@pytest.mark.parametrize(
    ("settings", "fields", "owner"),
    [
        ({}, {}, {"memory_session": "s1"}),
        ({}, {"user_id": "ada"}, {"user_id": "ada"}),
        ({}, {"instruction": SHARES.name}, {}),
        ({"pentad_memory_scope": "tenant"}, {}, {}),
        ({"pentad_memory_scope": "tenant"}, {"user_id": "ada"}, {"user_id": "ada"}),
    ],
    ids=["its session's", "its user's", "shared by its instruction", "shared by the setting", "its user's anyway"],
)
async def test_a_message_says_whose_it_is(
    store: Store, tmp_path: Path, settings: Any, fields: Any, owner: dict[str, str]
) -> None:
    """Nothing is shared unless an operator or an instruction says so."""
    flow = await Flow(store, tmp_path, lambda _: answer("Noted."), instructions=(SHARES,), **settings).prepare()
    await flow.say("My salary is 4,000 euros.", **fields)
    await flow.drive()
    [message] = [each for each in await transcript(flow) if each["role"] == "user"]
    assert {name: message[name] for name in ("user_id", "memory_session") if name in message} == owner


def test_an_instruction_that_shares_nothing_keeps_its_digest() -> None:
    """Tasks that run keep the version that they began with."""
    plain = SHARES.model_copy(update={"share": False})
    assert b"share" not in plain.to_json()
    assert b'"share":true' in SHARES.to_json()
