"""The ``hook`` decorator, what hooks are given, and how the outcome of one is checked and sent."""

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from inspect import isawaitable
from types import FunctionType, MappingProxyType
from typing import Annotated, Any, ClassVar, TypeVar, get_args, get_origin, get_type_hints

from pydantic import ValidationError

from pentad.contracts.hooks import (
    HOOK_KINDS,
    HOOK_TIMEOUT_S,
    MAX_HOOKED_BYTES,
    TASK_BEGINS,
    TASK_ENDS,
    HookFacts,
    HookKind,
    HookSpec,
)
from pentad.shared.plugins.context import ToolContext
from pentad.shared.plugins.errors import PluginError, UnusableResult

F = TypeVar("F", bound=Callable[..., Any])

_MAX_DIFFED = 500
"""Messages between the first and the last that a hook changed, beyond which all of them count as changed."""
_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
_RULES = {
    "name": "must be that of a function in a module",
    "instructions": "must be a list of names of instructions and graphs",
    "order": "must be a whole number from -1,000,000 to 1,000,000",
    "timeout": "must be a number of seconds greater than 0 and at most 60",
}


@dataclass(frozen=True, slots=True)
class HookContext:
    """The step that a hook is run for. A parameter that is annotated with it is filled in."""

    tenant_id: str = "default"
    user_id: str | None = None
    session_id: str = ""
    task_id: str = ""
    instruction: str = ""
    step: int = 0


@dataclass(slots=True)
class HookCall:
    """A tool call that a model asks for. A hook may change its arguments."""

    tool: str
    args: dict[str, Any]


@dataclass(slots=True)
class HookAnswer:
    """A model's answer: its text, and the tool calls that it asks for."""

    text: str
    calls: list[HookCall] = field(default_factory=list)


@dataclass(slots=True)
class HookResult:
    """The result of a tool call, as the model is to be told it."""

    tool: str
    tool_call_id: str
    ok: bool
    text: str


@dataclass(frozen=True, slots=True)
class HookTask:
    """A task that begins or has ended. A task that has not ended has no status, reason and answer."""

    goal: str
    instruction: str
    parent_task_id: str | None = None
    status: str = ""
    reason: str = ""
    answer: str = ""


