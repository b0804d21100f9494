"""Answers with a list are the JSON that they would be when they were written at one go."""

import json
from typing import Any

import pytest

from pentad.services.gateway.edge.http import answer_with_list
from pentad.shared.event_loop import LARGE_VALUE


@pytest.mark.parametrize("items", [[], [1], ["]}", {"of": ["]}"]}, None], ["x" * (LARGE_VALUE + 1), "y"]])
@pytest.mark.parametrize("body", [{}, {"task_id": 'a "quoted" ]}'}, {"messages": "takes no place", "more": {"b": []}}])
async def test_a_list_is_a_member_beside_the_others(body: dict[str, Any], items: list[Any]) -> None:
    """Promise: whatever the members hold, the answer is one JSON object that has them and the list."""
    answer = await answer_with_list(body, "list", items)
    assert json.loads(bytes(answer.body)) == {**body, "list": items}
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
