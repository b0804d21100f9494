"""Bytes within texts: data URLs and the base64 of known kinds of files. Pure."""

import re
from base64 import b64decode, b64encode
from binascii import Error

_OCTETS = "application/octet-stream"
_TYPE = r"[A-Za-z0-9.+_-]{1,64}/[A-Za-z0-9.+_-]{1,64}"
_PARAMETERS = r"(?:;[A-Za-z0-9_-]{1,32}=[A-Za-z0-9.+_-]{1,64}){0,4}"
_URL = re.compile(rf"(?i:data):(?P<type>{_TYPE})?{_PARAMETERS};(?i:base64),(?P<data>[A-Za-z0-9+/_-]{{64,}}+={{0,2}})")
"""A shorter one is left where it is: its description would be as long."""
_FILE = re.compile(r"(?<![A-Za-z0-9+/])(?P<data>(?:iVBORw0KGgo|/9j/|R0lGOD|UklGR|JVBERi0)[A-Za-z0-9+/]{256,}+={0,2})")
"""Base64 without a URL around it, known by what a PNG, JPEG, GIF, RIFF or PDF file begins with."""
_BEGINS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"%PDF-": "application/pdf",
    b"PK\x03\x04": "application/zip",
    b"\x1f\x8b\x08": "application/gzip",
    b"OggS": "application/ogg",
    b"ID3": "audio/mpeg",
    b"fLaC": "audio/flac",
    b"\x1aE\xdf\xa3": "video/webm",
    b"BM": "image/bmp",
    b"\x00asm": "application/wasm",
}
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}
_LOOKED_AT = 64
"""Characters of base64 that tell what kind of file it is."""


def data_url(data: bytes) -> str:
    """Bytes as a data URL, with the media type that they begin with."""
    return f"data:{media_type_of(data)};base64,{b64encode(data).decode()}"


def media_type_of(data: bytes) -> str:
    """The media type of bytes by what they begin with; ``application/octet-stream`` where that says nothing."""
    if data[:4] == b"RIFF":
        return _RIFF.get(data[8:12], _OCTETS)
    if data[4:8] == b"ftyp":
        return "video/mp4"
    return next((kind for begin, kind in _BEGINS.items() if data.startswith(begin)), _OCTETS)


def without_bytes(text: str) -> str:
    """A text with each piece of base64 described in its place: what kind of file it is, and how large."""
    return _FILE.sub(_described, _URL.sub(_described, text))


def _described(found: "re.Match[str]") -> str:
    data = found["data"]
    kind = found.groupdict().get("type") or media_type_of(_beginning(data))
    return f"[a file of {len(data.rstrip('=')) * 3 // 4:,} bytes, {kind}, which is not shown here]"


def _beginning(base64: str) -> bytes:
    try:
        return b64decode(base64[:_LOOKED_AT].replace("-", "+").replace("_", "/"), validate=True)
    except (Error, ValueError):
        return b""
