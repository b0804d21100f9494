"""A message of A2A as it is read: text, files, fields of ours, and decisions about tool calls. Pure."""

import hashlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from a2a.types.a2a_pb2 import Message, Part, Role, SendMessageRequest
from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Struct
from pydantic_core import to_json

from pentad.contracts.commands import MAX_CONTENT
from pentad.contracts.ids import EXTERNAL_ID_RULE, is_external_id, is_identifier
from pentad.services.gateway.domain.approval import AskedDecision, read_decision
from pentad.services.gateway.domain.frames import UnreadableError
from pentad.shared.immutable import immutable
from pentad.shared.workspace.file_paths import safe_name
from pentad.shared.workspace.media_types import ending_of, is_media_type

OUR_METADATA = "pentad"
"""Member of the metadata of a message, or of the request, that has fields of ours."""
OUR_FIELDS = frozenset({"instruction", "user_id", "metadata", "state", "deadline", "budget"})
"""Fields of a message that a client may set there."""
MAX_PARTS, _MAX_FILES = 64, 16
_MAX_URL_CHARS = 2_000
_MAX_WHOLE = 2.0**53
"""Largest number that protobuf's values keep exactly."""
_FOLDER = "a2a"
"""Folder of a session's files for what clients send."""


@immutable
class A2aFile:
    """A file that a message brings."""

    path: str
    """Place in the files of the session, which the same bytes of the same message have again: with other bytes it is
    another message."""
    data: bytes


@immutable
class CallDecision:
    """A decision about a tool call that waits for a person."""

    call: str | None
    """Id of the call; None: the only one that waits."""
    asked: AskedDecision


@immutable
class A2aMessage:
    """A message of A2A."""

    id: str
    context: str | None
    """Session that the client names; None: a new one."""
    task: str | None
    content: str
    files: tuple[A2aFile, ...]
    paths: tuple[str, ...]
    """Files of the message, those among them that it brings too."""
    decisions: tuple[CallDecision, ...]
    fields: Mapping[str, Any]
    """Fields of ours, by name."""

    def body(self, session: str) -> dict[str, Any]:
        """Return the body of the message for its session. Raises ``UnreadableError`` for one without text."""
        if not 1 <= len(self.content) <= MAX_CONTENT:
            raise UnreadableError(f"message: its parts must have 1 to {MAX_CONTENT} characters of text together")
        named: dict[str, Any] = {"content": self.content, "message_id": self.id, "session_id": session}
        named |= {"task_id": self.task} if self.task else {}
        return dict(self.fields) | named | ({"files": list(self.paths)} if self.paths else {})


def session_of_message(message_id: str) -> str:
    """Return the session of a message that names none: the same again for a message that is sent again."""
    return f"a2a-{hashlib.sha256(message_id.encode()).hexdigest()[:32]}"


def read_message_of(request: SendMessageRequest, address: str) -> A2aMessage:
    """Read the message of a request. ``address``: of this gateway. Raises ``UnreadableError``."""
    message = request.message
    context, task = message.context_id or None, message.task_id or None
    if message.role != Role.ROLE_USER:
        raise UnreadableError("message: its role must be ROLE_USER")
    if not is_external_id(message.message_id):
        raise UnreadableError(f"message.messageId must have {EXTERNAL_ID_RULE}")
    if context is not None and not is_external_id(context):
        raise UnreadableError(f"message.contextId must have {EXTERNAL_ID_RULE}")
    if not 1 <= len(message.parts) <= MAX_PARTS:
        raise UnreadableError(f"message: 1 to {MAX_PARTS} parts are expected")
    reading = _Parts(message, address)
    for number, part in enumerate(message.parts):
        reading.read(number, part)
    if len(reading.paths) > _MAX_FILES:
        raise UnreadableError(f"message: at most {_MAX_FILES} files can be sent with a message")
    if not reading.texts and reading.paths:
        reading.texts.append("See the attached files.")
    return A2aMessage(
        id=message.message_id,
        context=context,
        task=task,
        content="\n".join(reading.texts),
        files=tuple(reading.files),
        paths=tuple(reading.paths),
        decisions=tuple(reading.decisions),
        fields=_fields_of(request),
    )


