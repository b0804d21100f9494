"""Tools that a program brings along with a message: the model calls them, and the program's turn runs them."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from inspect import isawaitable
from threading import Thread
from typing import Any, TypeVar

from pentad.client.feed import patiently
from pentad.client.inspection import Inspection
from pentad.client.management import Management
from pentad.contracts.client_tools import MAX_CLIENT_RESULT, MAX_CLIENT_TOOLS
from pentad.contracts.events import SessionEvent, ToolCallEvent, ToolResultEvent
from pentad.errors import Conflict, NotFound, Refused
from pentad.shared.plugins.definition import ToolDefinition
from pentad.shared.plugins.errors import InvalidArguments, PluginError, UnusableResult
from pentad.shared.plugins.registry import check_name, define, definition_of
from pentad.shared.plugins.results import clean, result_text

T = TypeVar("T")
_FIELDS = frozenset({"name", "description", "parameters", "run"})
"""Fields of a tool that is given as a dictionary."""
_MAX_ERROR = 4_000
"""Characters that a model is told of a failure."""


@dataclass(frozen=True, slots=True)
class BroughtTools:
    """The tools of one message: as they are sent, and the functions of those that are run here."""

    sent: Sequence[dict[str, Any]] = ()
    functions: Mapping[str, ToolDefinition] = field(default_factory=dict)
    """Definitions of the tools that have a function, by name. The calls of others wait for ``send_result``."""


def brought_tools(tools: Sequence[Any] | None) -> BroughtTools:
    """Return the tools that a message brings along. Raises ``Refused``, which names the place of what is wrong.

    Each is a function, whose signature and docstring describe it as those of ``pentad.tool`` do, or a dictionary
    ``{"name", "description", "parameters", "run"}``, where ``run`` is such a function and may be absent.
    """
    if tools is None:
        return BroughtTools()
    if isinstance(tools, str) or not isinstance(tools, Sequence) or len(tools) > MAX_CLIENT_TOOLS:
        raise Refused(f"tools: a list of at most {MAX_CLIENT_TOOLS} functions or dictionaries is expected")
    sent: list[dict[str, Any]] = []
    functions: dict[str, ToolDefinition] = {}
    for number, tool in enumerate(tools):
        try:
            frame, definition = _of_fields(tool) if isinstance(tool, Mapping) else _of_function(tool)
        except PluginError as error:
            raise Refused(f"tools[{number}]: {error}") from None
        if any(other["name"] == frame["name"] for other in sent):
            raise Refused(f"tools[{number}]: another of these tools is called {frame['name']!r}: give it another name")
        sent.append(frame)
        if definition is not None:
            functions[frame["name"]] = definition
    return BroughtTools(sent, functions)


def _of_function(function: Any) -> tuple[dict[str, Any], ToolDefinition]:
    definition = definition_of(function) or define(function)
    _check(definition)
    spec = definition.spec
    return {"name": spec.name, "description": spec.description, "parameters": spec.parameters}, definition


def _of_fields(tool: Mapping[str, Any]) -> tuple[dict[str, Any], ToolDefinition | None]:
    if unknown := sorted(set(map(str, tool)) - _FIELDS):
        raise PluginError(f"{unknown[0][:100]!r} is not known here; there are: {', '.join(sorted(_FIELDS))}")
    if not isinstance(tool.get("name"), str):
        raise PluginError("a tool needs a name, a text")
    sent = {name: tool[name] for name in ("name", "description", "parameters") if tool.get(name) is not None}
    run = tool.get("run")
    if run is None:
        return sent, None
    definition = define(run, name=tool["name"], parameters=tool.get("parameters"))
    _check(definition)
    described = {"description": definition.spec.description, "parameters": definition.spec.parameters}
    return described | sent, definition


def _check(definition: ToolDefinition) -> None:
    """Refuse a function that counts on what the tools of Pentad's own workers have."""
    name = definition.spec.name
    check_name(definition)
    if definition.context_parameters:
        raise PluginError(f"tool {name!r}: there is no ToolContext where a client runs its tools: leave it out")
    if definition.spec.approval != "never" or definition.spec.isolated:
        raise PluginError(
            f"tool {name!r} asks for approval or a process of its own, which a client's tools have not: hand it to "
            "pentad.start(tools=[...]), or ask within the function"
        )


