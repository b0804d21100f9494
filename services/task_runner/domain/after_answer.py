"""What comes next when the model has answered. Pure: whoever writes it down decides nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import field

from pentad.contracts.events import INTERRUPTED
from pentad.contracts.plain_json import MOST_VALUES, values_in
from pentad.contracts.tools import Effect, ToolSpec
from pentad.services.task_runner.domain.call_arguments import parse_arguments
from pentad.services.task_runner.domain.own_tools import COMPLETE_TASK, joined, target_of, text_of
from pentad.services.task_runner.domain.plan import EndMode
from pentad.shared.actors.headers import Target
from pentad.shared.clipping import clip
from pentad.shared.immutable import immutable
from pentad.shared.models.ports import ModelAnswer, ToolCallDraft

_FEW_VALUES = 100
"""Values that a call's arguments may have whatever the calls before it have."""
_CUT = "; it was cut off at the length limit"
_WITHOUT_WORDS = {
    "length": "the limit of tokens was reached before; raise max_tokens among the model's parameters",
    "content_filter": "its server's content filter withheld the answer",
}
"""What it means that nothing was said, by the finish reason."""
_CALL_CUT = {
    "length": "the answer was cut off at the limit of tokens",
    "content_filter": "the answer was cut off by its server's content filter",
    INTERRUPTED: "the answer was cut off by a message",
}
"""What the model is told of a call that may not be whole, by the finish reason."""
_WHOLE = ("stop", "tool_calls")
"""Finish reasons of an answer that came to its end."""
REDRIVEN = "redriven"
"""Stands for the model's name where a person has redriven tool calls."""


@immutable
class PlannedCall:
    """A tool call that the answer asks for, and whether it can be made."""

    tool: str
    spec: ToolSpec | None
    """None: no worker knows this tool."""
    arguments: str
    """For the prompt: always JSON, whatever the model wrote."""
    args: dict[str, object] | None
    """The arguments; None when they are no JSON object."""
    raw: str
    """As the model wrote them."""
    problem: str = ""
    """Why it cannot be made: its result is this error. '' for a call to be made."""
    target: Target = "worker"
    """Who ends it. Of a call that cannot be made: a worker's, whose result is there already."""
    said: str = ""
    """The question to a person, or the answer with which it ends the task; '' for a worker's."""


@immutable
class CallTools:
    """The turn goes on when these calls have their results."""

    calls: tuple[PlannedCall, ...] = field(default_factory=tuple)

    @property
    def question(self) -> str:
        """What the person is asked, all of it; '' when nobody is asked."""
        return joined(*[call.said for call in self.calls if call.target == "person"])

    @property
    def completes(self) -> bool:
        """Whether the task is to end with it; a question comes first."""
        return any(call.target == "runner" for call in self.calls) and not self.question


@immutable
class Complete:
    """The answer is the turn's last: the task completes, unless a message has come meanwhile."""

    text: str
    """What it says. Of an answer that must be JSON, its value alone, written down anew."""
    mode: EndMode = "complete"
    reason: str = "answered"


@immutable
class AskAgain:
    """The answer is not of the form that is asked for: the model is told what is wrong, and answers again."""

    problem: str


@immutable
class Fail:
    """The answer is not of the form that is asked for, and was asked for often enough."""

    problem: str


@immutable
class CutShort:
    """A message has cut the answer short: what was said stays, and the next step sees the message."""

    text: str


@immutable
class NothingSaid:
    """The answer ended in good order and has neither text nor calls: the model is asked anew, then the task fails."""

    problem: str


Next = CallTools | Complete | AskAgain | Fail | CutShort


@immutable
class Rules:
    """What is asked of an answer."""

    tools: Mapping[str, ToolSpec]
    """Those that the model was offered."""
    may_call: bool = True
    """The turn may still call them."""
    json: bool = False
    """The answer must be JSON that fits a schema."""
    repairs_left: int = 0
    """How often an answer that is wrong may be asked for again."""
    end_mode: EndMode = "complete"
    """How the task ends with an answer."""
    steps: int = 0
    """Steps that the turn has made."""
    most_calls: int = 128
    """Tool calls of one answer that are made; the rest is answered with an error."""


@immutable
class CheckedJson:
    """What the check of an answer that must be JSON has come to."""

    value: str
    """The one value that fits, written down anew; '' when there is none."""
    problem: str = ""
    """Why there is none."""
    final: bool = False
    """The model is not asked again: the problem is the schema's."""


def is_to_be_checked(answer: ModelAnswer, rules: Rules) -> bool:
    """Whether this answer is JSON that must fit a schema."""
    return rules.json and not answer.tool_calls and bool(answer.text.strip())


