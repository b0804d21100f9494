"""``GET /``: a description of the gateway with links, for anybody who opens the address."""

from html import escape

ABOUT = "Pentad, an agent backend: send it a message and follow the events of its answer."
PLACES = {
    "messages": ("/v1/messages", "POST here to say something; with ?wait=30 the answer comes back"),
    "events": ("/v1/ws", "WebSocket of a session's events"),
    "console": ("/console", "the web console"),
    "openapi": ("/openapi.json", "the REST interface"),
    "asyncapi": ("/asyncapi.json", "the streams and events"),
    "javascript": ("/pentad.js", "the JavaScript client"),
    "health": ("/readyz", "whether it can serve"),
}
DOCS = "README.md and docs/ of the repository"


def as_data() -> dict[str, object]:
    """Return the description for programs."""
    return {"about": ABOUT, **{name: path for name, (path, _) in PLACES.items()}, "docs": DOCS}


def as_page() -> str:
    """Return the description as an HTML page for people. It contains nothing from the request."""
    rows = "".join(f"<dt>{_link(path)}</dt><dd>{escape(text)}</dd>" for path, text in PLACES.values())
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>Pentad</title></head>"
        f"<body><h1>Pentad</h1><p>{escape(ABOUT)}</p><dl>{rows}</dl><p>Documentation: {escape(DOCS)}.</p></body></html>"
    )


def _link(path: str) -> str:
    """Return a path as HTML: a link if a browser can open it."""
    return path if path.startswith("/v1/") else f"<a href='{path}'>{path}</a>"
