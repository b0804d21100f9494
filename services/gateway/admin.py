"""What an operator may look at and do, with the admin key: dead letters."""

from typing import TYPE_CHECKING, Any

from pentad.services.gateway.domain.redrive import Surroundings, UnfitError, proposal
from pentad.services.gateway.edge.http import admin_only, answer, limit_of, read_body_if_any
from pentad.services.gateway.edge.pages import BadPageError
from pentad.services.gateway.edge.problems import invalid, missing
from pentad.services.gateway.operator.dead_letters import LetterName, parse_name
from pentad.services.gateway.parts import Parts

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from pentad.contracts.dead_letters import DeadLetter


async def list_letters(parts: Parts, request: "Request") -> "Response":
    """Dead letters of all tenants, the newest first, without their bodies."""
    admin_only(request)
    try:
        page = await parts.letters.page(limit_of(request), request.query_params.get("cursor"))
    except BadPageError as error:
        raise invalid(str(error)) from None
    return answer({"items": page.items, "next": page.next})


async def get_letter(parts: Parts, request: "Request") -> "Response":
    """One dead letter whole: what led to it, and what a redrive would send."""
    admin_only(request)
    name = _name(parts, request)
    letter = await parts.letters.read(name)
    if letter is None:
        raise missing("there is no such dead letter")
    around = await parts.letters.surroundings(letter)
    shown = {"id": str(name)} | letter.model_dump(mode="json", exclude={"version"}, exclude_none=True)
    return answer(shown | {"chain": _chain(letter, around), "redrive": _proposed(letter, around)})


def _chain(letter: "DeadLetter", around: Surroundings) -> list[dict[str, Any]]:
    """What led to it, with what the user has said and how the task stands, as far as that is still known."""
    words = {"task": "archived" if around.archived else around.status}
    words["message"] = around.said.content if around.said is not None else ""
    links = [link.model_dump() for link in letter.chain]
    return [link | ({"is": words[link["kind"]]} if words.get(link["kind"]) else {}) for link in links]


def _proposed(letter: "DeadLetter", around: Surroundings) -> dict[str, Any]:
    """What would be sent: that is what an edit replaces."""
    try:
        return {"body": proposal(letter, around)}
    except UnfitError as error:
        return {"problem": str(error)}


async def redrive_letter(parts: Parts, request: "Request") -> "Response":
    """Send what was set aside again, or the body of the request instead. It happens once."""
    admin_only(request)
    return answer(await parts.redriving.redrive(_name(parts, request), await read_body_if_any(request)), 202)


async def discard_letter(parts: Parts, request: "Request") -> "Response":
    """Remove a dead letter for good."""
    from starlette.responses import Response

    admin_only(request)
    await parts.redriving.discard(_name(parts, request))
    return Response(status_code=204)


def _name(parts: Parts, request: "Request") -> LetterName:
    name = parse_name(request.path_params["letter"])
    if name is None or not parts.letters.knows(name):
        raise missing("there is no such dead letter: its id is as the list says, like 0-1700000000000-0")
    return name
