"""Turns of OpenAI's chats: in which session a conversation goes on, how a turn begins, what is kept at its end."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from time import monotonic
from typing import Any, Literal

from pydantic_core import from_json

from pentad.contracts.commands import MAX_FILES, NEW_TASK, EarlierMessage, InboundMessage
from pentad.contracts.events import TaskUsage
from pentad.contracts.turns import NEEDS_APPROVAL, TurnEnd, TurnTracker
from pentad.services.gateway.domain.fork import ForkRequest
from pentad.services.gateway.domain.frames import UnreadableError, read_message
from pentad.services.gateway.edge.problems import ProblemError, invalid, missing
from pentad.services.gateway.protocols.openai.chat_places import ChatPlace, ChatPlaces, Scope
from pentad.services.gateway.protocols.openai.chat_request import ChatAsked, EarlierText, digest_of, texts_of
from pentad.services.gateway.protocols.openai.kept_calls import KeptCall, KeptClientCalls
from pentad.services.gateway.protocols.openai.kept_responses import KeptResponse, KeptResponses
from pentad.services.gateway.protocols.openai.responses_items import ResponseForm
from pentad.services.gateway.protocols.openai.sent_files import SentFile
from pentad.services.gateway.protocols.openai.turn_text import ClientCall, GrowingText, Piece
from pentad.services.gateway.tasks.approvals import Approvals
from pentad.services.gateway.tasks.client_results import ClientResults
from pentad.services.gateway.tasks.control import Control
from pentad.services.gateway.tasks.event_stream import HEARTBEAT_S
from pentad.services.gateway.tasks.file_routes import problem_of_file
from pentad.services.gateway.tasks.forks import Forks
from pentad.services.gateway.tasks.queries import Queries
from pentad.services.gateway.tasks.turn_follower import TurnFollower
from pentad.services.gateway.tasks.turn_stream import Missed, TurnStream, TurnStreams
from pentad.shared.errors import DamagedError, OutageError
from pentad.shared.event_loop import cancel_all
from pentad.shared.events.feed import START
from pentad.shared.events.subscription import SlowReaderError
from pentad.shared.immutable import immutable
from pentad.shared.keys import SessionKeys
from pentad.shared.presence.instruction_book import InstructionBook
from pentad.shared.workspace.file_errors import FileRefusedError
from pentad.shared.workspace.workspace import NOT_SET, Workspaces

_CANCEL_S, _LOOK_S = 30.0, 0.1
"""Seconds in which the task of a turn is found that is to be cancelled, and between two looks."""
_RESULT_S = 2.0
"""Seconds of silence after which the task of a turn that goes on with results is looked at: it may wait for a person as
before, which no event says again."""
_TOO_LATE = frozenset({404, 409})
"""Statuses of results that are not taken any more."""
_WITHOUT_ANSWER = frozenset({"failed", "cancelled"})
"""Statuses of tasks that have ended without an answer."""
_UNFORKABLE = frozenset({404, 409, 410})
"""Statuses of forks that cannot be made: the conversation begins anew with its texts."""


@immutable
class ChatNaming:
    """The names under which a client sends a request."""

    kind: Literal["session", "chat", "response", ""] = ""
    """``response``: messages go on behind the response of that id. ``session``: messages go on in that session, which
    may know more than they say. ``chat``: each request has the whole conversation. '': it is found by its texts
    alone."""
    name: str = ""
    key: str | None = None
    """The client's own name of the request, by which a repeat is known."""


@immutable
class ChatTurn:
    """A turn that has begun, and what its end is kept under."""

    asked: ChatAsked
    naming: ChatNaming
    scope: Scope
    digest: str
    """Digest of the request."""
    keys: SessionKeys
    message_id: str
    stream: TurnStream
    goes_on: KeptCall | None = None
    """Call of the client's tool with whose result the turn goes on; None: the message begins it."""

    @property
    def tracker(self) -> TurnTracker:
        """The turn before its first event."""
        return _tracker(self.message_id, self.goes_on)

    def texts(self, answer: str) -> list[list[str]]:
        """Return the conversation as the client has it after this answer."""
        said = [*self.asked.past, *([EarlierText("user", self.asked.spoken)] if self.asked.spoken else [])]
        return texts_of([*said, EarlierText("assistant", answer)] if answer.strip() else said)


