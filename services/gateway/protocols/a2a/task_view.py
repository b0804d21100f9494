"""Tasks as A2A has them: made of what is known of a task, its transcript and the calls that wait. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from a2a.types.a2a_pb2 import Artifact, Message, Part, Role, Task, TaskState, TaskStatus
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from pentad.contracts.approvals import PendingApproval
from pentad.contracts.plain_json import read_json
from pentad.contracts.records import Task as PentadTask
from pentad.contracts.turns import ASKED
from pentad.shared.actors.transcript import COMPACTION, is_note
from pentad.shared.attached_files import FIELD as FILES
from pentad.shared.immutable import immutable
from pentad.shared.workspace.media_types import media_type_by_name

MAX_TEXT_CHARS = 1 << 20
"""Characters of texts that a task is shown with, the newest first."""
MAX_HISTORY = 100
"""Messages that a task is shown with where a client names no number."""
_STATES: Mapping[str, TaskState] = {
    "pending": TaskState.TASK_STATE_SUBMITTED,
    "active": TaskState.TASK_STATE_WORKING,
    "waiting": TaskState.TASK_STATE_INPUT_REQUIRED,
    "stale": TaskState.TASK_STATE_INPUT_REQUIRED,
    "completed": TaskState.TASK_STATE_COMPLETED,
    "failed": TaskState.TASK_STATE_FAILED,
    "cancelled": TaskState.TASK_STATE_CANCELED,
    "rejected": TaskState.TASK_STATE_REJECTED,
}
ENDED_STATES = frozenset(
    {
        TaskState.TASK_STATE_COMPLETED,
        TaskState.TASK_STATE_FAILED,
        TaskState.TASK_STATE_CANCELED,
        TaskState.TASK_STATE_REJECTED,
    }
)


def state_of(status: str) -> TaskState:
    """Return the state for a status of ours."""
    return _STATES.get(status, TaskState.TASK_STATE_UNSPECIFIED)


def statuses_of(state: TaskState) -> list[str]:
    """Return the statuses of ours that a state stands for."""
    return [status for status, known in _STATES.items() if known == state and status != "rejected"]


@immutable
class TranscriptTail:
    """The last entries of a task's transcript, from a position on."""

    start: int
    entries: Sequence[Mapping[str, Any]]

    def until(self, message_id: str | None) -> "TranscriptTail":
        """Return the entries up to a message, with it: those of the turns before; all where it is not among them."""
        for number, entry in enumerate(self.entries):
            if message_id is not None and entry.get("message_id") == message_id and entry.get("role") == "user":
                return TranscriptTail(self.start, self.entries[: number + 1])
        return self

    def said(self) -> list[tuple[int, Mapping[str, Any]]]:
        """Return what belongs to the conversation, each with its position."""
        gone = {
            position
            for entry in self.entries
            if is_note(entry) and entry.get("role") != COMPACTION
            for position in entry.get("positions") or ()
        }
        # An answer that was asked for again did not fit: no client is told it.
        following = (entry.get("origin") for entry in self.entries[1:])
        gone |= {at for at, origin in enumerate(following, self.start) if origin == "repair"}
        placed = enumerate(self.entries, self.start)
        return [
            (at, entry) for at, entry in placed if at not in gone and not is_note(entry) and not entry.get("origin")
        ]

    def question(self) -> str:
        """Return the text of the last step, which ends with its question where it has asked one."""
        return next((text_of_step(e) for _, e in reversed(self.said()) if e.get("role") == "assistant"), "")


def text_of_step(entry: Mapping[str, Any]) -> str:
    """Return what a step has said: its text, and the question that it has asked."""
    asked = [call for call in entry.get("tool_calls") or () if (call.get("function") or {}).get("name") == "ask_user"]
    questions = [_question_in(str(call["function"].get("arguments") or "")) for call in asked]
    return "\n\n".join(filter(None, (entry.get("content"), *questions)))


def _question_in(arguments: str) -> str:
    try:
        read = read_json(arguments)
    except ValueError:
        return ""
    question = read.get("question") if isinstance(read, dict) else None
    return question if isinstance(question, str) else ""


def task_of(
    task: PentadTask, transcript: TranscriptTail, asked: Sequence[PendingApproval], address: str, history: int | None
) -> Task:
    """Return a task. ``asked``: its calls that wait for a decision. ``history``: messages that the client wants."""
    said = _within(transcript.said())
    shown = Task(
        id=task.task_id,
        context_id=task.session_id,
        status=status_of_task(task, transcript, asked),
        artifacts=_artifacts(task, said, address),
        history=_history(task, said, MAX_HISTORY if history is None else min(history, MAX_HISTORY)),
    )
    about: dict[str, Any] = {"status": task.status, "instruction": task.instruction, "goal": task.goal}
    about["usage"] = task.usage.model_dump(mode="json")
    shown.metadata.CopyFrom(struct_of({"pentad": about}))
    return shown


