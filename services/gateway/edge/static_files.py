"""Static files that come with the gateway: pages and modules for browsers, with a tag, and compressed."""

from collections.abc import Mapping
from hashlib import sha256
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING

from pentad.shared.immutable import immutable

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "ts": "text/plain; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
_HEADERS = {
    # A browser asks each time, so that no page speaks to a new gateway with an old module.
    "cache-control": "no-cache",
    "x-content-type-options": "nosniff",
    "vary": "accept-encoding",
}


@immutable
class StaticFile:
    """A file in memory: its bytes, plain and compressed, and the tag of its content."""

    media_type: str
    plain: bytes
    packed: bytes
    tag: str

    def answer(self, request: "Request", headers: Mapping[str, str] | None = None) -> "Response":
        """Return the file, or 304 to a browser that has it. ``headers``: further ones."""
        from starlette.responses import Response

        told = _HEADERS | dict(headers or {}) | {"etag": self.tag}
        known = request.headers.get("if-none-match", "").replace("W/", "").replace(" ", "").split(",")
        if self.tag in known:
            return Response(None, 304, told)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(self.packed, 200, told | {"content-encoding": "gzip"}, self.media_type)
        return Response(self.plain, 200, told, self.media_type)


def static_file(file: Traversable) -> StaticFile:
    """Read a file."""
    import gzip

    plain = file.read_bytes()
    tag = f'"{sha256(plain).hexdigest()[:32]}"'
    return StaticFile(_MEDIA_TYPES[_ending(file)], plain, gzip.compress(plain, 9, mtime=0), tag)


def static_files(folder: Traversable, before: str = "") -> dict[str, StaticFile]:
    """Read the files of a folder and of those in it, by their path; files of other kinds are left out."""
    found: dict[str, StaticFile] = {}
    for each in folder.iterdir():
        if each.is_dir():
            found |= static_files(each, f"{before}{each.name}/")
        elif _ending(each) in _MEDIA_TYPES:
            found[f"{before}{each.name}"] = static_file(each)
    return found


def _ending(file: Traversable) -> str:
    return file.name.rpartition(".")[2]
