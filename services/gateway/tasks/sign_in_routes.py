"""The route to which a person comes back from signing in to an MCP server: the call that asked for it goes on.

It needs no key. Its right is the state, which nobody can guess and which is good once; the page shows nothing of the
request.
"""

from html import escape
from typing import TYPE_CHECKING

from pentad.services.gateway.domain.approval import AskedDecision
from pentad.services.gateway.edge.operations import open_operation
from pentad.services.gateway.edge.problems import ProblemError
from pentad.services.gateway.edge.schemas import gives, query
from pentad.services.gateway.tasks.approvals import Approvals, Decider
from pentad.shared.presence.sign_ins import CALLBACK_PATH, MAX_STATE_CHARS, CameBack, OpenSignIn, SignIns

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_MAX_CODE, _MAX_ISSUER, _MAX_ERROR = 4_096, 2_000, 100
"""Characters of a code, of an issuer and of an error that are taken."""
_DECLINED = "access_denied"
"""Error with which a page says that the person does not want to sign in."""
_BY = "sign-in"
"""Name of who decides about a call that is no user's."""
_HEADERS = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
}
_PAGE = {"schema": {"type": "string"}}


class SignInRoutes:
    """The route of persons who come back from signing in."""

    def __init__(self, sign_ins: SignIns, approvals: Approvals) -> None:
        self._sign_ins, self._approvals = sign_ins, approvals

    @open_operation(
        "GET",
        CALLBACK_PATH,
        "The address to which the page of an authorization server sends a person back: the call that asked to sign in "
        "goes on. The state is its key, once",
        query("state", "string", "state of the sign-in"),
        query("code", "string", "code of the authorization server"),
        query("iss", "string", "issuer of the code"),
        query("error", "string", "why there is no code; `access_denied` declines"),
        _200=gives("a page that says what is next", {"type": "string"}, "text/html"),
        _400=gives("a page: the address is not complete", {"type": "string"}, "text/html"),
        _404=gives("a page: the sign-in has ended", {"type": "string"}, "text/html"),
        _409=gives("a page: the call has ended, or somebody else came back before", {"type": "string"}, "text/html"),
    )
    async def come_back(self, request: "Request") -> "Response":
        """Take what a person has come back with, and have the call go on."""
        given = request.query_params
        state, code = _one(given.getlist("state")), _one(given.getlist("code"))
        issuer, error = _one(given.getlist("iss")), _one(given.getlist("error"))
        too_long = len(state) > MAX_STATE_CHARS or len(code) > _MAX_CODE or len(issuer) > _MAX_ISSUER
        if not state or too_long or not (code or error):
            return _page("Not signed in", "This address is not complete. Open the link of the question again.", 400)
        back = CameBack(code="" if error else code, issuer=issuer if "iss" in given else None, error=error[:_MAX_ERROR])
        outcome, asked = await self._sign_ins.came_back(state, back)
        if asked is None:
            return _page(
                "Not signed in",
                "This sign-in has ended, or was answered before. If you are asked again, open the newest link.",
                404,
            )
        if outcome == "other":
            return _page("Not signed in", "Somebody has come back from this sign-in before. Nothing was changed.", 409)
        return await self._go_on(asked, declined=error == _DECLINED)

    async def _go_on(self, asked: OpenSignIn, *, declined: bool) -> "Response":
        """Have the call go on, as who was asked has decided."""
        reason = "the sign-in was declined" if declined else ""
        decision = AskedDecision(not declined, None, reason, "")
        who = Decider(asked.user or _BY, asked.user)
        try:
            await self._approvals.decide(asked.tenant, asked.task, asked.call, decision, who)
        except ProblemError as problem:
            if problem.status == 403:
                return _page("Almost there", "Somebody who may decide about the call has to let it go on.")
            if problem.status >= 500:
                raise
            return _page("Too late", "The call that asked you to sign in does not wait any more.", 409)
        if declined:
            return _page("Not signed in", "You have declined. You can close this page.")
        return _page("Back to your conversation", "It goes on by itself. You can close this page.")


def _one(values: list[str]) -> str:
    """Return the only value of a parameter; '' for none, and for several: which of them counts nobody can know."""
    return values[0] if len(values) == 1 and values[0].isprintable() else ""


def _page(title: str, text: str, status: int = 200) -> "Response":
    from starlette.responses import HTMLResponse

    body = (
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{escape(title)}</title></head>"
        f"<body><h1>{escape(title)}</h1><p>{escape(text)}</p></body></html>"
    )
    return HTMLResponse(body, status, _HEADERS)
