"""A conversation with several tasks, on a terminal that only grows and on one with a prompt."""

from io import StringIO
from typing import Any

import pytest

from pentad.cli.chat_commands import Line, task_meant, understood
from pentad.cli.lines import PlainLines, tagged
from pentad.cli.render import Style
from pentad.cli.session_view import SessionView
from pentad.cli.task_labels import TaskLabels
from pentad.contracts.events import event_adapter
from pentad.errors import Refused


class Progress:
    """What is waited for, as it was said last."""

    label = ""
    held = False

    def show(self, label: str, since: float | None = None) -> None:
        self.label = label

    def hold(self, held: bool) -> None:
        self.held = held

    def clear(self) -> None:
        pass


class Shown:
    """A view and what it has shown."""

    def __init__(self, *, colour: bool = False, live: bool = True) -> None:
        self.out, self.progress = StringIO(), Progress()
        self.view = SessionView(PlainLines(self.out), Style(colour), self.progress, live=live)

    def told(self, kind: str, task: str | None = None, **fields: Any) -> None:
        about = {"event_id": "e", "at": "", "tenant_id": "t", "session_id": "s", "type": kind, "task_id": task}
        self.view.show(event_adapter.validate_python(about | fields))

    def routed(self, task: str | None, decision: str = "new", reason: str = "why") -> None:
        self.told("message_routed", task, message_id="m", decision=decision, confidence=1.0, reason=reason)

    def begin(self, task: str, goal: str) -> None:
        self.routed(task)
        self.told("task_start", task, goal=goal)

    def says(self, task: str, text: str, offset: int = 0) -> None:
        self.told("content", task, step=1, attempt=1, offset=offset, content=text)

    def end(self, task: str, text: str, step: int = 1) -> None:
        self.told("message", task, step=step, attempt=1, content=text)
        self.told("task_end", task, status="completed")

    @property
    def lines(self) -> list[str]:
        return self.out.getvalue().splitlines()


def test_one_task_after_the_other_looks_like_one_conversation() -> None:
    shown = Shown()
    shown.begin("task-0-a", "6 * 7?")
    shown.says("task-0-a", "4")
    shown.end("task-0-a", "42")
    shown.begin("task-0-b", "and the weather?")
    shown.end("task-0-b", "Rain.\n\nAnd wind.")
    assert shown.lines == ["→ new task task-0-a (why)", "42", "→ new task task-0-b (why)", "Rain.", "", "And wind."]


@pytest.mark.parametrize("live", [True, False])
def test_two_streams_are_never_mixed_within_a_line_and_each_says_whose_it_is(live: bool) -> None:
    shown = Shown(live=live)
    shown.begin("task-0-a", "count")
    shown.begin("task-0-b", "sing a very long song about the sea")
    for n, (one, two) in enumerate(zip("12345", "lalal", strict=True)):
        shown.says("task-0-a", one, n)
        shown.says("task-0-b", two, n)
    shown.end("task-0-b", "lalala\nla")
    shown.end("task-0-a", "123456")
    said = shown.lines[2:]
    assert all(line.startswith(("[1 count] ", "[2 sing a very long song a…] ")) for line in said)
    texts = {tag: "".join(x.partition("] ")[2] for x in said if x.startswith(f"[{tag} ")) for tag in "12"}
    assert texts == {"1": "123456", "2": "lalalala"}


def test_names_stay_until_nothing_works_and_what_rests_is_unlabelled_again() -> None:
    shown = Shown()
    shown.begin("task-0-a", "count")
    shown.begin("task-0-b", "sing")
    shown.end("task-0-a", "one")
    shown.end("task-0-b", "la")
    shown.routed("task-0-b", "reopen")
    shown.told("task_start", "task-0-b", goal="sing")
    shown.end("task-0-b", "lala", step=2)
    assert shown.lines[2:] == ["[1 count] one", "[2 sing] la", "→ reopened task [2 sing] (why)", "lala"]


