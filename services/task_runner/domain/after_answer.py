"""Decides what a task does when the model has answered. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from pentad.contracts.events import INTERRUPTED
from pentad.contracts.graphs import MAX_DEPTH, Runnable
from pentad.contracts.plain_json import MOST_VALUES, values_in
from pentad.contracts.tools import FORMER_NAMES, TOOL_SEARCH, ApprovalMode, Effect, ToolSpec
from pentad.services.task_runner.domain.call_arguments import parse_arguments
from pentad.services.task_runner.domain.own_tools import COMPLETE_TASK, joined, target_of, text_of
from pentad.services.task_runner.domain.plan import EndMode
from pentad.services.task_runner.domain.planned_call import PlannedCall
from pentad.services.task_runner.domain.tool_search import search
from pentad.services.task_runner.domain.verdict import NO_VERDICT, CallVerdict
from pentad.shared.actors.targets import asks_person, awaits_client, awaits_decision, ends_last
from pentad.shared.clipping import clip
from pentad.shared.immutable import immutable
from pentad.shared.models.ports import ModelAnswer, ToolCallDraft

_FEW_VALUES = 100
"""Values that the arguments of each call may have, however many the calls before it have."""
_CUT = "; it was cut off at the length limit"
_WITHOUT_WORDS = {
    "length": "the limit of tokens was reached before; raise max_tokens among the model's parameters",
    "content_filter": "its server's content filter withheld the answer",
}
"""Reasons why the model has said nothing, by finish reason."""
_CALL_CUT = {
    "length": "the answer was cut off at the limit of tokens",
    "content_filter": "the answer was cut off by its server's content filter",
    INTERRUPTED: "the answer was cut off by a message",
}
"""Texts that tell the model why its call may be incomplete, by finish reason."""
_WHOLE = ("stop", "tool_calls")
"""Finish reasons of an answer that came to its end."""
REDRIVEN = "redriven"
"""Stands for the model's name where a person has redriven tool calls."""


@immutable
class CallTools:
    """The turn goes on when these calls have their results."""

    calls: tuple[PlannedCall, ...] = field(default_factory=tuple)

    @property
    def question(self) -> str:
        """All questions to the person as one text; '' when there is none."""
        return joined(*[call.said for call in self.calls if asks_person(call)])

    @property
    def asks_approval(self) -> bool:
        """Whether a person must allow one of these calls."""
        return any(awaits_decision(call) for call in self.calls)

    @property
    def asks_client(self) -> bool:
        """Whether the client that has sent the turn's message has to make one of these calls."""
        return any(awaits_client(call) for call in self.calls)

    @property
    def completes(self) -> bool:
        """Whether the task is to end with these calls; a question to the person comes first."""
        return any(ends_last(call) for call in self.calls) and not self.question


@immutable
class Complete:
    """The answer is the turn's last: the task completes, unless a message has come meanwhile."""

    text: str
    """Text of the answer; for an answer that must be JSON, the value alone, encoded anew."""
    mode: EndMode = "complete"
    reason: str = "answered"
    told: bool = False
    """Whether clients were told the text already, and the transcript has it."""


@immutable
class AskAgain:
    """The answer does not have the required form: the model is told the problem, and answers again."""

    problem: str
    json: bool = True
    """Whether the answer must be JSON; otherwise it must be of the text protocol."""


@immutable
class Fail:
    """The answer does not have the required form, and was asked for as often as it may be."""

    problem: str


@immutable
class CallFailed:
    """The one tool call that the task is for has failed, and the task with it."""

    text: str
    """Reason of the failure, as a model would be told it."""


@immutable
class CutShort:
    """A message has cut the answer short: what was said stays, and the next step sees the message."""

    text: str


@immutable
class NothingSaid:
    """The answer is complete, but has neither text nor calls: the model is asked again, then the task fails."""

    problem: str


Next = CallTools | Complete | AskAgain | Fail | CallFailed | CutShort


def no_verdict(_: ToolSpec, __: Mapping[str, object]) -> CallVerdict:
    """Find no rule."""
    return NO_VERDICT


@immutable
class Rules:
    """Rules that an answer must follow, and limits of the turn."""

    tools: Mapping[str, ToolSpec]
    """Tools that the model was offered, by name."""
    may_call: bool = True
    """Whether the turn may still call tools."""
    json: bool = False
    """Whether the answer must be JSON that fits a schema."""
    repairs_left: int = 0
    """Number of times that a wrong answer may still be asked for again."""
    end_mode: EndMode = "complete"
    """End mode of a task that ends with this answer."""
    steps: int = 0
    """Number of steps that the turn has made."""
    agents: Mapping[str, Runnable] = field(default_factory=dict)
    """Instructions and graphs that the model may call, by the names of their tools."""
    depth: int = 0
    """Number of tasks above this one."""
    max_calls: int = 128
    """Calls of one answer that are made; further calls are answered with an error."""
    approve: ApprovalMode = "never"
    """Calls that a person must allow although their tools do not ask for it."""
    verdict: Callable[[ToolSpec, Mapping[str, object]], CallVerdict] = no_verdict
    """Finds the operators' rule about a call of a tool with these arguments."""


