"""Deltas of one attempt on their way to the clients: the first at once, then coalesced, the last with the commit."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from time import monotonic
from typing import Literal

from pydantic_core import to_json

from pentad.contracts.envelope import Contract
from pentad.contracts.events import Content, Thinking
from pentad.shared.actors.commit import Commit
from pentad.shared.events.ephemeral import EphemeralEvents
from pentad.shared.keys import SessionKeys
from pentad.shared.models.ports import ModelRefused

_KEEP_S = 1.0
"""How often a stream that is written to is given its time to live, so that it never runs out meanwhile."""
_MOST_TEXT = 4 * 1024 * 1024
"""Characters that one attempt may have, its reasoning included."""
DeltaKind = Literal["content", "thinking"]
_EVENTS: Mapping[DeltaKind, type[Contract]] = {"content": Content, "thinking": Thinking}


class DeltaWriter:
    """Collects an attempt's text and writes it in pieces. Never waits: ``message`` heals what is lost."""

    def __init__(
        self,
        events: EphemeralEvents,
        session: SessionKeys,
        head: dict[str, object],
        coalesce_ms: int,
        on_first: Callable[[], None],
        shown: Collection[DeltaKind] = ("content", "thinking"),
    ) -> None:
        self._events, self._session = events, session
        self._head = head
        """The fields that all of this attempt's deltas share, ``step`` and ``attempt`` among them."""
        self._pause = coalesce_ms / 1000
        self._pending: dict[DeltaKind, list[str]] = {"content": [], "thinking": []}
        self._offset: dict[DeltaKind, int] = {"content": 0, "thinking": 0}
        self._timer: asyncio.Handle | None = None
        self._written = False
        self._size = 0
        self._kept_at = float("-inf")
        self._on_first = on_first
        self._shown = shown
        """The kinds that clients are told; an answer that must be JSON is told when it is whole."""

    def add(self, kind: DeltaKind, text: str) -> None:
        """Take a piece of text as it comes from the model.

        Raises ``ModelRefused`` when the attempt has more than `_MOST_TEXT` characters.
        """
        self._size += len(text)
        if self._size > _MOST_TEXT:
            raise ModelRefused(
                f"the model's answer has more than {_MOST_TEXT} characters and no end in sight: ask for less, or set "
                "max_tokens among the model's parameters"
            )
        if kind not in self._shown:
            return
        self._pending[kind].append(text)
        if self._timer is not None:
            return
        loop = asyncio.get_running_loop()
        if self._written:
            self._timer = loop.call_later(self._pause, self._flush)
        else:
            self._written = True
            self._on_first()
            self._timer = loop.call_soon(self._flush_soon)

    def _flush_soon(self) -> None:
        """The first piece waits a turn of the loop: of an answer that came whole, the commit takes it along."""
        self._timer = asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._timer = None
        for kind, data, summary in self._ready():
            self._events.append(kind, data, summary)
        now = monotonic()
        if now - self._kept_at > _KEEP_S:
            self._kept_at = now
            self._events.keep()
        self._events.ring()

    def finish(self, commit: Commit) -> None:
        """Leave what is not written yet to the commit."""
        self._end_timer()
        for kind, data, summary in self._ready():
            commit.delta(self._session, kind, data, summary)

    def stop(self) -> None:
        """Write nothing more: the attempt is void, and perhaps nothing else will ever be written to this session."""
        self._end_timer()
        if self._written:
            self._events.keep()

    def _end_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ready(self) -> list[tuple[type[Contract], bytes, str]]:
        pieces: list[tuple[type[Contract], bytes, str]] = []
        for kind in ("thinking", "content"):
            if not self._pending[kind]:
                continue
            text = "".join(self._pending[kind])
            self._pending[kind] = []
            offset = self._offset[kind]
            self._offset[kind] = offset + len(text)
            event = {"type": kind, **self._head, "offset": offset, "content": text}
            event["event_id"] = f"{self._head['event_id']}.{kind}.{offset}"
            h = self._head
            mark = f"{kind} {h['task_id']} {h['step']} {h['attempt']} {offset} {len(text)}"
            pieces.append((_EVENTS[kind], to_json(event), mark))
        return pieces
