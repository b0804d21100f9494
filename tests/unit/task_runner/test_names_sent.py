"""What goes back to the model is what model servers accept, whatever the model said."""

import pytest

from pentad.services.task_runner.prompt import assistant


@pytest.mark.parametrize(
    ("said", "sent"),
    [
        ("echo", "echo"),
        ("functions.echo", "functions_echo"),
        ("no such\n", "no_such_"),
        ("", "_"),
        ("x" * 99, "x" * 64),
    ],
)
def test_a_tool_name_that_the_model_made_up_does_not_spoil_the_next_request(said: str, sent: str) -> None:
    message = assistant("", [("call-0-a", said, "{}")])
    assert message["tool_calls"][0]["function"]["name"] == sent
