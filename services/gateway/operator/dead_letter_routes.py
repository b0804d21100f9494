"""The routes of dead letters, for the operator with the admin key."""

from typing import TYPE_CHECKING, Any, get_args

from pentad.contracts.dead_letters import DeadLetter, LetterKind
from pentad.services.gateway.domain.redrive import LetterContext, UnfitError, proposal
from pentad.services.gateway.edge.http import admin_only, answer, limit_of, read_body_if_any
from pentad.services.gateway.edge.operations import operation
from pentad.services.gateway.edge.pages import BadPageError
from pentad.services.gateway.edge.problems import invalid, missing
from pentad.services.gateway.edge.schemas import ADMIN, ANY_OBJECT, LIST, TEXT, Json, gives, object_of, page, path
from pentad.services.gateway.operator.dead_letters import LetterName, Letters, parse_name
from pentad.services.gateway.operator.redrives import Redrives

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


_LETTER = object_of(id=TEXT, kind={"enum": list(get_args(LetterKind))}, reason=TEXT, at=TEXT)
"""Schema of a dead letter in the list; one that cannot be read has only an ``id`` and a ``problem``."""
_REDRIVEN: Json = {
    "description": "the JSON object to send instead: as `redrive.body` of the dead letter shows it",
    "required": False,
    "content": {"application/json": {"schema": ANY_OBJECT}},
}


class DeadLetterRoutes:
    """Routes of the dead letters of all tenants."""

    def __init__(self, letters: Letters, redrives: Redrives) -> None:
        self._letters, self._redrives = letters, redrives

    @operation(
        "GET",
        "/v1/dead-letters",
        f"What was set aside, of all tenants, newest first, without the bodies; {ADMIN}",
        *LIST,
        problems=(422,),
        _200=gives("", page(ANY_OBJECT)),
    )
    async def list_letters(self, request: "Request") -> "Response":
        """Return a page of the dead letters of all tenants, newest first, without their bodies."""
        admin_only(request)
        try:
            page = await self._letters.page(limit_of(request), request.query_params.get("cursor"))
        except BadPageError as error:
            raise invalid(str(error)) from None
        return answer({"items": page.items, "next": page.next})

    @operation(
        "GET",
        "/v1/dead-letters/{letter}",
        f"One dead letter: what it was, what led to it, what a redrive would send; {ADMIN}",
        path("letter"),
        problems=(404, 410),
        _200=gives("", _LETTER),
    )
    async def get_letter(self, request: "Request") -> "Response":
        """Return a dead letter with the chain of its causes and the body that a redrive would send."""
        admin_only(request)
        name = self._name(request)
        letter = await self._letters.read(name)
        if letter is None:
            raise missing("there is no such dead letter")
        context = await self._letters.context_of(letter)
        shown = {"id": str(name)} | letter.model_dump(mode="json", exclude={"version"}, exclude_none=True)
        return answer(shown | {"chain": _chain(letter, context), "redrive": _proposed(letter, context)})

    @operation(
        "POST",
        "/v1/dead-letters/{letter}/redrive",
        f"Send what was set aside again. It happens once, however often it is asked; {ADMIN}",
        path("letter"),
        body=_REDRIVEN,
        problems=(400, 404, 409, 413, 415),
        _202=gives("what was sent, and where", ANY_OBJECT),
    )
    async def redrive_letter(self, request: "Request") -> "Response":
        """Redrive a dead letter, once, with its own content or with the body of the request."""
        admin_only(request)
        return answer(await self._redrives.redrive(self._name(request), await read_body_if_any(request)), 202)

    @operation(
        "DELETE",
        "/v1/dead-letters/{letter}",
        f"Remove it for good; {ADMIN}",
        path("letter"),
        problems=(404,),
        _204=gives("removed"),
    )
    async def discard_letter(self, request: "Request") -> "Response":
        """Remove a dead letter for good."""
        from starlette.responses import Response

        admin_only(request)
        await self._redrives.discard(self._name(request))
        return Response(status_code=204)

    def _name(self, request: "Request") -> LetterName:
        name = parse_name(request.path_params["letter"])
        if name is None or not self._letters.knows(name):
            raise missing("there is no such dead letter: its id is as the list says, like 0-1700000000000-0")
        return name


def _chain(letter: DeadLetter, context: LetterContext) -> list[dict[str, Any]]:
    """Return the chain of causes, with the user's message and the task's status as far as they are known."""
    words = {"task": "archived" if context.archived else context.status}
    words["message"] = context.message.content if context.message is not None else ""
    links = [link.model_dump() for link in letter.chain]
    return [link | ({"is": words[link["kind"]]} if words.get(link["kind"]) else {}) for link in links]


def _proposed(letter: DeadLetter, context: LetterContext) -> dict[str, Any]:
    """Return the body that a redrive would send and that an edit replaces."""
    try:
        return {"body": proposal(letter, context)}
    except UnfitError as error:
        return {"problem": str(error)}
