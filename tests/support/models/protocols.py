"""The protocols that the scripted server speaks: which path asks in which, and how an answer is said in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.models.anthropic_checks import request_fault
from tests.support.models.anthropic_replies import message_document, message_error, message_events
from tests.support.models.replies import Reply, document, error_body, events


@dataclass(frozen=True, slots=True)
class ScriptedProtocol:
    """How a protocol says an answer."""

    path: str
    events: Callable[[Reply], tuple[bytes, ...]]
    """The parts of a streamed answer."""
    document: Callable[[Reply], bytes]
    """An answer that is not streamed."""
    error_body: Callable[[Reply], bytes]
    fault: Callable[[Mapping[str, Any]], str]
    """Why a request is refused, '' when it is not."""


OPENAI = ScriptedProtocol("/chat/completions", events, document, error_body, lambda _body: "")
ANTHROPIC = ScriptedProtocol("/messages", message_events, message_document, message_error, request_fault)
PROTOCOLS = (OPENAI, ANTHROPIC)
