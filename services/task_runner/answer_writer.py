"""Writes a step that the model has answered: the answer, its manifest, and what the answer leads to."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Any

from pydantic_core import to_json

from pentad.contracts.dates import LocalDate
from pentad.contracts.errors import ErrorCode
from pentad.contracts.events import INTERRUPTED, MessageEvent, TaskStatusEvent, message_ref
from pentad.contracts.graphs import Runnable
from pentad.contracts.records import Manifest, NodeEntry, PromptImage, StepRecord
from pentad.contracts.turns import ASKED
from pentad.services.task_runner.delta_writer import DeltaWriter
from pentad.services.task_runner.domain.after_answer import (
    AskAgain,
    CallFailed,
    CallTools,
    Complete,
    CutShort,
    Fail,
    Next,
    Rules,
    no_verdict,
)
from pentad.services.task_runner.domain.own_tools import joined
from pentad.services.task_runner.domain.plan import EndMode
from pentad.services.task_runner.domain.strategy import ChildTask, FailRun, GoOn, Strategy
from pentad.services.task_runner.graph_writer import go_on, start_child, write_entries
from pentad.services.task_runner.instructions import Chosen
from pentad.services.task_runner.policies import PolicyBook
from pentad.services.task_runner.prompt import Toolbox, assistant, user
from pentad.services.task_runner.status_writer import (
    add_session_turn,
    end_task,
    fail_task,
    leave_wait,
    limit_calls,
    wait_for_person,
    watch_calls,
)
from pentad.services.task_runner.step import Step
from pentad.services.task_runner.step_hooks import HookTrace
from pentad.services.task_runner.step_writer import StepWriter
from pentad.services.task_runner.tool_calls import RequestedCall, request_calls
from pentad.shared import metrics
from pentad.shared.actors.headers import TaskHeader
from pentad.shared.actors.opening import keep_instruction
from pentad.shared.actors.session_header import answer_field, excerpt
from pentad.shared.actors.step_prompt import chain, tools_kept_under, with_images
from pentad.shared.agent_graphs.run import GraphRun
from pentad.shared.clipping import clip
from pentad.shared.immutable import immutable
from pentad.shared.memory.task_recall import Recall
from pentad.shared.models.ports import ModelAnswer

Following = Next | GoOn | FailRun
"""Effects of an answer that are written together with it."""
MESSAGE_LIMIT = 1024 * 1024
"""Bytes of a step's text that an event carries; the rest is kept by reference."""
ERROR_LIMIT = 16 * 1024
"""Bytes of a failed tool's words that an ``error`` event carries; the transcript has all of them."""


@immutable
class Asked:
    """The question that a step puts to the model: its instruction, tools and prompt."""

    chosen: Chosen
    toolbox: Toolbox
    system: bytes
    before: Sequence[bytes]
    """The committed transcript, with what its exclusions leave out of the prompt."""
    today: LocalDate
    """The day that the system message ends with."""
    step: int
    asked_at: int
    """Time of the question, in ms of the server's clock."""
    may_call: bool = True
    """Whether the turn may still call tools."""
    told_schema: bool = False
    """Whether the model's server is told the schema of the answer."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Values of metadata in the system message."""
    now: str | None = None
    """The minute at which the turn began, where the system message names it."""
    recall: Recall | None = None
    """Result of the initial recall, where this is the task's first question."""
    state: Mapping[str, str] = field(default_factory=dict)
    """Values of the state of a graph's run in the system message."""
    question_at: int | None = None
    """Position in the transcript of the question about conditions, which this step puts to its model; None: none."""
    run: GraphRun = GraphRun()
    """Run of the task's graph, if it runs one."""
    limit_at: int = 0
    """When the time of the graph's node is over, in ms; 0 for no limit."""
    agents: Mapping[str, Runnable] = field(default_factory=dict)
    """Instructions and graphs that the model may call, by the names of their tools."""
    text_calls: bool = False
    """Whether tools, calls and results are written as text."""
    compacts: Sequence[int] = ()
    """Positions of the messages that the step summarises; empty: it answers."""
    trace: HookTrace = field(default_factory=HookTrace)
    """Changes that hooks have made in the step."""
    images: list[PromptImage] = field(default_factory=list)
    """Images that the model is sent, if it sees them."""


