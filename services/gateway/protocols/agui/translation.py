"""The events of a turn as those of a run of AG-UI 1.0. Pure.

A client of AG-UI joins texts by the ids of their messages and cannot take back what it was sent. So where an attempt
of a step is void, it gets all messages anew, without that text.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import to_json

from pentad.contracts.approvals import PendingApproval
from pentad.contracts.events import (
    ApprovalEvent,
    ApprovalRequest,
    Content,
    ControlResult,
    MessageEvent,
    NodeEnd,
    NodeStart,
    SessionEvent,
    Snapshot,
    TaskEnd,
    TaskStart,
    TaskUsage,
    Thinking,
    ToolCallEvent,
    ToolProgress,
    ToolResultEvent,
)
from pentad.contracts.ids import milliseconds
from pentad.contracts.turns import ASKED, NEEDS_APPROVAL, NEEDS_CLIENT, TurnEnd, TurnTracker
from pentad.services.gateway.domain.waited_turn import known_event
from pentad.services.gateway.protocols.agui.run_input import Interrupted

PROTOCOL_VERSION = "1.0"
_MAX_NAME = 200
"""Characters of the name of a started task."""
_DECISION_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["approved"],
    "properties": {
        "approved": {"type": "boolean"},
        "args": {"type": "object", "description": "other arguments, with which the call is made instead"},
        "reason": {"type": "string", "description": "told to the model with a refusal"},
    },
}
_ANSWER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["content"],
    "properties": {"content": {"type": "string", "minLength": 1}},
}
Out = dict[str, Any]
"""An event of AG-UI."""


@dataclass
class _OpenText:
    """A text or a thought that is being written."""

    id: str
    task: str
    attempt: int
    is_thought: bool
    text: str = ""


@dataclass
class AguiRun:
    """A run of AG-UI, made of the events of one turn. ``base``: messages of the conversation before the run."""

    thread: str
    run: str
    turn: TurnTracker
    base: Sequence[Any] = ()
    sent: frozenset[str] = frozenset()
    """Calls whose results the client has sent with the run: it has them among its messages."""
    since_ms: int | None = None
    """Time in ms of the last event before a run that a decision has begun; None for one with a message."""
    _open: dict[str, _OpenText] = field(default_factory=dict)
    """Texts that are being written, by task: tasks that a task has started write at the same time."""
    _steps: dict[str, str] = field(default_factory=dict)
    """Name of the step that is open, by task."""
    _nodes: dict[str, Out] = field(default_factory=dict)
    """Names of the steps of a graph's nodes that are open, with whose they are."""
    _made: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Messages of this run, by id."""
    _children: dict[str, Out] = field(default_factory=dict)
    """Tasks that go on which the run's task has started, with the event that has told of each."""
    _asked: dict[str, Out] = field(default_factory=dict)
    """Interrupts that are open, by the id of their tool call."""
    _said: str = ""
    """Text of the last message."""
    over: bool = False

    def begin(self) -> list[Out]:
        """Return the events that begin a run."""
        return [{"type": "RUN_STARTED", **self._ids, "protocolVersion": PROTOCOL_VERSION}]

    def resumed(self, base: Sequence[Any]) -> list[Out]:
        """Return the events that bring a client up to date that connects again. ``base``: earlier messages."""
        self.base = base
        steps = [{"type": "STEP_STARTED", "stepName": name, **whose} for name, whose in self._nodes.items()]
        for task, name in self._steps.items():
            steps.append({"type": "STEP_STARTED", "stepName": name, **self._whose(task)})
        return [*self.begin(), *self._children.values(), *steps, self._snapshot(), *self._reopened()]

    def after(self, event: Mapping[str, Any]) -> list[Out]:
        """Return the events that a client is sent for the session's next one; none for one of another turn."""
        known = known_event(event)
        if self.over or known is None or not self.turn.concerns(known):
            return []
        self.turn = self.turn.after(known)
        made = list(self._translated(known))
        if self.turn.end is not None:
            made += self._ended(self.turn.end, known.usage if isinstance(known, TaskEnd) else None)
        return made

    def settled(self, end: TurnEnd) -> list[Out]:
        """Return the events that end the run of a turn whose end was not seen."""
        return [] if self.over else self._ended(end, None)

    def asks(self, request: ApprovalRequest | PendingApproval) -> None:
        """Note a tool call that waits for a decision."""
        self._asked[request.tool_call_id] = _interrupt_of(request)

    def snapshot_of(self, messages: Sequence[Any]) -> list[Out]:
        """Return the events for a client that has missed some. ``messages``: all of the conversation."""
        closed = [out for opened in list(self._open.values()) for out in self._close(opened)]
        self.base, self._made = messages, {}
        return [*closed, _custom("gap", {"reason": "events at the cursor are not kept any more"}), self._snapshot()]

    @property
    def waits(self) -> bool:
        """Whether a tool call is known that waits for a decision."""
        return bool(self._asked)

    @property
    def _ids(self) -> Out:
        return {"threadId": self.thread, "runId": self.run}

    def _translated(self, event: SessionEvent) -> Iterator[Out]:
        match event:
            case Content() | Thinking():
                yield from self._delta(event)
            case MessageEvent():
                yield from self._message(event)
            case ToolCallEvent():
                yield from self._call(event)
            case ToolResultEvent():
                yield from self._result(event)
            case ToolProgress():
                yield self._progress(event)
            case TaskStart() if event.parent_task_id:
                yield from self._child_begins(event, event.parent_task_id)
            case TaskEnd() if event.parent_task_id:
                yield from self._child_ends(event)
            case ControlResult():
                yield from self._whole(f"{event.message_id}:control", event.content, "")
            case Snapshot():
                yield from self.snapshot_of(messages_of(event.messages))
            case _:
                yield from self._of_task(event)

    def _of_task(self, event: SessionEvent) -> Iterator[Out]:
        """An event that AG-UI has none for goes to the client as it is."""
        if isinstance(event, ApprovalRequest):
            self.asks(event)
        elif isinstance(event, ApprovalEvent):
            self._asked.pop(event.tool_call_id, None)
        elif isinstance(event, NodeStart) and (name := _node(event)) not in self._nodes:
            self._nodes[name] = self._whose(event.task_id)
            yield {"type": "STEP_STARTED", "stepName": name, **self._nodes[name]}
        elif isinstance(event, NodeEnd) and (whose := self._nodes.pop(_node(event), None)) is not None:
            yield {"type": "STEP_FINISHED", "stepName": _node(event), **whose}
        yield _custom(event.type, event.model_dump(mode="json", exclude_none=True))

    # Texts

    def _delta(self, event: Content | Thinking) -> Iterator[Out]:
        task, is_thought = _task(event), isinstance(event, Thinking)
        name = f"{_message_id(event)}:thinking" if is_thought else _message_id(event)
        open_text = self._open.get(task)
        if open_text is not None and open_text.attempt != event.attempt:
            yield from self._void(open_text, event.attempt)
            open_text = None
        if open_text is not None and open_text.id != name:
            yield from self._close(open_text)
            open_text = None
        if open_text is None:
            open_text = _OpenText(name, task, event.attempt, is_thought)
            yield from self._step(event)
            yield from self._opened(open_text)
        if event.offset != len(open_text.text) or not event.content:
            return  # a hole: the step's message has the whole text
        open_text.text += event.content
        yield self._content(open_text, event.content)

    def _message(self, event: MessageEvent) -> Iterator[Out]:
        task, text = _task(event), event.content
        open_text = self._open.get(task)
        if open_text is not None and open_text.is_thought:
            yield from self._close(open_text)
            open_text = None
        if open_text is not None and not (open_text.attempt == event.attempt and text.startswith(open_text.text)):
            yield from self._void(open_text, event.attempt)
            open_text = None
        yield from self._step(event)
        if open_text is None:
            yield from self._whole(_message_id(event), text, task)
        else:
            if rest := text[len(open_text.text) :]:
                open_text.text = text
                yield self._content(open_text, rest)
            yield from self._close(open_text)
        if text and task not in self._children:
            self._said = text
        if name := self._steps.pop(task, ""):
            yield {"type": "STEP_FINISHED", "stepName": name, **self._whose(task)}

    def _whole(self, id_: str, text: str, task: str) -> Iterator[Out]:
        if not text:
            return
        whole = _OpenText(id_, task, 0, is_thought=False, text=text)
        yield from self._opened(whole)
        yield self._content(whole, text)
        yield from self._close(whole)

    def _opened(self, opened: _OpenText) -> Iterator[Out]:
        self._open[opened.task], whose = opened, self._whose(opened.task)
        if opened.is_thought:
            yield {"type": "REASONING_START", "messageId": opened.id, **whose}
            yield {"type": "REASONING_MESSAGE_START", "messageId": opened.id, "role": "reasoning", **whose}
        else:
            yield {"type": "TEXT_MESSAGE_START", "messageId": opened.id, "role": "assistant", **whose}

    def _content(self, opened: _OpenText, delta: str) -> Out:
        kind = "REASONING_MESSAGE_CONTENT" if opened.is_thought else "TEXT_MESSAGE_CONTENT"
        return {"type": kind, "messageId": opened.id, "delta": delta, **self._whose(opened.task)}

    def _close(self, opened: _OpenText) -> Iterator[Out]:
        self._open.pop(opened.task, None)
        whose = self._whose(opened.task)
        if opened.is_thought:
            yield {"type": "REASONING_MESSAGE_END", "messageId": opened.id, **whose}
            yield {"type": "REASONING_END", "messageId": opened.id, **whose}
            return
        yield {"type": "TEXT_MESSAGE_END", "messageId": opened.id, **whose}
        self._made[opened.id] = {"id": opened.id, "role": "assistant", "content": opened.text, **whose}

    def _void(self, opened: _OpenText, attempt: int) -> Iterator[Out]:
        """End a text that counts no more, and give the client all messages without it."""
        yield from self._close(opened)
        if opened.is_thought:
            return
        del self._made[opened.id]
        beside = [each for each in self._open.values() if not each.is_thought]
        for each in beside:  # what is not complete stands in no list of messages: it begins again behind it
            yield from self._close(each)
            del self._made[each.id]
        yield _custom("void", {"messageId": opened.id, "attempt": attempt})
        yield self._snapshot()
        yield from self._written_again(beside)

    def _reopened(self) -> Iterator[Out]:
        return self._written_again(list(self._open.values()))

    def _written_again(self, texts: Sequence[_OpenText]) -> Iterator[Out]:
        """Begin texts again that are being written."""
        for opened in texts:
            yield from self._opened(opened)
            if opened.text:
                yield self._content(opened, opened.text)

    def _snapshot(self) -> Out:
        known = {m["id"] for m in self._made.values()}
        before = [m for m in self.base if not (isinstance(m, dict) and m.get("id") in known)]
        return {"type": "MESSAGES_SNAPSHOT", "messages": [*before, *self._made.values()]}

    def _step(self, event: Content | Thinking | MessageEvent) -> Iterator[Out]:
        """Begin the step of an event, unless it has begun."""
        task, name = _task(event), _message_id(event)
        if self._steps.get(task) == name:
            return
        if before := self._steps.get(task):
            yield {"type": "STEP_FINISHED", "stepName": before, **self._whose(task)}
        self._steps[task] = name
        yield {"type": "STEP_STARTED", "stepName": name, **self._whose(task)}

    # Tool calls

    def _call(self, event: ToolCallEvent) -> Iterator[Out]:
        task, call, args = _task(event), event.tool_call_id, event.args
        if (opened := self._open.get(task)) is not None:
            yield from self._close(opened)
        text, whose = args if isinstance(args, str) else to_json(args).decode(), self._whose(task)
        yield {"type": "TOOL_CALL_START", "toolCallId": call, "toolCallName": event.tool, **whose}
        yield {"type": "TOOL_CALL_ARGS", "toolCallId": call, "delta": text, **whose}
        yield {"type": "TOOL_CALL_END", "toolCallId": call, **whose}
        function = {"name": event.tool, "arguments": text}
        made = {"id": call, "role": "assistant", "toolCalls": [{"id": call, "type": "function", "function": function}]}
        self._made[call] = made | whose

    def _result(self, event: ToolResultEvent) -> Iterator[Out]:
        call, name = event.tool_call_id, f"{event.tool_call_id}:result"
        if call in self.sent:
            return
        content = f"error: {event.error}" if event.error is not None else event.result or ""
        message = {"toolCallId": call, "content": content, "role": "tool"} | self._whose(event.task_id)
        self._made[name] = {"id": name, **message}
        yield {"type": "TOOL_CALL_RESULT", "messageId": name, **message}

    def _progress(self, event: ToolProgress) -> Out:
        said = {"tool": event.tool, "content": event.content, "fraction": event.fraction}
        return {
            "type": "ACTIVITY_SNAPSHOT",
            "messageId": f"{event.tool_call_id}:progress",
            "activityType": "pentad.tool_progress",
            "content": {"toolCallId": event.tool_call_id, **said},
            "replace": True,
            **self._whose(event.task_id),
        }

    # Tasks that a task has started

    def _whose(self, task: str | None) -> Out:
        """Return the field that says which started task an event is of; none for the run's own task."""
        return {"subagentRunId": task} if task in self._children else {}

    def _child_begins(self, event: TaskStart, parent: str) -> Iterator[Out]:
        task = _task(event)
        if task in self._children:
            return
        above = {"parentSubagentRunId": parent} if parent in self._children else {}
        name = (event.node or event.goal)[:_MAX_NAME]
        self._children[task] = {"type": "SUBAGENT_STARTED", "subagentRunId": task, "name": name, **above}
        yield self._children[task]

    def _child_ends(self, event: TaskEnd) -> Iterator[Out]:
        task = _task(event)
        if task not in self._children:
            return
        yield from self._closed(task)
        del self._children[task]
        if event.status == "completed":
            yield {"type": "SUBAGENT_FINISHED", "subagentRunId": task, "outcome": {"type": "success"}}
        else:
            why = ": ".join(filter(None, (event.reason, event.detail))) or event.status
            yield {"type": "SUBAGENT_ERROR", "subagentRunId": task, "message": why, "code": event.status}

    def _closed(self, task: str) -> Iterator[Out]:
        """Close everything that a task has left open."""
        if (opened := self._open.get(task)) is not None:
            yield from self._close(opened)
        if name := self._steps.pop(task, ""):
            yield {"type": "STEP_FINISHED", "stepName": name, **self._whose(task)}

    # The end

    def _ended(self, end: TurnEnd, used: TaskUsage | None) -> list[Out]:
        self.over = True
        made: list[Out] = []
        for task in list(dict.fromkeys([*self._open, *self._steps])):
            made += self._closed(task)
        for name, whose in reversed(self._nodes.items()):
            made.append({"type": "STEP_FINISHED", "stepName": name, **whose})
        for task in reversed(self._children):
            made.append({"type": "SUBAGENT_FINISHED", "subagentRunId": task, "outcome": {"type": "suspended"}})
        usage = {} if used is None else {"usage": [_usage_of(used)]}
        if end.reason == NEEDS_CLIENT:  # which runs its tools, and sends the results with the next run
            made.append(self._finished({"type": "success"}))
        elif end.outcome == "waiting":
            made.append(self._finished({"type": "interrupt", "interrupts": self._interrupts(end)}))
        elif end.outcome == "completed":
            made.append(self._finished({"type": "success"}) | usage)
        elif end.outcome == "cancelled":
            made.append(self._finished({"type": "cancelled"}) | usage)
        else:
            made.append({"type": "RUN_ERROR", "message": end.why or end.outcome, "code": end.outcome} | usage)
        return made

    def _finished(self, outcome: Out) -> Out:
        return {"type": "RUN_FINISHED", **self._ids, "outcome": outcome}

    def _interrupts(self, end: TurnEnd) -> list[Out]:
        if end.reason == NEEDS_APPROVAL and self._asked:
            return list(self._asked.values())
        about = Interrupted(task=self.turn.task_id or "").id
        schema = {"responseSchema": _ANSWER_SCHEMA} if end.reason == ASKED else {}
        return [{"id": about, "reason": end.reason or "waiting", "message": self._said, **schema}]