class BroughtToolRuns:
    """Runs the calls of a message's tools while its turn is followed: each once, and each has an outcome."""

    def __init__(
        self,
        message_id: str,
        functions: Mapping[str, ToolDefinition],
        inspection: Inspection,
        management: Management,
        patience_s: float,
    ) -> None:
        self._messages, self._functions = {message_id}, functions
        self._inspection, self._management, self._patience_s = inspection, management, patience_s
        self._seen: set[str] = set()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._unsent: dict[str, ToolCallEvent] = {}
        """Calls that have begun and whose results were not sent, by id."""
        self._left: set[str] = set()
        """Ids of open calls that are answered by nobody here."""

    def also(self, message_id: str) -> None:
        """Run the calls that another message leads to, too: it brings the same tools along."""
        self._messages.add(message_id)

    @property
    def answer_all(self) -> bool:
        """Whether each call that the task has made of its client is answered here."""
        return bool(self._functions) and not self._left

    def follow(self, event: SessionEvent) -> None:
        """Begin the call that an event tells of; give up one that has its result, or that nobody waits for."""
        if isinstance(event, ToolResultEvent):
            self._left.discard(event.tool_call_id)
            self._unsent.pop(event.tool_call_id, None)
            if event.tool_call_id in self._running:
                self._running[event.tool_call_id].cancel()
        if not isinstance(event, ToolCallEvent) or not event.client or event.tool_call_id in self._seen:
            return  # after a gap, a call may be told again
        self._seen.add(event.tool_call_id)
        if event.correlation_id in self._messages and event.tool in self._functions:
            self._begin(event)
        else:
            self._left.add(event.tool_call_id)

    def resume(self) -> None:
        """Begin the calls once more that were given up before their results were sent."""
        for event in self._unsent.values():
            if event.tool_call_id not in self._running:
                self._begin(event)

    def _begin(self, event: ToolCallEvent) -> None:
        self._unsent[event.tool_call_id] = event
        self._running[event.tool_call_id] = asyncio.create_task(self._answer(event))

    async def beside(self, following: Awaitable[T]) -> T:
        """Wait for the turn's next event. Raises what keeps the result of a call from being sent."""
        found = asyncio.ensure_future(following)
        try:
            while not found.done():
                await asyncio.wait({found, *self._running.values()}, return_when=asyncio.FIRST_COMPLETED)
                self._look()
            return found.result()
        finally:
            if not found.done():
                found.cancel()
                with suppress(asyncio.CancelledError):
                    await found

    async def finish(self) -> None:
        """Wait for the calls that are under way. Raises what keeps a result from being sent."""
        while self._running:
            await asyncio.wait(self._running.values(), return_when=asyncio.FIRST_COMPLETED)
            self._look()

    async def stop(self) -> None:
        """Give up the calls that are under way. A plain function goes on in its thread, and nobody hears of it."""
        running = [*self._running.values()]
        self._running.clear()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _look(self) -> None:
        for call, task in [*self._running.items()]:
            if task.done():
                del self._running[call]
                if not task.cancelled():
                    task.result()

    async def _answer(self, event: ToolCallEvent) -> None:
        outcome = await self._outcome(event)
        with suppress(Conflict, NotFound):  # another has answered it, or nobody waits any more
            try:
                await self._send(event, outcome)
            except Refused as refused:
                if "error" in outcome:
                    raise
                await self._send(event, {"error": _cut(str(refused))})
        self._unsent.pop(event.tool_call_id, None)

    async def _outcome(self, event: ToolCallEvent) -> dict[str, str]:
        """Return what has come of a call. Whatever its function does, the model is told something."""
        args = await self._arguments(event)
        try:
            text = result_text(event.tool, await _called(self._functions[event.tool], args))
        except (InvalidArguments, UnusableResult) as error:
            return {"error": _cut(str(error))}
        except (Exception, SystemExit) as error:
            told = f"{type(error).__name__}: {_words_of(error)}".removesuffix(": ")
            return {"error": _cut(f"tool {event.tool!r} failed: {told}")}
        if len(text.encode()) > MAX_CLIENT_RESULT:
            limit = f"more than {MAX_CLIENT_RESULT:,} bytes"
            return {"error": f"the result of tool {event.tool!r} has {limit}: ask it for the part that matters"}
        return {"result": text}

    async def _arguments(self, event: ToolCallEvent) -> dict[str, Any]:
        """Return the arguments of a call, whole."""
        if event.ref is None or isinstance(event.args, dict):
            return event.args if isinstance(event.args, dict) else {}
        task, ref = event.task_id or "", event.ref
        whole: dict[str, Any] = json.loads(await patiently(lambda: self._inspection.value(task, ref), self._patience_s))
        return whole

    async def _send(self, event: ToolCallEvent, outcome: Mapping[str, str]) -> None:
        task, call = event.task_id or "", event.tool_call_id
        await patiently(lambda: self._management.send_result(task, call, **outcome), self._patience_s)


async def _called(definition: ToolDefinition, args: dict[str, Any]) -> Any:
    """Call a tool's function: on the loop, or in a thread where it is a plain one. Raises what it raises."""
    given = definition.validate(args)
    if definition.is_async:
        return await definition.function(**given)
    value, error = await _in_thread(lambda: definition.function(**given))
    if error is not None:
        raise error
    return await value if isawaitable(value) else value


async def _in_thread(work: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """Do something in a thread that ends with the program: one that hangs must not hold up the program's end."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

    def finish(value: Any, error: BaseException | None) -> None:
        if not ended.done():
            ended.set_result((value, error))

    def run() -> None:
        value, wrong = None, None
        try:
            value = work()
        except BaseException as error:
            wrong = error
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(finish, value, wrong)

    Thread(target=copy_context().run, args=(run,), name="client's tool", daemon=True).start()
    return await ended


def _words_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return ""


def _cut(text: str) -> str:
    return clean(text if len(text) <= _MAX_ERROR else text[:_MAX_ERROR] + "...")
