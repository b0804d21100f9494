"""How a dead letter is redriven: what is sent, and to whom. Pure.

What is sent is a JSON object, so that a person can look at it, edit it and send it back: a message,
``{"messages": [...]}`` for the mail of a task, a tool call, or the command of another work stream.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError

from pentad.contracts.commands import InboundMessage, ToolCallCommand, WakeUp
from pentad.contracts.dead_letters import DeadLetter
from pentad.contracts.envelope import Contract
from pentad.contracts.ids import DEFAULT_TENANT
from pentad.contracts.plain_json import read_json
from pentad.contracts.streams import INBOUND, MEMORY, SESSION_WAKE, TASK_WAKE, split_key, work_stream
from pentad.contracts.tools import TIMEOUT_S, Effect
from pentad.services.gateway.domain.frames import complaints
from pentad.shared.actors.mail import CallRequest, RedriveMail, UserMail
from pentad.shared.errors import PentadError
from pentad.shared.immutable import immutable
from pentad.shared.keys import SessionKeys, TaskKeys, actor_parts, task_parts
from pentad.shared.kinds import REDRIVE, USER, MailKind

C = TypeVar("C", bound=Contract)


class UnfitError(PentadError):
    """It cannot be redriven so; the text says what to do instead."""


@immutable
class Surroundings:
    """What is known of a letter's task now."""

    status: str = ""
    """Of the task in Redis; '' when it is not there."""
    archived: bool = False
    """It has a record."""
    said: InboundMessage | None = None
    """The user's message that the letter goes back to, as its task's transcript has it."""

    @property
    def goes_on(self) -> bool:
        """Whether the task can take more."""
        return self.status not in ("", "cancelled")


@immutable
class Say:
    """Messages are said again in their session."""

    tenant: str
    session: str
    messages: tuple[InboundMessage, ...]
    new: bool = False
    """They were never accepted under their ids."""


@immutable
class GoOn:
    """A task goes on where it stopped, or makes tool calls again."""

    tenant: str
    task: str
    calls: tuple[CallRequest, ...] = ()


@immutable
class Append:
    """An entry goes back to its stream."""

    stream: str
    data: bytes


@immutable
class Wake:
    """An actor is woken."""

    actor: SessionKeys | TaskKeys


Redrive = Say | GoOn | Append | Wake

_GONE = "its task is gone or was cancelled: nobody waits for it. Discard it, or send a message to its session"


def proposal(letter: DeadLetter, around: Surroundings) -> dict[str, Any] | None:
    """What a redrive sends when nothing is edited. None: nothing is said, the task goes on.

    Raises ``UnfitError`` when there is nothing of which it could be made: then an edit must say all.
    """
    if letter.kind == "task_mail":
        return _mail_again(letter, around)
    if _asks_again(letter, around):
        return {"messages": _plain(_said(around))}
    if letter.clipped:
        raise UnfitError("its body was longer than what is kept of it: say with an edit what is to be sent")
    text = next((v for n, v in letter.body.items() if n == "data"), None)
    if letter.kind == "session_mail":
        text = next(iter(letter.body.values()), "").partition(" ")[2]
    return _object(text)


def _mail_again(letter: DeadLetter, around: Surroundings) -> dict[str, Any] | None:
    """What of a task's mail is sent again: what users have said, or else the calls that were redriven."""
    messages = _messages_of(letter, around)
    if messages:
        return {"messages": _plain(messages)}
    if not around.goes_on:
        return {"messages": _plain(_said(around))}
    calls = [call for redrive in _read_mail(letter, REDRIVE, RedriveMail) for call in redrive.calls]
    return {"calls": [call.model_dump(mode="json") for call in calls]} if calls else None


def _asks_again(letter: DeadLetter, around: Surroundings) -> bool:
    """A call whose task is archived is made by a task that begins with what that one knew."""
    return letter.kind == "call" and not around.goes_on and around.archived


def _object(text: str | None) -> dict[str, Any]:
    try:
        found = read_json(text or "")
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise UnfitError("what was set aside is no JSON object: say with an edit what is to be sent")
    return found


def _plain(messages: Sequence[InboundMessage]) -> list[dict[str, Any]]:
    return [message.model_dump(mode="json", exclude_none=True) for message in messages]


def _said(around: Surroundings) -> tuple[InboundMessage, ...]:
    if around.said is None:
        raise UnfitError(_GONE)
    return (around.said,)


def _messages_of(letter: DeadLetter, around: Surroundings) -> tuple[InboundMessage, ...]:
    """What users have said in a task's mail; it goes to that task again while there is one."""
    named = {"task_id": letter.task_id} if around.goes_on or around.archived else {}
    return tuple(mail.message.model_copy(update=named) for mail in _read_mail(letter, USER, UserMail))


def _read_mail(letter: DeadLetter, kind: MailKind, contract: type[C]) -> list[C]:
    """The task's mail of this kind."""
    try:
        texts = [text for name, text in letter.body.items() if name.endswith(f" {kind}")]
        return [contract.model_validate_json(text) for text in texts]
    except ValidationError:
        raise UnfitError("its mail cannot be read: say with an edit which messages are to be sent") from None