@immutable
class ModelQuestion:
    """A call of the model that is under way, and everything its answer is written with."""

    step: Step
    writer: StepWriter
    asked: Asked
    rules: Rules
    strategy: Strategy
    deltas: DeltaWriter
    cut: list[ModelAnswer] = field(default_factory=list)
    """The partial answer at the time when a message cut the call."""

    @property
    def instruction(self) -> str:
        """Instruction that the step runs."""
        return self.asked.chosen.instruction.name

    @property
    def heeds_messages(self) -> bool:
        """Whether a message that comes meanwhile cuts the call."""
        return self.asked.chosen.instruction.on_message == "interrupt"


def rules_of(asked: Asked, writer: StepWriter, max_calls: int, policies: PolicyBook) -> Rules:
    """The rules that the answer must follow."""
    chosen = asked.chosen
    verdict = policies.verdicts_for(writer.task, chosen.instruction.name)
    return Rules(
        tools=asked.toolbox.specs,
        may_call=asked.may_call,
        json=chosen.output is not None,
        repairs_left=chosen.instruction.repairs - writer.repairs,
        end_mode="fail" if writer.arrived.queues else "complete",
        agents=asked.agents,
        depth=writer.task.depth,
        steps=writer.turn.steps,
        max_calls=max_calls,
        approve=writer.limits.approve,
        verdict=no_verdict if verdict is None else verdict,
    )


def write_answer(
    writer: StepWriter,
    answer: ModelAnswer,
    following: Following,
    asked: Asked,
    entries: Sequence[NodeEntry] = (),
    *,
    redriven: bool = False,
) -> Sequence[RequestedCall]:
    """Write the whole step; return the calls that it asks for.

    ``entries``: about the run of a graph. ``redriven``: a person asks for the step, not the model, so it does not count
    as a step of the turn.
    """
    writer.read_clock()
    writer.spend(answer.usage, answer.finish_reason, steps=1, of_turn=not redriven)
    judges = asked.question_at is not None
    text = following.text if isinstance(following, Complete | CutShort | CallFailed) and not judges else answer.text
    question = following.question if isinstance(following, CallTools) else ""
    shown = joined(text if _is_shown(following, asked) else "", question)
    _show(writer, answer, following, asked, shown)
    _keep_materials(writer, asked)
    covers = [*asked.before[writer.task.covered :], *writer.added]
    manifest = manifest_of(writer.task, answer, asked, covers)
    calls: Sequence[RequestedCall] = ()
    if isinstance(following, CallTools):
        node = asked.chosen.instruction.name if writer.task.graph else None
        calls = request_calls(writer, following.calls, asked.step, node)
    says_nothing = writer.task.graph and (not text or (told_before(following) and not judges))
    if calls or not says_nothing:
        _append_answer(writer, answer, text, calls, asked, cut=isinstance(following, CutShort))
    judged = () if asked.question_at is None else (asked.question_at, len(asked.before) + len(writer.added) - 1)
    write_entries(writer, asked.run, entries, judged)
    _start_agents(writer, calls)
    keep_record(writer, answer, asked, manifest)
    fields: dict[str, Any] = {"step": asked.step, "attempt": 0, "fails": 0, "retry_since": 0, "status": "active"}
    fields |= {"digest": manifest.digest, "covered": manifest.messages[1]}
    if asked.variables != writer.task.variables:
        fields |= {"variables": to_json(asked.variables)}
    if isinstance(following, AskAgain):
        fields |= {"repairs": writer.repairs + 1}
        _ask_again(writer, following)
    elif isinstance(following, CutShort):
        fields |= {"unanswered": 1}
        _go_on(writer, following)
    _open_calls(writer, calls, fields, asked.limit_at)
    FOLLOWS[type(following)](writer, following)
    return calls


def _start_agents(writer: StepWriter, calls: Sequence[RequestedCall]) -> None:
    """Start the tasks of the agents that the answer calls. They share the rest of the budget."""
    called = [call for call in calls if call.agent is not None]
    for call in called:
        assert call.agent is not None
        begun = ChildTask(0, call.tool, call.agent, said=call.said)
        start_child(writer, call.id, begun, at_once=len(called), context=())


def complete(writer: StepWriter, text: str, reason: str, mode: EndMode) -> None:
    """Complete the task with this text, unless a message has come meanwhile."""
    writer.answer = text
    _say(writer, text)  # also when a message overtakes the end: it was said
    writer.commit.finish()
    end_task(writer, "completed", mode, reason)