@immutable
class TurnInBackground:
    """A turn that is followed again."""

    keys: SessionKeys
    stream: TurnStream
    goes_on: KeptCall | None
    """Call of the client's tool with whose result the turn goes on; None: a message begins it."""


@immutable
class ChatStores:
    """The stores in which chats keep something."""

    places: ChatPlaces
    responses: KeptResponses
    calls: KeptClientCalls
    workspaces: Workspaces | None


@immutable
class _Place:
    """The session in which a turn takes place."""

    session: str
    is_new: bool = False
    fork_of: ChatPlace | None = None


class ChatTurns:
    """Begins, follows and ends turns of chats. Raises ``ProblemError``, ``OutageError``."""

    def __init__(
        self,
        streams: TurnStreams,
        turns: TurnFollower,
        queries: Queries,
        forks: Forks,
        control: Control,
        approvals: Approvals,
        results: ClientResults,
        stores: ChatStores,
        book: InstructionBook,
    ) -> None:
        self._streams, self._turns, self._queries, self._forks = streams, turns, queries, forks
        self._control, self._approvals, self._results, self._book = control, approvals, results, book
        self._places, self._responses, self._workspaces = stores.places, stores.responses, stores.workspaces
        self._calls = stores.calls
        self._cancelling: set[asyncio.Task[None]] = set()

    @property
    def closing(self) -> asyncio.Event:
        """Event that is set when the gateway stops."""
        return self._streams.closing

    async def begin(self, tenant: str, asked: ChatAsked, naming: ChatNaming) -> ChatTurn:
        """Begin the turn of a request, once however often it comes, and return it with the stream of its events."""
        await self._check_model(asked.instruction)
        scope = Scope(tenant, f"{naming.kind}:{naming.name}" if naming.kind else "", asked.user or "")
        texts = texts_of(asked.past)
        digest = digest_of([texts, asked.digest])
        message_id = await self._places.message_id(scope, digest, naming.key)
        if asked.results:
            kept, is_new = await self._accept_results(tenant, asked)
            if kept is not None and not asked.text:
                again = None
                if not is_new and naming.key is None:
                    again = await self._begun_again(asked, naming, scope, digest, kept)
                return again or await self._gone_on(asked, naming, scope, digest, message_id, kept)
        place = await self._place(scope, naming, texts, message_id)
        begun = await self._forked(tenant, asked, place, message_id)
        if begun is None:
            if place.fork_of is not None:
                place = _Place(_own_session(message_id), is_new=True)
            begun = await self._said(tenant, asked, place, message_id)
        keys, stream = begun
        return ChatTurn(asked, naming, scope, digest, keys, message_id, stream)

    async def _gone_on(
        self, asked: ChatAsked, naming: ChatNaming, scope: Scope, digest: str, message_id: str, kept: KeptCall
    ) -> ChatTurn:
        """Return the turn that goes on with results."""
        keys = self._queries.session_keys(scope.tenant, kept.session)
        stream = await self._streams.open(keys, kept.after.encode())
        return ChatTurn(asked, naming, scope, digest, keys, message_id, stream, kept)

    async def _begun_again(
        self, asked: ChatAsked, naming: ChatNaming, scope: Scope, digest: str, kept: KeptCall
    ) -> ChatTurn | None:
        """Begin a turn again that has gone on with results and has failed or was stopped; None where it has not.

        It is a fork behind the last step of its task: all that was done until then, and its results, are in it, so
        nothing of it is done again. Its digest is another one, so that the turn that has failed is told to nobody.
        """
        keys, told = self._queries.session_keys(scope.tenant, kept.session), GrowingText(_tracker("", kept))
        for event in await self._queries.events_after(keys, kept.after):
            told.after(event)
        if told.end is None:
            await self._settles(scope.tenant, told, kept.task)
        task = await self._queries.task(scope.tenant, kept.task)
        has_ended = task is not None and task.status in _WITHOUT_ANSWER  # and was not talked to since
        if task is None or told.end is None or told.end.ok or not has_ended:
            return None
        digest = digest_of([digest, "again"])
        message_id = await self._places.message_id(scope, digest, None)
        request = ForkRequest(task.steps, message_id, tools=asked.tools)
        begun = await self._forked_at(scope.tenant, asked, kept.task, request)
        return None if begun is None else ChatTurn(asked, naming, scope, digest, begun[0], message_id, begun[1])

    async def _accept_results(self, tenant: str, asked: ChatAsked) -> tuple[KeptCall | None, bool]:
        """Hand over the results of the client's tools. Return the call of the last of them, if it is known, and whether
        any result is new.

        Results with which the turn has gone on before are left out. Where a message follows, late ones are too.
        """
        last = asked.results[-1]
        kept = [await self._calls.read(tenant, each.call) for each in asked.results]
        newest, is_new = kept[-1], False
        if newest is None and not asked.text:
            raise missing(f"tool_call_id: there is no call {last.call!r} that waits for its result, or it was long ago")
        for each, known in zip(asked.results, kept, strict=True):
            if known is None or newest is None or not known.is_of_stop(newest):
                continue
            try:
                is_new |= await self._results.accept(tenant, known.task, each.call, each.sent, known.session)
            except ProblemError as problem:
                if not asked.text or problem.status not in _TOO_LATE:
                    raise
        return newest, is_new

    async def _check_model(self, instruction: str) -> None:
        if instruction and instruction not in await self._book.runnables(instruction):
            raise missing(f"model: there is no instruction or graph {instruction!r}; see GET /openai/v1/models")

    async def _place(self, scope: Scope, naming: ChatNaming, texts: Sequence[Any], message_id: str) -> _Place:
        """Return where the turn takes place: behind the conversation so far, or where that goes on otherwise."""
        if naming.kind == "response":
            return await self._behind(scope.tenant, naming.name, message_id)
        if texts:
            found = await self._places.claim(scope, texts, message_id)
            if found is not None:
                return _Place(found.session, fork_of=None if found.claimed_by == message_id else found)
        if naming.kind == "session":
            known = await self._queries.knows_session(self._queries.session_keys(scope.tenant, naming.name))
            return _Place(naming.name, is_new=not known)
        if naming.kind == "chat":
            root = await self._places.claim(scope, [], message_id, naming.name)
            if root is not None and root.claimed_by == message_id:
                return _Place(naming.name, is_new=True)
        return _Place(_own_session(message_id), is_new=True)

    async def _behind(self, tenant: str, response: str, message_id: str) -> _Place:
        """Return where a turn takes place that goes on behind a response."""
        found = await self._places.claim(_responses_of(tenant), [response], message_id)
        if found is not None:
            return _Place(found.session, fork_of=None if found.claimed_by == message_id else found)
        known = await self._responses.read(tenant, response)
        if known is None:
            raise missing(f"previous_response_id: there is no {response!r}, or it was not stored, or long ago")
        return _Place(known.session)  # nobody has waited for its end

    async def _forked(
        self, tenant: str, asked: ChatAsked, place: _Place, message_id: str
    ) -> tuple[SessionKeys, TurnStream] | None:
        """Begin the turn as a fork; None where it is none, or where the task cannot be forked there."""
        origin = place.fork_of
        if origin is None or not origin.task or asked.schema is not None:
            return None
        try:
            task = await self._queries.task(tenant, origin.task)
        except DamagedError:
            return None
        named = "" if task is not None and task.instruction == asked.instruction else asked.instruction
        request = ForkRequest(
            origin.step,
            message_id,
            asked.text,
            named,
            replace=True,
            files=tuple(f.path for f in asked.files),
            tools=asked.tools,
        )
        return await self._forked_at(tenant, asked, origin.task, request)

    async def _forked_at(
        self, tenant: str, asked: ChatAsked, task: str, request: ForkRequest
    ) -> tuple[SessionKeys, TurnStream] | None:
        """Begin a turn as this fork; None where the task cannot be forked there."""
        keys = self._forks.session_of(tenant, task, request)
        try:
            await self._put_files(keys, asked)
            await self._put_earlier(keys, asked)
            await self._forks.fork(tenant, task, request)
        except DamagedError:
            return None
        except ProblemError as problem:
            if problem.status in _UNFORKABLE:
                return None
            raise
        return keys, await self._streams.open(keys, START)

    async def _said(
        self, tenant: str, asked: ChatAsked, place: _Place, message_id: str
    ) -> tuple[SessionKeys, TurnStream]:
        keys = self._queries.session_keys(tenant, place.session)
        await self._put_files(keys, asked)
        history = asked.history(await self._put_earlier(keys, asked)) if place.is_new else ()
        return keys, await self._turns.begin(_message(asked, keys, message_id, history), keys)

    async def _put_files(self, keys: SessionKeys, asked: ChatAsked) -> None:
        """Put the message's files into its session."""
        if asked.files and self._workspaces is None:
            raise invalid(f"messages: {NOT_SET}")
        try:
            for file in asked.files:
                await self._put_file(keys, file)
        except FileRefusedError as error:
            raise problem_of_file(error) from None

    async def _put_file(self, keys: SessionKeys, file: SentFile) -> None:
        """Put a file into a session. The same file has the same path, so this may be repeated."""
        assert self._workspaces is not None
        workspace = self._workspaces.open(keys.tenant, keys.session)
        if await workspace.info(file.path) is None:
            await workspace.write(file.path, file.data)

    async def _put_earlier(self, keys: SessionKeys, asked: ChatAsked) -> list[dict[int, str]]:
        """Put the newest files of the conversation so far into a session that does not have them.

        Return, for each message, the paths of those of its files, by place, that the session has taken: a turn can do
        without the others.
        """
        said, room = asked.brought, MAX_FILES if self._workspaces is not None else 0
        kept: list[dict[int, str]] = [{} for _ in said]
        newest = [(n, place, file) for n, each in enumerate(said) for place, file in enumerate(each.files)][::-1]
        for number, place, earlier in newest[:room]:
            file = await asyncio.to_thread(earlier.read)  # a long one takes milliseconds
            if file is None:
                continue
            with suppress(FileRefusedError):
                await self._put_file(keys, file)
                kept[number][place] = file.path
        return [dict(sorted(each.items())) for each in kept]

    # Following

    async def follow(self, turn: ChatTurn | TurnInBackground, told: GrowingText) -> AsyncIterator[list[Piece]]:
        """Return the pieces of the turn until it ends; an empty list where nothing has happened for a while."""
        while told.end is None:
            try:
                async with asyncio.timeout(HEARTBEAT_S if turn.goes_on is None else _RESULT_S):
                    read = await turn.stream.read()
            except TimeoutError:
                yield await self._looked(turn, told)
                continue
            except SlowReaderError:
                await turn.stream.catch_up()
                continue
            if isinstance(read, Missed):
                snapshot = await self._settled(turn, told, from_json(read.snapshot))
                yield await self._whole(turn, told, await self._after(turn.keys.tenant, told, snapshot))
                continue
            pieces = [each for e in read for each in await self._after(turn.keys.tenant, told, from_json(e.data))]
            if pieces:
                yield await self._whole(turn, told, pieces)

    async def _after(self, tenant: str, told: GrowingText, event: Mapping[str, Any]) -> list[Piece]:
        """Return what an event adds."""
        await self._note_asked(tenant, told, [event, *event.get("tasks", ())])
        return told.after(event)

    async def _note_asked(self, tenant: str, told: GrowingText, seen: Sequence[Mapping[str, Any]]) -> None:
        """Note the calls that wait for a decision, where what is seen says so and no event of the turn has told of
        them: results of the client's tools go on with a turn whose other calls wait as before.
        """
        if told.turn.task_id is None or told.asked or not any(NEEDS_APPROVAL in _reasons(each) for each in seen):
            return
        for request in await self._approvals.of_task(tenant, told.turn.task_id):
            told.asks(request)

    async def _settled(
        self, turn: ChatTurn | TurnInBackground, told: GrowingText, snapshot: dict[str, Any]
    ) -> dict[str, Any]:
        """Return a snapshot without the turn's task where that does not wait, but goes on with what has come."""
        if (name := told.turn.task_id) is None:
            return snapshot
        task = await self._queries.settled_task(turn.keys.tenant, name)
        status = None if task is None else task.status
        kept = [each for each in snapshot["tasks"] if each.get("task_id") != name or each.get("status") == status]
        return snapshot | {"tasks": kept}

    async def _whole(self, turn: ChatTurn | TurnInBackground, told: GrowingText, pieces: list[Piece]) -> list[Piece]:
        return await self._with_arguments(turn.keys.tenant, told, pieces) if told.calls else pieces

    async def _with_arguments(self, tenant: str, told: GrowingText, pieces: list[Piece]) -> list[Piece]:
        """Return pieces with the whole arguments of calls, of which the events have only a part."""
        task = told.turn.task_id
        for number, piece in enumerate(pieces):
            if isinstance(piece, ClientCall) and piece.ref is not None and task is not None:
                arguments = await self._queries.value(tenant, task, piece.ref)
                pieces[number] = replace(piece, arguments=arguments or piece.arguments)
        return pieces

    async def taken_up(self, tenant: str, form: ResponseForm) -> TurnInBackground:
        """Return the turn of a response, with the stream of all its events that are kept."""
        keys = self._queries.session_keys(tenant, form.session)
        begin = START if form.goes_on is None else form.goes_on.after.encode()
        return TurnInBackground(keys, await self._streams.open(keys, begin), form.goes_on)

    async def _looked(self, turn: ChatTurn | TurnInBackground, told: GrowingText) -> list[Piece]:
        """Return what a look at the turn's task says: it may have ended without our being told."""
        if told.turn.task_id is None:
            return []
        return await self._settles(turn.keys.tenant, told, told.turn.task_id)

    async def _settles(self, tenant: str, told: GrowingText, task: str) -> list[Piece]:
        """Return what ends a turn whose task has ended or waits."""
        if (found := await self._queries.settled_task(tenant, task)) is None:
            return []
        looked = found.model_dump(mode="json")
        await self._note_asked(tenant, told, [looked])
        return told.settled(looked)

    async def used(self, turn: ChatTurn, told: GrowingText) -> TaskUsage:
        """Return the usage of a turn."""
        return await self.used_by(turn.keys.tenant, told)

    async def used_by(self, tenant: str, told: GrowingText) -> TaskUsage:
        """Return the usage of a turn's own steps; that of the whole task where its steps cannot be read."""
        task, begun, steps, total = told.task, told.first_step - 1, told.step, TaskUsage()
        if told.calls and (kept := await self._calls.read(tenant, told.calls[0].id)) is not None:
            task, begun, steps = kept.task, kept.begun, kept.steps
        keys = self._queries.task_keys(tenant, task) if task else None
        with suppress(DamagedError):
            for step in [] if keys is None else await self._queries.step_records(keys, begun, steps):
                total = total.plus(step.usage)
        return total if total.input_tokens or told.usage is None else told.usage

    # Ends

    async def keep(self, turn: ChatTurn, told: GrowingText) -> None:
        """Keep where the conversation stands, so that the client's next request goes on there."""
        if told.end is not None and told.end.ok:
            place = turn.keys.session, told.task, told.step
            await self._places.keep(turn.scope, turn.texts(told.text), *place)
            await self.keep_calls(turn.keys, told, turn.stream.position, turn.goes_on)
            if turn.naming.key is None:
                await self._places.ended(turn.scope, turn.digest)
        else:
            await self._forget(turn)

    async def keep_calls(self, keys: SessionKeys, told: GrowingText, after: bytes, goes_on: KeptCall | None) -> None:
        """Keep to which task the calls belong for which the turn has stopped. ``after``: cursor of its last event."""
        task = told.turn.task_id
        if not told.calls or task is None:
            return
        begun, steps = await self._queries.steps_of_turn(keys.tenant, task)
        if goes_on is not None:
            begun = goes_on.steps
        kept = KeptCall(session=keys.session, task=task, after=after.decode(), begun=begun, steps=steps)
        await self._calls.keep(keys.tenant, [each.id for each in told.calls], kept)

    async def keep_response(self, keys: SessionKeys, response: str, told: GrowingText) -> None:
        """Keep where a conversation stands behind a response."""
        if told.end is not None and told.end.ok:
            await self._places.keep(_responses_of(keys.tenant), [response], keys.session, told.task, told.step)

    async def forget_response(self, tenant: str, response: str) -> None:
        """Forget where a conversation stands behind a response."""
        await self._places.drop(_responses_of(tenant), [response])

    async def told(self, tenant: str, kept: KeptResponse | ResponseForm) -> tuple[GrowingText, list[Piece]]:
        """Return the turn of a response as far as its events are written, and the pieces of it."""
        keys = self._queries.session_keys(tenant, kept.session)
        told = text_of(kept)
        if kept.goes_on is None:
            turn = await self._queries.turn(keys, kept.message_id)
            events, name = turn.events, turn.task_id
        else:
            events, name = await self._queries.events_after(keys, kept.goes_on.after), kept.goes_on.task
        pieces, last = list[Piece](), ""
        for event in events:
            pieces += await self._after(tenant, told, event)
            if told.end is not None:
                last = last or event["id"]
        if last:  # nobody may have waited for it
            await self.keep_calls(keys, told, last.encode(), kept.goes_on)
        if name is not None and told.end is None:
            pieces += await self._settles(tenant, told, name)
        return told, await self._with_arguments(tenant, told, pieces)

    async def cancel(self, tenant: str, kept: KeptResponse) -> None:
        """Cancel the turn of a response; one that has ended stays as it is. Raises ``ProblemError`` (503)."""
        told, _ = await self.told(tenant, kept)
        if told.end is None and told.turn.task_id is not None:
            await self._control.ask("cancel", tenant, told.turn.task_id)

    async def delivered(self, turn: ChatTurn) -> None:
        """Note that the client has its answer: what it says in the same words to the same session is new."""
        if turn.naming.kind == "session" and not turn.asked.past:
            await self._forget(turn)

    async def _forget(self, turn: ChatTurn) -> None:
        if turn.naming.key is None:
            await self._places.forget(turn.scope, turn.digest, turn.message_id)

    def leave(self, turn: ChatTurn, told: GrowingText) -> None:
        """Cancel the turn: its client has closed the stream, which is how OpenAI's clients say stop."""
        cancelling = asyncio.create_task(self._cancel(turn, told), name=f"cancel-{turn.message_id}")
        self._cancelling.add(cancelling)
        cancelling.add_done_callback(self._cancelling.discard)

    async def _cancel(self, turn: ChatTurn, told: GrowingText) -> None:
        with suppress(OutageError, ProblemError, DamagedError):
            await self._places.keep(turn.scope, turn.texts(told.text), turn.keys.session, told.task, told.step)
            await self._forget(turn)
            task, limit = told.turn.task_id, monotonic() + _CANCEL_S
            while task is None and monotonic() < limit:
                known = await self._queries.turn(turn.keys, turn.message_id)
                if known.end is not None:
                    return
                task = known.task_id
                await asyncio.sleep(_LOOK_S)
            if task is not None:
                await self._control.ask("cancel", turn.keys.tenant, task)

    async def aclose(self) -> None:
        """Give up cancels that are under way."""
        await cancel_all(self._cancelling)


