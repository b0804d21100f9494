"""The request that begins a run of AG-UI: the last message, or answers to a run before that waits for a person."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from pentad.contracts.client_tools import MAX_CLIENT_TOOLS
from pentad.contracts.commands import MAX_CONTENT
from pentad.contracts.ids import EXTERNAL_ID_RULE, is_external_id, is_identifier
from pentad.services.gateway.domain.approval import AskedDecision, read_decision
from pentad.services.gateway.domain.client_result import SentResult, client_result
from pentad.services.gateway.domain.frames import UnreadableError, complaints

_MAX_MESSAGES, _MAX_ANSWERS = 10_000, 64
FORWARDED = frozenset({"instruction", "task_id", "user_id", "metadata", "state", "deadline", "budget", "files"})
"""Fields of a message that a client may set by ``forwardedProps.pentad``."""


class ResumeEntry(BaseModel):
    """An answer to what a run was waiting for."""

    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)

    interrupt_id: str = Field(max_length=400)
    status: Literal["resolved", "cancelled"]
    payload: Any = None


class RunInput(BaseModel):
    """The body that begins a run. The state of the client is not taken."""

    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)

    thread_id: str
    """Session of the run."""
    run_id: str
    """Id of the run, which is that of its message: the same id again is the same run."""
    messages: list[Any] = Field(default_factory=list, max_length=_MAX_MESSAGES)
    """All messages as the client has them."""
    resume: list[ResumeEntry] | None = Field(default=None, max_length=_MAX_ANSWERS)
    forwarded_props: Any = None
    tools: list[Any] | None = Field(default=None, max_length=MAX_CLIENT_TOOLS)
    """Tools that the client runs itself."""

    def message(self) -> dict[str, Any]:
        """Return the body of the run's message: the last one of the user. Raises ``UnreadableError``."""
        last = next((m for m in reversed(self.messages) if isinstance(m, dict) and m.get("role") == "user"), None)
        if last is None:
            raise UnreadableError("messages: a message with the role user is expected, or resume")
        said = {"content": _text_of(last.get("content")), "message_id": self.run_id, "tools": self.tools or None}
        return self.forwarded() | said

    @property
    def ends_with_results(self) -> bool:
        """Whether results of the client's tools are the last that was said."""
        return bool(self.messages) and _is_result(self.messages[-1])

    def results(self) -> list[tuple[str, SentResult]]:
        """Return the results of the client's tools behind the last answer, each with the id of its call.

        Raises ``UnreadableError``.
        """
        end = len(self.messages) - (not self.ends_with_results)
        begin = end
        while begin > 0 and _is_result(self.messages[begin - 1]):
            begin -= 1
        return [_result_of(each, f"messages.{begin + number}") for number, each in enumerate(self.messages[begin:end])]

    def forwarded(self) -> dict[str, Any]:
        """Return the fields of the message that the client forwards. Raises ``UnreadableError``."""
        props = self.forwarded_props
        given = props.get("pentad") if isinstance(props, dict) else None
        if given is None:
            return {}
        if not isinstance(given, dict) or (unknown := sorted(set(given) - FORWARDED)):
            named = "" if not isinstance(given, dict) else f"; {unknown[0][:100]} is not one of them"
            raise UnreadableError(
                f"forwardedProps: its member pentad is an object of {', '.join(sorted(FORWARDED))} {named}"
            )
        return given


def _is_result(message: Any) -> bool:
    return isinstance(message, dict) and message.get("role") == "tool"


def _result_of(message: Mapping[str, Any], where: str) -> tuple[str, SentResult]:
    call, content, error = message.get("toolCallId"), message.get("content"), message.get("error")
    if not isinstance(call, str) or not is_identifier(call):
        raise UnreadableError(f"{where}.toolCallId: the id of a tool call is expected")
    if error is not None:
        if not isinstance(error, str):
            raise UnreadableError(f"{where}.error: a text is expected")
        return call, client_result(error, f"{where}.error", ok=False)
    if not isinstance(content, str):
        raise UnreadableError(f"{where}.content: a text is expected")
    return call, client_result(content, f"{where}.content")


