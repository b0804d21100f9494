"""The request for a completion of a chat, as OpenAI's clients send it. Pure."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pentad.contracts.client_tools import ClientTool
from pentad.contracts.commands import (
    MAX_CONTENT,
    MAX_FILES,
    MAX_HISTORY,
    MAX_HISTORY_CHARS,
    EarlierMessage,
)
from pentad.contracts.ids import EXTERNAL_ID_RULE, is_external_id, is_identifier
from pentad.services.gateway.domain.frames import UnreadableError
from pentad.services.gateway.protocols.openai.client_tools import (
    CallResult,
    check_answered,
    read_call_result,
    read_client_tools,
)
from pentad.services.gateway.protocols.openai.sent_files import (
    MAX_PARTS,
    ONLY_FILES,
    EarlierFile,
    SentFile,
    earlier_files,
    read_part,
    text_with,
)
from pentad.shared.actors.client_tools import digest_of_client_tools
from pentad.shared.immutable import immutable

AGENT, UTILITY = "pentad", "pentad-utility"
"""Names of the models: the agent, also with an instruction behind a slash, and the plain chat model."""
REQUEST_LIMIT = 24 << 20
"""Bytes of a request, with its images and files; without them it may have as many as any body."""
_BASE64 = b";base64,"
_MAX_URLS, _MAX_URL_HEAD = 10_000, 100
"""Data URLs of a body that are looked at, and bytes of one before its data."""
_MAX_MESSAGES = 4_000
_MAX_METADATA = 16
_NOTE_CHARS = 64
"""Characters that a note of files may add to a text."""
_SYSTEM = "Instructions of the application in which the user writes:\n"
Role = Literal["user", "assistant"]


@immutable
class EarlierText:
    """A message of the conversation before the last one."""

    role: Role
    text: str
    files: tuple[EarlierFile, ...] = ()


@immutable
class ChatAsked:
    """A client's request to go on with a conversation."""

    instruction: str
    """Instruction or graph of the model's name; '': none is named."""
    system: str
    past: tuple[EarlierText, ...]
    text: str
    """Text of the last message; '' where the conversation ends with results of tools."""
    files: tuple[SentFile, ...]
    stream: bool = False
    wants_usage: bool = False
    """Whether a stream tells the usage before its end."""
    schema: Mapping[str, Any] | None = None
    """JSON schema of the answer."""
    user: str | None = None
    session: str | None = None
    """Session that `metadata.session_id` names."""
    metadata: Mapping[str, str] | None = None
    tools: tuple[ClientTool, ...] = ()
    """Tools that the client runs itself."""
    results: tuple[CallResult, ...] = ()
    """Results of calls of such tools that the conversation ends with, before the message if there is one."""

    @property
    def brought(self) -> tuple[EarlierText, ...]:
        """The conversation so far for a session that does not have it: the newest of it, as far as it may be long."""
        room = MAX_HISTORY_CHARS - len(self._opening)
        kept = list[EarlierText]()
        for said in reversed(self.past):
            room -= len(said.text) + (_NOTE_CHARS if said.files else 0)
            if room < 0 or len(kept) == MAX_HISTORY - 1:
                break
            kept.append(said)
        return tuple(reversed(kept))

    @property
    def _opening(self) -> str:
        """Text with which the conversation begins in a session that does not have it."""
        return (_SYSTEM + self.system)[:MAX_HISTORY_CHARS] if self.system else ""

    def history(self, kept: Sequence[Mapping[int, str]] = ()) -> tuple[EarlierMessage, ...]:
        """Return what was brought, as a message brings it along.

        ``kept``: for each message, the paths of those of its files, by place, that are files of the session.
        """
        made = [EarlierMessage(role="user", content=self._opening)] if self._opening else []
        for number, said in enumerate(self.brought):
            paths = kept[number] if number < len(kept) else {}
            lost = [file for place, file in enumerate(said.files) if place not in paths]
            files = tuple(dict.fromkeys(paths.values())) or None
            made.append(EarlierMessage(role=said.role, content=text_with(said.text, lost), files=files))
        return tuple(made)

    @property
    def spoken(self) -> str:
        """Text of the last message as the client has it; '' for one of files alone."""
        return "" if self.files and self.text == ONLY_FILES else self.text

    @property
    def digest(self) -> str:
        """Digest of what is asked for beside the conversation so far."""
        named = [self.instruction, self.text, [file.path for file in self.files], self.schema]
        results = [[each.call, each.sent.digest] for each in self.results]
        return digest_of([*named, digest_of_client_tools(self.tools), results])


