"""Planning of redrives: what a redrive of a dead letter sends, and where. Pure.

A redrive sends a JSON object, so that a person can look at it, edit it and send it back: a message,
``{"messages": [...]}`` for the mail of a task, a tool call, or the command of another work stream.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError

from pentad.contracts.commands import InboundMessage, ToolCallCommand, WakeUp
from pentad.contracts.dead_letters import DeadLetter
from pentad.contracts.envelope import Contract
from pentad.contracts.hooks import HookCommand
from pentad.contracts.ids import DEFAULT_TENANT, is_external_id, is_identifier
from pentad.contracts.plain_json import read_json
from pentad.contracts.streams import (
    HOOKS,
    INBOUND,
    MEMORY,
    MODEL_CALLS,
    SESSION_WAKE,
    TASK_WAKE,
    split_key,
    work_stream,
)
from pentad.contracts.tools import TIMEOUT_S, Effect
from pentad.contracts.webhooks import WebhookDelivery
from pentad.services.gateway.domain.frames import complaints
from pentad.shared.actors.mail import CallRequest, RedriveMail, UserMail
from pentad.shared.errors import PentadError
from pentad.shared.immutable import immutable
from pentad.shared.keys import SessionKeys, TaskKeys, actor_parts, task_parts, waiting_webhooks
from pentad.shared.kinds import REDRIVE, USER, MailKind

C = TypeVar("C", bound=Contract)


class UnfitError(PentadError):
    """The dead letter cannot be redriven as requested; the text says what to do instead."""


@immutable
class LetterContext:
    """The present state of a dead letter's task."""

    status: str = ""
    """Status of the task in Redis; '' if it is not there."""
    archived: bool = False
    """Whether the task has a record."""
    message: InboundMessage | None = None
    """The user's message that led to the letter, as it is in the task's transcript."""

    @property
    def accepts_mail(self) -> bool:
        """Whether the task can get mail."""
        return self.status not in ("", "cancelled")


@immutable
class SendMessages:
    """A plan to send messages to their session again."""

    tenant: str
    session: str
    messages: tuple[InboundMessage, ...]
    new: bool = False
    """Whether the messages were never accepted under their ids."""


@immutable
class ContinueTask:
    """A plan to let a task continue where it stopped, or make tool calls again."""

    tenant: str
    task: str
    calls: tuple[CallRequest, ...] = ()


@immutable
class AppendEntry:
    """A plan to append an entry to its stream again."""

    stream: str
    data: bytes


@immutable
class WakeActor:
    """A plan to wake an actor."""

    actor: SessionKeys | TaskKeys


@immutable
class SendToWebhook:
    """A plan to send an event to its webhook again."""

    shard: int
    session: SessionKeys
    task: str | None
    delivery: WebhookDelivery


Redrive = SendMessages | ContinueTask | AppendEntry | WakeActor | SendToWebhook

_GONE = "its task is gone or was cancelled: nobody waits for it. Discard it, or send a message to its session"


def proposal(letter: DeadLetter, context: LetterContext) -> dict[str, Any] | None:
    """Return the body that a redrive sends if a person edits nothing; None if the task continues without new mail.

    Raises ``UnfitError`` if no body can be made of the letter, so that an edit must give all of it.
    """
    if letter.kind == "task_mail":
        return _mail_again(letter, context)
    if _asks_again(letter, context):
        return {"messages": _plain(_said(context))}
    if letter.clipped:
        raise UnfitError("its body was longer than what is kept of it: say with an edit what is to be sent")
    text = next((v for n, v in letter.body.items() if n == "data"), None)
    if letter.kind == "session_mail":
        text = next(iter(letter.body.values()), "").partition(" ")[2]
    return _object(text)


def _mail_again(letter: DeadLetter, context: LetterContext) -> dict[str, Any] | None:
    """Return the part of a task's mail that is sent again: messages of users, or else redriven tool calls."""
    messages = _messages_of(letter, context)
    if messages:
        return {"messages": _plain(messages)}
    if not context.accepts_mail:
        return {"messages": _plain(_said(context))}
    calls = [call for redrive in _read_mail(letter, REDRIVE, RedriveMail) for call in redrive.calls]
    return {"calls": [call.model_dump(mode="json") for call in calls]} if calls else None


def _asks_again(letter: DeadLetter, context: LetterContext) -> bool:
    """Return whether the user's message is sent again, because the task of the tool call is archived."""
    return letter.kind == "call" and not context.accepts_mail and context.archived


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


def _said(context: LetterContext) -> tuple[InboundMessage, ...]:
    if context.message is None:
        raise UnfitError(_GONE)
    return (context.message,)


def _messages_of(letter: DeadLetter, context: LetterContext) -> tuple[InboundMessage, ...]:
    """Return the users' messages in a task's mail, addressed to that task if it still exists."""
    named = {"task_id": letter.task_id} if context.accepts_mail or context.archived else {}
    return tuple(mail.message.model_copy(update=named) for mail in _read_mail(letter, USER, UserMail))


def _read_mail(letter: DeadLetter, kind: MailKind, contract: type[C]) -> list[C]:
    """Return the letter's pieces of mail of one kind."""
    try:
        texts = [text for name, text in letter.body.items() if name.endswith(f" {kind}")]
        return [contract.model_validate_json(text) for text in texts]
    except ValidationError:
        raise UnfitError("its mail cannot be read: say with an edit which messages are to be sent") from None