class _Parts:
    """The parts of a message as far as they were read."""

    def __init__(self, message: Message, address: str) -> None:
        self._id, self._files_at = message.message_id, f"{address}/v1/sessions/"
        self._session = message.context_id
        self.texts: list[str] = []
        self.files: list[A2aFile] = []
        self.paths: list[str] = []
        self.decisions: list[CallDecision] = []

    def read(self, number: int, part: Part) -> None:
        match part.WhichOneof("content"):
            case "text":
                self.texts.append(part.text)
            case "raw":
                path = _path_of(self._id, number, part)
                self.files.append(A2aFile(path, part.raw))
                self.paths.append(path)
            case "url":
                self._read_url(part)
            case "data":
                self._read_data(plain_value(MessageToDict(part.data)))
            case _:
                raise UnreadableError(f"message.parts[{number}]: text, raw, url or data is expected")

    def _read_url(self, part: Part) -> None:
        """A file of the session is named by its path; the model is told of any other address, and nobody opens it."""
        if len(part.url) > _MAX_URL_CHARS or urlsplit_or_none(part.url) not in ("http", "https"):
            raise UnreadableError(
                f"message: the url of a file must be http or https, of at most {_MAX_URL_CHARS} characters; send its "
                "bytes as raw"
            )
        if part.url.startswith(self._files_at):
            session, _, path = part.url.removeprefix(self._files_at).partition("/files/")
            if unquote(session) == self._session and path:
                self.paths.append(unquote(path))
                return
        self.texts.append(" ".join(filter(None, ("File:", part.filename[:200], part.url))))

    def _read_data(self, data: Any) -> None:
        if not isinstance(data, dict) or "approved" not in data:
            self.texts.append(to_json(data).decode())
            return
        call = data.get("tool_call_id")
        if call is not None and not (isinstance(call, str) and is_identifier(call)):
            raise UnreadableError("message: tool_call_id of a decision must be the id of a call that waits")
        asked = read_decision({name: value for name, value in data.items() if name != "tool_call_id"})
        self.decisions.append(CallDecision(call, asked))


def plain_value(value: Any) -> Any:
    """Return a JSON value of protobuf as clients have meant it: whole numbers, and members always in the same order."""
    if isinstance(value, dict):
        return {name: plain_value(value[name]) for name in sorted(value)}
    if isinstance(value, list):
        return [plain_value(each) for each in value]
    if isinstance(value, float) and value.is_integer() and abs(value) <= _MAX_WHOLE:
        return int(value)
    return value


def urlsplit_or_none(url: str) -> str | None:
    """Return the scheme of an address; None for what is no address."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return parts.scheme if parts.netloc else None


def _path_of(message_id: str, number: int, part: Part) -> str:
    folder = hashlib.sha256(message_id.encode() + b"\n" + part.raw).hexdigest()[:16]
    ending = ending_of(part.media_type) if is_media_type(part.media_type) else ""
    name = safe_name(part.filename[:200], f"file{ending}")
    return f"{_FOLDER}/{folder}/{number}-{name}"


def _fields_of(request: SendMessageRequest) -> Mapping[str, Any]:
    """Return the fields of ours in the metadata. Raises ``UnreadableError``."""
    for metadata in (request.message.metadata, request.metadata):
        if OUR_METADATA in metadata.fields:
            return _checked(metadata)
    return {}


def _checked(metadata: Struct) -> Mapping[str, Any]:
    given = plain_value(MessageToDict(metadata)[OUR_METADATA])
    if not isinstance(given, dict) or (unknown := sorted(set(given) - OUR_FIELDS)):
        named = "" if not isinstance(given, dict) else f"; {unknown[0][:100]} is not one of them"
        raise UnreadableError(f"metadata: {OUR_METADATA} is an object of {', '.join(sorted(OUR_FIELDS))}{named}")
    return given
