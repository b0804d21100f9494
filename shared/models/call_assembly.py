"""Puts tool calls together from the deltas of a stream, whatever the habits of its server. Pure."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import from_json

from pentad.shared.models.answer_text import whole_characters
from pentad.shared.models.loose_values import as_dict, as_text
from pentad.shared.models.ports import ModelRefused, ToolCallDraft

_MAX_CALLS = 1_001
"""Tool calls of one answer that are read: one more than may ever be made, whose result says that there were more."""
_MAX_ARGUMENT_CHARS = 4 * 1024 * 1024
"""Characters that the arguments of all calls of one answer may have."""
_MAX_CHECKS = 32
"""Number of times that a call's arguments are checked for being whole; each check reads all of them."""
_MAX_INDEX_DIGITS = 6
_SIGNATURE_FIELDS = ("extra_content", "provider_specific_fields")
"""Fields of a call that hold its signature: Gemini's, and that of LiteLLM's proxy."""
NAME_LENGTH = 256
"""Characters that the name of a model or a tool, or a finish reason, may have: they go into headers, events and
records."""


class ToolCallAssembly:
    """Tool calls from deltas that arrive in pieces, interleaved, and not always with an index, an id or one name."""

    __slots__ = (
        "_beyond",
        "_growing",
        "_last",
        "_mingled",
        "_named",
        "_of_id",
        "_of_index",
        "_size",
        "_slots",
        "signed",
        "too_many",
    )

    def __init__(self) -> None:
        self._slots: dict[int, _Slot] = {}
        """The calls, in the order in which they are made."""
        self._of_index: dict[int, _Slot] = {}
        """The latest call of each index: some servers give all calls the same index."""
        self._of_id: dict[str, _Slot] = {}
        self._last: _Slot | None = None
        self._beyond = _Slot()
        """Stands for every call that is not read."""
        self._size = 0
        self.too_many = False
        """Whether there are calls that are not read."""
        self.signed = False
        """Whether any call has fields of its own that its server wants back."""
        self._growing: _Slot | None = None
        """The call that was added to last: when the answer breaks off, the rest of it may be missing."""
        self._mingled = False
        """Whether calls came interleaved, so that any of them may be growing."""
        self._named: list[_Slot] = []
        """The calls that this delta has named: a second name within it is that of another call."""

    def end_delta(self) -> None:
        """Note that the next entry stands in another delta."""
        self._named.clear()

    def add(self, delta: Any, several: bool = False) -> None:
        """Take one entry of a delta's `tool_calls`; an entry that is not an object is ignored. `several`: it is not the
        only one.

        Raises `ModelRefused` beyond 4 Mi characters of arguments.
        """
        if not isinstance(delta, dict):
            return
        function = as_dict(delta.get("function")) or delta  # some servers leave the wrapper out
        name, arguments = as_text(function.get("name")), _arguments(function.get("arguments"))
        slot = self._last = self._slot(_index(delta.get("index")), as_text(delta.get("id")), name, arguments)
        self._note_growing(slot, bool(name or arguments))
        if slot is self._beyond:
            return
        if name and not slot.arguments:  # in pieces, or once more, whole or as far as it is known
            slot.name = (name if name.startswith(slot.name) else slot.name + name)[:NAME_LENGTH]
        if name and several:
            self._named.append(slot)
        if arguments:
            self._count_characters(len(arguments))
            slot.arguments.append(arguments)
        for field in _SIGNATURE_FIELDS:
            if isinstance(delta.get(field), dict):
                slot.extra[field] = delta[field]
                self.signed = True

    def __bool__(self) -> bool:
        return any(slot.filled for slot in self._slots.values())

    def drafts(self) -> tuple[ToolCallDraft, ...]:
        """Return the calls in the order of their index, without empty ones."""
        return tuple(ToolCallDraft(slot.name, slot.text()) for slot in self._filled())

    @property
    def whole(self) -> int:
        """Number of first drafts that another call followed, so that they are whole even when the answer was cut."""
        if self._mingled:
            return 0
        filled = self._filled()
        return next((n for n, slot in enumerate(filled) if slot is self._growing), len(filled))

    def extras(self) -> list[dict[str, Any] | None]:
        """Return for each of the drafts the fields that its server wants back with it."""
        return [slot.extra or None for slot in self._filled()]

    def ids(self) -> list[str]:
        """Return for each of the drafts the id that its server gave; '' for none."""
        return [slot.call_id for slot in self._filled()]

    def _filled(self) -> list[_Slot]:
        return [slot for _, slot in sorted(self._slots.items()) if slot.filled]

    def _note_growing(self, slot: _Slot, more: bool) -> None:
        if slot is not self._growing and (more or not slot.begun):
            self._mingled = self._mingled or (slot.begun and slot is not self._beyond)
            self._growing = slot
        slot.begun = True

    def _count_characters(self, size: int) -> None:
        self._size += size
        if self._size > _MAX_ARGUMENT_CHARS:
            raise ModelRefused(
                f"the arguments of the model's tool calls have more than {_MAX_ARGUMENT_CHARS} characters: ask for less"
            )

    def _slot(self, index: int | None, call_id: str, name: str, arguments: str) -> _Slot:
        known = self._unnumbered(call_id, name) if index is None else self._of_index.get(index)
        if known is None and arguments and not name and self._is_open(self._last):
            known = self._last  # a server that gives each piece a number or an id of its own
        if known is None or (name and self._is_another(known, call_id, name, arguments, index is not None)):
            known = self._new(index)
        if call_id and not known.call_id:
            known.call_id = call_id
            self._of_id.setdefault(call_id, known)
        return known

    @staticmethod
    def _is_open(slot: _Slot | None) -> bool:
        """Whether the arguments of a call have begun and are not complete: more of them must come."""
        return slot is not None and bool(slot.arguments) and not slot.whole

    def _unnumbered(self, call_id: str, name: str) -> _Slot | None:
        found = self._of_id.get(call_id)
        return found or (None if call_id and (name or self._last is None or self._last.call_id) else self._last)

    def _is_another(self, known: _Slot, call_id: str, name: str, arguments: str, numbered: bool) -> bool:
        """Whether a name is that of another call, and not the known name repeated or continued."""
        if call_id and known.call_id:
            # Some servers give each piece an id of its own.
            return call_id != known.call_id and (name != known.name or not known.arguments or known.whole)
        if known in self._named:
            return True
        if known.arguments:
            return name != known.name or (bool(arguments) and known.whole)
        return not numbered and not name.startswith(known.name)

    def _new(self, index: int | None) -> _Slot:
        if len(self._slots) >= _MAX_CALLS:
            self.too_many = True
            return self._beyond
        free = index is not None and index not in self._slots
        slot = self._slots[index if index is not None and free else max(self._slots, default=-1) + 1] = _Slot()
        if index is not None:
            self._of_index[index] = slot
        return slot


