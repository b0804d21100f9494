"""Push notifications: what clients ask for as it is read, and events of a task as they are sent to them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from a2a.types.a2a_pb2 import AuthenticationInfo, TaskPushNotificationConfig, TaskStatusUpdateEvent
from a2a.utils.proto_utils import to_stream_response
from google.protobuf.json_format import MessageToDict
from pydantic_core import to_json

from pentad.contracts.events import ErrorEvent, MessageEvent, SessionEvent, ToolResultEvent
from pentad.contracts.ids import EXTERNAL_ID_RULE, is_external_id
from pentad.contracts.receivers import MAX_URL_CHARS, check_webhook_url
from pentad.contracts.turns import TurnTracker
from pentad.contracts.webhooks import Webhook
from pentad.services.gateway.domain.frames import UnreadableError
from pentad.services.gateway.domain.waited_turn import known_event
from pentad.services.gateway.domain.webhooks import AskedPush
from pentad.services.gateway.protocols.a2a.task_reader import TaskReader
from pentad.services.gateway.protocols.a2a.translation import A2aRun
from pentad.services.gateway.tasks.queries import Queries

TOKEN_HEADER, CREDENTIALS_HEADER = "X-A2A-Notification-Token", "Authorization"
_TOKEN = re.compile("[!-~]{1,2048}")
_SCHEME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
_CREDENTIALS = re.compile("[!-~]([ -~]{0,4094}[!-~])?")


def read_push(config: TaskPushNotificationConfig, address: str) -> AskedPush:
    """Read where a client wants the updates of a task. ``address``: of this gateway.

    Raises ``UnreadableError``, which repeats no value.
    """
    if config.id and not is_external_id(config.id):
        raise UnreadableError(f"id of the push notification config must have {EXTERNAL_ID_RULE}")
    try:
        url = check_webhook_url(config.url)
    except ValueError as error:
        raise UnreadableError(f"url of the push notification config {error}") from None
    if len(url) > MAX_URL_CHARS:
        raise UnreadableError(f"url of the push notification config: at most {MAX_URL_CHARS:,} characters are expected")
    scheme = config.authentication.scheme or None
    return AskedPush(config.id, url, scheme, _headers_of(config), address)


def _headers_of(config: TaskPushNotificationConfig) -> dict[str, str]:
    headers: dict[str, str] = {}
    if config.token:
        if _TOKEN.fullmatch(config.token) is None:
            raise UnreadableError("token of the push notification config: 1 to 2,048 printable ASCII characters")
        headers[TOKEN_HEADER] = config.token
    scheme, credentials = config.authentication.scheme, config.authentication.credentials
    if scheme and _SCHEME.fullmatch(scheme) is None:
        raise UnreadableError("authentication.scheme must be the name of a scheme of HTTP, such as Bearer")
    if credentials:
        if not scheme or _CREDENTIALS.fullmatch(credentials) is None:
            raise UnreadableError(
                "authentication.credentials: 1 to 4,096 printable ASCII characters are expected, and a scheme for them"
            )
        headers[CREDENTIALS_HEADER] = f"{scheme} {credentials}"
    return headers


def shown_push(webhook: Webhook) -> TaskPushNotificationConfig:
    """Return a config as clients see it: without its token and its credentials."""
    push = webhook.push
    assert push is not None
    shown = TaskPushNotificationConfig(id=push.config_id, task_id=push.task_id, url=webhook.url)
    if push.scheme is not None:
        shown.authentication.CopyFrom(AuthenticationInfo(scheme=push.scheme))
    return shown


class PushedUpdates:
    """Tells an event of a task as the updates that a stream would have for it. Raises ``OutageError``."""

    def __init__(self, queries: Queries, reader: TaskReader) -> None:
        self._queries, self._reader = queries, reader

    async def bodies(self, webhook: Webhook, event: Mapping[str, Any]) -> Sequence[bytes]:
        """Return the bodies that an event is sent as, in order; none for what is no update."""
        known, push = known_event(event), webhook.push
        if known is None or push is None:
            return []
        if isinstance(known, ErrorEvent):  # events are missing: the task as it is now makes up for them
            found = await self._queries.task(webhook.tenant_id, push.task_id)
            if found is None:
                return []
            return [_body(await self._reader.read(webhook.tenant_id, found, push.address, 0))]
        run = A2aRun(webhook.session_id or "", TurnTracker("", task_id=push.task_id), push.address, task=push.task_id)
        updates = run.after(await self._whole(webhook.tenant_id, push.task_id, known))
        if isinstance(known, ToolResultEvent):
            updates = [each for each in updates if not isinstance(each, TaskStatusUpdateEvent)]
        if run.end is not None:
            updates.append(await self._ended(webhook.tenant_id, run, known.at))
        return [_body(each) for each in updates]

    async def _whole(self, tenant: str, task: str, event: SessionEvent) -> SessionEvent:
        """Return an event with the whole text of its step."""
        if not isinstance(event, MessageEvent) or event.ref is None:
            return event
        whole = await self._queries.value(tenant, task, event.ref)
        return event if whole is None else event.model_copy(update={"content": whole})

    async def _ended(self, tenant: str, run: A2aRun, at: str) -> TaskStatusUpdateEvent:
        """Return the update for the end of a turn. While the task still waits, it says what for."""
        update = run.ended([], at)
        found = await self._queries.task(tenant, run.task or "") if run.end and run.end.outcome == "waiting" else None
        if found is not None and found.status == "waiting":
            timestamp = update.status.timestamp
            update.status.CopyFrom(await self._reader.status(tenant, found))
            update.status.timestamp.CopyFrom(timestamp)
        return update


def _body(update: Any) -> bytes:
    return to_json(MessageToDict(to_stream_response(update)))
