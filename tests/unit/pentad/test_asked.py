"""A call that asks a person for values shows its question and how to answer it, whatever its server says."""

from typing import Any

from pentad.cli.asked import asked_lines
from pentad.contracts.approvals import PendingApproval
from pentad.contracts.tools import Effect

AT = "2026-01-01T00:00:00.000Z"


def asking(reason: str, form: Any) -> PendingApproval:
    about: dict[str, Any] = {"task_id": "task-0-a", "session_id": "s1", "args": {}, "args_digest": "d", "asked_at": AT}
    about |= {"tool": "s__book", "effect": Effect.UNSAFE, "expires_at": AT}
    return PendingApproval(tool_call_id="call-0-b", needs="input", reason=reason, form=form, **about)


def test_the_whole_question_and_the_command_that_answers_are_shown() -> None:
    form = {"type": "object", "properties": {"seats": {"type": "integer"}, "class": {"enum": ["first", "second"]}}}
    assert asked_lines(asking("How many seats?", form)) == [
        "call-0-b asks: How many seats?",
        '  pentad approve call-0-b --edit \'{"seats": "integer", "class": "first | second"}\'',
    ]
    link = f"Sign in (open https://id.example/{'x' * 500}, then go on)"
    assert asked_lines(asking(link, {"type": "object", "properties": {}})) == [
        f"call-0-b asks: {link}",
        "  pentad approve call-0-b",
    ]


def test_a_hostile_form_moves_no_cursor() -> None:
    lines = asked_lines(asking("a\x1b[2Jb", {"properties": {"\x1b[2J": "x", "y": {"type": ["\x1b]0;", "null"]}}}))
    assert "\x1b" not in "".join(lines)
