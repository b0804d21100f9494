"""The past of a task that a fork of it shares, and what the fork leaves out. Pure."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from pydantic_core import to_json

from pentad.contracts.client_tools import ClientTool
from pentad.contracts.commands import MAX_CONTENT
from pentad.contracts.events import PastEffect
from pentad.contracts.ids import is_external_id, is_identifier, milliseconds
from pentad.contracts.instructions import DIRECT_CALL
from pentad.contracts.records import StepRecord, Task, TranscriptMeta
from pentad.contracts.tools import RESERVED_NAMES, Effect, ToolSpec
from pentad.services.gateway.domain.frames import UnreadableError
from pentad.shared.actors.client_tools import digest_of_client_tools
from pentad.shared.actors.headers import OpenCall
from pentad.shared.actors.mail import ResultMail, SessionMessage
from pentad.shared.actors.targets import asks_person, ends_last, is_branch
from pentad.shared.actors.transcript import NODE, chat_form, left_out, node_entries_in
from pentad.shared.agent_graphs.run import GraphRun
from pentad.shared.errors import DamagedError, PentadError
from pentad.shared.immutable import immutable

Entry = Mapping[str, Any]
"""An entry of a transcript as inspection shows it."""
MAX_FORK_BYTES = 32 << 20
"""Bytes that a fork may share, transcript, steps, tool schemas and results together: they are written in one commit."""
MAX_FORK_ENTRIES = 20_000
"""Entries and steps that a fork may share."""
_MAX_STEP = 1 << 31
_MAX_EFFECTS = 100
"""Calls that the answer names whose effects the fork does not have."""
_MAX_TURNS = 12
"""Messages of the shared past with which the fork's session begins."""
_MAX_TURN_CHARS = 4_000
_FIELDS = ("step", "content", "replace", "instruction", "model", "message_id")
_EFFECTS = (Effect.IDEMPOTENT, Effect.UNSAFE)


class UnforkableError(PentadError):
    """The task cannot be forked as requested; the text says why, and what to do instead."""


@immutable
class ForkRequest:
    """A client's request to fork a task."""

    step: int
    """Last step that the fork shares; 0: it begins before the first one."""
    message_id: str
    content: str = ""
    """New message with which the fork goes on; '': it goes on by itself."""
    instruction: str = ""
    """Instruction that the fork runs from then on; '': that of the task."""
    model: str = ""
    """Id of the model that the fork asks from then on; '': that of its instruction."""
    replace: bool = False
    """Whether the new message takes the place of what was said after the step's answer."""
    files: tuple[str, ...] = ()
    """Paths of files of the fork's session that the new message is about."""
    tools: tuple[ClientTool, ...] = ()
    """Tools that who asks for the fork runs itself."""

    @property
    def digest(self) -> str:
        """Digest by which two requests under one id are compared."""
        asked: list[Any] = [self.step, self.content, self.instruction, self.model]
        if self.replace or self.files:
            asked += [self.replace, self.files]
        if self.tools:
            asked.append(digest_of_client_tools(self.tools))
        return hashlib.sha256(to_json(asked)).hexdigest()[:16]


def read_fork(body: Mapping[str, Any], message_id: str) -> ForkRequest:
    """Read a client's request to fork a task. Raises ``UnreadableError``.

    ``message_id`` is used if the client gave none.
    """
    given = {name: value for name, value in body.items() if value is not None and name != "version"}
    if unknown := sorted(set(given) - {*_FIELDS}):
        raise UnreadableError(f"{unknown[0][:100]}: not known here; there are: {', '.join(_FIELDS)}")
    step, content = given.get("step"), given.get("content")
    if not isinstance(step, int) or isinstance(step, bool) or not 0 <= step < _MAX_STEP:
        raise UnreadableError("step: the number of the last step that the fork shares is expected, 0 for none")
    if content is not None and not (isinstance(content, str) and 1 <= len(content) <= MAX_CONTENT):
        raise UnreadableError(f"content: a text of 1 to {MAX_CONTENT:,} characters is expected")
    for name in ("instruction", "model"):
        value = given.get(name)
        if value is not None and not (isinstance(value, str) and is_identifier(value)):
            raise UnreadableError(f"{name}: a name of one is expected")
    message_id = given.get("message_id", message_id)
    if not isinstance(message_id, str) or not is_external_id(message_id):
        raise UnreadableError("message_id: a message's id is expected")
    replace = given.get("replace", False)
    if not isinstance(replace, bool) or (replace and not (content and step)):
        raise UnreadableError("replace: true or false is expected; true needs `content`, and a step from 1 on")
    instruction, model = given.get("instruction") or "", given.get("model") or ""
    return ForkRequest(step, message_id, content or "", instruction, model, replace)