def tell(writer: StepWriter, step: int, attempt: int, text: str, by: Mapping[str, Any]) -> None:
    """Tell clients the text of a step. A long text is cut in the event, and is whole in the transcript."""
    shown = clip(text, MESSAGE_LIMIT)
    ref = None if shown is text else message_ref(step)
    writer.emit(MessageEvent, step=step, attempt=attempt, content=shown, ref=ref, **by)


def manifest_of(task: TaskHeader, answer: ModelAnswer, asked: Asked, since: Sequence[bytes]) -> Manifest:
    """Make the step's manifest, of which `rebuild` makes its exact request again.

    ``since``: the messages that the digest of the step before does not cover. The digest is chained on that one, so
    that its cost is what the step adds.
    """
    toolbox, recall = asked.toolbox, asked.recall
    images = asked.images if answer.saw_images else []
    added = with_images(since, images)
    return Manifest(
        messages=(0, task.covered + len(since)),
        instruction=asked.chosen.instruction.name if task.graph or asked.compacts else task.instruction,
        instruction_version=asked.chosen.version,
        tools=toolbox.digest,
        model=answer.model,
        model_id=answer.model_id or None,
        memories=list(recall.anchors) if recall is not None else [],
        recall=recall.outcome if recall is not None else None,
        walk=recall.walk if recall is not None else None,
        today=asked.today,
        now=asked.now,
        variables=dict(asked.variables) or None,
        state=dict(asked.state) or None,
        graph_version=task.graph or None,
        text_calls=asked.text_calls or None,
        tool_choice=None if asked.may_call or toolbox.json is None else "none",
        told_schema=asked.told_schema or None,
        compacts=list(asked.compacts) or None,
        images=images or None,
        digest=chain(task.digest, added, asked.system, toolbox.digest, answer.model),
        hooks=asked.trace.kept,
    )


def _is_shown(following: Following, asked: Asked) -> bool:
    """Whether the text may be shown: of an answer that must be JSON, only the value that fits is. The failure of a tool
    is told by an error.
    """
    if asked.question_at is not None and not isinstance(following, Complete):
        return False
    if isinstance(following, GoOn):
        return bool(following.text)
    if asked.text_calls and isinstance(following, CallTools | AskAgain):  # its text is a thought
        return False
    return isinstance(following, Complete) or (asked.chosen.output is None and not isinstance(following, CallFailed))


def told_before(following: Following) -> bool:
    """Whether clients were told the text of the answer by an earlier step."""
    return isinstance(following, Complete) and following.told


def _show(writer: StepWriter, answer: ModelAnswer, following: Following, asked: Asked, told: str) -> None:
    """Tell clients the text. The summary of a call that ends the task is told with the end."""
    ends = isinstance(following, CallTools) and following.completes
    if told_before(following):
        return
    if isinstance(following, Complete) or (told and not ends):
        by = {"model": answer.model, "model_id": answer.model_id or None, "finish_reason": answer.finish_reason}
        tell(writer, asked.step, writer.attempt, told, by)


def _append_answer(
    writer: StepWriter, answer: ModelAnswer, text: str, calls: Sequence[RequestedCall], asked: Asked, *, cut: bool
) -> None:
    said = assistant(text, [(call.id, call.tool, call.arguments) for call in calls], answer.thoughts)
    meta: dict[str, Any] = {"model": answer.model, "model_id": answer.model_id or None}
    if of_client := [call.id for call in calls if call.target == "client"]:
        meta["client_calls"] = of_client
    if asked.question_at is not None:
        meta["origin"] = "node"
    if cut:
        meta["finish_reason"] = INTERRUPTED
    writer.append(said, step=asked.step, attempt=writer.attempt, **meta)


def keep_record(writer: StepWriter, answer: ModelAnswer, asked: Asked, manifest: Manifest) -> None:
    record = StepRecord(
        step=asked.step,
        attempt=writer.attempt,
        at=writer.at,
        finish_reason=answer.finish_reason,
        usage=writer.spent.usage,
        manifest=manifest,
        duration_ms=max(0, writer.clock() - asked.asked_at),
    )
    writer.commit.push(writer.keys.steps, record.to_json())


