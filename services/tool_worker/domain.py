"""What a tool call's outcome is to the model and to clients. Pure."""

from dataclasses import dataclass
from typing import Literal

from contracts.tools import Effect

EVENT_LIMIT = 16 * 1024
"""Bytes of a result that an event carries; the rest is kept by reference."""
RESULT_LIMIT = 1024 * 1024
"""Bytes of a result that are kept at all."""
UNKNOWN = "outcome unknown: the tool had started when its worker died, and it must not run twice"

OutcomeKind = Literal["ok", "error", "timeout", "cancelled", "crashed", "interrupted"]


@dataclass(frozen=True, slots=True)
class Answer:
    """A call's one result: ``text`` is the result, or the error."""

    ok: bool
    text: str
    duration_ms: int = 0

    @property
    def for_model(self) -> str:
        """What the model is told."""
        return self.text if self.ok else f"error: {self.text}"


def clip(text: str, limit: int) -> str:
    """At most ``limit`` bytes of UTF-8, cut at a character."""
    raw = text.encode("utf-8", errors="replace")
    return text if len(raw) <= limit else raw[:limit].decode("utf-8", errors="ignore")


def bounded(answer: Answer) -> Answer:
    """A result that can be kept: what is over the limit is cut and says so."""
    kept = clip(answer.text, RESULT_LIMIT)
    if kept is answer.text:
        return answer
    return Answer(answer.ok, f"{kept}\n[cut: longer than {RESULT_LIMIT} bytes]", answer.duration_ms)


def after_outcome(kind: OutcomeKind, effect: Effect) -> Literal["close", "again", "unknown"]:
    """What a finished attempt means (law 10): its process may have been lost through no fault of its own."""
    if kind != "interrupted":
        return "close"
    return "unknown" if effect is Effect.UNSAFE else "again"