def plan_redrive(
    name: str, letter: DeadLetter, edit: Mapping[str, Any] | None, around: Surroundings, now: int
) -> Redrive:
    """What a redrive does. ``name``: the letter's id; ``edit``: what is to be sent instead. Raises ``UnfitError``."""
    body = proposal(letter, around) if edit is None else edit
    if body is None:
        return GoOn(*_task_of(letter))
    if letter.kind == "task_mail":
        return _mail_of(name, letter, body, around, now)
    if letter.kind == "call":
        if edit is None and _asks_again(letter, around):
            return _say(name, letter, body["messages"], now)
        return _call_again(letter, body, around)
    if letter.kind == "session_mail" or letter.stream == INBOUND.key():
        return _say(name, letter, [body], now)
    return _work(letter, body)


def _mail_of(name: str, letter: DeadLetter, body: Mapping[str, Any], around: Surroundings, now: int) -> Redrive:
    if "messages" in body:
        return _say(name, letter, body["messages"], now)
    calls = body.get("calls")
    if not isinstance(calls, list) or not calls or not all(isinstance(call, Mapping) for call in calls):
        raise UnfitError('the mail of a task is sent as {"messages": [...]}, or as {"calls": [...]} for tool calls')
    if not around.goes_on:
        raise UnfitError(_GONE)
    return _going_on(letter, tuple(_read(CallRequest, call) for call in calls))


def _task_of(letter: DeadLetter) -> tuple[str, str]:
    if letter.tenant_id is None or letter.task_id is None:
        raise UnfitError("it does not say whose task it was: discard it, or send a message to its session")
    return letter.tenant_id, letter.task_id


def _say(name: str, letter: DeadLetter, bodies: object, now: int) -> Say:
    if not isinstance(bodies, list) or not bodies or not all(isinstance(body, Mapping) for body in bodies):
        raise UnfitError("`messages` is a list of one message or more")
    new = letter.stream == INBOUND.key()
    known = {"tenant_id": letter.tenant_id, "session_id": letter.session_id}
    if new:
        known = {
            "tenant_id": letter.tenant_id or DEFAULT_TENANT,
            "session_id": letter.session_id or f"s-{letter.entry_id}",
        }
    messages = []
    for number, body in enumerate(bodies):
        named = {"message_id": f"redrive-{name}" if not number else f"redrive-{name}-{number}"}
        whole = _known(known) | named | _known(body)
        if not {"tenant_id", "session_id"} <= whole.keys():
            raise UnfitError("it does not say whose it was: say `tenant_id` and `session_id` with an edit")
        messages.append(_read(InboundMessage, whole))
    if len({(message.tenant_id, message.session_id) for message in messages}) > 1:
        raise UnfitError("all messages of one dead letter go to one session")
    if any(0 < message.due <= now for message in messages):
        raise UnfitError("its deadline has passed: give it another, or none, with an edit")
    first = messages[0]
    return Say(first.tenant_id, first.session_id or "", tuple(messages), new)


def _known(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _call_again(letter: DeadLetter, body: Mapping[str, Any], around: Surroundings) -> GoOn:
    tenant, task = _task_of(letter)
    named = {"tenant_id": tenant, "session_id": letter.session_id or "", "task_id": task}
    named |= {"tool_call_id": letter.tool_call_id or "", "event_id": letter.entry_id, "at": letter.at}
    command = _read(ToolCallCommand, {"step": 0, "effect": Effect.UNSAFE, "timeout": TIMEOUT_S, **named, **body})
    if (command.tenant_id, command.task_id) != (tenant, task):
        raise UnfitError("a tool call stays with its task: `tenant_id` and `task_id` cannot be edited")
    if not around.goes_on:
        archived = "its task is archived: without an edit, the message of its turn is sent again"
        raise UnfitError(archived if around.archived else _GONE)
    return _going_on(letter, (CallRequest(tool=command.tool, args=command.args),))


def _going_on(letter: DeadLetter, calls: tuple[CallRequest, ...]) -> GoOn:
    try:
        RedriveMail.model_validate_json(RedriveMail(letter="", at=0, calls=list(calls)).to_json())
    except (ValidationError, ValueError):
        raise UnfitError("its arguments cannot be sent: they are nested too deeply, or are no JSON") from None
    return GoOn(*_task_of(letter), calls)


def _work(letter: DeadLetter, body: Mapping[str, Any]) -> Append | Wake:
    stream = work_stream(letter.stream)
    if stream is None:
        raise UnfitError(f"it comes from a stream that this version does not know ({letter.stream}): discard it")
    if stream is MEMORY:
        raise UnfitError("it is a call of the memory, and who made it has gone on: discard it")
    command = _read(stream.carries[0], body)
    if not isinstance(command, WakeUp):
        return Append(letter.stream, command.to_json())
    shard = (split_key(letter.stream) or (0, ""))[0]
    try:
        if stream is SESSION_WAKE:
            return Wake(SessionKeys(shard, *actor_parts(command.actor)))
        task = TaskKeys(shard, *task_parts(command.actor))
    except ValueError as error:
        raise UnfitError(str(error)) from None
    return Wake(task) if stream is TASK_WAKE else Append(letter.stream, command.to_json())


def _read(contract: type[C], body: Mapping[str, Any]) -> C:
    try:
        return contract.model_validate(dict(body))
    except ValidationError as error:
        raise UnfitError(f"it does not fit: {'; '.join(complaints(error))}. Mend it with an edit") from None
