"""Readable text of HTML: titles, headings, lists, tables and links, without scripts, styles and navigation. Pure.

One pass from left to right, whose time grows with the page's length whatever the page holds: no tree is built, and
nothing that does not close is looked for twice. The parser of the standard library takes quadratic time for some pages.
"""

import html
import re
from dataclasses import dataclass, field
from urllib.parse import urljoin

MAX_MARKUP = 250_000
"""Tags and other markup of a page that are read; what follows is left."""
MAX_TEXT_CHARS = 400_000
"""Characters of text, about, after which a page is left."""
MAX_LINKS = 2_000
"""Links of a page that keep their addresses; of each further one the text is kept."""
_MAX_LINK_CHARS = 500
_SLICE = 32_768
"""Characters of text that are worked on together: a thread that holds the interpreter holds the event loop."""
_MAX_ENTITY_CHARS = 40
_MIN_MAIN_CHARS = 200
"""Characters that the main part of a page must have to be taken for the whole."""
_MAX_TITLE_CHARS = 300
_MAX_ALT_CHARS = 500
_NAME = re.compile(r"[A-Za-z][^\s/>]*+")
_ATTRIBUTE = re.compile(r"""([^\s/>=][^\s/>=]*+)\s*+(?:=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s>"'][^\s>]*+))?)?""")
_BETWEEN = re.compile(r"[\s/=]*+")
"""Signs between attributes, all at once: one at a time would look at a long run of them again and again."""
_HUGE_NUMBER = re.compile("&#[0-9]{9,};?")
_SPACES = re.compile(" {2,}")
_MANY_BREAKS = re.compile("\n{3,}")
_UNREADABLE = re.compile("[\\x00-\\x08\\x0b\\x0e-\\x1f\\x7f]+")
_KEPT = str.maketrans(" \n\t", "\x01\x02\x03")
"""Stand-ins for the spaces and line breaks of preformatted text, which stay as they are."""
_RAW = frozenset("script style title textarea iframe noembed noframes xmp".split())
"""Elements whose content is text up to their own end."""
_RAW_ENDS = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in _RAW}
_HIDDEN = frozenset("svg template object canvas audio video select datalist math".split())
_SIDE = frozenset("nav footer aside".split())
_MAIN = frozenset("main article".split())
_BEFORE = {
    **dict.fromkeys(
        "p ul ol dl table blockquote pre section article main figure form h1 h2 h3 h4 h5 h6".split(), "\n\n"
    ),
    **dict.fromkeys("div tr dt dd header nav footer aside option figcaption caption address".split(), "\n"),
    "br": "\n",
    "hr": "\n\n---\n\n",
    "li": "\n- ",
    "td": " | ",
    "th": " | ",
}
"""Text in the place of a start tag; what breaks the line there also does at the end of its element."""
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_WITHOUT_END = frozenset(("br", "hr", "td", "th", "tr", "li"))


@dataclass(frozen=True, slots=True)
class PageText:
    """The readable text of a page."""

    title: str
    text: str
    is_cut: bool = False
    """Whether the page has more than is read."""


def text_of_html(page: str, address: str) -> PageText:
    """Return the readable text of a page. ``address``: where it was found, for its links."""
    reader = _Reader(page, address)
    is_cut = reader.read()
    return PageText(reader.title, reader.text(), is_cut)


