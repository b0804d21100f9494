"""Media types of files: by name for lists and headers, by their beginning for what is shown to a model. Pure."""

from mimetypes import MimeTypes

from pentad.shared.data_urls import media_type_of

OCTETS = "application/octet-stream"
_TYPES = MimeTypes(filenames=())
"""The table of Python itself: no file of the machine changes it."""
_MORE_TYPES = {
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".toml": "application/toml",
    ".jsonl": "application/jsonl",
    ".webp": "image/webp",
    ".log": "text/plain",
    ".parquet": "application/vnd.apache.parquet",
}
_ENDINGS = {
    "image/jpeg": ".jpg",
    "text/plain": ".txt",
    "text/markdown": ".md",
    "audio/wav": ".wav",
    OCTETS: ".bin",
}
IMAGES = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))
"""Media types of images that models with vision take."""
_MAX_TYPE_CHARS = 100


def media_type_by_name(path: str) -> str:
    """Return the media type that the ending of a name means; ``application/octet-stream`` for an unknown one."""
    name = path.rpartition("/")[2].lower()
    _, dot, ending = name.rpartition(".")
    if dot and f".{ending}" in _MORE_TYPES:
        return _MORE_TYPES[f".{ending}"]
    kind, encoding = _TYPES.guess_type(name)
    if encoding is not None:
        return "application/gzip" if encoding == "gzip" else OCTETS
    return kind or OCTETS


def image_type_of(beginning: bytes) -> str | None:
    """Return the media type of an image that models with vision take, by its first bytes; None for anything else."""
    kind = media_type_of(beginning)
    return kind if kind in IMAGES else None


def told_type(given: str | None, beginning: bytes, name: str) -> str:
    """Return the media type of an artifact: the given one where it has the form of one, else by name or beginning."""
    if given is not None and is_media_type(given):
        return given.lower()
    by_name = media_type_by_name(name)
    return media_type_of(beginning) if by_name == OCTETS else by_name


def is_media_type(text: str) -> bool:
    """Whether a text has the form of a media type without parameters."""
    kind, slash, subtype = text.partition("/")
    signs = f"{kind}{subtype}".replace(".", "").replace("+", "").replace("-", "").replace("_", "")
    return bool(kind and slash and subtype) and len(text) <= _MAX_TYPE_CHARS and signs.isascii() and signs.isalnum()


def ending_of(media_type: str) -> str:
    """Return the ending that names of this media type have, with its dot; ``.bin`` for an unknown one."""
    return _ENDINGS.get(media_type) or _TYPES.guess_extension(media_type) or ".bin"