def test_a_call_that_an_application_runs_itself_is_told_as_that_with_the_way_to_answer_it() -> None:
    shown = Shown()
    shown.begin("task-0-a", "where?")
    shown.told("tool_call", "task-0-a", tool_call_id="c0", tool="get_place", args={"exact": True}, client=True)
    shown.told("task_status", "task-0-a", status="waiting", reason="client_tools")
    shown.told("tool_result", "task-0-a", tool_call_id="c0", tool="get_place", result="in Berlin", duration_ms=0)
    shown.end("task-0-a", "You are in Berlin.", step=2)
    assert shown.lines[1:] == [
        "? get_place(exact=true) waits for the application that asked",
        "  pentad result task-0-a c0 TEXT answers it",
        "waits for the application that asked",
        "⚙ get_place → in Berlin (took 0 ms)",
        "You are in Berlin.",
    ]


def test_the_nodes_of_a_graph_are_one_line_each() -> None:
    shown = Shown(colour=True)
    shown.begin("task-0-a", "write")
    for step, node in enumerate(("draft", "review"), 1):
        shown.told("node_start", "task-0-a", node=node, step=step)
        shown.told("message", "task-0-a", step=step, attempt=1, content=f"{node} it")
        shown.told("node_end", "task-0-a", node=node, step=step, duration_ms=1)
    shown.told("task_end", "task-0-a", status="completed")
    dim = [f"\x1b[2m▸ {node}\x1b[0m" for node in ("draft", "review")]
    assert shown.lines[1:] == [dim[0], "draft it", dim[1], "review it"]


def test_branches_that_speak_at_once_are_called_by_their_nodes_and_a_question_says_whose_it_is() -> None:
    shown = Shown()
    shown.begin("task-0-a", "plan a party")
    for task, node in (("task-0-b", "music"), ("task-0-c", "food")):
        below = {"parent_task_id": "task-0-a", "node": node}
        shown.told("task_start", task, goal="plan a party", **below)
        shown.told("node_start", task, step=1, **below)
    shown.says("task-0-b", "la")
    shown.says("task-0-c", "ca")
    shown.end("task-0-b", "lala")
    shown.told("message", "task-0-c", step=1, attempt=1, content="cake?", parent_task_id="task-0-a", node="food")
    shown.told("task_status", "task-0-c", status="waiting", reason="question", parent_task_id="task-0-a", node="food")
    assert shown.lines[1:] == [
        "[2 music] ▸ music",
        "[3 food] ▸ food",
        "[2 music] lala",
        "[3 food] cake?",
        "[3 food] waiting for you: question",
    ]
    assert task_meant(Line("say", "yes", "3"), shown.view.labels) == "task-0-c"


def test_a_message_to_another_task_is_told_with_its_reason_and_one_to_the_same_is_not() -> None:
    shown = Shown()
    shown.begin("task-0-a", "count")
    shown.begin("task-0-b", "sing")
    shown.routed("task-0-a", "append", "it speaks of numbers")
    shown.routed("task-0-a", "append", "it goes on")
    shown.routed(None, "rejected", "no")
    assert shown.lines[2:] == ["→ added to task [1 count] (it speaks of numbers)", "not taken: no"]


def test_control_in_words_is_answered_and_switches_to_no_task() -> None:
    shown = Shown()
    shown.begin("task-0-a", "count")
    shown.routed("task-0-a", "control")
    shown.told("control_result", "task-0-a", message_id="m", action="cancel", content="Cancelling: count")
    assert shown.lines[1:] == ["Cancelling: count"]
    shown.told("task_end", "task-0-a", status="cancelled")
    assert shown.progress.label == ""