def plan_redrive(
    name: str, letter: DeadLetter, edit: Mapping[str, Any] | None, context: LetterContext, now: int
) -> Redrive:
    """Return the plan of a redrive. ``name``: the letter's id; ``edit``: the body to send. Raises ``UnfitError``."""
    body = proposal(letter, context) if edit is None else edit
    if body is None:
        return ContinueTask(*_task_of(letter))
    if letter.kind == "task_mail":
        return _mail_of(name, letter, body, context, now)
    if letter.kind == "call":
        if edit is None and _asks_again(letter, context):
            return _send_messages(name, letter, body["messages"], now)
        return _call_again(letter, body, context)
    if letter.kind == "session_mail" or letter.stream == INBOUND.key():
        return _send_messages(name, letter, [body], now)
    return _work(letter, body)


def _mail_of(name: str, letter: DeadLetter, body: Mapping[str, Any], context: LetterContext, now: int) -> Redrive:
    if "messages" in body:
        return _send_messages(name, letter, body["messages"], now)
    calls = body.get("calls")
    if not isinstance(calls, list) or not calls or not all(isinstance(call, Mapping) for call in calls):
        raise UnfitError('the mail of a task is sent as {"messages": [...]}, or as {"calls": [...]} for tool calls')
    if not context.accepts_mail:
        raise UnfitError(_GONE)
    return _continuation(letter, tuple(_read(CallRequest, call) for call in calls))


def _task_of(letter: DeadLetter) -> tuple[str, str]:
    if letter.tenant_id is None or letter.task_id is None:
        raise UnfitError("it does not say whose task it was: discard it, or send a message to its session")
    return letter.tenant_id, letter.task_id


def _send_messages(name: str, letter: DeadLetter, bodies: object, now: int) -> SendMessages:
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
    return SendMessages(first.tenant_id, first.session_id or "", tuple(messages), new)


def _known(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _call_again(letter: DeadLetter, body: Mapping[str, Any], context: LetterContext) -> ContinueTask:
    tenant, task = _task_of(letter)
    named = {"tenant_id": tenant, "session_id": letter.session_id or "", "task_id": task}
    named |= {"tool_call_id": letter.tool_call_id or "", "event_id": letter.entry_id, "at": letter.at}
    command = _read(ToolCallCommand, {"step": 0, "effect": Effect.UNSAFE, "timeout": TIMEOUT_S, **named, **body})
    if (command.tenant_id, command.task_id) != (tenant, task):
        raise UnfitError("a tool call stays with its task: `tenant_id` and `task_id` cannot be edited")
    if not context.accepts_mail:
        archived = "its task is archived: without an edit, the message of its turn is sent again"
        raise UnfitError(archived if context.archived else _GONE)
    return _continuation(letter, (CallRequest(tool=command.tool, args=command.args),))


def _continuation(letter: DeadLetter, calls: tuple[CallRequest, ...]) -> ContinueTask:
    try:
        RedriveMail.model_validate_json(RedriveMail(letter="", at=0, calls=list(calls)).to_json())
    except (ValidationError, ValueError):
        raise UnfitError("its arguments cannot be sent: they are nested too deeply, or are no JSON") from None
    return ContinueTask(*_task_of(letter), calls)


def _to_webhook(letter: DeadLetter, body: Mapping[str, Any], shard: int) -> SendToWebhook:
    delivery = _read(WebhookDelivery, body)
    event = delivery.event
    session, task = event.get("session_id"), event.get("task_id")
    if letter.tenant_id is None or not isinstance(session, str) or not is_external_id(session):
        raise UnfitError("`event` says with `session_id` whose it is: mend it with an edit")
    if task is not None and not (isinstance(task, str) and is_identifier(task)):
        raise UnfitError("`task_id` of `event` is no id: mend it with an edit")
    if not isinstance(event.get("type"), str):
        raise UnfitError("`event` has no `type`: mend it with an edit")
    return SendToWebhook(shard, SessionKeys(shard, letter.tenant_id, session), task, delivery)


def _work(letter: DeadLetter, body: Mapping[str, Any]) -> AppendEntry | WakeActor | SendToWebhook:
    place = split_key(letter.stream)
    if place is not None and letter.stream == waiting_webhooks(place[0]):
        return _to_webhook(letter, body, place[0])
    stream = work_stream(letter.stream)
    if stream is None:
        raise UnfitError(f"it comes from a stream that this version does not know ({letter.stream}): discard it")
    if stream is MEMORY:
        raise UnfitError("it is a call of the memory, and who made it has gone on: discard it")
    if stream is MODEL_CALLS:
        raise UnfitError("it is a model call outside a conversation, and who made it has gone on: discard it")
    command = _read(stream.carries[0], body)
    if stream is HOOKS and isinstance(command, HookCommand) and command.reply_to is not None:
        raise UnfitError("it is a hook of a step, and the step has gone on or failed: discard it")
    if not isinstance(command, WakeUp):
        return AppendEntry(letter.stream, command.to_json())
    shard = (split_key(letter.stream) or (0, ""))[0]
    try:
        if stream is SESSION_WAKE:
            return WakeActor(SessionKeys(shard, *actor_parts(command.actor)))
        task = TaskKeys(shard, *task_parts(command.actor))
    except ValueError as error:
        raise UnfitError(str(error)) from None
    return WakeActor(task) if stream is TASK_WAKE else AppendEntry(letter.stream, command.to_json())


def _read(contract: type[C], body: Mapping[str, Any]) -> C:
    try:
        return contract.model_validate(dict(body))
    except ValidationError as error:
        raise UnfitError(f"it does not fit: {'; '.join(complaints(error))}. Mend it with an edit") from None
