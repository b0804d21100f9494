"""``GET /console``: the web console, static files that ask the public interface alone."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from pentad.services.gateway.edge.operations import open_operation
from pentad.services.gateway.edge.problems import missing
from pentad.services.gateway.edge.schemas import TEXT, gives, path
from pentad.services.gateway.edge.static_files import StaticFile, static_files

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_INDEX = "index.html"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "worker-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Content security policy: nothing is loaded from elsewhere, no script stands in a page, no page stands in a frame.
Graphs are laid out in a worker, whose code the bundle of libraries has as a blob."""
_HEADERS = {
    "content-security-policy": _POLICY,
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "no-referrer",
}
"""Headers of the page, which hold for all that it loads: its files go without them, and the first view is lighter."""
_KNOWN = gives("it is the version that `If-None-Match` names")


class ConsoleRoutes:
    """Routes of the console. They need no key: the page asks for one, and has nothing without it."""

    def __init__(self, *, on: bool) -> None:
        self._on = on

    @open_operation(
        "GET",
        "/console",
        "The web console, unless PENTAD_CONSOLE is off",
        _200=gives("", TEXT, "text/html"),
        _304=_KNOWN,
    )
    async def get_page(self, request: "Request") -> "Response":
        """Return the page of the console."""
        return self._answer(request, _INDEX)

    @open_operation(
        "GET",
        "/console/{file:path}",
        "A file of the web console",
        path("file"),
        _200=gives("", TEXT),
        _304=_KNOWN,
        _307=gives("without a name the way leads to the page"),
    )
    async def get_file(self, request: "Request") -> "Response":
        """Return a file of the console, or the way to its page where no file is named."""
        from starlette.responses import RedirectResponse

        file = request.path_params["file"]
        return self._answer(request, file) if file else RedirectResponse("../console", 307)

    def _answer(self, request: "Request", name: str) -> "Response":
        if not self._on:
            raise missing("the console is off: PENTAD_CONSOLE")
        if (file := page_files().get(name)) is None:
            raise missing("the console has no such file")
        return file.answer(request, _HEADERS if name == _INDEX else {})


@cache
def page_files() -> Mapping[str, StaticFile]:
    """Return the files of the console by their path below ``console/``, read once a process."""
    return static_files(files("pentad.services.gateway.console") / "page")