def digest_of(value: Any) -> str:
    """Return a digest of JSON."""
    from pydantic_core import to_json

    return hashlib.sha256(to_json(value)).hexdigest()


def instruction_of(model: Any) -> str:
    """Return the instruction that a model's name names; '' for none. Raises ``UnreadableError``."""
    if model == AGENT:
        return ""
    name = model.removeprefix(f"{AGENT}/") if isinstance(model, str) else ""
    if not isinstance(model, str) or name == model or not is_identifier(name):
        raise UnreadableError(f"model: {str(model)[:100]!r} is none; see GET /openai/v1/models")
    return name


def without_data(raw: bytes) -> tuple[bytes, list[bytes]]:
    """Return a body without the base64 of its long data: URLs, and that, to which the URLs refer by number.

    To read many megabytes as JSON would hold the event loop for a second.
    """
    kept, taken, at = list[bytes](), list[bytes](), 0
    for _ in range(_MAX_URLS):
        found = raw.find(_BASE64, at)
        if found < 0:
            break
        begin = found + len(_BASE64)
        is_url = raw[max(at, found - _MAX_URL_HEAD) : found].rpartition(b'"')[2].startswith(b"data:")
        end = raw.find(b'"', begin) if is_url else begin
        if end - begin > MAX_CONTENT:  # a shorter one may be a text of the user
            kept += [raw[at:begin], b"#%d" % len(taken)]
            taken.append(raw[begin:end].replace(b"\\/", b"/"))
            at = end
        else:
            kept.append(raw[at:begin])
            at = begin
    return b"".join([*kept, raw[at:]]), taken


def read_chat(body: Mapping[str, Any], data: Sequence[bytes] = ()) -> ChatAsked:
    """Read the request for a completion of a chat. Raises ``UnreadableError``.

    ``data``: the base64 that `without_data` has taken out of the body.
    """
    _check_unsupported(body)
    messages = body.get("messages")
    if not isinstance(messages, list) or not 1 <= len(messages) <= _MAX_MESSAGES:
        raise UnreadableError(f"messages: a list of 1 to {_MAX_MESSAGES:,} messages is expected")
    last = messages[-1]
    speaks = not isinstance(last, dict) or last.get("role") != "tool"
    system, past, results = _earlier(messages[:-1] if speaks else messages, data)
    text, files = "", tuple[SentFile, ...]()
    if speaks:
        if not isinstance(last, dict) or last.get("role") != "user":
            raise UnreadableError("messages: the last one must have the role user, or tool with a result")
        text, files = read_parts(last.get("content"), f"messages.{len(messages) - 1}.content", data)
    metadata, session = metadata_of(body.get("metadata"))
    return ChatAsked(
        instruction_of(body.get("model")),
        "\n\n".join(system),
        tuple(past),
        text,
        files,
        flag_of(body, "stream"),
        _wants_usage(body.get("stream_options")),
        schema_of(body.get("response_format")),
        user_of(body.get("user")),
        session,
        metadata,
        read_client_tools(body, nested=True),
        results,
    )


def _earlier(
    messages: Sequence[Any], data: Sequence[bytes]
) -> tuple[list[str], list[EarlierText], tuple[CallResult, ...]]:
    """Return the system messages, what was said, and the results of tools behind the last answer."""
    system, past, results, calls = list[str](), list[EarlierText](), list[CallResult](), list[Any]()
    for number, message in enumerate(messages):
        where = f"messages.{number}"
        role, text = read_said(message, where)
        if role in ("user", "assistant"):
            results, calls = [], _call_ids(message.get("tool_calls"))
            past += earlier_text(message, role, text, data)
        elif role == "tool":
            results.append(read_call_result(message.get("tool_call_id"), text, f"{where}.tool_call_id"))
        elif role == "system" and text:
            system.append(text)
    if results:
        check_answered(calls, results)
    return system, past, tuple(results)


def earlier_text(message: Mapping[str, Any], role: str, text: str, data: Sequence[bytes]) -> list[EarlierText]:
    """Return an earlier message of a user or the assistant; an empty list for one that has said nothing."""
    files = earlier_files(message.get("content"), data) if role == "user" else ()
    return [EarlierText("user" if role == "user" else "assistant", text, files)] if text or files else []


def _call_ids(calls: Any) -> list[Any]:
    return [each.get("id") for each in calls if isinstance(each, dict)] if isinstance(calls, list) else []


def _check_unsupported(body: Mapping[str, Any]) -> None:
    """Refuse what a client would rely on and that is not done here."""
    if body.get("n") not in (None, 1):
        raise UnreadableError("n: there is one answer to a message")
    if body.get("audio") is not None or "audio" in (body.get("modalities") or ()):
        raise UnreadableError("modalities: answers are texts")