def status_of_task(task: PentadTask, transcript: TranscriptTail, asked: Sequence[PendingApproval]) -> TaskStatus:
    """Return the status of a task, with what it waits for or why it has failed as its message."""
    about = {"task": task.task_id, "context": task.session_id}
    if task.status in ("waiting", "stale"):
        reason = ", ".join(task.waiting_for)
        words = transcript.question() if reason == ASKED else reason
        status = waiting_status(words or reason, asked, **about)
    else:
        why = ": ".join(filter(None, (task.reason, task.detail))) if task.status in ("failed", "cancelled") else ""
        status = plain_status(state_of(task.status), why, **about)
    status.timestamp.CopyFrom(timestamp_of(task.updated_at))
    return status


def plain_status(state: TaskState, words: str, *, task: str, context: str) -> TaskStatus:
    """Return a status; with words it has a message of the agent."""
    status = TaskStatus(state=state)
    if words:
        status.message.CopyFrom(agent_message(f"{task}:status", [Part(text=words)], task=task, context=context))
    return status


def waiting_status(words: str, asked: Sequence[PendingApproval], *, task: str, context: str) -> TaskStatus:
    """Return the status of a task that waits for a person. ``asked``: calls that wait for a decision."""
    parts = [Part(text=words)] if words and not asked else []
    for each in asked:
        about = each.model_dump(mode="json", exclude_none=True, include=_SHOWN)
        parts += [Part(text=each.reason or f"{each.tool} waits to be allowed"), Part(data=value_of(about))]
    status = TaskStatus(state=TaskState.TASK_STATE_INPUT_REQUIRED)
    status.message.CopyFrom(agent_message(f"{task}:asks", parts or [Part(text="waiting")], task=task, context=context))
    return status


_SHOWN = {"tool_call_id", "tool", "args", "args_digest", "effect", "needs", "form", "approvers", "expires_at"}
"""Fields of a call that waits which a client is told."""


def agent_message(name: str, parts: Sequence[Part], *, task: str, context: str) -> Message:
    """Return a message of the agent."""
    return Message(message_id=name, task_id=task, context_id=context, role=Role.ROLE_AGENT, parts=parts)


def artifact_id(step: int) -> str:
    """Return the id of the artifact that is a step's text."""
    return f"step-{step}"


def file_artifact(path: str, media_type: str, session: str, address: str) -> Artifact:
    """Return the artifact that is a file of a session: its address, which needs the key or token of the caller."""
    url = f"{address}/v1/sessions/{quote(session, safe='')}/files/{quote(path)}"
    part = Part(url=url, filename=path.rpartition("/")[2], media_type=media_type)
    return Artifact(artifact_id=f"file:{path}", name=path, parts=[part])


def struct_of(value: Mapping[str, Any]) -> Struct:
    """Return an object as protobuf has it."""
    return ParseDict(dict(value), Struct())


def value_of(value: Any) -> Value:
    """Return a JSON value as protobuf has it."""
    return ParseDict(value, Value())


def timestamp_of(at: str) -> Timestamp:
    """Return a time as protobuf has it."""
    made = Timestamp()
    made.FromJsonString(at)
    return made


Placed = Sequence[tuple[int, Mapping[str, Any]]]
"""Entries of a transcript with their positions."""


def _within(said: Placed) -> Placed:
    """Return the newest entries whose texts fit."""
    size = 0
    for number, (_, entry) in enumerate(reversed(said)):
        size += len(str(entry.get("content") or ""))
        if size > MAX_TEXT_CHARS:
            return said[len(said) - number :]
    return said


def _artifacts(task: PentadTask, said: Placed, address: str) -> list[Artifact]:
    made: list[Artifact] = []
    for at, entry in said:
        step = entry.get("step")
        if entry.get("role") == "assistant" and (text := text_of_step(entry)):
            name = artifact_id(step) if isinstance(step, int) else f"entry-{at}"
            made.append(Artifact(artifact_id=name, parts=[Part(text=text)]))
        elif entry.get("role") == "tool":
            paths = [path for path in entry.get(FILES) or () if isinstance(path, str)]
            made += [file_artifact(path, media_type_by_name(path), task.session_id, address) for path in paths]
    return made


def _history(task: PentadTask, said: Placed, most: int) -> list[Message]:
    made: list[Message] = []
    for at, entry in said:
        name, text = f"{task.task_id}:{at}", text_of_step(entry)
        if entry.get("role") == "user" and text:
            sender, name = Role.ROLE_USER, entry.get("message_id") or name
        elif entry.get("role") == "assistant" and text:
            sender = Role.ROLE_AGENT
        else:
            continue
        parts = [Part(text=text)]
        made.append(
            Message(message_id=name, task_id=task.task_id, context_id=task.session_id, role=sender, parts=parts)
        )
    return made[-most:] if most else []