def _custom(kind: str, value: Any) -> Out:
    return {"type": "CUSTOM", "name": f"pentad.{kind}", "value": value}


def _task(event: SessionEvent) -> str:
    return event.task_id or ""


def _node(event: NodeStart | NodeEnd) -> str:
    return f"node:{event.node or ''}"


def _message_id(event: Content | Thinking | MessageEvent) -> str:
    return f"{_task(event)}:{event.step}"


def _interrupt_of(request: ApprovalRequest | PendingApproval) -> Out:
    """Return the interrupt for a tool call that waits for a decision."""
    call = request.tool_call_id
    about = request.model_dump(
        mode="json", exclude_none=True, include={"tool", "args", "args_digest", "effect", "needs"}
    )
    made: Out = {
        "id": Interrupted(task=request.task_id or "", call=call).id,
        "reason": NEEDS_APPROVAL,
        "message": request.reason or f"{request.tool} waits to be allowed",
        "toolCallId": call,
        "responseSchema": request.form or _DECISION_SCHEMA,
        "metadata": about,
    }
    return made | ({"expiresAt": request.expires_at} if request.expires_at else {})


def _usage_of(usage: TaskUsage) -> Out:
    given, made = usage.input_tokens, usage.output_tokens
    cached = {"cachedInputTokens": usage.cached_tokens} if usage.cached_tokens else {}
    return {"inputTokens": given, "outputTokens": made, "totalTokens": given + made, **cached}


def messages_of(
    turns: Sequence[Mapping[str, Any]], run: str = "", task: str | None = None, since_ms: int | None = None
) -> list[Out]:
    """Return the messages of a session as AG-UI has them.

    ``run``, ``task``: id of a run's message, and its task, whose answers since then are left out: the run has them.
    ``since_ms``: time since which they are left out, for a run without a message.
    """
    made: list[Out] = []
    begun = False
    for number, turn in enumerate(turns):
        role, message, whose = turn.get("role"), turn.get("message_id"), turn.get("task_id")
        if role not in ("user", "assistant"):
            continue
        begun = begun or (role == "user" and message == run != "")
        is_of_run = begun if since_ms is None else _at_ms(turn) > since_ms
        if is_of_run and role == "assistant" and whose == task:
            continue
        id_ = message if role == "user" and message else f"{whose}:turn-{number}"
        made.append({"id": id_, "role": role, "content": str(turn.get("content") or "")})
    return made


def _at_ms(turn: Mapping[str, Any]) -> int:
    """Return the time of a message in ms; 0 for one that has none."""
    try:
        return milliseconds(str(turn.get("at")))
    except ValueError:
        return 0