def read_said(message: Any, where: str) -> tuple[str, str]:
    """Return the role and text of an earlier message; files in it are left out. Raises ``UnreadableError``."""
    role = message.get("role") if isinstance(message, dict) else None
    if not isinstance(role, str):
        raise UnreadableError(f"{where}.role: a text is expected")
    content = message.get("content")
    if isinstance(content, list):
        texts = [part.get("text") for part in content[:MAX_PARTS] if isinstance(part, dict)]
        content = "\n".join(text for text in texts if isinstance(text, str))
    if content is not None and not isinstance(content, str):
        raise UnreadableError(f"{where}.content: a text, or a list of parts is expected")
    return "system" if role == "developer" else role, content or ""


def read_parts(content: Any, where: str, data: Sequence[bytes] = ()) -> tuple[str, tuple[SentFile, ...]]:
    """Return the text and the files of the last message. Raises ``UnreadableError``."""
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not isinstance(parts, list) or len(parts) > MAX_PARTS:
        raise UnreadableError(f"{where}: a text, or a list of at most {MAX_PARTS} parts is expected")
    texts, files = list[str](), dict[str, SentFile]()
    for number, part in enumerate(parts):
        found = read_part(part, f"{where}.{number}", data)
        if isinstance(found, SentFile):
            files[found.path] = found
        else:
            texts.append(found)
    if len(files) > MAX_FILES:
        raise UnreadableError(f"{where}: a message has at most {MAX_FILES} files")
    text = "\n".join(texts) or (ONLY_FILES if files else "")
    if not 1 <= len(text) <= MAX_CONTENT:
        raise UnreadableError(f"{where}: the last message must have 1 to {MAX_CONTENT:,} characters of text")
    _check_surrogates(text, where)
    return text, tuple(files.values())


def _check_surrogates(text: str, where: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UnreadableError(f"{where}: the text has half of a surrogate pair, which cannot be sent") from None


def flag_of(body: Mapping[str, Any], name: str) -> bool:
    """Return a field that is true or false; false where it is missing. Raises ``UnreadableError``."""
    value = body.get(name)
    if value not in (None, True, False):
        raise UnreadableError(f"{name}: true or false is expected")
    return bool(value)


def _wants_usage(options: Any) -> bool:
    return isinstance(options, dict) and options.get("include_usage") is True


def schema_of(form: Any) -> Mapping[str, Any] | None:
    """Return the JSON schema that a response format asks for; None for a text. Raises ``UnreadableError``."""
    kind = form.get("type") if isinstance(form, dict) else None
    if form is None or kind == "text":
        return None
    if kind == "json_object":
        return {"type": "object"}
    named = form.get("json_schema") if isinstance(form, dict) else None
    schema = (named if isinstance(named, dict) else form or {}).get("schema") if kind == "json_schema" else None
    if not isinstance(schema, dict):
        raise UnreadableError("response_format: one of the type text, json_object or json_schema is expected")
    return schema


def user_of(given: Any) -> str | None:
    """Return the user who has written a message. Raises ``UnreadableError``."""
    if given is None or given == "":
        return None
    if not isinstance(given, str) or not is_external_id(given):
        raise UnreadableError(f"user: {EXTERNAL_ID_RULE} are expected")
    return given


def metadata_of(given: Any) -> tuple[Mapping[str, str] | None, str | None]:
    """Return the metadata of the message, and the session that it names. Raises ``UnreadableError``."""
    if given is None:
        return None, None
    if not isinstance(given, dict) or len(given) > _MAX_METADATA or not _are_texts(given.values()):
        raise UnreadableError(f"metadata: an object of at most {_MAX_METADATA} texts is expected")
    session = given.get("session_id")
    if session is not None and not is_external_id(session):
        raise UnreadableError(f"metadata.session_id: {EXTERNAL_ID_RULE} are expected")
    return {name: value for name, value in given.items() if name != "session_id"} or None, session


def _are_texts(values: Any) -> bool:
    return all(isinstance(value, str) and len(value) <= 512 for value in values)


def texts_of(past: Sequence[EarlierText]) -> list[list[str]]:
    """Return a conversation by which it is found again: system prompts are left out, because many have the date."""
    made = list[list[str]]()
    for said in past:
        if not said.text:  # files alone are not told apart
            continue
        text = " ".join(said.text.split())
        if made and made[-1][0] == said.role == "assistant":  # an answer may come in several messages
            made[-1][1] += f" {text}"
        else:
            made.append([said.role, text])
    return made
