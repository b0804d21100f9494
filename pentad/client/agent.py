"""A conversation with a running Pentad: say something, follow its events, look at tasks, stop them."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from copy import copy
from dataclasses import replace
from typing import Any, Literal, Self, TypeVar, Unpack, cast, overload
from uuid import uuid4

from pentad.client.address import address_for, with_admin_key
from pentad.client.answers import Traced, instance_of, schema_of, trace_of
from pentad.client.callbacks import RunCallbacks, RunTelling, Told, called
from pentad.client.calls import Models, Tools
from pentad.client.client_tools import BroughtToolRuns, brought_tools
from pentad.client.feed import PATIENCE_S, Feed, Notice, position
from pentad.client.files import SessionFiles
from pentad.client.gateway import Address, Rest
from pentad.client.graph_execution import GraphExecution, GraphResult, content_of, register_anew
from pentad.client.inspection import PAGE_LIMIT, Inspection, given_spec
from pentad.client.management import Management
from pentad.client.memory import MemoryManager
from pentad.client.task_changes import INTERVAL_S, Observed, Watching, alone, of_session, of_tenant, with_memory
from pentad.client.text import said_in
from pentad.client.turns import About, Turn, identifier, message_of, new_session, run_to_its_end
from pentad.contracts.approvals import PendingApproval
from pentad.contracts.commands import NEW_TASK
from pentad.contracts.events import MessageEvent, SessionEvent, TaskEnd, ToolCallEvent, ToolResultEvent
from pentad.contracts.records import ShownStatus
from pentad.contracts.runs import InstructionRun
from pentad.contracts.tokens import DEFAULT_TTL_S, AccessToken, Right
from pentad.contracts.turns import TurnEnd, TurnTracker
from pentad.errors import NotFound, Refused, RunFailed, TurnFailed
from pentad.shared.agent_graphs.given import GivenGraph
from pentad.shared.command_settings import client_settings

T = TypeVar("T")


class Agent:
    """A gateway, seen as someone to talk to. Made by ``connect``.

    What is said without a session is a conversation of its own each time; ``session`` gives an agent of one session.
    """

    def __init__(
        self,
        address: Address,
        *,
        patience_s: float | None = None,
        notice: Notice | None = None,
        admin_key: str | None = None,
        user_id: str | None = None,
    ) -> None:
        self.user_id = None if user_id is None else identifier("user_id", user_id)
        """The person behind what is said, where no other is named: whose what is remembered of it is, and who looks."""
        self.session_id: str | None = None
        """The conversation that is gone on with where no other is named; None: each time a new one."""
        self._address = address
        self._notice = notice
        self._patience_s = PATIENCE_S if patience_s is None else patience_s
        self._rest = Rest(address)
        self._operator = self._rest if admin_key is None else Rest(replace(address, api_key=admin_key))
        self.management = Management(self._rest, self._operator)
        self._look()

    def _look(self) -> None:
        """Look at memory as this agent's user, in its session."""
        self.inspection = Inspection(self._rest, self._operator, self.user_id, self.session_id)
        self.tools = Tools(self._rest, self.user_id, self._patience_s)
        self.models = Models(self._rest)
        self.memory = MemoryManager(self._rest, self.inspection, self.management, self.session_id, self.user_id)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.shutdown()

    async def shutdown(self) -> None:
        """Close the connections, as leaving ``async with`` does. Safe to call twice; what runs goes on."""
        await self._rest.aclose()
        await self._operator.aclose()

    def session(self, session_id: str | None = None, user_id: str | None = None) -> "Agent":
        """Return an agent for one session at the same gateway, over the same connections: the named one, or a new one.

        ``user_id``: the person behind it, this agent's when not given. What is said in it without one is remembered
        for this conversation alone. Raises ``Refused`` for what is no name.
        """
        bound = copy(self)
        bound.session_id = identifier("session_id", session_id or new_session())
        if user_id is not None:
            bound.user_id = identifier("user_id", user_id)
        bound._look()
        return bound

    def files(self, session_id: str | None = None) -> SessionFiles:
        """Return the files of a session: of the named one, else of this agent's."""
        named = self.session_id if session_id is None else identifier("session_id", session_id)
        return SessionFiles(self._rest, named)

    @overload
    async def ask(
        self, text: str, *, output: None = None, trace: Literal[False] = False, **about: Unpack[About]
    ) -> str: ...

    @overload
    async def ask(self, text: str, *, output: type[T], trace: Literal[False] = False, **about: Unpack[About]) -> T: ...

    @overload
    async def ask(
        self, text: str, *, output: None = None, trace: Literal[True], **about: Unpack[About]
    ) -> Traced[str]: ...

    @overload
    async def ask(self, text: str, *, output: type[T], trace: Literal[True], **about: Unpack[About]) -> Traced[T]: ...

    async def ask(
        self, text: str, *, output: type[Any] | None = None, trace: bool = False, **about: Unpack[About]
    ) -> Any:
        """Say something and wait for the answer: the text of the turn's last message. Arguments as of ``send``.

        ``output``: a pydantic model, or another type with a JSON schema: a task of its own answers, and the answer is
        an instance. ``trace``: give the answer as the ``value`` of a `Traced`, with the steps that led to it. Raises
        ``TurnFailed`` when the turn ends without an answer, ``WrongAnswer`` for one that is no ``output`` by a rule
        that its schema does not tell, and what else ``send`` raises.
        """
        if output is not None:
            about["output_schema"] = schema_of(output)
        turn = self.turn(text, **await self._placed(about))
        answer, asked, last_step = "", "", None
        async with aclosing(turn.__aiter__()) as received:
            async for one in received:
                answer = said_in(one.event, turn.task_id) or answer
                asked = one.event.content if isinstance(one.event, MessageEvent) else asked
                if isinstance(one.event, TaskEnd) and one.event.task_id == turn.task_id:
                    last_step = one.event.steps
        end = turn.end or TurnEnd("error", "the turn did not end")
        if not end.ok or (output is not None and end.outcome != "completed"):
            raise TurnFailed(end)
        if end.outcome == "waiting":
            answer = asked or answer  # a task that the turn's has started may ask
        value = answer if output is None else instance_of(output, answer, is_json=True)
        if not trace:
            return value
        steps = await trace_of(self.inspection, turn.task_id, turn.message_id, last_step)
        return Traced(value, turn.session_id, turn.task_id, steps)

    async def send(self, text: str, **about: Unpack[About]) -> AsyncGenerator[SessionEvent, None]:
        """Say something and follow the events of its turn to their end, across lost connections, each event once.

        ``about``: ``session_id`` and ``user_id`` whose it is; ``task_id`` sends it straight to a task, whose session
        need not be named, ``new`` to one of its own; ``instruction`` names what is run, ``state`` is the first state of
        a graph; ``metadata``, ``deadline`` (RFC 3339) and ``budget`` (``tokens usd steps``) are the turn's.
        ``message_id`` makes it idempotent in its session: one that was sent before gives the first one's turn again, as
        far as the session's events are kept. ``cancels``: to leave before the end cancels what it runs. ``tools``: the
        program's own, functions that the model may call and this turn runs. Raises ``ClientError``; what goes wrong
        inside the turn (``error``, a rejected message, a failed task) is an event.
        """
        turn = self.turn(text, **await self._placed(about))
        async with aclosing(turn.__aiter__()) as received:
            async for one in received:
                yield one.event

    def turn(self, text: str, **about: Unpack[About]) -> Turn:
        """Like ``send``, as an object that also knows its task, how it ended, and each event's cursor.

        A ``task_id`` needs its session here. Raises ``Refused`` for what cannot be sent.
        """
        named = about.get("session_id") or self.session_id
        if named is None and about.get("task_id") not in (None, "", NEW_TASK):
            raise Refused("name the task's session too: agent.session(...), or session_id=")
        session = identifier("session_id", named or new_session())
        user = about.get("user_id") or self.user_id
        tools = brought_tools(about.get("tools"))
        message = message_of(text, {**about, "session_id": None, "user_id": user, "tools": tools.sent or None})
        after = None if about.get("message_id") is None else "0"  # what was said before has its turn behind us
        feed = self._feed(session, [message], after)
        cancels = self.management.cancel_task if about.get("cancels") else None
        name = message["message_id"]
        tracker = TurnTracker(name, runs=frozenset(tools.functions))
        runs = BroughtToolRuns(name, tools.functions, self.inspection, self.management, self._patience_s)
        return Turn(feed, [tracker], self.inspection, cancels, user, runs if tools.functions else None)

    async def _placed(self, about: About) -> About:
        """Return the options with the session of the named task, where they name none. Raises ``NotFound``."""
        task_id = about.get("task_id")
        if task_id in (None, NEW_TASK) or about.get("session_id") or self.session_id:
            return about
        task = await self.inspection.task(identifier("task_id", task_id))
        return {**about, "session_id": task.session_id}

    async def run(
        self,
        instruction: str,
        text: str,
        *,
        output: type[Any] | None = None,
        trace: bool = False,
        on_text: Callable[[str], Told] | None = None,
        on_tool_start: Callable[[ToolCallEvent], Told] | None = None,
        on_tool_end: Callable[[ToolResultEvent], Told] | None = None,
        on_complete: Callable[[Any], Told] | None = None,
        **about: Any,
    ) -> Any:
        """Run an instruction: the data of a ``json`` one, else the text of its answer; or a graph: the text of its end.

        ``about``: as for ``execute``.

        ``output``: a pydantic model, or another type with a JSON schema, in place of the instruction's own: the answer
        is an instance. ``trace``: give the answer as the ``value`` of a `Traced`, with the steps that led to it.

        Callbacks, plain or async, are told while it runs: ``on_text`` each piece of the agent's text (the text of a
        broken attempt begins anew), ``on_tool_start`` and ``on_tool_end`` the events of each call, and ``on_complete``
        the answer in the end. What one raises ends this call; the run goes on.

        Raises ``RunFailed`` when it did not complete, ``WrongAnswer`` as ``ask`` does, and ``ClientError``. To see all
        events as they come, ``send`` with ``instruction``.
        """
        if output is not None:
            about["output_schema"] = schema_of(output)
        callbacks, tools = RunCallbacks(on_text, on_tool_start, on_tool_end, on_complete), about.get("tools")
        if callbacks.follow:
            about["session_id"] = about.get("session_id") or new_session()
            about["message_id"] = about.get("message_id") or f"m-{uuid4().hex}"
            await self._told(instruction, text, callbacks, about)
            about["tools"] = brought_tools(tools).sent  # their functions have run
        found = await self.execute(instruction, text, **about)
        if found.error is not None or found.status != "completed":
            raise RunFailed(found)
        value = found.value if output is None else instance_of(output, found.value, is_json=False)
        await called(on_complete, value)
        if not trace:
            return value
        steps = await trace_of(self.inspection, found.task_id, found.message_id, found.steps or None)
        return Traced(value, found.session_id, found.task_id, steps)

    async def _told(self, instruction: str, text: str, callbacks: RunCallbacks, about: Mapping[str, Any]) -> None:
        """Follow a run to its end, run its functions, and call its callbacks."""
        await self._known(instruction)
        telling, given = RunTelling(callbacks), {**about, "instruction": instruction}
        turn = self.turn(text, **cast(About, given))
        async with aclosing(turn.__aiter__()) as received:
            async for one in received:
                await telling.tell(one.event)

    async def _known(self, name: str) -> None:
        """Find the instruction or graph of a name, so that one that is not there is told at once."""
        try:
            await self.inspection.instruction(name)
        except NotFound as error:
            try:
                await self.inspection.graph(name)
            except NotFound:
                raise error from None

    async def execute(
        self,
        instruction: str,
        text: str,
        *,
        session_id: str | None = None,
        message_id: str | None = None,
        user_id: str | None = None,
        metadata: Mapping[str, str] | None = None,
        deadline: str | None = None,
        budget: Mapping[str, Any] | None = None,
        output_schema: Mapping[str, Any] | None = None,
        state: Mapping[str, Any] | None = None,
        files: Sequence[str] | None = None,
        tools: Sequence[Any] | None = None,
    ) -> InstructionRun:
        """Run an instruction or a graph to its end and tell all of it: the answer, the tool calls, the costs.

        Each run is in a session of its own unless one is named. Lost connections are made again, and it still runs
        once. ``deadline`` is a time (RFC 3339), ``budget`` has ``tokens usd steps``, ``output_schema`` is
        the JSON schema of the answer in place of the instruction's, ``state`` the first state of a graph, ``files``
        paths of files of the session that it is about. ``tools``: the program's own, functions that the model may call
        and this call runs, as of ``send``. Raises ``NotFound`` for an instruction that is not there, and
        ``ClientError``.
        """
        brought = brought_tools(tools)
        named: About = {"session_id": session_id or new_session(), "user_id": user_id or self.user_id}
        named["message_id"] = message_id or f"m-{uuid4().hex}"
        more: About = {"metadata": metadata, "deadline": deadline, "budget": budget, "output_schema": output_schema}
        more |= {"state": state, "files": files}
        if brought.functions:
            await self._told(instruction, text, RunCallbacks(), {**named, **more, "tools": tools})
        body = message_of(text, {**named, **more, "tools": brought.sent or None})
        told = {name: value for name, value in body.items() if name not in ("type", "content", "task_id")}
        body = {"input": body["content"], **told}
        return await run_to_its_end(self._rest, instruction, body, patience_s=self._patience_s)

    async def execute_graph(
        self,
        graph: GivenGraph,
        entry: str | None = None,
        initial_state: Mapping[str, Any] | None = None,
        *,
        content: str | None = None,
        session_id: str | None = None,
        user_id: str | None = None,
        on_text: Callable[[str], Told] | None = None,
        on_tool_start: Callable[[ToolCallEvent], Told] | None = None,
        on_tool_end: Callable[[ToolResultEvent], Told] | None = None,
        on_complete: Callable[[GraphResult], Told] | None = None,
        tools: Sequence[Any] | None = None,
    ) -> GraphExecution:
        """Begin a run of a graph in a task of its own, and return it. Other arguments as of ``AgentGraph.execute``."""
        spec = given_spec(graph)
        if entry not in (None, spec.entry):
            raise ValueError(f"graph {spec.name!r} begins with {spec.entry!r}, not with {entry!r}: leave entry out")
        text, state = content_of(content, initial_state, spec.description)
        brought = brought_tools(tools)
        await register_anew(self.inspection, self.management, spec)
        session = identifier("session_id", session_id or self.session_id or new_session())
        user = user_id or self.user_id
        here = await position(self._address, session)
        about: About = {"task_id": NEW_TASK, "instruction": spec.name, "state": state, "tools": brought.sent or None}
        turn = await self._placed_turn(text, session, user, about)
        task = await self.inspection.task(turn.task_id or "")
        runs = BroughtToolRuns(turn.message_id, brought.functions, self.inspection, self.management, self._patience_s)

        async def say(more: str, task_id: str) -> None:
            said: About = {"task_id": task_id, "message_id": f"m-{uuid4().hex}"}
            if task_id == task.task_id:  # the others have no tools of a program
                runs.also(said["message_id"] or "")
                said["tools"] = brought.sent or None
            await self._placed_turn(more, session, user, said)

        return GraphExecution(
            task,
            here,
            lambda after: self._feed(session, [], after),
            say,
            self.inspection,
            self.management,
            RunCallbacks(on_text, on_tool_start, on_tool_end, on_complete),
            runs,
        )

    async def _placed_turn(self, text: str, session: str, user: str | None, about: About) -> Turn:
        """Say something, and return its turn as soon as it has its task. Raises ``Refused`` where it is not taken."""
        placed: About = {**about, "session_id": session, "user_id": user}
        turn = self.turn(text, **placed)
        async with aclosing(turn.__aiter__()) as received:
            async for _ in received:
                if turn.task_id is not None or turn.end is not None:
                    break
        if turn.task_id is None or (turn.end is not None and turn.end.outcome == "rejected"):
            raise Refused(f"the message was not taken: {turn.end.why if turn.end is not None else 'it is lost'}")
        return turn

    async def token(
        self,
        *,
        may: Sequence[Right] = ("read", "send"),
        ttl_s: int = DEFAULT_TTL_S,
        user_id: str | None = None,
    ) -> AccessToken:
        """Return a short-lived token for this session, to be given to a web page in place of the key.

        ``may``: ``read`` its events, messages and tasks; ``send`` messages, and control tasks; ``approve``.
        ``user_id``: the person whose messages are sent with it, this agent's when not given. ``ttl_s``: seconds, a day
        at most. Raises ``Refused`` when this agent has no session, and for what no token may have.
        """
        user = self.user_id if user_id is None else identifier("user_id", user_id)
        body = {"session_id": self._named(None), "user_id": user, "may": list(may), "ttl_s": ttl_s}
        return AccessToken.model_validate(await self._rest.call("POST", "/v1/tokens", body=body))

    async def move(self, message_id: str, to: str, task_id: str, *, beside: Turn | None = None) -> Turn:
        """Move a message of this session as ``management.move`` does; a turn of what comes of it in the other task.

        ``beside``: a turn of the session that is followed and has not ended, which then has that as well, and is
        returned. Raises ``NotFound``, ``Conflict``, and ``Refused`` when this agent has no session.
        """
        session, moving = self._named(None), self.management.move
        if beside is not None:
            await beside.expecting(message_id, task_id, moving(message_id, to, task_id))
            return beside
        here = await position(self._address, session)  # before it is asked for: it is told once
        await moving(message_id, to, task_id)
        feed, tracker = self._feed(session, [], here), TurnTracker(message_id, leaves=task_id)
        return Turn(feed, [tracker], self.inspection, user_id=self.user_id)

    async def decide(
        self,
        waiting: PendingApproval,
        *,
        approved: bool,
        reason: str | None = None,
        args: dict[str, Any] | None = None,
    ) -> Turn:
        """Allow or refuse a tool call that waits for it, and return what its task does then, as a turn.

        ``args``: other arguments, or the values that its ``form`` asks for.
        Raises ``NotFound``, and ``Conflict`` when it was decided otherwise before or its time is over.
        """
        task, call = waiting.task_id, waiting.tool_call_id
        here = await position(self._address, waiting.session_id)  # before it is decided: what follows is told once
        if approved:
            await self.management.approve(task, call, reason=reason, args_digest=waiting.args_digest, args=args)
        else:
            await self.management.refuse(task, call, reason=reason)
        feed = self._feed(waiting.session_id, [], here)
        return Turn(feed, [TurnTracker("", task_id=task)], self.inspection, user_id=self.user_id)

    async def running(self, session_id: str | None = None) -> Turn | None:
        """Return the turn that a session is working on, followed from now on; None when it is idle."""
        session = self._named(session_id)
        here = await position(self._address, session)  # before the tasks: what ends from now on is seen to end
        tasks = await self.inspection.tasks("active", session)
        trackers = [TurnTracker("", task_id=task.task_id) for task in reversed(tasks)]
        if not trackers:
            return None
        return Turn(self._feed(session, [], here), trackers, self.inspection, user_id=self.user_id)

    async def observe(
        self,
        session_id: str | None = None,
        *,
        status: ShownStatus | None = None,
        limit: int = PAGE_LIMIT,
        interval_s: float = INTERVAL_S,
        memory: bool = False,
    ) -> AsyncGenerator[Observed, None]:
        """The newest tasks, at most ``limit``, the newest first: now, and again at each change, until it is closed.

        Of one session: told by its events. Of all of them: asked for every ``interval_s`` seconds. Survives lost
        connections as ``send`` does. Raises ``ClientError``.

        ``memory``: each list has in ``memory`` how much is remembered and how far that is behind, asked for every
        ``interval_s`` seconds, and comes again when that has changed, too.
        """
        session, watching = session_id or self.session_id, Watching(status, limit, self._patience_s, self._notice)
        if session is None:
            lists = of_tenant(self.inspection, watching, interval_s)
        else:
            lists = of_session(self.inspection, watching, self._address, identifier("session_id", session))
        seen = with_memory(lists, self.inspection, interval_s) if memory else alone(lists)
        async with aclosing(seen) as found:
            async for tasks in found:
                yield tasks

    def _named(self, session_id: str | None) -> str:
        named = session_id or self.session_id
        if named is None:
            raise Refused('name the session: agent.session("...")')
        return identifier("session_id", named)

    def _feed(self, session: str, messages: list[dict[str, Any]], after: str | None) -> Feed:
        return Feed(self._address, session, messages, after=after, notice=self._notice, patience_s=self._patience_s)


