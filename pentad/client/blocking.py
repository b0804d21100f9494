"""An agent for programs without an event loop: each call waits for its end. A loop of its own runs in a thread."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator
from contextlib import suppress
from typing import Any, Literal, Self, TypeVar, Unpack, overload

from pentad.client.agent import Agent, connect
from pentad.client.answers import Traced
from pentad.client.graph_execution import ExecutionStatus, GraphExecution, GraphResult
from pentad.client.task_changes import Observed
from pentad.client.turns import About
from pentad.contracts.events import SessionEvent
from pentad.contracts.runs import InstructionRun, RunCall
from pentad.contracts.tokens import AccessToken
from pentad.shared.agent_graphs.given import GivenGraph

T = TypeVar("T")


class _Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="pentad", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result. Ctrl-C cancels it.

        Raises the coroutine's errors, and ``RuntimeError`` after the end.
        """
        if not self._thread.is_alive():
            work.close()
            raise RuntimeError("this agent was shut down: make another with pentad.connect_sync()")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def each(self, found: AsyncGenerator[T, None]) -> Iterator[T]:
        """Iterate over what an asynchronous generator yields; leaving it closes the generator."""

        async def following() -> tuple[T] | None:
            try:
                return (await anext(found),)
            except StopAsyncIteration:
                return None

        try:
            while (one := self.wait(following())) is not None:
                yield one[0]
        finally:
            self.wait(found.aclose())

    def stop(self) -> None:
        """End the loop and its thread. Safe to call twice."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()


class _Waiting:
    """An object's coroutine methods as blocking ones."""

    def __init__(self, about: object, loop: _Loop) -> None:
        self._about, self._loop = about, loop

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._about, name)
        if not callable(found):
            return _Waiting(found, self._loop)

        def made(*args: Any, **options: Any) -> Any:
            begun = found(*args, **options)
            return self._loop.each(begun) if isinstance(begun, AsyncGenerator) else self._loop.wait(begun)

        return made


class SyncGraphExecution:
    """A ``GraphExecution`` for programs without an event loop: its methods wait. Iterate over it for its events."""

    def __init__(self, execution: GraphExecution, loop: _Loop) -> None:
        self._execution, self._loop = execution, loop
        self.execution_id = execution.execution_id
        self.session_id = execution.session_id
        self.start_time = execution.start_time

    def __iter__(self) -> Iterator[SessionEvent]:
        return self._loop.each(self._execution.__aiter__())

    def status(self) -> ExecutionStatus:
        """Return the status of the run."""
        return self._loop.wait(self._execution.status())

    def iteration_count(self) -> int:
        """Return the number of nodes that the run has come to."""
        return self._loop.wait(self._execution.iteration_count())

    def pause(self) -> None:
        """Pause the run."""
        self._loop.wait(self._execution.pause())

    def resume(self) -> None:
        """Let a paused run go on where it was."""
        self._loop.wait(self._execution.resume())

    def abort(self) -> None:
        """Cancel the run."""
        self._loop.wait(self._execution.abort())

    def get_tool_calls(self) -> list[RunCall]:
        """Return the tool calls of the run and of the tasks that it has started."""
        return self._loop.wait(self._execution.get_tool_calls())

    def add_message(self, text: str, *, task_id: str | None = None) -> None:
        """Say something to the run, as ``GraphExecution.add_message`` does."""
        self._loop.wait(self._execution.add_message(text, task_id=task_id))

    def result(self) -> GraphResult:
        """Wait for the end of the run, as ``GraphExecution.result`` does. Raises ``RunWaits``."""
        return self._loop.wait(self._execution.result())


class SyncAgent:
    """An ``Agent`` for programs without an event loop, used by ``with``. Made by ``connect_sync``.

    ``inspection``, ``management``, ``memory``, ``models`` and ``tools`` have the methods of the same names.

    Not for use within a running event loop.
    """

    def __init__(self, agent: Agent, loop: _Loop) -> None:
        self._agent, self._loop = agent, loop
        self.inspection: Any = _Waiting(agent.inspection, loop)
        self.management: Any = _Waiting(agent.management, loop)
        self.memory: Any = _Waiting(agent.memory, loop)
        self.models: Any = _Waiting(agent.models, loop)
        self.tools: Any = _Waiting(agent.tools, loop)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    @property
    def session_id(self) -> str | None:
        """The conversation that is gone on with where no other is named."""
        return self._agent.session_id

    def shutdown(self) -> None:
        """Close the connections. Safe to call twice; what runs goes on."""
        with suppress(RuntimeError):  # it was shut down before
            self._loop.wait(self._agent.shutdown())
        self._loop.stop()

    def session(self, session_id: str | None = None, user_id: str | None = None) -> "SyncAgent":
        """Return a blocking agent for one session, as ``Agent.session`` does."""
        return SyncAgent(self._agent.session(session_id, user_id), self._loop)

    def files(self, session_id: str | None = None) -> Any:
        """Return the files of a session, with the methods of ``Agent.files``, which wait."""
        return _Waiting(self._agent.files(session_id), self._loop)

    @overload
    def ask(self, text: str, *, output: None = None, trace: Literal[False] = False, **about: Unpack[About]) -> str: ...

    @overload
    def ask(self, text: str, *, output: type[T], trace: Literal[False] = False, **about: Unpack[About]) -> T: ...

    @overload
    def ask(self, text: str, *, output: None = None, trace: Literal[True], **about: Unpack[About]) -> Traced[str]: ...

    @overload
    def ask(self, text: str, *, output: type[T], trace: Literal[True], **about: Unpack[About]) -> Traced[T]: ...

    def ask(self, text: str, *, output: type[Any] | None = None, trace: bool = False, **about: Unpack[About]) -> Any:
        """Send a message and return the answer, as ``Agent.ask`` does."""
        ask: Any = self._agent.ask
        return self._loop.wait(ask(text, output=output, trace=trace, **about))

    def send(self, text: str, **about: Unpack[About]) -> Iterator[SessionEvent]:
        """Send a message and iterate over the turn's events, as ``Agent.send`` does."""
        return self._loop.each(self._agent.send(text, **about))

    def run(self, instruction: str, text: str, **about: Any) -> Any:
        """Run an instruction to its end, as ``Agent.run`` does."""
        return self._loop.wait(self._agent.run(instruction, text, **about))

    def execute(self, instruction: str, text: str, **about: Any) -> InstructionRun:
        """Run an instruction and return its data or content, as ``Agent.execute`` does."""
        return self._loop.wait(self._agent.execute(instruction, text, **about))

    def execute_graph(self, graph: GivenGraph, *args: Any, **about: Any) -> SyncGraphExecution:
        """Begin a run of a graph, as ``Agent.execute_graph`` does."""
        return SyncGraphExecution(self._loop.wait(self._agent.execute_graph(graph, *args, **about)), self._loop)

    def token(self, **options: Any) -> AccessToken:
        """Return a short-lived token for this session, as ``Agent.token`` does."""
        return self._loop.wait(self._agent.token(**options))

    def observe(self, session_id: str | None = None, **options: Any) -> Iterator[Observed]:
        """Iterate over the list of tasks at each change, as ``Agent.observe`` does."""
        return self._loop.each(self._agent.observe(session_id, **options))


def connect_sync(url: str | None = None, api_key: str | None = None, **options: Any) -> SyncAgent:
    """A ``SyncAgent`` for ``with``. Arguments as of ``connect``. Raises ``ClientError``."""
    return SyncAgent(connect(url, api_key, **options), _Loop())
