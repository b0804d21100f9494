"""Bytes within texts: data URLs, base64 and hexadecimal digits. Pure.

Long runs of signs that may be an encoding are found in a mask of the text, and each is judged as a whole. What people
and programs write for reading (names, paths, numbers, sequences, hashes one a line) makes no such runs, or has not the
mixture of capitals, small letters and digits that encoded bytes have.
"""

import re
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Callable, Iterator
from typing import NamedTuple

_OCTETS = "application/octet-stream"
_SIGN = "[A-Za-z0-9+/_-]"
_LINE_END = r"(?:\r ?)?\n[ \t]*+"
_HEAD = re.compile(
    r"[dD][aA][tT][aA]:(?P<kind>[A-Za-z0-9.+_-]{1,64}/[A-Za-z0-9.+_-]{1,64})?"
    r"(?P<parameters>(?:;[A-Za-z0-9=.+_-]{1,97}){0,5}+),"
)
_URL_DATA = re.compile(
    rf"(?:[A-Za-z0-9+/_%-]{{16,}}+(?:{_LINE_END}{_SIGN}{{60,}}+)++(?:{_LINE_END}{_SIGN}{{1,79}}+(?!{_SIGN}))?"
    r"|[A-Za-z0-9+/_%-]{64,}+)={0,2}"
)
"""Base64 of a data URL, in one line or wrapped. A shorter one is left where it is: its description would be as long."""
_ESCAPED = re.compile("%([0-9A-Fa-f]{2})")
_URL_TEXT = re.compile(r"[A-Za-z0-9%._~!$&*+,;=:@/?#-]{64,}+")
"""Data of a URL without base64."""
_KINDS = ("image/", "audio/", "video/", "font/", "text/", "application/", "model/")
_DRAWING = re.compile(r"[ +]*+(?:%20)*+(<|%3[cC])(?:svg|!|\?|%21|%3[fF])", re.IGNORECASE)
_ENDINGS = {
    "drawing": re.compile(r"(?:<|%3[cC])(?://?|%2[fF])svg(?:>|%3[eE])", re.IGNORECASE).search,
    "escaped": re.compile(r'["<>`\n]').search,
    "plain": re.compile(r"\n *\n").search,
}
"""Searches for the end of a drawing, and for text that an escaped and a plain drawing never have."""
_SHORTEST_URL = 64
"""Characters of a URL's data from which on it is described."""
_WRAPPED = {
    width: re.compile(
        rf"(?:{_SIGN}{{{width}}}(?!{_SIGN}){_LINE_END}){{2,}}+(?:{_SIGN}{{1,{width}}}+={{0,2}}(?!{_SIGN}))?"
    ).match
    for width in (60, 64, 72, 76, 80)
}
"""Lines of one length, and a last one that may be shorter, by the lengths at which programs wrap."""
_SHORTEST_RUN = min(_WRAPPED)
_SHORTEST_FILE = 256
"""Signs of base64 that begins like a file of a known kind, from which on it is described."""
_LONGEST_WORD = 1024
"""Signs of a run that stays whatever it is; a longer one is described when it is an encoding of bytes."""
_HASHES_WIDTH = 64
"""Lines of so many hexadecimal digits are hashes, one a line."""

_UPPER, _LOWER, _DIGITS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", b"abcdefghijklmnopqrstuvwxyz", b"0123456789"
_CLASSES = bytes.maketrans(_UPPER + _LOWER + _DIGITS + b"+/-_", b"U" * 26 + b"l" * 26 + b"d" * 14)
_CHANGES = (b"Ul", b"lU", b"Ud", b"dU", b"ld", b"dl")
_SIGNS = _UPPER + _LOWER + _DIGITS + b"+/-_"
_MASK = bytes(sign in _SIGNS for sign in range(256))
_HEXADECIMAL = b"0123456789abcdef"

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
_WEAK = (_OCTETS, "image/bmp")
"""Media types that are told by two bytes or none: a name may begin like them."""
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}
_SIGNS_OF_KIND = 64
"""Signs of base64 that tell what kind of file it is."""


def data_url(data: bytes) -> str:
    """Return bytes as a data URL, with the media type that their beginning tells."""
    return f"data:{media_type_of(data)};base64,{b64encode(data).decode()}"