def _tracker(message_id: str, goes_on: KeptCall | None) -> TurnTracker:
    """Return a turn before its first event."""
    return TurnTracker(message_id) if goes_on is None else TurnTracker("", goes_on.task, routed=True)


def _reasons(seen: Mapping[str, Any]) -> Sequence[Any]:
    """Return for what a task waits, as an event of it or a look at it says."""
    return seen.get("reason"), *(seen.get("waiting_for") or ())


def text_of(kept: KeptResponse | ResponseForm) -> GrowingText:
    """Return the text of a response before its first event."""
    told = GrowingText(_tracker(kept.message_id, kept.goes_on), whole=kept.is_json)
    if kept.goes_on is not None:
        told.task, told.first_step = kept.goes_on.task, kept.goes_on.steps + 1
    return told


def failure_of(end: TurnEnd | None) -> ProblemError | None:
    """Return the refusal for a turn that has ended without an answer; None for one with an answer."""
    if end is None or end.ok:
        return None
    status = {"rejected": 400, "cancelled": 409}.get(end.outcome, 500)
    return ProblemError(status, f"{end.outcome}: {end.why}" if end.why else f"the turn is {end.outcome}")


def _responses_of(tenant: str) -> Scope:
    """Return the scope in which responses are looked for, by their ids."""
    return Scope(tenant, "responses", "")


def _own_session(message_id: str) -> str:
    """Return the session of a conversation that begins with this message."""
    return f"chat-{message_id.removeprefix('oai-')}"


def _message(asked: ChatAsked, keys: SessionKeys, message_id: str, history: Sequence[EarlierMessage]) -> InboundMessage:
    body: dict[str, Any] = {
        "content": asked.text,
        "user_id": asked.user,
        "metadata": asked.metadata,
        "instruction": asked.instruction or None,
        "files": [file.path for file in asked.files] or None,
        "history": history or None,
        "tools": asked.tools or None,
    }
    if asked.schema is not None:
        body |= {"output_schema": asked.schema, "task_id": NEW_TASK}
    try:
        return read_message(body, keys.tenant, keys.session, message_id)
    except UnreadableError as error:
        raise invalid(str(error)) from None