def test_a_moved_message_is_told_with_the_task_that_has_it_now() -> None:
    shown = Shown()
    shown.begin("task-0-a", "count")
    shown.begin("task-0-b", "sing")
    moved = {"message_id": "m", "from_task_id": "task-0-b", "to_task_id": "task-0-a"}
    shown.told("message_moved", "task-0-b", **moved)
    shown.routed("task-0-a", "append")
    assert shown.lines[2:] == ["→ message m went to task [1 count]"]


def test_what_a_move_cannot_take_back_and_a_task_that_it_empties_are_named() -> None:
    shown = Shown()
    shown.begin("task-0-a", "count")
    effects = [{"tool_call_id": name, "tool": "pay", "effect": "unsafe"} for name in ("c1", "c2")]
    moved = {"message_id": "m", "from_task_id": "task-0-a", "to_task_id": "task-0-b", "emptied": True}
    shown.told("message_moved", "task-0-a", effects=effects, **moved)
    assert shown.lines[1:] == [
        "→ message m went to task task-0-b",
        "  what it did before stays: pay",
        "  task [1 count] has no message left: cancelled",
    ]


def test_a_colour_stays_with_its_task() -> None:
    shown = Shown(colour=True)
    shown.begin("task-0-a", "count")
    shown.begin("task-0-b", "sing")
    shown.end("task-0-a", "one")
    shown.end("task-0-b", "la")
    assert shown.lines[2:] == ["\x1b[36m[1 count]\x1b[0m one", "\x1b[35m[2 sing]\x1b[0m la"]


def test_what_several_tasks_do_is_said_together() -> None:
    shown = Shown()
    shown.begin("task-0-a", "count")
    shown.begin("task-0-b", "sing")
    shown.told("tool_call", "task-0-b", tool_call_id="c", tool="piano", args={})
    assert shown.progress.label == "2 tasks: thinking, running piano"
    shown.end("task-0-a", "one")
    assert shown.progress.label == "running piano"
    shown.says("task-0-b", "l")
    assert shown.progress.held
    shown.end("task-0-b", "la")
    assert (shown.progress.label, shown.progress.held) == ("", False)


def test_a_goal_cannot_drive_the_terminal_and_a_tag_stands_before_every_line() -> None:
    labels = TaskLabels(Style(False))
    labels.called("task-0-a", "\x1b[2Jwipe\nit")
    assert labels.tag("task-0-a") == "[1 [2Jwipe it]"
    assert tagged("a\n\nb", "[1]") == "[1] a\n\n[1] b"


UNKNOWN = ": /help lists them, and // begins a text with a slash"


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        (" 6 * 7? ", Line("say", "6 * 7?")),
        ("/tasks", Line("tasks")),
        ("/quit", Line("quit")),
        (" exit ", Line("quit")),
        ("/help", Line("help")),
        ("exit the room?", Line("say", "exit the room?")),
        ("/task 2 go on\nplease", Line("say", "go on\nplease", "2")),
        ("/task new and a poem", Line("say", "and a poem", "new")),
        ("/task 2", Line("wrong", "write it as /task NUMBER TEXT, or /task new TEXT")),
        ("/task x y", Line("wrong", "write it as /task NUMBER TEXT, or /task new TEXT")),
        ("/move new", Line("move")),
        ("/move  3", Line("move", number="3")),
        ("/move", Line("wrong", "write it as /move NUMBER or /move new")),
        ("/move it please", Line("wrong", "write it as /move NUMBER or /move new")),
        ("/cancel 2", Line("cancel", number="2")),
        ("/approve", Line("approve")),
        ("/approve call-0-a", Line("approve", call="call-0-a")),
        ('/approve call-0-a {"to": ["a"]}', Line("approve", call="call-0-a", args={"to": ["a"]})),
        ('/approve {"n": 1}', Line("approve", args={"n": 1})),
        ("/approve it", Line("wrong", "write it as /approve, /approve CALL, or /approve CALL JSON")),
        ("/refuse", Line("refuse")),
        ("/refuse too dear", Line("refuse", "too dear")),
        ("/refuse call-0-a too dear", Line("refuse", "too dear", call="call-0-a")),
        ("/cancel it", Line("wrong", "write it as /cancel NUMBER; /tasks lists the numbers")),
        ("/moveto 3", Line("wrong", f"there is no command /moveto{UNKNOWN}")),
        ("/Tasks", Line("say", "/Tasks")),
        ("/tasks of mine", Line("wrong", "write it as /tasks alone")),
        ("//help me", Line("say", "/help me")),
        ("/", Line("say", "/")),
        ("/etc/hosts says what?", Line("say", "/etc/hosts says what?")),
    ],
)
def test_a_line_is_something_to_say_or_a_command(typed: str, line: Line) -> None:
    assert understood(typed) == line