def what_comes_next(answer: ModelAnswer, rules: Rules, checked: CheckedJson | None = None) -> Next | NothingSaid:
    """What a task does after this answer. ``checked``: of one that `is_to_be_checked`."""
    cut = _CUT if answer.finish_reason == "length" else ""
    if answer.tool_calls:
        made, more = answer.tool_calls[: rules.most_calls], answer.tool_calls[rules.most_calls :]
        planned = _all_planned(made, rules, answer)
        unread = f"; this one had more than {len(answer.tool_calls)}" if answer.too_many_calls else ""
        return CallTools((*planned, *(_one_too_many(draft, rules, unread) for draft in more)))
    if not answer.text.strip():
        return NothingSaid(_why_nothing(answer))
    if checked is None:
        return Complete(answer.text, rules.end_mode)
    if not checked.problem:
        return Complete(checked.value, rules.end_mode)
    problem = f"{checked.problem}{cut}"
    return Fail(problem) if checked.final or rules.repairs_left <= 0 else AskAgain(problem)


def _why_nothing(answer: ModelAnswer) -> str:
    why = _WITHOUT_WORDS.get(answer.finish_reason, f"finish_reason {answer.finish_reason}")
    thought = "thought and then said nothing" if answer.thinking else "said nothing"
    return f"the model {answer.model} {thought}: {why}"


def after_cut(said: ModelAnswer, rules: Rules) -> CutShort | None:
    """What a task does with an answer that a message has cut short; None when there is nothing to keep.

    Its tool calls are never made: they need not be whole. Of an answer that must be JSON nothing is kept: nobody was
    told any of it.
    """
    return CutShort(said.text) if not rules.json and said.text.strip() else None


def _one_too_many(draft: ToolCallDraft, rules: Rules, unread: str) -> PlannedCall:
    """A call that is not made, whatever it asks for: its arguments are not even read."""
    problem = f"one answer may ask for {rules.most_calls} calls{unread}: ask again for what is still needed"
    return PlannedCall(draft.name, rules.tools.get(draft.name), "{}", None, clip(draft.arguments, 200), problem)


@immutable
class _Doubt:
    """Why a call may lack arguments that were still to come.

    ``certain``: the answer was cut, so the call is never made. Otherwise only an unsafe call is not made.
    """

    why: str
    certain: bool


def _doubt(answer: ModelAnswer, number: int, draft: ToolCallDraft) -> _Doubt | None:
    """Whether more of this call may have been to come when the answer ended; None: it is whole.

    What has come of a cut call may read as a call of its own: no arguments yet, or ``{}`` before them. Where the
    server does not say how the answer ended, arguments that were written down are whole, and missing ones may be so.
    """
    sure = len(answer.tool_calls) - 1 if answer.whole_calls is None else answer.whole_calls
    if number < sure:
        return None
    if (why := _CALL_CUT.get(answer.finish_reason)) is not None:
        return _Doubt(why, certain=True)
    if (answer.finish_said and answer.finish_reason in _WHOLE) or draft.arguments.strip():
        return None
    return _Doubt("its server did not say whether the answer came to its end, and no arguments came", certain=False)


def _all_planned(made: Sequence[ToolCallDraft], rules: Rules, answer: ModelAnswer) -> list[PlannedCall]:
    """The calls, whose arguments have together no more values than one text of JSON may have."""
    planned, left = list[PlannedCall](), MOST_VALUES
    for number, draft in enumerate(made):
        planned.append(_planned(draft, rules, _doubt(answer, number, draft), left))
        left = max(_FEW_VALUES, left - values_in(draft.arguments, left))
    return planned


def _planned(draft: ToolCallDraft, rules: Rules, doubt: _Doubt | None, most_values: int) -> PlannedCall:
    tools, spec = rules.tools, rules.tools.get(draft.name)
    target = target_of(spec)
    parsed = parse_arguments(draft.arguments, most_values)
    problem, said = parsed.problem, ""
    if spec is not None and parsed.args is not None and target != "worker":  # a worker's tool is checked where it runs
        try:
            said = text_of(spec, parsed.args)
        except ValueError as error:
            problem = str(error)
    if not rules.may_call and spec is not COMPLETE_TASK:
        problem = "this turn has called tools as often as it may: answer with what you have"
    elif doubt is not None and (doubt.certain or (spec is not None and spec.effect is Effect.UNSAFE)):
        problem = f"this call was not made: {doubt.why}, so it may be incomplete; ask again for all of it"
    elif spec is None:
        known = f"the tools are: {', '.join(tools)}" if tools else "no worker has any yet"
        problem = f"there is no tool {draft.name!r}; {known}"
    arguments = parsed.raw if parsed.args is not None else "{}"
    if problem or parsed.args is None:
        target, said = "worker", ""
    return PlannedCall(draft.name, spec, arguments, parsed.args, parsed.raw, problem, target, said)
