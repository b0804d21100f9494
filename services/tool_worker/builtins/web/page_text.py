"""The text of a page of any type: which types have one, how its bytes are read, how much of it is shown. Pure."""

import re

from pentad.services.tool_worker.builtins.web.html_text import PageText, text_of_html

_HTML = frozenset(("text/html", "application/xhtml+xml"))
_TEXT = re.compile(
    r"text/[a-z0-9.+-]+|application/(?:[a-z0-9.+-]+\+)?(?:json|xml)|application/(?:javascript|yaml|toml)"
)
_MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,64}/[a-z0-9!#$&^_.+-]{1,64}")
_CHARSET = re.compile(r"""charset\s{0,9}=\s{0,9}["']?([A-Za-z0-9_.:-]{1,40})""", re.IGNORECASE)
_META_BYTES = 1024
"""Bytes at the beginning of a page in which HTML may name its charset."""
_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_KNOWN = frozenset(
    "utf-8 utf8 utf-16 utf-16le utf-16be gbk gb2312 gb18030 big5 big5-hkscs euc-jp euc-kr shift_jis iso-2022-jp koi8-r "
    "koi8-u macintosh ibm866 windows-874 cp874 tis-620".split()
)
_FAMILY = re.compile("(?:windows-125[0-8]|cp125[0-8]|iso-8859-(?:[2-9]|1[013-6]))")
_PYTHON_NAMES = {"gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "euc-kr": "cp949", "windows-874": "cp874"}
"""Charsets that browsers read as another one, which holds more."""
_FALLBACK = "cp1252"


def media_type(content_type: str) -> str:
    """Return the media type of a header in small letters, '' where there is none."""
    name = content_type.partition(";")[0].strip().lower()
    return name if _MEDIA_TYPE.fullmatch(name) else ""


def has_text(content_type: str) -> bool:
    """Return whether a body of this type is read: HTML, JSON and other text, and what says no type."""
    name = media_type(content_type)
    return not name or name in _HTML or _TEXT.fullmatch(name) is not None


def read_page(body: bytes, content_type: str, address: str) -> PageText | None:
    """Return the text of a body, None where it is no text."""
    name = media_type(content_type)
    if not name and b"\0" in body[:_META_BYTES] and not body.startswith((b"\xff\xfe", b"\xfe\xff")):
        return None
    text = decoded(body, content_type)
    if name in _HTML or (not name and text.lstrip()[:1] == "<"):
        return text_of_html(text, address)
    return PageText("", text)


def decoded(body: bytes, content_type: str) -> str:
    """Return the text of bytes, by the mark at their beginning, their header, what the page says, or UTF-8.

    What fits no charset is read as Windows-1252, as browsers do. A charset is one of those that browsers know: other
    codecs of Python take long, or run what they read.
    """
    for mark, codec in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(codec, "replace")
    named = _CHARSET.search(content_type) or _CHARSET.search(body[:_META_BYTES].decode("latin-1"))
    codec = _codec(named[1].lower()) if named is not None else ""
    if codec:
        return body.decode(codec, "replace")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        is_cut = error.reason == "unexpected end of data"  # in the middle of a character
        return body.decode("utf-8" if is_cut else _FALLBACK, "replace")


def _codec(name: str) -> str:
    if name in ("iso-8859-1", "latin1", "us-ascii", "ascii"):
        return _FALLBACK
    if name not in _KNOWN and _FAMILY.fullmatch(name) is None:
        return ""
    return _PYTHON_NAMES.get(name, "mac-roman" if name == "macintosh" else name)