def connect(
    url: str | None = None,
    api_key: str | None = None,
    *,
    patience_s: float | None = None,
    notice: Notice | None = None,
    admin_key: str | None = None,
    user_id: str | None = None,
) -> Agent:
    """An ``Agent`` for ``async with``. Connects when it is first used.

    Without ``url`` the gateway that client commands use: ``PENTAD_URL``, else that of the nearest ``.pentad``, else the
    default port of this machine. Without ``api_key``, ``PENTAD_API_KEY``. To an address that stands in ``.env`` alone
    only a key of the same ``.env`` is sent.

    ``user_id``: the person behind what is said, where no call names another. What is said without one is remembered for
    its conversation alone.

    ``admin_key``: for what ``management`` does to models, instructions and dead letters; the other key serves where
    there is none.

    ``patience_s``: how long a lost connection is tried again, 60 seconds when not given. ``notice`` is called with one
    line whenever it has to wait. Raises ``ClientError`` when ``url`` is not an http(s) address.
    """
    settings = client_settings(pentad_url=url)
    if url is None:
        address = address_for(None, settings, api_key=api_key)
    else:
        own = settings.pentad_api_key.get_secret_value() if settings.pentad_api_key else None
        address = with_admin_key(Address.parse(url, own if api_key is None else api_key), settings)
    return Agent(
        address, patience_s=patience_s, notice=notice, admin_key=admin_key or address.admin_key, user_id=user_id
    )
