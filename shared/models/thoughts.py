"""Keeps what a model must be sent back with the tool calls of its answer: its reasoning and signatures, as its server
said them, and the ids that its server gave the calls.

A transcript keeps them at the end of the assistant's line, as `thinking`: the kind of model that they came from, the
ids (see `call_ids`), and the fields. That kind is sent the fields, every other kind the message without them. Pure:
bytes in, bytes out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import from_json, to_json

REASONING = "reasoning_content"
"""The field without which servers refuse a call of tools, once they think."""
BLOCKS = "blocks"
"""The field of the signed blocks in Anthropic's protocol."""
_MAX_KEPT_BYTES = 4 * 1024 * 1024
"""Bytes that the kept thoughts of one answer may have."""
_KEPT = b',"thinking":{"of":'
"""The bytes with which thoughts begin in a line. No text before them can hold these bytes: its quotes are escaped."""
_IDS = re.compile(rb'^("(?:[^"\\]|\\.)*+"),"ids":(\[[^\]]*+\])')
"""The bytes behind `_KEPT` in a line for which a server has given ids."""
_ID = re.compile(r"[!#-Z^-~]{1,16384}")
"""An id that is kept: one without spaces, quotes, backslashes and brackets. Some proxies write a signature into it."""
_CALLS = b',"tool_calls":['
_DEPTH_TEST = b'[[[{"":%s}]]]'
"""A test of depth: thoughts never stand much deeper than this in a request."""
_NO_REASONING = b',"reasoning_content":" "}'
"""The field that stands where there are no thoughts, or those of another model. It is not empty: a server may take that
for nothing."""


def kept(
    protocol: str, model: str, fields: Mapping[str, Any], calls: Sequence[Any] = (), ids: Sequence[str] = ()
) -> dict[str, Any] | None:
    """Return the thoughts of an answer as a transcript keeps them; None when there are none.

    `calls` has for each tool call its own fields, `ids` for each tool call the id that its server gave, '' for none.
    """
    given = _unmistakable(ids)
    begin = {"of": kind_of(protocol, model)} | ({"ids": given} if any(given) else {})
    thoughts = begin | {"fields": fields} | ({"calls": calls} if any(calls) else {})
    if (fields or any(calls)) and _sendable(thoughts):
        return thoughts
    return begin | {"fields": {}} if any(given) else None


def _unmistakable(ids: Sequence[str]) -> list[str]:
    """Return the ids, with '' for one that several calls have and for one that cannot be kept."""
    return [each if _ID.fullmatch(each) and ids.count(each) == 1 else "" for each in ids]


def _sendable(thoughts: Mapping[str, Any]) -> bool:
    """Whether these thoughts can be read again and be sent; a server may send nonsense."""
    try:
        packed = to_json(thoughts)
        if len(packed) > _MAX_KEPT_BYTES:
            return False
        from_json(_DEPTH_TEST % packed, allow_inf_nan=False)
    except ValueError:
        return False
    return True


def signed_blocks(message: Mapping[str, Any], model: str) -> list[Any]:
    """Return the blocks of thoughts that `model` is sent back in Anthropic's protocol with a message."""
    thinking = message.get("thinking")
    if not isinstance(thinking, dict) or thinking.get("of") != kind_of("anthropic", model):
        return []
    blocks: list[Any] = thinking["fields"].get(BLOCKS, [])
    return blocks


def openai_messages(messages: Sequence[bytes], model: str, *, filled: bool) -> bytes:
    """Return the messages as `model` is sent them in OpenAI's protocol, with commas between.

    When `filled`, its server wants the field `reasoning_content` with each call of tools, also with calls that have no
    thoughts.
    """
    joined = b",".join(messages)
    if _KEPT not in joined and not filled:
        return joined
    kind = kind_of("openai", model)
    return b",".join([_sent(line, kind, filled) for line in messages])