def _keep_materials(writer: StepWriter, asked: Asked) -> None:
    """Keep with the task, once each, the tools and the instruction that its manifests name by digest."""
    toolbox, chosen = asked.toolbox, asked.chosen
    if toolbox.json is not None and toolbox.digest != writer.task.tools:
        writer.commit.set_once(writer.keys.big, tools_kept_under(toolbox.digest), toolbox.json)
        writer.commit.set(writer.keys.header, tools=toolbox.digest)
    if chosen.version != writer.task.instruction_version:
        keep_instruction(writer.commit, writer.keys, chosen.instruction)


def _open_calls(writer: StepWriter, calls: Sequence[RequestedCall], fields: dict[str, Any], limit_at: int) -> None:
    """The task's header after this step, and the time limit of its calls."""
    leave_wait(writer)
    fields |= writer.usage.model_dump()
    fields |= {"open": to_json([call.opened.kept for call in calls]) if calls else b""}
    if writer.task.waits:
        writer.commit.tallies.count(metrics.tasks.labels("active"))
        writer.commit.untimer(writer.keys, "wait", "stale")
    if calls:
        writer.commit.stamp(writer.keys.header, "asked_at")
        writer.commit.timer(writer.keys, "timeout", writer.limits.step_timeout_ms)
        watch_calls(writer)
        if limit_at:
            limit_calls(writer, limit_at)
    else:
        writer.commit.untimer(writer.keys, "timeout", "retry")
        if writer.task.limit_at:
            writer.commit.untimer(writer.keys, "limit")
        if writer.limits.stale_while_calling:
            writer.commit.untimer(writer.keys, "stale")
    writer.set_header(**fields)


def _say(writer: StepWriter, text: str) -> None:
    """Keep the text among the session's last turns, and as the answer that its next message is compared with."""
    if writer.task.parent:
        return
    add_session_turn(writer, text)
    writer.commit.set(writer.session.header, **{answer_field(writer.keys.task): excerpt(text)})


# What the answer leads to, before the header of its step is written


def _ask_again(writer: StepWriter, following: AskAgain) -> None:
    """Append a request for a better answer. No user has written it, so it has an origin of its own; the next step
    follows at once.
    """
    writer.emit(TaskStatusEvent, status="active", reason=f"the answer is asked for again: {following.problem}")
    how = "with one JSON value alone that fits" if following.json else "in the form that you were told"
    text = f"This answer cannot be used: {following.problem}. Answer again, {how}."
    writer.append(user(text), origin="repair")
    writer.commit.rewake()


def _go_on(writer: StepWriter, following: CutShort) -> None:
    """Let the next step follow at once. It sees the message that has cut this one, unless that was moved away."""
    _say(writer, following.text)
    writer.commit.rewake()


# What the answer leads to, after the header of its step is written


def _call(writer: StepWriter, following: CallTools) -> None:
    """Wait for the person where a question was asked: the turn ends, and results of other calls wait for the answer."""
    if following.question:
        _say(writer, following.question)
        writer.commit.set(writer.keys.header, status="waiting", reason=ASKED)
        wait_for_person(writer, ASKED)
    elif following.completes or following.asks_approval or following.asks_client:
        writer.commit.rewake()


def _complete(writer: StepWriter, following: Complete) -> None:
    complete(writer, following.text, following.reason, following.mode)


def _fail(writer: StepWriter, following: Fail) -> None:
    text = f"the model's answer is not of the form that the instruction asks for: {following.problem}"
    fail_task(writer, ErrorCode.MODEL_ERROR, text)


def _call_failed(writer: StepWriter, following: CallFailed) -> None:
    fail_task(writer, ErrorCode.TOOL_ERROR, clip(following.text.removeprefix("error: "), ERROR_LIMIT))


def _fail_run(writer: StepWriter, following: FailRun) -> None:
    fail_task(writer, following.code, following.problem)


def _nothing_more(_: StepWriter, __: Next) -> None:
    """Do nothing: the next step is started already."""


FOLLOWS: Mapping[type[Any], Callable[[StepWriter, Any], None]] = MappingProxyType(
    {
        AskAgain: _nothing_more,
        CallTools: _call,
        Complete: _complete,
        CutShort: _nothing_more,
        Fail: _fail,
        CallFailed: _call_failed,
        FailRun: _fail_run,
        GoOn: go_on,
    }
)
