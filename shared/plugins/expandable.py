"""Tools that are one class: its methods are the actions, which share what the object holds."""

import asyncio
import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import FunctionType
from typing import Any, ClassVar, TypeVar, overload

from pentad.contracts.tools import DEFAULT_BREAKER, TIMEOUT_S, Approval, Effect
from pentad.shared.plugins.definition import ToolDefinition, ToolObject
from pentad.shared.plugins.errors import PluginError, SetupFailed
from pentad.shared.plugins.registry import EffectName, define, register

log = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])

SETUP_S = 60.0
"""Seconds that ``setup`` may take."""
CLOSE_S = 0.7
"""Seconds that ``close`` may take: a child process that is told to end has one."""
_OPTIONS = "__pentad_action__"
"""Attribute of a method that is an action: its options."""
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_needing_arguments: dict[str, None] = {}
"""Classes of tools that cannot be made without arguments, by ``module.Class``."""


class ExpandableTool:
    """The base of a class that is several tools: each method under ``@pentad.action`` is the tool ``{name}_{action}``.

        class Hotel(pentad.ExpandableTool):
            async def setup(self) -> None:
                self.rooms = await connect()

            @pentad.action(effect="pure")
            async def free(self, nights: int) -> list[str]:
                '''Lists the rooms that are free.'''
                return await self.rooms.free(nights)

    As a plug-in the class is made without arguments, once in each process that runs its tools, when the first of its
    actions is called. An object that is given to ``pentad.start(tools=[...])`` is used as it is.
    """

    name: str
    """The first part of the names of its tools: the class's own name in lower case, when it says no other."""
    _pentad_actions: ClassVar[Mapping[str, str]] = {}
    """Names of the actions, each with its method."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" not in vars(cls):
            cls.name = _WORD_START.sub("_", cls.__name__).lower().strip("_")
        cls._pentad_actions = dict(_actions_of(cls))
        if not cls._pentad_actions:
            return
        definitions = definitions_of(cls)
        if needs_arguments(cls):
            _needing_arguments[f"{cls.__module__}.{cls.__qualname__}"] = None
            return
        for definition in definitions:
            register(definition)

    def setup(self) -> Awaitable[None] | None:
        """Prepare what the actions share, as a plain method or an async one, once in a process, before the first call.

        When it raises, that call fails with its error, and the next call tries it again.
        """
        return None

    def close(self) -> Awaitable[None] | None:
        """Give back what ``setup`` has taken, likewise. A process that is killed does not run it."""
        return None


@overload
def action(function: F, /) -> F: ...


@overload
def action(
    name: str | None = None,
    effect: EffectName | Effect = "unsafe",
    timeout: float = TIMEOUT_S,
    queue: str = "default",
    isolated: bool = False,
    env: Sequence[str] = (),
    parameters: Mapping[str, Any] | None = None,
    approval: Approval = "never",
    concurrency: int | None = None,
    rate: str | None = None,
    breaker: str | None = DEFAULT_BREAKER,
) -> Callable[[F], F]: ...


def action(
    name: Any = None,
    effect: EffectName | Effect = "unsafe",
    timeout: float = TIMEOUT_S,
    queue: str = "default",
    isolated: bool = False,
    env: Sequence[str] = (),
    parameters: Mapping[str, Any] | None = None,
    approval: Approval = "never",
    concurrency: int | None = None,
    rate: str | None = None,
    breaker: str | None = DEFAULT_BREAKER,
) -> Any:
    """Make a method of a ``pentad.ExpandableTool`` one of its tools.

    The options are those of ``pentad.tool``; ``name`` is the method's when missing, and the tool is called
    ``{class}_{name}``. Also without parentheses. Raises ``PluginError`` when the method cannot be a tool.
    """
    if name is not None and not isinstance(name, str):
        return _marked(name, {"breaker": DEFAULT_BREAKER})
    options: dict[str, Any] = {"effect": effect, "timeout": timeout, "queue": queue, "isolated": isolated}
    options |= {"env": env, "parameters": parameters, "approval": approval} | ({} if name is None else {"name": name})
    options |= {"concurrency": concurrency, "rate": rate, "breaker": breaker}
    return lambda function: _marked(function, options)


def _marked(function: F, options: Mapping[str, Any]) -> F:
    if not isinstance(function, FunctionType):
        raise PluginError(f"@action takes a method of a pentad.ExpandableTool, not {function!r}: put it right over def")
    setattr(function, _OPTIONS, dict(options))
    return function


def _actions_of(cls: type[ExpandableTool]) -> Iterator[tuple[str, str]]:
    """Yield the name of each action with its method; a subclass's method goes before one that it overrides."""
    attributes = dict.fromkeys(name for kind in reversed(cls.__mro__) for name in vars(kind))
    for attribute in attributes:
        method = inspect.getattr_static(cls, attribute)
        options = getattr(method, _OPTIONS, None)
        if options is not None and isinstance(method, FunctionType):
            yield options.get("name", attribute), attribute