@dataclass(frozen=True, slots=True)
class HookDefinition:
    """A hook that this process can run. It is called like a tool, by its worker."""

    word: ClassVar[str] = "hook"
    spec: HookSpec
    function: Callable[..., Any]
    is_async: bool
    subject: str | None
    """Parameter that takes what the hook is given; None for a hook that takes only the context."""
    context: str | None
    """Parameter that takes the ``HookContext``."""
    belongs_to: ClassVar[None] = None

    def call(self, args: dict[str, Any], _: ToolContext) -> Any:
        """Run the hook. Returns its checked outcome as JSON, or a coroutine that does.

        Raises ``UnusableResult`` for an outcome that is none, and what the function raises.
        """
        given = json.loads(args["subject"])
        kwargs: dict[str, Any] = {}
        if self.context is not None:
            kwargs[self.context] = HookContext(**args["facts"])
        if self.subject is not None:
            kwargs[self.subject] = _GIVEN[self.spec.kind](given)
        value = self.function(**kwargs)
        return self._later(value, args["subject"]) if isawaitable(value) else self._sent(value, args["subject"])

    async def _later(self, value: Any, subject: str) -> str:
        return self._sent(await value, subject)

    def _sent(self, value: Any, subject: str) -> str:
        try:
            outcome = _OUTCOMES[self.spec.kind](value, json.loads(subject))
            text = json.dumps(outcome, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            size = len(text.encode())
        except (TypeError, ValueError, RecursionError) as error:
            raise UnusableResult(f"hook {self.spec.name!r} returned what it must not: {str(error)[:1000]}") from None
        if size > MAX_HOOKED_BYTES:
            raise UnusableResult(
                f"hook {self.spec.name!r} returned {size:,} bytes of changes, the limit is {MAX_HOOKED_BYTES:,}: "
                "change less"
            )
        return text


_hooks: dict[str, HookDefinition] = {}


def hook(
    kind: HookKind, instructions: Sequence[str] | None = None, order: int = 0, timeout: float = HOOK_TIMEOUT_S
) -> Callable[[F], F]:
    """Makes a function a hook; the function itself stays as it is.

    ``kind`` says when it runs: ``before_model``, ``after_model``, ``before_tool``, ``after_tool``, ``task_start`` or
    ``task_end``. ``instructions`` names the instructions and graphs that it concerns, all when missing. Hooks of a kind
    run by their ``order``, the lowest first. ``timeout`` is in seconds. Raises ``PluginError`` when the function cannot
    be such a hook.
    """
    if not isinstance(kind, str) or kind not in HOOK_KINDS:
        raise PluginError(f"@hook({kind!r}) is of no kind that there is: write one of {', '.join(HOOK_KINDS)}")

    def decorated(function: F) -> F:
        made = _define(function, kind, instructions, order, timeout)
        earlier = _hooks.get(made.spec.name)
        if earlier is not None and (earlier.function.__code__ != made.function.__code__ or earlier.spec != made.spec):
            raise PluginError(f"hook {made.spec.name!r} is defined twice: give each hook a function of its own")
        _hooks[made.spec.name] = made
        return function

    return decorated


def registered_hooks() -> Mapping[str, HookDefinition]:
    """Return the hooks that the modules imported so far have defined, by name."""
    return MappingProxyType(_hooks)


def _define(
    function: Any, kind: HookKind, instructions: Sequence[str] | None, order: int, timeout: float
) -> HookDefinition:
    name = getattr(function, "__qualname__", repr(function))
    if not isinstance(function, FunctionType) or function.__qualname__ != function.__name__:
        raise PluginError(f"@hook takes a function at the top of its module, not {name}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise PluginError(f"hook {name!r} yields: return one value")
    subject, context = _parameters(name, function)
    options = {"kind": kind, "instructions": instructions, "order": order, "timeout": timeout}
    options["name"] = f"{function.__module__}.{function.__name__}"
    try:
        spec = HookSpec.model_validate(options, strict=False)
    except ValidationError as error:
        wrong = str(error.errors()[0]["loc"][0])
        raise PluginError(f"hook {name!r}: {wrong}={options[wrong]!r} {_RULES[wrong]}") from None
    return HookDefinition(spec, function, inspect.iscoroutinefunction(function), subject, context)


def _parameters(name: str, function: FunctionType) -> tuple[str | None, str | None]:
    """Return the parameters that take what the hook is given, and its context. Raises ``PluginError``."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except Exception as error:  # an annotation is code: it may raise anything
        raise PluginError(f"hook {name!r}: its annotations cannot be resolved ({error})") from error
    subject = context = None
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise PluginError(f"hook {name!r}: parameter '{parameter}' cannot be filled in by name")
        if _is_context(hints.get(parameter.name)):
            context = parameter.name
        elif subject is None:
            subject = parameter.name
        elif parameter.default is parameter.empty:
            raise PluginError(
                f"hook {name!r} has more parameters than a hook is given: it takes one, and another that is annotated "
                "with pentad.HookContext"
            )
    return subject, context


def _is_context(hint: Any) -> bool:
    return any(map(_is_context, get_args(hint))) if get_origin(hint) is Annotated else hint is HookContext


def facts_of(context: HookFacts) -> dict[str, Any]:
    """Return the facts of a step in the form in which a hook's process is told them."""
    return context.model_dump()


# What a hook is given


def _answer(given: dict[str, Any]) -> HookAnswer:
    return HookAnswer(given["text"], [HookCall(**call) for call in given["calls"]])


_GIVEN: Mapping[HookKind, Callable[[Any], Any]] = {
    "before_model": lambda given: given,
    "after_model": _answer,
    "before_tool": lambda given: HookCall(**given),
    "after_tool": lambda given: HookResult(**given),
    TASK_BEGINS: lambda given: HookTask(**given),
    TASK_ENDS: lambda given: HookTask(**given),
}

# What a hook returned: each function checks it, and returns None where everything stays as it is


def _messages(value: Any, given: list[dict[str, Any]]) -> list[Any] | None:
    """Return the changes as ``[start, end, messages]``."""
    if value is None:
        return None
    if not isinstance(value, list) or not value:
        raise TypeError(f"{_kind(value)} in place of a list of messages")
    for message in value:
        _check_message(message)
    _check_results(value)
    return [[start, end, value[begin:stop]] for start, end, begin, stop in _changes(given, value)] or None


def _check_message(message: Any) -> None:
    if not isinstance(message, dict) or message.get("role") not in _ROLES:
        raise TypeError(f"{_kind(message)} in place of a message: an object whose role is one of {sorted(_ROLES)}")
    content, calls = message.get("content"), message.get("tool_calls")
    if not isinstance(content, str | list | None):
        raise TypeError(f"a message whose content is {_kind(content)}: it is text")
    if content is None and not calls:
        raise ValueError("a message without content")
    if message["role"] == "tool" and not isinstance(message.get("tool_call_id"), str):
        raise ValueError("a message of role tool without its tool_call_id")
    if calls is not None and not (isinstance(calls, list) and all(map(_is_call, calls))):
        raise ValueError("a message whose tool_calls are not of the OpenAI form")


def _is_call(call: Any) -> bool:
    function = call.get("function") if isinstance(call, dict) else None
    named = isinstance(function, dict) and isinstance(function.get("name"), str)
    return bool(named) and isinstance(call.get("id"), str) and isinstance((function or {}).get("arguments"), str)


def _check_results(messages: list[dict[str, Any]]) -> None:
    """Refuse calls without their results, and results without their calls: model servers refuse such a prompt."""
    open_calls: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                raise ValueError(f"the result of a call {message['tool_call_id']!r} that no message before it makes")
            open_calls.discard(message["tool_call_id"])
            continue
        if open_calls:
            raise ValueError(f"calls without their results: {', '.join(sorted(open_calls))}")
        open_calls = {call["id"] for call in message.get("tool_calls") or ()}
    if open_calls:
        raise ValueError(f"calls without their results: {', '.join(sorted(open_calls))}")


def _changes(old: list[Any], new: list[Any]) -> list[tuple[int, int, int, int]]:
    """Return which messages of the old list were replaced by which of the new one."""
    first, shortest = 0, min(len(old), len(new))
    while first < shortest and old[first] == new[first]:
        first += 1
    last = 0
    while last < shortest - first and old[-1 - last] == new[-1 - last]:
        last += 1
    old_end, new_end = len(old) - last, len(new) - last
    if first == old_end == new_end:
        return []
    if old_end == new_end:
        return [(n, n + 1, n, n + 1) for n in range(first, old_end) if old[n] != new[n]]
    if max(old_end, new_end) - first > _MAX_DIFFED:
        return [(first, old_end, first, new_end)]
    lines = [[json.dumps(each, sort_keys=True) for each in part] for part in (old[first:old_end], new[first:new_end])]
    found = SequenceMatcher(None, lines[0], lines[1], autojunk=False).get_opcodes()
    return [(first + a, first + b, first + c, first + d) for tag, a, b, c, d in found if tag != "equal"]


def _new_answer(value: Any, given: dict[str, Any]) -> dict[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, HookAnswer):
        raise TypeError(f"{_kind(value)} in place of the answer")
    if not isinstance(value.text, str) or not isinstance(value.calls, list | tuple):
        raise TypeError("an answer whose text is no text, or whose calls are no list")
    made = {"text": value.text, "calls": [_call(call) for call in value.calls]}
    return None if made == given else made


def _call(call: Any) -> dict[str, Any]:
    if not isinstance(call, HookCall) or not isinstance(call.tool, str) or not isinstance(call.args, dict):
        raise TypeError(f"{_kind(call)} in place of a call: a pentad.HookCall with the name of its tool and its args")
    return {"tool": call.tool, "args": call.args}


def _judged(value: Any, given: dict[str, Any]) -> dict[str, Any] | None:
    if value is True:
        return None
    if value is False:
        return {"refused": ""}
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], bool):
        allowed, reason = value
        if not isinstance(reason, str):
            raise ValueError(f"a reason that is {_kind(reason)}: it is text")
        return None if allowed else {"refused": reason[:2000]}
    if not isinstance(value, HookCall):
        raise TypeError(f"{_kind(value)}: return True, False, (False, reason), or the call")
    made = _call(value)
    if made["tool"] != given["tool"]:
        raise ValueError(f"a call of {made['tool']!r} in place of one of {given['tool']!r}: only its args may change")
    return None if made == given else {"args": made["args"]}


def _new_result(value: Any, given: dict[str, Any]) -> dict[str, Any] | None:
    if value is None:
        return None
    text = value.text if isinstance(value, HookResult) else value
    if not isinstance(text, str):
        raise TypeError(f"{_kind(value)} in place of the result")
    return None if text == given["text"] else {"text": text}


def _told(_: Any, __: Any) -> None:
    """Ignore what it returned: such a hook is only told."""


def _kind(value: Any) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"


_OUTCOMES: Mapping[HookKind, Callable[[Any, Any], Any]] = {
    "before_model": _messages,
    "after_model": _new_answer,
    "before_tool": _judged,
    "after_tool": _new_result,
    TASK_BEGINS: _told,
    TASK_ENDS: _told,
}