def media_type_of(data: bytes) -> str:
    """Return the media type that the beginning of bytes tells; ``application/octet-stream`` when it tells none."""
    if data[:4] == b"RIFF":
        return _RIFF.get(data[8:12], _OCTETS)
    if data[4:8] == b"ftyp":
        return "video/mp4"
    return next((kind for begin, kind in _BEGINS.items() if data.startswith(begin)), _OCTETS)


def without_bytes(text: str) -> str:
    """Return a text with each encoding of bytes replaced by a description: which kind of file it is, and how large.

    Encodings are data URLs, also those that are not in base64, base64 of a file of a known kind, and any other base64
    or hexadecimal digits of more than 1,024 signs, in one line or wrapped.
    """
    return _replaced(_replaced(text, _urls), _encodings)


def replaced_urls(text: str, instead: Callable[[bytes, str], str | None]) -> str:
    """Return a text with each base64 data URL replaced by what ``instead`` makes of its bytes and media type.

    One for which it makes None, and one that is no base64, stays.
    """
    if ";base64," not in text.lower():
        return text
    pieces: list[str] = []
    at = 0
    for found in _urls(text, _unescaped(text)):
        written = text[found.start : found.end]
        head, _, encoded = written.partition(",")
        if not head.lower().endswith(";base64"):
            continue
        try:
            data = b64decode(_padded(_bare(encoded)), validate=True)
        except (Error, ValueError):
            continue
        told = instead(data, found.kind)
        if told is not None:
            pieces += [text[at : found.start], told]
            at = found.end
    return "".join((*pieces, text[at:])) if pieces else text


def _padded(encoded: str) -> str:
    """Base64 in its usual signs and with the signs at its end that some leave out."""
    plain = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), encoded).replace("-", "+").replace("_", "/").rstrip("=")
    return plain + "=" * (-len(plain) % 4)


class _Bytes(NamedTuple):
    """An encoding of bytes in a text."""

    start: int
    end: int
    size: int
    kind: str


def _replaced(text: str, find: Callable[[str, str], Iterator[_Bytes]]) -> str:
    pieces: list[str] = []
    at = 0
    for found in find(text, _unescaped(text)):
        told = f"[a file of {found.size:,} bytes, {found.kind}, which is not shown here]"
        pieces += [text[at : found.start], told]
        at = found.end
    return "".join((*pieces, text[at:])) if pieces else text


def _unescaped(text: str) -> str:
    """The text with what JSON escapes within encodings as it is without, each character at its place."""
    return text.replace("\\/", "//").replace("\\n", "\n ").replace("\\r", "\r ").replace("\\t", "\t ")


def _bare(piece: str) -> str:
    """An encoding without line ends and escapes."""
    return "".join(piece.replace("\\/", "/").replace("\\n", " ").replace("\\r", " ").split())


def _urls(text: str, looked: str) -> Iterator[_Bytes]:
    """The data URLs of a text."""
    at, drawings = 0, _Drawings(looked)
    for head in _HEAD.finditer(looked):
        if head.start() < at:
            continue
        (kind, parameters), begin = head.groups(""), head.end()
        if parameters[-7:].lower() == ";base64":
            found = _URL_DATA.match(looked, begin)
            if found is not None:
                at, data = found.end(), _bare(text[begin : found.end()]).rstrip("=")
                size = (len(data) - 2 * data.count("%")) * 3 // 4
                yield _Bytes(head.start(), at, size, kind or media_type_of(_beginning(data)))
        elif kind.lower().startswith(_KINDS):
            end = drawings.end(begin)
            if not end and (run := _URL_TEXT.match(looked, begin)) is not None:
                end = run.end()
            if end - begin >= _SHORTEST_URL:
                at, data = end, text[begin:end]
                yield _Bytes(head.start(), at, len(data.encode(errors="replace")) - 2 * data.count("%"), kind)