def definitions_of(tool: ExpandableTool | type[ExpandableTool]) -> tuple[ToolDefinition, ...]:
    """Return the tools of an object, or of a class whose object is made when it is first needed.

    Raises ``PluginError``.
    """
    cls = tool if isinstance(tool, type) else type(tool)
    if not cls._pentad_actions:
        return ()
    if not isinstance(tool.name, str):
        raise PluginError(f"{cls.__qualname__}.name is {tool.name!r}: it must be a text that tools' names begin with")
    shared = SharedObject(cls, None if isinstance(tool, type) else tool)
    return tuple(_definition(tool.name, shared, name, attribute) for name, attribute in cls._pentad_actions.items())


def _definition(tool: str, shared: "SharedObject", name: str, attribute: str) -> ToolDefinition:
    method = inspect.getattr_static(shared.kind, attribute)
    options = getattr(method, _OPTIONS) | {"name": f"{tool}_{name}"}
    return define(method, belongs_to=shared, **options)


def needs_arguments(cls: type) -> bool:
    """Return whether an object of a class cannot be made without arguments."""
    try:
        inspect.signature(cls).bind()
    except (TypeError, ValueError):
        return True
    return False


def not_made_by_plugins() -> Sequence[str]:
    """Return the classes of tools that no plug-in can make, because they need arguments."""
    return tuple(_needing_arguments)


class SharedObject(ToolObject):
    """The object of an ``ExpandableTool`` in this process: made, set up and closed once."""

    def __init__(self, kind: type[ExpandableTool], held: ExpandableTool | None) -> None:
        self.kind = kind
        self._held = held
        self._starting: asyncio.Task[None] | None = None
        self._is_ready = False

    @property
    def source(self) -> str:
        return f"{self.kind.__module__}.{self.kind.__qualname__}"

    @property
    def is_ready(self) -> bool:
        return self._is_ready

    @property
    def held(self) -> ExpandableTool:
        assert self._held is not None
        return self._held

    async def ready(self) -> None:
        if self._is_ready:
            return
        if self._starting is None or self._starting.done():
            self._starting = asyncio.get_running_loop().create_task(self._set_up())
            self._starting.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.shield(self._starting)

    async def _set_up(self) -> None:
        try:
            async with asyncio.timeout(SETUP_S):
                if self._held is None:
                    self._held = self.kind()
                await _run(self._held.setup)
        except TimeoutError as error:
            raise SetupFailed(f"{self.kind.__qualname__}.setup has not ended within {SETUP_S:g} s") from error
        except (Exception, SystemExit) as error:
            log.warning("%s could not be set up", self.source, exc_info=error)
            raise SetupFailed(
                f"{self.kind.__qualname__} could not be set up: {type(error).__name__}: {error}".removesuffix(": ")
            ) from error
        self._is_ready = True

    async def close(self) -> None:
        if self._starting is not None and not self._starting.done():
            self._starting.cancel()
            with suppress(asyncio.CancelledError, SetupFailed):
                await self._starting
        if not self._is_ready:
            return
        self._is_ready = False
        try:
            async with asyncio.timeout(CLOSE_S):
                await _run(self.held.close)
        except TimeoutError:
            log.warning("%s.close has not ended within %g s", self.source, CLOSE_S)
        except (Exception, SystemExit) as error:
            log.warning("%s could not be closed", self.source, exc_info=error)


async def _run(method: Callable[[], Any]) -> None:
    """Run a method on the loop when it is async, else in a thread."""
    if inspect.iscoroutinefunction(method):
        await method()
        return
    value = await asyncio.to_thread(method)
    if inspect.isawaitable(value):
        await value