@immutable
class TaskPast:
    """A task as it was read: of Redis at one version of its header, or of its record."""

    task: Task
    steps: Sequence[StepRecord]
    """The steps up to the one after that of the fork."""
    entries: Sequence[Entry]
    """The whole transcript."""
    open: tuple[OpenCall, ...] = ()
    """Calls without a result in the transcript."""
    results: Mapping[str, ResultMail] = field(default_factory=dict)
    """Results of these calls that have come."""
    time_zone: str = ""


@immutable
class SharedPast:
    """The part of a task's past that a fork shares."""

    steps: Sequence[StepRecord]
    entries: Sequence[Entry]
    later: Sequence[Entry]
    """Entries of the task that the fork does not have."""
    named_by: StepRecord
    """Step whose manifest names the instruction, the graph and the variables with which the fork goes on."""
    open: tuple[OpenCall, ...] = ()
    """Calls of the last shared step that the fork has to end first."""
    results: Mapping[str, ResultMail] = field(default_factory=dict)
    """The results that end them, all but those that the new message answers."""
    given_up: tuple[OpenCall, ...] = ()
    """Calls of that step whose results had not come."""


def shared_past(past: TaskPast, request: ForkRequest) -> SharedPast:
    """Return what a fork shares. Raises ``UnforkableError``, and ``DamagedError`` for an unreadable transcript.

    The fork has the entries that the prompt of the next step had; where no such step is, all entries.
    """
    task, step = past.task, request.step
    if task.instruction == DIRECT_CALL:
        raise UnforkableError("a tool call outside a conversation cannot be forked: make it again")
    following = past.steps[step] if step < len(past.steps) else None
    if len(past.steps) < max(step, 1):
        made = f"it has made {len(past.steps)}" if past.steps else "it has made none yet"
        raise UnforkableError(f"task {task.task_id} has no step {max(step, 1)}: {made}")
    if request.replace:
        end = _end_of_answer(past, step)
    else:
        end = len(past.entries) if following is None else _end(past.entries, following)
    kept = past.entries[:end]
    if any("role" not in each for each in kept) or len(kept) < _covered(past.steps[:step]):
        raise DamagedError(f"the transcript of task {task.task_id} cannot be read up to step {step}")
    shared = SharedPast(past.steps[:step], kept, past.entries[end:], following or past.steps[step - 1])
    if following is not None or request.replace:
        return shared
    if not request.content and _is_over(past):
        raise UnforkableError(
            f"step {step} of task {task.task_id} has answered: give `content` to go on from there, "
            "or name the step before to have it answered again"
        )
    return _with_open_calls(shared, past, answered=bool(request.content))


def _covered(steps: Sequence[StepRecord]) -> int:
    return steps[-1].manifest.messages[1] if steps else 0


def _end(entries: Sequence[Entry], following: StepRecord) -> int:
    """Return the end of the entries that this step's prompt had. The question about conditions of a graph is left out:
    it is asked again where it is needed."""
    end = following.manifest.messages[1]
    if end >= len(entries):
        raise DamagedError("the transcript is shorter than its steps say")
    answer, asked = entries[end], entries[end - 1] if end else {}
    judged = answer.get("role") == "assistant" and answer.get("origin") == NODE and answer.get("step") == following.step
    return end - 1 if judged and asked.get("role") == "user" and asked.get("origin") == NODE else end


def _end_of_answer(past: TaskPast, step: int) -> int:
    """Return the end of the entries up to a step's answer. Raises ``UnforkableError`` for a step with tool calls."""
    at = past.steps[step - 1].manifest.messages[1]
    while at < len(past.entries) and past.entries[at].get("role") != "assistant":
        at += 1
    answer = past.entries[at] if at < len(past.entries) else {}
    if not answer or answer.get("tool_calls") or answer.get("step") not in (None, step):
        raise UnforkableError(
            f"step {step} of task {past.task.task_id} has not ended with an answer, so nothing behind it can be "
            "replaced: name a step that has, or leave `replace` out"
        )
    return at + 1


def _is_over(past: TaskPast) -> bool:
    """Whether the last step has answered, so that nothing is left to go on with."""
    if past.task.status == "completed":
        return True
    gone = left_out(past.entries)
    last = next((each for n, each in reversed([*enumerate(past.entries)]) if n not in gone), {})
    runs_graph = any(each.get("role") == NODE and each.get("node") for each in past.entries)
    return last.get("role") == "assistant" and not last.get("tool_calls") and not runs_graph