def read_run_input(body: Mapping[str, Any]) -> RunInput:
    """Read the body that begins a run. Raises ``UnreadableError``."""
    try:
        read = RunInput.model_validate(body)
    except ValidationError as error:
        raise UnreadableError("; ".join(complaints(error))) from None
    for name, value in (("threadId", read.thread_id), ("runId", read.run_id)):
        if not is_external_id(value):
            raise UnreadableError(f"{name} must have {EXTERNAL_ID_RULE}")
    return read


def _text_of(content: Any) -> str:
    """Return the text of a message's content. Raises ``UnreadableError`` for content that is not text."""
    if isinstance(content, list):
        parts = [
            part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None for part in content
        ]
        if not all(isinstance(part, str) for part in parts):
            raise UnreadableError(
                "messages: parts of a message must be text; put files into the session first (`PUT "
                "/v1/sessions/{threadId}/files/...`) and name them in forwardedProps.pentad.files"
            )
        content = "\n".join(map(str, parts))
    if not isinstance(content, str) or not 1 <= len(content) <= MAX_CONTENT:
        raise UnreadableError(f"messages: the last message must have 1 to {MAX_CONTENT} characters of text")
    return content


class Interrupted(BaseModel):
    """A reason for which a task waits, by the id under which a client answers it."""

    model_config = ConfigDict(frozen=True)

    task: str
    call: str = ""
    """Tool call that a person must decide about; '' for a task that waits for a message."""

    @property
    def id(self) -> str:
        """The id of the interrupt: `TASK`, or `TASK/CALL`."""
        return f"{self.task}/{self.call}" if self.call else self.task


def read_interrupt(text: str) -> Interrupted:
    """Read the id of an interrupt. Raises ``UnreadableError`` for one that is not of ours."""
    task, slash, call = text.partition("/")
    if not is_identifier(task) or (slash and not is_identifier(call)):
        raise UnreadableError(f"resume: {text[:100]!r} is not the id of an interrupt of a run here")
    return Interrupted(task=task, call=call)


def answers_of(entries: Sequence[ResumeEntry]) -> tuple[str, list[tuple[Interrupted, ResumeEntry]]]:
    """Return the one task that entries answer, and the entries with what they answer. Raises ``UnreadableError``."""
    read = [(read_interrupt(entry.interrupt_id), entry) for entry in entries]
    tasks = {interrupted.task for interrupted, _ in read}
    if len(tasks) != 1:
        raise UnreadableError("resume: all entries must answer interrupts of one run")
    if len(read) > 1 and any(not interrupted.call for interrupted, _ in read):
        raise UnreadableError("resume: a task that waits for a message is answered alone")
    return tasks.pop(), read


def decision_of(entry: ResumeEntry) -> AskedDecision:
    """Return a decision about a tool call. Raises ``UnreadableError``.

    The payload is ``{"approved", "args"?, "reason"?, "args_digest"?}``, or true or false, or the values of a form.
    """
    payload = entry.payload
    if isinstance(payload, bool):
        payload = {"approved": payload}
    if payload is None:
        payload = {}
    if not isinstance(payload, dict):
        raise UnreadableError("resume: the payload of a decision is true, false, or an object")
    if "approved" not in payload and payload and entry.status == "resolved":
        payload = {"args": payload}
    return read_decision({"approved": entry.status == "resolved"} | _unless(entry, payload))


def _unless(entry: ResumeEntry, payload: dict[str, Any]) -> dict[str, Any]:
    """A cancelled interrupt is a refusal, whatever its payload says."""
    if entry.status == "resolved":
        return payload
    return {"reason": payload["reason"]} if "reason" in payload else {}


def text_of_answer(entry: ResumeEntry) -> str:
    """Return the message that answers a question. Raises ``UnreadableError``."""
    payload = entry.payload
    if isinstance(payload, dict) and isinstance(payload.get("content"), str):
        payload = payload["content"]
    if not isinstance(payload, str) or not 1 <= len(payload) <= MAX_CONTENT:
        raise UnreadableError('resume: the payload of an answer is a text, or {"content": text}')
    return payload