@dataclass
class _Reader:
    """Reads a page once, from left to right."""

    page: str
    base: str
    title: str = ""
    depths: dict[str, int] = field(default_factory=dict)
    """How many elements of a kind are open: hidden, side, main and preformatted ones."""
    pieces: list[str] = field(default_factory=list)
    zones: list[str] = field(default_factory=list)
    """The part of the page that each piece belongs to: ``main``, ``side`` or ``body``."""
    link: tuple[int, str, int] | None = None
    """The open link: its first piece, its address, and how much had been seen before it."""
    links: int = 0
    seen: int = 0
    """Characters seen so far."""

    def read(self) -> bool:
        """Read the page; return whether it was left before its end."""
        at, page, is_cut = 0, self.page, True
        for _ in range(MAX_MARKUP):
            if self.seen > MAX_TEXT_CHARS:
                break
            begin = page.find("<", at)
            if begin < 0:
                is_cut = False
                self._text(page[at:])
                break
            self._text(page[at:begin])
            at = self._markup(begin)
        self._end_link()
        return is_cut

    def text(self) -> str:
        main = self._joined({"main"})
        if len(main) >= _MIN_MAIN_CHARS:
            return main
        body = self._joined({"main", "body"})
        return body if len(body) >= _MIN_MAIN_CHARS else self._joined({"main", "body", "side"})

    def _joined(self, zones: set[str]) -> str:
        text = "".join(piece for piece, zone in zip(self.pieces, self.zones, strict=True) if zone in zones)
        text = _SPACES.sub(" ", text).replace(" \n", "\n").replace("\n ", "\n")
        return _MANY_BREAKS.sub("\n\n", text).strip().replace("\x01", " ").replace("\x02", "\n").replace("\x03", "\t")

    def _markup(self, begin: int) -> int:
        """Read what begins with ``<``; return where it ends. What does not end takes the rest of the page."""
        page = self.page
        following = page[begin + 1 : begin + 2]
        if page.startswith("<!--", begin):
            return self._after("-->", begin + 2)
        if following in ("!", "?"):
            return self._after(">", begin)
        if following == "/":
            named = _NAME.match(page, begin + 2)
            if named is not None:
                self._end(named[0].lower())
            return self._after(">", begin)
        named = _NAME.match(page, begin + 1)
        if named is None:
            self._text("<")
            return begin + 1
        return self._start(named[0].lower(), named.end())

    def _after(self, mark: str, begin: int) -> int:
        found = self.page.find(mark, begin)
        return len(self.page) if found < 0 else found + len(mark)

    def _start(self, name: str, at: int) -> int:
        attributes, end = self._attributes(at)
        if end >= len(self.page):
            return end
        if name in _RAW:
            return self._raw(name, end + 1)
        self._open(name, attributes)
        return end + 1

    def _attributes(self, at: int) -> tuple[dict[str, str], int]:
        """Read the attributes of a tag; return them, and where its ``>`` is, or the page's end where it has none."""
        attributes: dict[str, str] = {}
        page = self.page
        while True:
            at += len(_BETWEEN.match(page, at)[0])  # type: ignore[index]
            found = _ATTRIBUTE.match(page, at)
            if found is None:  # the tag's end, or the page's
                return attributes, at
            attributes.setdefault(found[1].lower(), found[2] or found[3] or found[4] or "")
            at = found.end()

    def _raw(self, name: str, begin: int) -> int:
        found = _RAW_ENDS[name].search(self.page, begin)
        if found is None:
            return len(self.page)
        if name == "title" and not self.title and not self._is_in("hidden"):
            self.title = " ".join(_unescaped(self.page[begin : min(found.start(), begin + 2000)]).split())
            self.title = _UNREADABLE.sub("", self.title)[:_MAX_TITLE_CHARS]
        elif name in ("textarea", "xmp"):
            self._text(self.page[begin : found.start()])
        return self._after(">", found.start())

    def _open(self, name: str, attributes: dict[str, str]) -> None:
        self._count(name, 1)
        if name == "base" and attributes.get("href"):
            self.base = _joined_address(self.base, attributes["href"]) or self.base
        elif name == "a":
            self._end_link()
            self._begin_link(attributes.get("href", ""))
        elif name == "img":
            said = " ".join(_UNREADABLE.sub("", _unescaped(attributes.get("alt", "")[:_MAX_ALT_CHARS])).split())
            if said:
                self._add(f"[image: {said}]")
                self.seen += len(said)
        if name in _BEFORE:
            self._add(_BEFORE[name] + _HEADINGS.get(name, ""))

    def _end(self, name: str) -> None:
        if name == "a":
            self._end_link()
        elif name in _BEFORE and name not in _WITHOUT_END:
            self._add(_BEFORE[name])
        self._count(name, -1)

    def _count(self, name: str, by: int) -> None:
        for kind, names in (("hidden", _HIDDEN), ("side", _SIDE), ("main", _MAIN), ("pre", ("pre",))):
            if name in names:
                self.depths[kind] = max(0, self.depths.get(kind, 0) + by)

    def _is_in(self, kind: str) -> bool:
        return self.depths.get(kind, 0) > 0

    def _text(self, raw: str) -> None:
        at = 0
        while at < len(raw) and self.seen <= MAX_TEXT_CHARS and not self._is_in("hidden"):
            end = at + _SLICE
            if end < len(raw):
                entity = raw.rfind("&", end - _MAX_ENTITY_CHARS, end)
                end = entity if entity > at else end
            self._words(raw[at:end])
            at = end

    def _words(self, raw: str) -> None:
        text = _unescaped(raw) if "&" in raw else raw
        if self._is_in("pre"):
            self._add(_UNREADABLE.sub("", text).translate(_KEPT))
            self.seen += len(text.strip())
            return
        words = " ".join(_UNREADABLE.sub("", text).split())
        before = " " if text[:1].isspace() else ""
        after = " " if words and text[-1:].isspace() else ""
        self._add(before + words + after)
        self.seen += len(words)

    def _add(self, piece: str) -> None:
        if piece and not self._is_in("hidden"):
            self.pieces.append(piece)
            self.zones.append("side" if self._is_in("side") else "main" if self._is_in("main") else "body")

    def _begin_link(self, target: str) -> None:
        if self.links >= MAX_LINKS or not target.strip() or target.lstrip().startswith("#") or self._is_in("hidden"):
            return
        address = _joined_address(self.base, target)
        if address:
            self._add(" ")  # keeps the place of the bracket
            self.link = (len(self.pieces) - 1, address, self.seen)

    def _end_link(self) -> None:
        if self.link is None:
            return
        (place, address, seen), self.link = self.link, None
        if self.seen == seen or self._is_in("hidden"):
            return
        self.links += 1
        self.pieces[place] = "["
        self.pieces.append(f"]({address})")
        self.zones.append(self.zones[place])


def _joined_address(base: str, target: str) -> str:
    """Return the address of a link, '' for one that leads to no page."""
    if len(target) > _MAX_LINK_CHARS:
        return ""
    try:
        address = urljoin(base, "".join(_UNREADABLE.sub("", _unescaped(target)).split()))
    except ValueError:
        return ""
    return address if address.startswith(("http://", "https://")) and len(address) <= 2 * _MAX_LINK_CHARS else ""


def _unescaped(text: str) -> str:
    return html.unescape(_HUGE_NUMBER.sub("\ufffd", text))
