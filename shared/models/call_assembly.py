"""Tool calls put together from the deltas of a stream, whatever the habits of its server. Pure."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import from_json

from pentad.shared.models.loose_values import as_dict, as_text
from pentad.shared.models.ports import ModelRefused, ToolCallDraft

_MOST_CALLS = 1_001
"""Tool calls of one answer that are read: one more than may ever be made, whose result says that there were more."""
_MOST_ARGUMENTS = 4 * 1024 * 1024
"""Characters of the arguments of all of them."""
_MOST_TRIES = 32
"""How often it is looked whether a call's arguments are whole; each look reads all of them."""
_OF_CALL = ("extra_content", "provider_specific_fields")
"""Where a call's signature comes: Gemini's, and that of LiteLLM's proxy."""
NAME_LENGTH = 256
"""Characters of the model's and a tool's name and of a finish reason: they go into headers, events and records."""


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
        """In the order that the calls are made in."""
        self._of_index: dict[int, _Slot] = {}
        """The latest under each index: some servers give all calls the same."""
        self._of_id: dict[str, _Slot] = {}
        self._last: _Slot | None = None
        self._beyond = _Slot()
        """Stands for each of the calls that are not read."""
        self._size = 0
        self.too_many = False
        """Whether there are such calls."""
        self.signed = False
        """Whether any has fields of its own that its server wants back."""
        self._growing: _Slot | None = None
        """The call that was added to last: when the answer breaks off, more of it may have been to come."""
        self._mingled = False
        """Calls came interleaved, so that any of them may be growing."""
        self._named: list[_Slot] = []
        """Those that this delta has named: a second name within it is that of another call."""

    def end_delta(self) -> None:
        """What is added next stands in another delta."""
        self._named.clear()

    def add(self, delta: Any, several: bool = False) -> None:
        """Take one entry of a delta's `tool_calls`; what is not an object is ignored. `several`: not the only one.

        Raises `ModelRefused` beyond 4 Mi characters of arguments.
        """
        if not isinstance(delta, dict):
            return
        function = as_dict(delta.get("function"))
        name, arguments = as_text(function.get("name")), _arguments(function.get("arguments"))
        slot = self._last = self._slot(delta.get("index"), as_text(delta.get("id")), name, arguments)
        self._grows(slot, bool(name or arguments))
        if slot is self._beyond:
            return
        if name and not slot.arguments:  # in pieces, or once more, whole or as far as it is known
            slot.name = (name if name.startswith(slot.name) else slot.name + name)[:NAME_LENGTH]
        if name and several:
            self._named.append(slot)
        if arguments:
            self._grow(len(arguments))
            slot.arguments.append(arguments)
        for field in _OF_CALL:
            if isinstance(delta.get(field), dict):
                slot.extra[field] = delta[field]
                self.signed = True

    def __bool__(self) -> bool:
        return any(slot.filled for slot in self._slots.values())

    def drafts(self) -> tuple[ToolCallDraft, ...]:
        """The calls in the order of their index; empty husks are left out."""
        return tuple(ToolCallDraft(slot.name, "".join(slot.arguments)) for slot in self._filled())

    @property
    def whole(self) -> int:
        """How many of the first drafts were followed by another call, and are whole even when the answer was cut."""
        if self._mingled:
            return 0
        filled = self._filled()
        return next((n for n, slot in enumerate(filled) if slot is self._growing), len(filled))

    def extras(self) -> list[dict[str, Any] | None]:
        """For each of the drafts the fields that its server wants back with it."""
        return [slot.extra or None for slot in self._filled()]

    def ids(self) -> list[str]:
        """For each of the drafts the id that its server gave; '' for none."""
        return [slot.call_id for slot in self._filled()]

    def _filled(self) -> list[_Slot]:
        return [slot for _, slot in sorted(self._slots.items()) if slot.filled]

    def _grows(self, slot: _Slot, more: bool) -> None:
        if slot is not self._growing and (more or not slot.begun):
            self._mingled = self._mingled or (slot.begun and slot is not self._beyond)
            self._growing = slot
        slot.begun = True

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > _MOST_ARGUMENTS:
            raise ModelRefused(
                f"the arguments of the model's tool calls have more than {_MOST_ARGUMENTS} characters: ask for less"
            )

    def _slot(self, index: Any, call_id: str, name: str, arguments: str) -> _Slot:
        numbered = type(index) is int
        known = self._of_index.get(index) if numbered else self._unnumbered(call_id, name)
        if known is None or (name and self._is_another(known, call_id, name, arguments, numbered)):
            known = self._new(index if numbered else None)
        if call_id and not known.call_id:
            known.call_id = call_id
            self._of_id.setdefault(call_id, known)
        return known

    def _unnumbered(self, call_id: str, name: str) -> _Slot | None:
        found = self._of_id.get(call_id)
        return found or (None if call_id and (name or self._last is None or self._last.call_id) else self._last)

    def _is_another(self, known: _Slot, call_id: str, name: str, arguments: str, numbered: bool) -> bool:
        """Whether a name is that of a call of its own, not the known one's, said again or in pieces."""
        if call_id and known.call_id:
            # Some servers give each piece an id of its own.
            return call_id != known.call_id and (name != known.name or not known.arguments or known.whole)
        if known in self._named:
            return True
        if known.arguments:
            return name != known.name or (bool(arguments) and known.whole)
        return not numbered and not name.startswith(known.name)

    def _new(self, index: int | None) -> _Slot:
        if len(self._slots) >= _MOST_CALLS:
            self.too_many = True
            return self._beyond
        free = index is not None and index not in self._slots
        slot = self._slots[index if index is not None and free else max(self._slots, default=-1) + 1] = _Slot()
        if index is not None:
            self._of_index[index] = slot
        return slot


class _Slot:
    __slots__ = ("_looked_at", "_tries", "_whole", "arguments", "begun", "call_id", "extra", "name")

    def __init__(self) -> None:
        self.call_id = ""
        self.name = ""
        self.arguments: list[str] = []
        self.extra: dict[str, Any] = {}
        self.begun = False
        self._looked_at = 0
        """TimeSlices of the arguments when it was looked whether they are whole."""
        self._tries = 0
        self._whole = False

    @property
    def filled(self) -> bool:
        return bool(self.name or self.arguments)

    @property
    def whole(self) -> bool:
        """The arguments are complete JSON, so that what comes with a name is not more of them."""
        if self._looked_at != len(self.arguments):
            self._looked_at = len(self.arguments)
            last = self.arguments[-1] if self.arguments else ""
            self._whole = False
            if (last.endswith("}") or len(self.arguments) == 1) and self._tries < _MOST_TRIES:
                self._tries += 1
                self._whole = _is_json("".join(self.arguments))
        return self._whole


def _is_json(text: str) -> bool:
    try:
        from_json(text)
    except ValueError:
        return False
    return True


def _arguments(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else as_text(value)