def _with_open_calls(shared: SharedPast, past: TaskPast, *, answered: bool) -> SharedPast:
    """Return the past with the calls that are open: each with its result, or given up.

    Branches of a graph that have not ended are begun anew. ``answered``: a new message answers an open question.
    """
    task, results, kept, given_up = past.task, dict(past.results), list[OpenCall](), list[OpenCall]()
    for call in past.open:
        if call.id not in results:
            if is_branch(call):
                continue
            given_up.append(call)
            if answered and (asks_person(call) or ends_last(call)):
                kept.append(call)
                continue
            why = f"error: given up: this task was forked from {task.task_id} before the call had a result"
            results[call.id] = ResultMail(tool_call_id=call.id, content=why, ok=False)
        kept.append(call)
    named = {call.id for call in kept}
    return SharedPast(
        shared.steps,
        shared.entries,
        shared.later,
        shared.named_by,
        tuple(kept),
        {call: result for call, result in results.items() if call in named},
        tuple(given_up),
    )


def entries_of_fork(shared: Iterable[Entry]) -> list[bytes]:
    """Return the entries as the fork's transcript has them: the same messages, byte for byte, marked as shared."""
    return [entry_of_fork(each) for each in shared]


def entry_of_fork(shown: Entry) -> bytes:
    """Return one entry as the fork's transcript has it."""
    known = {name: value for name, value in shown.items() if name in TranscriptMeta.model_fields}
    meta, line = TranscriptMeta.model_validate({"at": "", **known, "forked": True}), chat_form(shown)
    return meta.to_json() + b"\n" + line


def run_of(shared: Iterable[Entry]) -> GraphRun:
    """Return the run of the graph at the end of the shared past."""
    return GraphRun().after(node_entries_in(chat_form(each) for each in shared if each.get("role") == NODE))


def steps_at_node(shared: SharedPast, run: GraphRun) -> int:
    """Return the number of shared steps that were made since the run came to its node."""
    return sum(milliseconds(each.at) > run.node_at for each in shared.steps) if run.node else 0


def last_said(shared: Iterable[Entry]) -> Entry:
    """Return the last message of a user that the fork shares."""
    said = [each for each in shared if each.get("role") == "user" and not each.get("origin")]
    return said[-1] if said else {}


def first_said(shared: Sequence[Entry]) -> str | None:
    """Return the first message of the shared past that is still the task's, of which its goal was made then."""
    gone = left_out(shared)
    said = (
        str(each.get("content"))
        for n, each in enumerate(shared)
        if each.get("role") == "user" and not each.get("origin") and n not in gone
    )
    return next(said, None)


def users_of(shared: Iterable[Entry]) -> set[str]:
    """Return the users who have said something of the shared past."""
    return {str(each["user_id"]) for each in shared if each.get("user_id")}


def turns_of(shared: Sequence[Entry], task_id: str) -> list[SessionMessage]:
    """Return the last messages of the shared past, with which the fork's session begins. ``task_id``: the fork's id."""
    gone = left_out(shared)
    said = [
        SessionMessage(
            role=each["role"], content=each["content"][:_MAX_TURN_CHARS], task_id=task_id, at=str(each.get("at", ""))
        )
        for n, each in enumerate(shared)
        if each.get("role") in ("user", "assistant") and _is_told(each) and n not in gone
    ]
    return said[-_MAX_TURNS:]


def _is_told(each: Entry) -> bool:
    content = each.get("content")
    return isinstance(content, str) and bool(content) and not each.get("origin") and not each.get("tool_calls")


def call_ids(shared: Iterable[Entry]) -> list[str]:
    """Return the ids of the calls whose results the fork shares."""
    return [str(each["tool_call_id"]) for each in shared if each.get("role") == "tool" and each.get("tool_call_id")]


def later_effects(shared: SharedPast, specs: Mapping[str, ToolSpec]) -> list[PastEffect]:
    """Return the calls whose effects may have happened and that the fork knows nothing of, at most 100.

    A call of a tool that no worker knows now may have had any effect.
    """
    calls = [(call.id, call.tool) for call in shared.given_up]
    made = [call for each in shared.later for call in each.get("tool_calls") or ()]
    calls += [(str(call.get("id")), str((call.get("function") or {}).get("name"))) for call in made]
    found = [
        PastEffect(tool_call_id=call, tool=tool, effect=specs[tool].effect if tool in specs else Effect.UNSAFE)
        for call, tool in dict.fromkeys(calls)
        if tool not in RESERVED_NAMES
    ]
    return [each for each in found if each.effect in _EFFECTS][:_MAX_EFFECTS]