def test_arguments_that_are_no_json_are_not_sent() -> None:
    line = understood('/approve call-0-a {"n": NaN}')
    assert line.kind == "wrong"
    assert line.text.startswith("the arguments are no JSON")


def test_a_number_means_the_task_that_was_met_so() -> None:
    labels = TaskLabels(Style(False))
    labels.called("task-0-a", "count")
    assert task_meant(Line("say", "x", "1"), labels) == "task-0-a"
    assert task_meant(Line("say", "x"), labels) is None
    assert task_meant(Line("say", "x", "new"), labels) == "new"
    with pytest.raises(Refused, match="there is no task 2: /tasks lists them"):
        task_meant(Line("say", "x", "2"), labels)


@pytest.mark.parametrize("live", [True, False])
def test_an_answer_that_a_message_has_cut_short_says_so(live: bool) -> None:
    shown = Shown(live=live)
    shown.begin("task-0-a", "count")
    shown.says("task-0-a", "one tw")
    shown.told("message", "task-0-a", step=1, attempt=1, content="one tw", finish_reason="interrupted")
    shown.end("task-0-a", "three", step=2)
    assert shown.lines == ["→ new task task-0-a (why)", "one tw", "… interrupted by a new message", "three"]


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("length", ["… cut off: the model reached its limit of tokens"]),
        ("content_filter", ["… refused, or withheld by the model's server"]),
        ("stop", []),
        (None, []),
    ],
)
def test_half_an_answer_is_said_to_be_half(reason: str | None, said: list[str]) -> None:
    shown = Shown()
    shown.begin("task-0-a", "count")
    shown.told("message", "task-0-a", step=1, attempt=1, content="one tw", finish_reason=reason)
    assert shown.lines == ["→ new task task-0-a (why)", "one tw", *said]


def test_a_task_that_waits_for_its_turn_says_so_and_nothing_seems_to_think_meanwhile() -> None:
    shown = Shown()
    shown.begin("task-0-a", "6 * 7?")
    shown.told("task_status", "task-0-a", status="pending", reason="too many are active")
    assert (shown.lines[-1], shown.progress.label) == ("waits for its turn: too many are active", "")
    shown.told("task_status", "task-0-a", status="active", reason="a place is free")
    assert (shown.lines[-1], shown.progress.label) == ("working on: a place is free", "working")
    shown.end("task-0-a", "42")
    assert shown.lines[-1] == "42"


WRONG = "the model server answered 401: no; check the API key"


def test_why_a_task_has_failed_is_told_once() -> None:
    shown = Shown()
    shown.begin("task-0-a", "count")
    shown.told("error", "task-0-a", code="model_error", message=WRONG)
    shown.told("task_end", "task-0-a", status="failed", reason="model_error", detail=WRONG)
    assert shown.lines[1:] == [f"model_error: {WRONG}"]
    assert shown.progress.label == ""


