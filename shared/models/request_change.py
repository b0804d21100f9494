"""Changes of requests to a model that make its server take them. Pure.

A request is known in two states: as messages and tools in OpenAI form, which changes of messages and tools alter,
and as the fields of its body in the form of its protocol, which changes of fields alter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from pydantic_core import from_json, to_json

from pentad.shared.immutable import immutable
from pentad.shared.models.call_ids import CallIdForm, form_for
from pentad.shared.models.message_forms import (
    alternating,
    calls_as_text,
    without_empty_text,
    without_nulls,
    without_system,
)
from pentad.shared.models.ports import ChatRequest
from pentad.shared.models.thoughts import without_thoughts
from pentad.shared.models.tool_forms import BARE, CORE, WITHOUT_BOUNDS, ToolForm, formed

ChangeKind = Literal[
    "alternate",
    "call_ids",
    "calls_as_text",
    "fewer_texts",
    "fewer_tools",
    "fill_reasoning",
    "json_object",
    "loosen_tools",
    "lower",
    "no_empty_text",
    "no_null",
    "no_reasoning",
    "no_system",
    "no_tools",
    "omit",
    "omit_tool",
    "plain_text",
    "rename",
    "shorten_descriptions",
    "text_alone",
]

_DEPENDENT_FIELDS = {
    "stream": ("stream_options",),
    "tools": ("tool_choice", "parallel_tool_calls"),
}
"""Fields that mean nothing without another field, and are refused without it."""
_MESSAGE_CHANGES: Mapping[str, Callable[[Sequence[bytes]], Sequence[bytes]]] = {
    "no_reasoning": without_thoughts,
    "calls_as_text": calls_as_text,
    "no_system": without_system,
    "alternate": alternating,
    "no_null": without_nulls,
    "no_empty_text": without_empty_text,
}
"""The function that makes each change of messages, in the order in which the changes are made."""
_LEVEL_WORDS = {
    WITHOUT_BOUNDS: "tools are described to it without lengths and patterns",
    CORE: "tools are described to it in the part of JSON Schema that all servers take",
    BARE: "tools are described to it by the names and types of their arguments alone",
}
_CALL_ID_WORDS: Mapping[str | int, str] = {"short": "by nine letters and digits", "numbered": "as functions.NAME:INDEX"}


NO_TOOLS_TOLD = "no tools are offered to it"
"""Words for the change that a server has taught which takes no tools."""


@immutable
class Change:
    """One change of a request.

    ``name`` is that of the field or tool that is changed, ``value`` the new name, number or level.
    """

    kind: ChangeKind
    name: str = ""
    value: str | int = ""

    def __str__(self) -> str:
        """The change in words, for the log and the doctor."""
        said: Mapping[ChangeKind, str] = {
            "alternate": "user messages in a row are sent to it as one",
            "call_ids": f"calls of tools are named to it {_CALL_ID_WORDS.get(self.value, '')}",
            "calls_as_text": "calls of tools and their results are sent to it as plain text",
            "fill_reasoning": "each call of tools is sent to it with reasoning, if a blank one",
            "fewer_texts": f"at most {self.value} texts are sent to it at once",
            "fewer_tools": f"at most {self.value} tools are offered to it",
            "json_object": "it is asked for JSON without a schema",
            "loosen_tools": _LEVEL_WORDS.get(self.value if isinstance(self.value, int) else 0, ""),
            "lower": f"{self.name} is lowered to {self.value}",
            "no_empty_text": "its answers without text are sent back with the words (no text)",
            "no_null": "its answers without text are sent back with empty text",
            "no_reasoning": "its reasoning is not sent back",
            "no_system": "the system message is sent to it within the first user message",
            "no_tools": NO_TOOLS_TOLD,
            "omit": f"{self.name} is not sent to it",
            "omit_tool": f"the tool {self.name} is not offered to it",
            "plain_text": "texts are sent to it as they are, not as lists of blocks",
            "rename": f"{self.name} is sent to it as {self.value}",
            "shorten_descriptions": f"descriptions of tools are cut to {self.value} characters",
            "text_alone": "each text is sent to it alone, not in a list",
        }
        return said[self.kind]


def reshaped(request: ChatRequest, changes: Iterable[Change]) -> ChatRequest:
    """Return the request with its messages and tools changed."""
    by_kind: dict[str, list[Change]] = {}
    for change in changes:
        by_kind.setdefault(change.kind, []).append(change)
    messages: Sequence[bytes] = request.messages
    for kind, make in _MESSAGE_CHANGES.items():
        if kind in by_kind:
            messages = make(messages)
    tools = None if "no_tools" in by_kind else request.tools
    if tools is not None and (form := _tool_form(by_kind)) != ToolForm():
        tools = formed(tools, form)
    return replace(request, messages=messages, tools=tools)


def _tool_form(by_kind: Mapping[str, Sequence[Change]]) -> ToolForm:
    def numbers(kind: ChangeKind) -> list[int]:
        return [change.value for change in by_kind.get(kind, ()) if isinstance(change.value, int)]

    return ToolForm(
        level=max(numbers("loosen_tools"), default=0),
        most_description=min(numbers("shorten_descriptions"), default=None),
        most_tools=min(numbers("fewer_tools"), default=None),
        without=frozenset(change.name for change in by_kind.get("omit_tool", ())),
    )


def call_id_form(model: str, changes: Iterable[Change]) -> CallIdForm:
    """Return the form of call ids that a model is sent."""
    learned = [change.value for change in changes if change.kind == "call_ids"]
    return "numbered" if "numbered" in learned else "short" if learned else form_for(model)


def most_texts(changes: Sequence[Change]) -> int | None:
    """Return the number of texts that a request for vectors may have; None where there is no limit."""
    allowed = [c.value for c in changes if c.kind == "fewer_texts" and isinstance(c.value, int)]
    alone = [1 for change in changes if change.kind == "text_alone"]
    return min([*allowed, *alone], default=None)


def refielded(fields: Mapping[str, bytes], changes: Iterable[Change]) -> dict[str, bytes]:
    """Return the fields of a body, ready JSON by their names, as they are after the changes."""
    changed = dict(fields)
    for change in changes:
        name = change.name
        if change.kind == "omit":
            for each in (name, *_DEPENDENT_FIELDS.get(name, ())):
                changed.pop(each, None)
        elif name in changed and change.kind == "rename":
            changed = {str(change.value) if each == name else each: value for each, value in changed.items()}
        elif name in changed and change.kind == "lower":
            changed[name] = _lowered(changed[name], change.value)
        elif change.kind == "json_object" and "response_format" in changed:
            changed["response_format"] = b'{"type":"json_object"}'
    return changed


def _lowered(value: bytes, most: int | str) -> bytes:
    given = from_json(value)
    lower = isinstance(given, int | float) and isinstance(most, int) and given > most
    return to_json(most) if lower else value