class _Slot:
    __slots__ = ("_checks", "_pieces_checked", "_whole", "arguments", "begun", "call_id", "extra", "name")

    def __init__(self) -> None:
        self.call_id = ""
        self.name = ""
        self.arguments: list[str] = []
        self.extra: dict[str, Any] = {}
        self.begun = False
        self._pieces_checked = 0
        """Number of pieces that the arguments had when they were last checked for being whole."""
        self._checks = 0
        self._whole = False

    @property
    def filled(self) -> bool:
        return bool(self.name or self.arguments)

    def text(self) -> str:
        """Return the arguments. Where each piece repeats those before it, the last piece is all of them."""
        joined = whole_characters("".join(self.arguments))
        grows = len(self.arguments) > 1 and all(map(str.startswith, self.arguments[1:], self.arguments))
        return self.arguments[-1] if grows and not _is_json(joined) and _is_json(self.arguments[-1]) else joined

    @property
    def whole(self) -> bool:
        """Whether the arguments are complete JSON, so that arguments that come with a name belong to another call."""
        if self._pieces_checked != len(self.arguments):
            self._pieces_checked = len(self.arguments)
            last = self.arguments[-1] if self.arguments else ""
            self._whole = False
            if (last.endswith("}") or len(self.arguments) == 1) and self._checks < _MAX_CHECKS:
                self._checks += 1
                self._whole = _is_json(self.text())
        return self._whole


def _is_json(text: str) -> bool:
    try:
        from_json(text)
    except ValueError:
        return False
    return True


def _index(value: Any) -> int | None:
    """Return the number of a call, also one that was written as a text or with a point; None for anything else."""
    if isinstance(value, str) and len(value) <= _MAX_INDEX_DIGITS and value.isascii() and value.isdecimal():
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if type(value) is int else None


def _arguments(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else as_text(value)