@pytest.mark.parametrize(
    ("told", "end", "line"),
    [
        ({"code": "model_error", "message": WRONG}, {"reason": "step_limit"}, "failed: step_limit"),
        ({"code": "model_error", "message": "x"}, {"reason": "model_error", "detail": "y"}, "failed: model_error: y"),
        (
            {"code": "model_error", "message": WRONG},
            {"reason": "model_error", "task": "task-0-b"},
            "failed: model_error",
        ),
    ],
    ids=["another reason", "other words", "another task"],
)
def test_an_end_that_no_error_has_told_is_told(told: dict[str, str], end: dict[str, str], line: str) -> None:
    shown = Shown()
    shown.begin("task-0-a", "count")
    shown.told("error", "task-0-a", **told)
    shown.told("task_end", end.pop("task", "task-0-a"), status="failed", **end)
    assert shown.lines[-1].endswith(line)


@pytest.mark.parametrize(
    ("why", "line"),
    [({}, "cancelled"), ({"reason": "cancelled"}, "cancelled"), ({"reason": "budget"}, "cancelled: budget")],
)
def test_an_end_does_not_give_itself_as_its_reason(why: dict[str, str], line: str) -> None:
    shown = Shown()
    shown.begin("task-0-a", "count")
    shown.told("task_end", "task-0-a", status="cancelled", **why)
    assert shown.lines[-1] == line


@pytest.mark.parametrize(("columns", "whole"), [("300", True), ("80", False)])
def test_a_reason_is_cut_only_where_the_window_is_narrow(
    monkeypatch: pytest.MonkeyPatch, columns: str, whole: bool
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    shown, reason = Shown(), "it shares rare words with the last turn of it " * 4
    shown.routed("task-0-a", reason=reason)
    assert (reason.strip() in shown.lines[0]) is whole
    assert shown.lines[0].endswith(")" if whole else "…)")


def test_the_task_of_which_something_was_shown_last_is_known() -> None:
    shown = Shown()
    shown.begin("task-0-a", "count")
    shown.begin("task-0-b", "sing")
    assert shown.view.shown_last == "task-0-b"
    shown.says("task-0-a", "one")
    shown.told("thinking", "task-0-b", step=1, attempt=1, offset=0, content="hm")
    assert shown.view.shown_last == "task-0-a"


@pytest.mark.parametrize("markdown", [True, False])
def test_only_a_conversation_at_the_keyboard_reads_markdown(markdown: bool) -> None:
    shown = Shown()
    shown.view = SessionView(PlainLines(shown.out), Style(False), shown.progress, live=True, markdown=markdown)
    shown.begin("task-0-a", "count")
    text = "**Sums**\n- `6*7`"
    shown.says("task-0-a", text[:6])
    shown.says("task-0-a", text[6:], 6)
    shown.end("task-0-a", text)
    assert shown.lines[1:] == (["Sums", "• 6*7"] if markdown else text.split("\n"))


def test_a_withdrawn_answer_takes_what_it_held_with_it() -> None:
    shown = Shown()
    shown.view = SessionView(PlainLines(shown.out), Style(False), shown.progress, live=True, markdown=True)
    shown.begin("task-0-a", "count")
    shown.says("task-0-a", "```\nwrong **half")
    shown.told("content", "task-0-a", step=1, attempt=2, offset=0, content="*right*")
    shown.told("message", "task-0-a", step=1, attempt=2, content="*right*")
    assert shown.lines[1:] == ["────────", "wrong **half", "… answer restarted", "right"]


def test_a_tool_call_ends_the_line_with_all_that_was_said_of_it() -> None:
    shown = Shown()
    shown.view = SessionView(PlainLines(shown.out), Style(False), shown.progress, live=True, markdown=True)
    shown.begin("task-0-a", "count")
    shown.says("task-0-a", "I look **once")
    shown.told("tool_call", "task-0-a", tool_call_id="c", tool="piano", args={})
    shown.told("tool_result", "task-0-a", tool_call_id="c", tool="piano", result="la", duration_ms=61_000)
    assert shown.lines[1:] == ["I look **once", "⚙ piano() → la (took 1 min 1 s)"]
