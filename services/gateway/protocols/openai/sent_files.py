"""Images and files in messages of OpenAI's clients: those of the last message, and of earlier ones. Pure."""

import binascii
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pentad.services.gateway.domain.frames import UnreadableError
from pentad.shared.immutable import immutable

MAX_PARTS = 64
"""Parts that a message may have."""
ONLY_FILES = "[files]"
"""Text of a message that has none beside its files."""
_MAX_NAME = 100
"""Characters of a file's name that are kept."""
_IMAGES: Mapping[str, str] = {"image/png": "png", "image/jpeg": "jpg", "image/webp": "webp", "image/gif": "gif"}
_KINDS: Mapping[str, str] = {"image_url": "image", "input_image": "image", "file": "file", "input_file": "file"}
"""Types of parts that are files, with the word for each."""


@immutable
class SentFile:
    """A file that a message brings along."""

    path: str
    """Path in the session's files: it has the digest of the bytes, so that the same file has the same place."""
    data: bytes


@immutable
class EarlierFile:
    """A file of an earlier message as its client sends it with each request. Most requests do not need it again, so it
    is read when one does."""

    part: Mapping[str, Any]
    data: Sequence[bytes]
    """The base64 that was taken out of the body before it was read."""

    @property
    def kind(self) -> str:
        """Word for the file: image or file."""
        return _KINDS[self.part["type"]]

    def read(self) -> SentFile | None:
        """Return the file; None for one that a last message could not bring along, or at an address elsewhere."""
        try:
            found = read_part(self.part, "", self.data)
        except UnreadableError:
            return None
        return found if isinstance(found, SentFile) else None


def earlier_files(content: Any, data: Sequence[bytes]) -> tuple[EarlierFile, ...]:
    """Return the files in the content of an earlier message."""
    parts = content[:MAX_PARTS] if isinstance(content, list) else []
    return tuple(EarlierFile(each, data) for each in parts if isinstance(each, dict) and _is_file(each.get("type")))


def _is_file(kind: Any) -> bool:
    return isinstance(kind, str) and kind in _KINDS


def text_with(text: str, lost: Iterable[EarlierFile]) -> str:
    """Return the text of an earlier message that says which of its files are not there."""
    counted = Counter(each.kind for each in lost)
    told = ", ".join(f"{number} {kind}{'s' * (number > 1)}" for kind, number in sorted(counted.items()))
    return "\n\n".join(filter(None, [text, f"[Sent here, but not kept: {told}]" if told else ""])) or ONLY_FILES


def read_part(part: Any, where: str, taken: Sequence[bytes]) -> str | SentFile:
    """Return the text or the file of a part of a message. Raises ``UnreadableError``.

    ``taken``: the base64 that was taken out of the body before it was read.
    """
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in ("text", "input_text") and isinstance(part.get("text"), str):
        return str(part["text"])
    if kind in ("image_url", "input_image"):
        given = part.get("image_url")
        url = given.get("url") if isinstance(given, dict) else given
        media_type, data = _data_url(url, where, taken)
        if media_type not in _IMAGES:
            raise UnreadableError(f"{where}: images are of {', '.join(_IMAGES)}")
        return SentFile(f"openai/{_place(data)}.{_IMAGES[media_type]}", data)
    if kind in ("file", "input_file"):
        given = part.get("file") if kind == "file" else part
        if not isinstance(given, dict) or given.get("file_data") is None:
            raise UnreadableError(f"{where}: a file is sent as `file_data`, a data: URL, with its `filename`")
        _, data = _data_url(given["file_data"], where, taken)
        return SentFile(f"openai/{_place(data)}/{_name(given.get('filename'))}", data)
    raise UnreadableError(f"{where}: parts are of the type text, image_url or file")


def _data_url(url: Any, where: str, taken: Sequence[bytes]) -> tuple[str, bytes]:
    """Return the media type and the bytes of a ``data:`` URL. Raises ``UnreadableError``."""
    head, comma, encoded = url.partition(",") if isinstance(url, str) else ("", "", "")
    if not head.startswith("data:") or not head.endswith(";base64") or not comma:
        raise UnreadableError(f"{where}: a data: URL in base64 is expected; other addresses are not fetched")
    number = encoded[1:5] if encoded.startswith("#") else ""
    given: str | bytes = taken[int(number)] if number.isdecimal() and int(number) < len(taken) else encoded
    try:
        data = binascii.a2b_base64(given, strict_mode=True)
    except ValueError:
        raise UnreadableError(f"{where}: its data: URL is no base64") from None
    return head.removeprefix("data:").removesuffix(";base64").partition(";")[0].lower(), data


def _place(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _name(given: Any) -> str:
    """Return a file's name without folders; `file` for one that is none."""
    name = given.replace("\\", "/").rpartition("/")[2][-_MAX_NAME:].strip() if isinstance(given, str) else ""
    return name if name.isprintable() and name not in ("", ".", "..") else "file"
