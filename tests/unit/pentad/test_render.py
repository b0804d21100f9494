"""What is written to a terminal: harmless, in one line, in columns."""

from datetime import UTC, datetime
from io import StringIO
from typing import Any

import pytest

from pentad.cli.render import Style, ago, arguments, awaited, harmless, lasting, one_line, result_line, style_for, table
from pentad.contracts.events import ToolResultEvent
from pentad.contracts.records import Task
from pentad.contracts.tools import ToolOutcome
from pentad.shared.settings import Settings


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\n\ttext, 你好 🎉", "plain\n\ttext, 你好 🎉"),
        ("\x1b[2J\x1b]0;title\x07gone", "[2J]0;titlegone"),
        ("back\rover\x08\x7f\x9b1m", "backover1m"),
        ("turned \u202eround", "turned round"),
    ],
)
def test_text_of_others_cannot_drive_the_terminal(text: str, shown: str) -> None:
    assert harmless(text) == shown


@pytest.mark.parametrize(("text", "shown"), [("a  b\nc", "a b c"), ("abcdef", "abcdef"), ("abcdefg", "abcde…")])
def test_a_line_is_cut_with_a_mark(text: str, shown: str) -> None:
    assert one_line(text, 6) == shown


def test_arguments_read_like_a_call() -> None:
    assert arguments({"city": "Köln", "days": 2, "full": True}) == 'city="Köln", days=2, full=true'
    assert arguments("{broken") == "{broken"


def test_a_result_fits_its_line_whatever_it_is() -> None:
    about: dict[str, Any] = {
        "event_id": "e",
        "at": "",
        "tenant_id": "t",
        "session_id": "s",
        "tool_call_id": "c",
        "tool": "read",
    }
    long = ToolResultEvent(**about, result="x\n" * 500, duration_ms=12)
    failed = ToolResultEvent(**about, error="no such file")
    assert len(result_line("read(a)", long, 60)) <= 60
    assert result_line("read(a)", long, 60).endswith(" (took 12 ms)")
    assert result_line("read(a)", failed, 60) == "read(a) → error: no such file"


def test_a_call_shows_how_long_it_took_unless_nobody_knows() -> None:
    about: dict[str, Any] = {"event_id": "e", "at": "", "tenant_id": "t", "session_id": "s"}
    unknown = ToolResultEvent.of(about, "c", "pay", ToolOutcome("unknown", "its effect is unknown"))
    failed = ToolResultEvent.of(about, "c", "pay", ToolOutcome("error", "no money", duration_ms=7))
    quick = ToolResultEvent.of(about, "c", "pay", ToolOutcome("ok", "paid", duration_ms=0))
    assert result_line("pay()", unknown, 60) == "pay() → error: its effect is unknown"
    assert result_line("pay()", failed, 60) == "pay() → error: no money (took 7 ms)"
    assert result_line("pay()", quick, 60) == "pay() → paid (took 0 ms)"


def test_a_tool_that_names_itself_in_its_error_is_named_once() -> None:
    about: dict[str, Any] = {"event_id": "e", "at": "", "tenant_id": "t", "session_id": "s", "tool_call_id": "c"}
    failed = ToolResultEvent(**about, tool="read", error="read: no such file")
    assert result_line("read(a)", failed, 60) == "read(a) → error: no such file"


@pytest.mark.parametrize(
    ("ms", "shown"),
    [(0, "0 ms"), (999, "999 ms"), (1000, "1.0 s"), (59_940, "59.9 s"), (59_960, "1 min 0 s"), (125_000, "2 min 5 s")],
)
def test_a_duration_says_its_unit(ms: int, shown: str) -> None:
    assert lasting(ms) == shown


def test_what_a_task_waits_for_is_named_by_its_tools_and_not_by_ids() -> None:
    about: dict[str, Any] = {"task_id": "t", "session_id": "s", "status": "active", "goal": "g", "instruction": "i"}
    about |= {"created_at": "", "updated_at": "", "steps": 1, "usage": {}}
    calls = Task(**about, waiting_for=["c1", "c2", "c3"], waiting_for_tools=["weather", "echo", "echo"])
    assert awaited(calls) == "waits for weather, echo"
    assert awaited(Task(**about, waiting_for=["Which city?"])) == "Which city?"
    assert awaited(Task(**about)) == ""


def test_columns_are_as_wide_as_their_cells() -> None:
    assert table(("A", "LONG"), [("wide", "x"), ("y", "z")], Style(False)) == "A     LONG\nwide  x\ny     z"


@pytest.mark.parametrize(
    ("at", "shown"),
    [
        ("2030-01-31T11:59:58.000Z", "2 s"),
        ("2030-01-31T11:57:00.000Z", "3 min"),
        ("2030-01-31T10:00:00.000Z", "2 h"),
        ("2030-01-28T12:00:00.000Z", "3 d"),
        ("2030-01-31T12:00:05.000Z", "0 s"),
        ("whenever", "whenever"),
    ],
)
def test_times_are_told_as_a_person_would(at: str, shown: str) -> None:
    assert ago(at, datetime(2030, 1, 31, 12, tzinfo=UTC)) == shown


def test_colours_are_for_terminals() -> None:
    assert Style(True).red("x") == "\x1b[31mx\x1b[0m"
    assert style_for(StringIO(), Settings()).red("x") == "x"
