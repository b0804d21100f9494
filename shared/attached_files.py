"""Files of a session that messages of a conversation name, as models are told of them. Pure.

A transcript has paths alone: the field ``files`` of a message in chat form, which no server is sent. In its place a
user's message says in a line which files are attached, and a model that sees images is sent those among them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import from_json, to_json

FIELD = "files"
"""Name of the field of a message in chat form with the paths of its files."""
_MARK = b'"%s":[' % FIELD.encode()
"""Bytes that stand in a message with files, and in no text: JSON escapes quotes."""
_RESULTS = "[Images that the tools above have made: {}]"


def files_in(message: bytes) -> list[str]:
    """Return the paths of the files that a message in chat form names, in its order."""
    return _paths(from_json(message)) if _MARK in message else []


def _paths(message: Mapping[str, Any]) -> list[str]:
    named = message.get(FIELD)
    return [path for path in named if isinstance(path, str)] if isinstance(named, list) else []


def with_files(messages: Sequence[bytes], images: Mapping[str, str]) -> Sequence[bytes]:
    """Return messages in chat form as a model is sent them. ``images``: the address of each image by its path.

    Images of tools' results follow the results in a message of their own: servers take no image in a result.
    """
    if not any(_MARK in message for message in messages):
        return messages
    made: list[bytes] = []
    results: list[str] = []
    for line in messages:
        if results and not line.startswith(b'{"role":"tool"'):
            made.append(_of_results(results, images))
            results = []
        message: dict[str, Any] = from_json(line) if _MARK in line else {}
        if FIELD not in message:
            made.append(line)
            continue
        paths = _paths(message)
        del message[FIELD]
        seen = [path for path in paths if path in images]
        if message.get("role") == "tool":
            results += seen
        else:
            said = str(message.get("content") or "")
            text = f"{said}\n\n[Attached files: {', '.join(paths)}]" if paths else said
            message["content"] = [_text(text), *_parts(seen, images)] if seen else text
        made.append(to_json(message))
    if results:
        made.append(_of_results(results, images))
    return made


def _of_results(paths: Sequence[str], images: Mapping[str, str]) -> bytes:
    told = _text(_RESULTS.format(", ".join(paths)))
    return to_json({"role": "user", "content": [told, *_parts(paths, images)]})


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _parts(paths: Sequence[str], images: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"type": "image_url", "image_url": {"url": images[path]}} for path in paths]
