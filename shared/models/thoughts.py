"""What a model must be sent back with the tool calls of its answer: its reasoning and signatures, as its server said
them, and the ids that its server gave the calls.

A transcript keeps them at the end of the assistant's line, as `thinking`: the kind of model that they came from, the
ids (see `call_ids`), and the fields. That kind is sent the fields, every other the message without them. Pure: bytes
in, bytes out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import from_json, to_json

REASONING = "reasoning_content"
"""The field that servers refuse a call of tools without, once they think."""
BLOCKS = "blocks"
"""The field of the signed blocks of Anthropic's protocol."""
_MOST_KEPT = 4 * 1024 * 1024
"""Bytes of them."""
_KEPT = b',"thinking":{"of":'
"""Where thoughts begin in a line. No text before them can hold these bytes: there the quotes are escaped."""
_IDS = re.compile(rb'^("(?:[^"\\]|\\.)*+"),"ids":(\[[^\]]*+\])')
"""What follows `_KEPT`, where a server has given ids."""
_ID = re.compile(r"[!#-Z^-~]{1,16384}")
"""An id that is kept: without spaces, quotes, backslashes and brackets. Some proxies write a signature into it."""
_CALLS = b',"tool_calls":['
_DEEPER = b'[[[{"":%s}]]]'
"""About as deep as thoughts ever stand in what is sent."""
_UNKNOWN = b',"reasoning_content":" "}'
"""Stands where there are no thoughts, or another model's. Not empty: a server may take that for nothing."""


def kept(
    protocol: str, model: str, fields: Mapping[str, Any], calls: Sequence[Any] = (), ids: Sequence[str] = ()
) -> dict[str, Any] | None:
    """What a transcript keeps of an answer's thoughts; None: nothing. `calls`: for each tool call its own fields.

    `ids`: for each tool call the id that its server gave, '' for none.
    """
    given = _unmistakable(ids)
    begin = {"of": kind_of(protocol, model)} | ({"ids": given} if any(given) else {})
    thoughts = begin | {"fields": fields} | ({"calls": calls} if any(calls) else {})
    if (fields or any(calls)) and _sendable(thoughts):
        return thoughts
    return begin | {"fields": {}} if any(given) else None


def _unmistakable(ids: Sequence[str]) -> list[str]:
    """The ids; '' for one that several calls have, and for one that cannot be kept."""
    return [each if _ID.fullmatch(each) and ids.count(each) == 1 else "" for each in ids]


def _sendable(thoughts: Mapping[str, Any]) -> bool:
    """Whether this can be read again and be sent; a server may say nonsense."""
    try:
        packed = to_json(thoughts)
        if len(packed) > _MOST_KEPT:
            return False
        from_json(_DEEPER % packed, allow_inf_nan=False)
    except ValueError:
        return False
    return True


def signed_blocks(message: Mapping[str, Any], model: str) -> list[Any]:
    """The blocks of thoughts that `model` is sent back, in Anthropic's protocol, with a message of the transcript."""
    thinking = message.get("thinking")
    if not isinstance(thinking, dict) or thinking.get("of") != kind_of("anthropic", model):
        return []
    blocks: list[Any] = thinking["fields"].get(BLOCKS, [])
    return blocks


def openai_messages(messages: Sequence[bytes], model: str, *, filled: bool) -> bytes:
    """The messages as `model` is sent them in OpenAI's protocol, with commas between.

    `filled`: its server wants the field `reasoning_content` with each call of tools, also of those without thoughts.
    """
    joined = b",".join(messages)
    if _KEPT not in joined and not filled:
        return joined
    kind = kind_of("openai", model)
    return b",".join([_sent(line, kind, filled) for line in messages])


def without_thoughts(messages: Sequence[bytes]) -> list[bytes]:
    """The messages of a transcript without the thoughts that it keeps. The ids that servers gave to calls stay."""
    return [_ids_alone(line) if _KEPT in line else line for line in messages]


def without_kept(line: bytes) -> bytes:
    """A message of a transcript without all that is kept for its server."""
    said, mark, _ = line.partition(_KEPT)
    return said + b"}" if mark else line


def given_ids(line: bytes, kind: str) -> Sequence[bytes]:
    """The ids that a server of this kind gave to the calls of an assistant's message, in their order; b'' for none.

    Nothing where another kind has called, or the server gave none.
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
    return line[:-1] + _UNKNOWN if filled and _CALLS in line else line


def _with(line: bytes, fields: Mapping[str, Any], calls: Sequence[Any] | None) -> bytes:
    if calls:
        message = from_json(line)
        given = zip(message["tool_calls"], calls, strict=False)
        line = to_json(message | {"tool_calls": [call | (own or {}) for call, own in given]})
    return line[:-1] + b"," + to_json(fields)[1:] if fields else line


def kind_of(protocol: str, model: str) -> str:
    """The kind of model that thoughts are of."""
    return f"{protocol}/{model}"


class Fragments:
    """A list of objects that comes in pieces: what continues the object before it is joined to that."""

    _TEXTS = ("text", "summary", "data", "thinking")
    _MOST = 1_000
    """Objects, and fields of one."""

    __slots__ = ("_whole",)

    def __init__(self) -> None:
        self._whole: list[tuple[dict[str, Any], dict[str, list[str]]]] = []

    def add(self, pieces: Any) -> None:
        """Take the entries of one delta; what is not an object is ignored. Raises `ValueError` beyond 1,000 objects."""
        for piece in pieces if isinstance(pieces, list) else ():
            if isinstance(piece, dict):
                self._add(piece)

    def objects(self) -> list[dict[str, Any]]:
        """The objects, whole."""
        return [fields | {name: "".join(texts) for name, texts in said.items()} for fields, said in self._whole]

    def _add(self, piece: dict[str, Any]) -> None:
        texts = {name: piece[name] for name in self._TEXTS if isinstance(piece.get(name), str)}
        fields = {name: value for name, value in piece.items() if name not in texts and value is not None}
        if not self._goes_on(piece):
            self._whole.append(({}, {}))
        known, said = self._whole[-1]
        known.update(fields)
        if len(self._whole) > self._MOST or len(known) > self._MOST:
            raise ValueError(f"it has more than {self._MOST} thoughts")
        for name, text in texts.items():
            said.setdefault(name, []).append(text)

    def _goes_on(self, piece: dict[str, Any]) -> bool:
        """A signature ends an object; another type or number begins one."""
        if not self._whole:
            return False
        last = self._whole[-1][0]
        return not last.get("signature") and all(last.get(name) == piece.get(name) for name in ("type", "index"))