@immutable
class CheckedJson:
    """Result of checking an answer that must be JSON."""

    value: str
    """Value that fits the schema, encoded anew; '' when there is none."""
    problem: str = ""
    """Reason why no value fits; '' when one does."""
    final: bool = False
    """Whether the problem lies in the schema, so that asking the model again is useless."""


def is_to_be_checked(answer: ModelAnswer, rules: Rules) -> bool:
    """Whether this answer is JSON that must fit a schema."""
    return rules.json and not answer.tool_calls and bool(answer.text.strip())


def after_answer(
    answer: ModelAnswer, rules: Rules, checked: CheckedJson | None = None, malformed: str = ""
) -> Next | NothingSaid:
    """Decide what a task does after this answer.

    ``checked``: the check of an answer that `is_to_be_checked`. ``malformed``: reason why the answer is not of the
    text protocol; '' if it is, or need not be.
    """
    if malformed and answer.text.strip():
        return AskAgain(malformed, json=False) if rules.repairs_left > 0 else Fail(malformed)
    cut = _CUT if answer.finish_reason == "length" else ""
    if answer.tool_calls:
        made, more = answer.tool_calls[: rules.max_calls], answer.tool_calls[rules.max_calls :]
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
    """Decide what is kept of an answer that a message has cut short; None when nothing is.

    Its tool calls are never made: they may be incomplete. An answer that must be JSON is dropped, for nobody was told
    any of it.
    """
    return CutShort(said.text) if not rules.json and said.text.strip() else None


def _one_too_many(draft: ToolCallDraft, rules: Rules, unread: str) -> PlannedCall:
    """Refuse a call beyond the limit, without reading its arguments."""
    problem = f"one answer may ask for {rules.max_calls} calls{unread}: ask again for what is still needed"
    return PlannedCall(draft.name, rules.tools.get(draft.name), "{}", None, clip(draft.arguments, 200), problem)


@immutable
class _Doubt:
    """Why a call may lack arguments that were still to come.

    ``certain``: the answer was cut, so the call is never made. Otherwise only an unsafe call is not made.
    """

    why: str
    certain: bool


def _doubt(answer: ModelAnswer, number: int, draft: ToolCallDraft) -> _Doubt | None:
    """Return why this call may be incomplete; None when it is whole.

    The part of a cut call that has come may read as a call of its own: no arguments yet, or ``{}`` before them. Where
    the server does not say how the answer ended, written arguments count as whole, and missing ones as incomplete.
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
    """Plan the calls; their arguments together have no more values than one JSON text may have."""
    planned, left = list[PlannedCall](), MOST_VALUES
    for number, draft in enumerate(made):
        planned.append(_planned(draft, rules, _doubt(answer, number, draft), left))
        left = max(_FEW_VALUES, left - values_in(draft.arguments, left))
    return planned


def planned_call(draft: ToolCallDraft, rules: Rules) -> PlannedCall:
    """Plan a call that nobody has cut short."""
    return _planned(draft, rules, None, MOST_VALUES)


def _planned(draft: ToolCallDraft, rules: Rules, doubt: _Doubt | None, most_values: int) -> PlannedCall:
    tools = rules.tools
    if draft.name not in tools and FORMER_NAMES.get(draft.name) in tools:
        draft = ToolCallDraft(FORMER_NAMES[draft.name], draft.arguments)
    spec = tools.get(draft.name)
    target = target_of(spec, rules.agents)
    parsed = parse_arguments(draft.arguments, most_values)
    problem, said = parsed.problem, ""
    checked_here = target not in ("worker", "client")  # those are checked where they run
    if spec is not None and parsed.args is not None and checked_here:
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
    elif target == "task" and rules.depth >= MAX_DEPTH:
        problem = f"agents call each other {MAX_DEPTH} levels deep here: do it without another one"
    arguments = parsed.raw if parsed.args is not None else "{}"
    if problem or parsed.args is None:
        target, said = "worker", ""
    agent = rules.agents.get(draft.name) if target == "task" else None
    if spec is not None and spec.name == TOOL_SEARCH and not problem and parsed.args is not None:
        try:
            found = search(parsed.args, tools)
        except ValueError as error:
            problem = str(error)
        else:
            return PlannedCall(draft.name, spec, arguments, parsed.args, parsed.raw, found=tuple(found))
    verdict = NO_VERDICT
    if spec is not None and target == "worker" and not problem and parsed.args is not None:
        verdict = rules.verdict(spec, parsed.args)
        if verdict.then == "deny":
            problem = verdict.reason
        elif asks := verdict.asks(spec, rules.approve):
            target, said = "approval", asks
    return PlannedCall(
        draft.name, spec, arguments, parsed.args, parsed.raw, problem, target, said, agent, verdict=verdict
    )