class _Drawings:
    """The drawings (SVG) in a text. Each character is looked at once for each sign that ends one."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._known = dict.fromkeys(_ENDINGS, (-1, 0))

    def end(self, at: int) -> int:
        """Where the drawing that begins at ``at`` ends; 0: none begins there, or nothing ends it."""
        begin = _DRAWING.match(self._text, at)
        if begin is None:
            return 0
        closed, end = self._next("drawing", at)
        stopped, _ = self._next("plain" if begin[1] == "<" else "escaped", at)
        return end if closed < stopped else 0

    def _next(self, ending: str, at: int) -> tuple[int, int]:
        known = self._known[ending]
        if known[0] < at:
            found = _ENDINGS[ending](self._text, at)
            nowhere = len(self._text)
            known = self._known[ending] = (nowhere, nowhere) if found is None else found.span()
        return known


def _encodings(text: str, looked: str) -> Iterator[_Bytes]:
    """The base64 and hexadecimal digits of a text that stand alone."""
    at = 0
    for start, run_end in _runs(looked):
        if start < at:
            continue
        width = run_end - start
        lines = _WRAPPED[width](looked, start) if width in _WRAPPED else None
        end = run_end if lines is None else start + len(lines[0].rstrip())
        if end - start < _SHORTEST_FILE:
            continue
        at = end + len(looked[end : end + 2]) - len(looked[end : end + 2].lstrip("="))
        data = _bare(text[start:at])
        found = _of_digits(data, hashes=lines is not None and width == _HASHES_WIDTH) or _of_base64(data)
        if found is not None:
            yield _Bytes(start, at, *found)


def _runs(text: str) -> Iterator[tuple[int, int]]:
    """Where signs of base64 begin and end that stand together without a gap, and are many."""
    mask = text.encode("latin-1", "replace").translate(_MASK)
    start = mask.find(b"\1" * _SHORTEST_RUN)
    while start >= 0:
        end = mask.find(b"\0", start)
        end = len(mask) if end < 0 else end
        yield start, end
        start = mask.find(b"\1" * _SHORTEST_RUN, end)


def _of_digits(data: str, *, hashes: bool) -> tuple[int, str] | None:
    """Size and kind of what hexadecimal digits encode; None for what is no such encoding, hashes in lines included."""
    digits = data.removeprefix("0x").removeprefix("0X").lower().encode()
    count = len(digits)
    if count <= _LONGEST_WORD or count % 2 or hashes or digits.translate(None, _HEXADECIMAL):
        return None
    numbers = count - len(digits.translate(None, _DIGITS))
    if not 0.2 * count <= numbers <= 0.97 * count or len(set(digits)) < 10:
        return None
    return count // 2, media_type_of(bytes.fromhex(digits[:_SIGNS_OF_KIND].decode()))


def _of_base64(data: str) -> tuple[int, str] | None:
    """Size and kind of what base64 encodes; None for what is none."""
    bare = data.rstrip("=")
    kind = media_type_of(_beginning(bare))
    if kind in _WEAK and not (len(bare) > _LONGEST_WORD and _is_base64(data, bare.encode())):
        return None
    return len(bare) * 3 // 4, kind


def _is_base64(data: str, bare: bytes) -> bool:
    """Whether many signs are base64: their end says so, or they mix capitals, small letters and digits as bytes do.

    Names and words change seldom from one to another, and have few capitals; lists of sequences have no other.
    """
    if len(bare) % 4 == 1 or ((b"+" in bare or b"/" in bare) and (b"-" in bare or b"_" in bare)):
        return False
    if len(bare) < len(data):
        return len(data) % 4 == 0
    signs = bare.replace(b"AAAA", b"").replace(b"////", b"")  # zeros and ones, of which files have many
    if len(signs) < _SHORTEST_FILE or len(set(signs)) < 20:
        return False
    classes = signs.translate(_CLASSES)
    upper, lower, others = (classes.count(each) / len(classes) for each in (b"U", b"l", b"d"))
    if min(upper, lower, others) < 0.02:
        return False
    changes = sum(map(classes.count, _CHANGES)) / len(classes)
    return upper >= 0.6 or (min(upper, lower) >= 0.25 and changes >= 0.5)


def _beginning(base64: str) -> bytes:
    try:
        return b64decode(base64[:_SIGNS_OF_KIND].replace("-", "+").replace("_", "/"), validate=True)
    except (Error, ValueError):
        return b""