def without_thoughts(messages: Sequence[bytes]) -> list[bytes]:
    """Return the messages of a transcript without the thoughts that it keeps. The ids that servers gave stay."""
    return [_ids_alone(line) if _KEPT in line else line for line in messages]


def without_kept(line: bytes) -> bytes:
    """Return a message of a transcript without anything that is kept for its server."""
    said, mark, _ = line.partition(_KEPT)
    return said + b"}" if mark else line


def given_ids(line: bytes, kind: str) -> Sequence[bytes]:
    """Return the ids that a server of this kind gave to the calls of an assistant's message, in their order; b'' for
    none.

    The list is empty where another kind has called, or the server gave none.
    """
    _, mark, after = line.partition(_KEPT)
    found = _IDS.match(after) if mark else None
    if found is None or from_json(found[1]) != kind:
        return ()
    return [each.encode() for each in from_json(found[2])]


def _ids_alone(line: bytes) -> bytes:
    said, mark, after = line.partition(_KEPT)
    found = _IDS.match(after)
    return said + (mark + found[0] + b',"fields":{}}}' if found else b"}")


def _sent(line: bytes, kind: str, filled: bool) -> bytes:
    said, mark, after = line.partition(_KEPT)
    if mark:
        line = said + b"}"
        thinking = from_json(b'{"of":' + after[:-1])
        if thinking["of"] == kind:
            line = _with(line, thinking["fields"], thinking.get("calls"))
            filled = filled and not thinking["fields"]
    return line[:-1] + _NO_REASONING if filled and _CALLS in line else line


def _with(line: bytes, fields: Mapping[str, Any], calls: Sequence[Any] | None) -> bytes:
    if calls:
        message = from_json(line)
        given = zip(message["tool_calls"], calls, strict=False)
        line = to_json(message | {"tool_calls": [call | (own or {}) for call, own in given]})
    return line[:-1] + b"," + to_json(fields)[1:] if fields else line


def kind_of(protocol: str, model: str) -> str:
    """Return the kind of model to which thoughts belong."""
    return f"{protocol}/{model}"


class Fragments:
    """A list of objects that comes in pieces: a piece that continues the object before it is joined to that object."""

    _TEXTS = ("text", "summary", "data", "thinking")
    _MAX_OBJECTS = 1_000
    """Number of objects, and of fields of one object, that are taken."""

    __slots__ = ("_whole",)

    def __init__(self) -> None:
        self._whole: list[tuple[dict[str, Any], dict[str, list[str]]]] = []

    def add(self, pieces: Any) -> None:
        """Take the entries of one delta; an entry that is not an object is ignored. Raises `ValueError` beyond 1,000
        objects."""
        for piece in pieces if isinstance(pieces, list) else ():
            if isinstance(piece, dict):
                self._add(piece)

    def objects(self) -> list[dict[str, Any]]:
        """Return the objects as a whole."""
        return [fields | {name: "".join(texts) for name, texts in said.items()} for fields, said in self._whole]

    def _add(self, piece: dict[str, Any]) -> None:
        texts = {name: piece[name] for name in self._TEXTS if isinstance(piece.get(name), str)}
        fields = {name: value for name, value in piece.items() if name not in texts and value is not None}
        if not self._continues(piece):
            self._whole.append(({}, {}))
        known, said = self._whole[-1]
        known.update(fields)
        if len(self._whole) > self._MAX_OBJECTS or len(known) > self._MAX_OBJECTS:
            raise ValueError(f"it has more than {self._MAX_OBJECTS} thoughts")
        for name, text in texts.items():
            said.setdefault(name, []).append(text)

    def _continues(self, piece: dict[str, Any]) -> bool:
        """Whether a piece continues the last object: a signature ends one, another type or number begins one."""
        if not self._whole:
            return False
        last = self._whole[-1][0]
        return not last.get("signature") and all(last.get(name) == piece.get(name) for name in ("type", "index"))
