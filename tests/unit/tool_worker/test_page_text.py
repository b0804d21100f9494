"""Pages become readable text, whatever their charset, type and mistakes, in bounded time."""

import time

import pytest

from pentad.services.tool_worker.builtins.web.html_text import MAX_LINKS, MAX_MARKUP, MAX_TEXT_CHARS, text_of_html
from pentad.services.tool_worker.builtins.web.page_text import decoded, has_text, read_page
from tests.support.waiting import PATIENCE_S

PAGE = (
    """<!DOCTYPE html><html><head><title>Tea &amp;
 Cake</title><style>p{color:red}</style><script>if (a<b) "</p>"</script></head><body>
<nav><a href="/home">Home</a></nav><!-- <p>not shown</p> -->
<main><h1>All  about
tea</h1><p>Green <b>tea</b> is a <a href="/leaf?a=1&amp;b=2#top">leaf <i>drink</i></a>. 5 &lt; 6 &#8364;
&nbsp;caf&eacute;</p>
<ul><li>one<li>two</li></ul><pre>if x:
    y()</pre><table><tr><th>a<th>b</tr><tr><td>1</td><td>2</td></tr></table>
<img src=x alt="A cup"><p>"""
    + "Word " * 60
    + """</p></main><footer>Imprint</footer></body></html>"""
)


def test_a_page_is_its_main_part_with_title_headings_links_lists_tables_and_code() -> None:
    page = text_of_html(PAGE, "https://tea.example/a/b")
    assert page.title == "Tea & Cake"
    assert page.text.startswith(
        "# All about tea\n\n"
        "Green tea is a [leaf drink](https://tea.example/leaf?a=1&b=2#top). 5 < 6 € café\n\n"
        "- one\n- two\n\n"
        "if x:\n    y()\n\n"
        "| a | b\n| 1 | 2\n\n"
        "[image: A cup]\n\n"
        "Word Word"
    )
    assert not any(word in page.text for word in ("Home", "Imprint", "color", "not shown", "</p>"))


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("", ""),
        ("plain", "plain"),
        ("a < b and c <3 d", "a < b and c <3 d"),
        ("<nav>only <a href='x'>this</a></nav>", "only [this](http://h/d/x)"),
        ("<p>one<p>two<br>three<hr>four", "one\n\ntwo\nthree\n\n---\n\nfour"),
        ("<P CLASS=x>Big</P><DIV>Letters</DIV>", "Big\n\nLetters"),
        ("<a href='#x'>here</a> <a href='javascript:x()'>run</a> <a href='mailto:a@b'>mail</a>", "here run mail"),
        ("<a href=/a>one<a href=/b>two", "[one](http://h/a)[two](http://h/b)"),
        ("<a href=/a> </a><a href='/b'><img alt=pic></a>", "[[image: pic]](http://h/b)"),
        ("<base href='http://other/x/'><a href=y>z</a>", "[z](http://other/x/y)"),
        ('<p title="a>b">c</p>', "c"),
        ("<p title='never closed>a</p>", "a"),
        ("<script>never closed", ""),
        ("a<!-- never closed", "a"),
        ("a<!-->b", "ab"),
        ("<svg><text>picture</text></svg>text", "text"),
        ("<textarea>typed <b></textarea>", "typed <b>"),
        ("a\x00\x01b\x7f&#1;&#0;", "ab\ufffd"),
        ("&#99999999999999999999;&#" + "9" * 5000 + ";&#x41;&amp;&nosuch;", "\ufffd\ufffdA&&nosuch;"),
        ("&" * 3, "&&&"),
        ("</p></a></nav></main></svg>still", "still"),
        ("<a href='http://[bad'>x</a>", "x"),
        ("<a href='" + "y" * 600 + "'>x</a>", "x"),
        ("<h2 =x ='>a</h2>", "## a"),
    ],
)
def test_html_as_it_is_found_is_read_as_it_is_meant(page: str, text: str) -> None:
    assert text_of_html(page, "http://h/d/e").text == text


@pytest.mark.parametrize(
    "unit",
    [
        *("<a ", "<!--", "<div>", "&", '<a x="', "<", "</", "<![CDATA[", "<script>", "<title>", "</script", "<b> </b>"),
        *(
            " ",
            "<pre> ",
            "&#99999999999",
            "&" + "a" * 32,
            "<td>",
            "<a href=x>",
            "<a href=x>y</a>",
            "<svg>",
            "<a/",
            "<a=",
        ),
        *("x ", "<img alt='", "<nav>a", "<p x=y>z</p>\n", "<base href=x>", "\x00<", "<a x='\"", "&lt;", "<table>"),
    ],
)
def test_a_megabyte_of_hostile_html_is_read_in_a_time_that_grows_with_its_length(unit: str) -> None:
    begun = time.process_time()
    page = text_of_html(unit * (1_000_000 // len(unit)), "http://h/")
    assert time.process_time() - begun < PATIENCE_S / 6
    assert len(page.text) < 2 * MAX_TEXT_CHARS + 2 * MAX_MARKUP


@pytest.mark.parametrize("unit", ["x ", " ", "/", "=", " =", "x=", "x='1'", '"', "x", 'x="'])
def test_a_megabyte_within_one_tag_is_read_in_a_time_that_grows_with_its_length(unit: str) -> None:
    begun = time.process_time()
    many = unit * (1_000_000 // len(unit))
    assert text_of_html(f"<p {many} >text", "http://h/").text == "text"
    text_of_html(f"<p {many}", "http://h/")
    assert time.process_time() - begun < PATIENCE_S / 6


def test_a_page_of_more_markup_or_text_than_is_read_says_so() -> None:
    assert not text_of_html("<b>x</b>" * 100, "http://h/").is_cut
    assert text_of_html("<b>x" * (MAX_MARKUP + 1), "http://h/").is_cut
    long = text_of_html("<p>" + "word " * MAX_TEXT_CHARS + "</p><p>end</p>", "http://h/")
    assert long.is_cut
    assert MAX_TEXT_CHARS < len(long.text) < MAX_TEXT_CHARS + 40_000


def test_text_that_is_worked_on_in_slices_keeps_its_words_and_entities() -> None:
    words = "caf&eacute; tea " * 20_000
    assert text_of_html(words, "http://h/").text == ("café tea " * 20_000).strip()


def test_links_beyond_their_number_keep_their_text() -> None:
    text = text_of_html("<a href=/x>y</a> " * (MAX_LINKS + 5), "http://h/").text
    assert text.count("](http://h/x)") == MAX_LINKS
    assert text.endswith(" y y y y y")


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        ("grün".encode(), "", "grün"),
        ("grün".encode("latin-1"), "text/html", "grün"),
        ("grün".encode("latin-1"), "text/html; charset=ISO-8859-1", "grün"),
        ("“x”".encode("cp1252"), "text/html; charset=latin1", "“x”"),
        ("中文".encode("gb18030"), "text/html; charset=GB2312", "中文"),
        ('<meta charset="gbk">中文'.encode("gbk"), "text/html", '<meta charset="gbk">中文'),
        ("日本".encode("cp932"), 'text/html; charset="Shift_JIS"', "日本"),
        ("\ufeffmark".encode("utf-16-le"), "text/html; charset=gbk", "mark"),
        (b"\xef\xbb\xbfmark", "text/html; charset=gbk", "mark"),
        ("grün".encode(), "text/html; charset=utf-8", "grün"),
        (b"gr\xfcn", "text/html; charset=utf-8", "gr\ufffdn"),
        (b"x" * 100 + "ü".encode()[:1], "", "x" * 100 + "\ufffd"),
    ],
)
def test_a_page_is_read_by_its_charset(body: bytes, content_type: str, text: str) -> None:
    assert decoded(body, content_type) == text


@pytest.mark.parametrize(
    "name",
    ["punycode", "idna", "unicode_escape", "utf-7", "rot13", "zip", "hex", "undefined", "mbcs", "x" * 40, "utf-8-sig"],
)
def test_a_codec_that_is_no_charset_of_the_web_is_not_used(name: str) -> None:
    assert decoded(b"a\\u0041+AGE-", f"text/html; charset={name}") == "a\\u0041+AGE-"


@pytest.mark.parametrize(
    ("content_type", "is_read"),
    [
        ("text/html; charset=x", True),
        ("TEXT/HTML", True),
        ("application/json", True),
        ("application/problem+json; x=y", True),
        ("application/rss+xml", True),
        ("text/csv", True),
        ("", True),
        ("nonsense", True),
        ("application/pdf", False),
        ("image/png", False),
        ("application/octet-stream", False),
        ("video/mp4", False),
    ],
)
def test_only_types_with_text_are_read(content_type: str, is_read: bool) -> None:
    assert has_text(content_type) is is_read


def test_json_and_plain_text_stay_as_they_are() -> None:
    for kind in ("application/json", "text/plain"):
        page = read_page(b'{"a": "<b>&amp;</b>"}\n', kind, "http://h/")
        assert page is not None
        assert page.text == '{"a": "<b>&amp;</b>"}\n'


def test_bytes_without_a_type_are_text_where_they_look_like_it() -> None:
    html = read_page(b" <p>hello", "", "http://h/")
    assert html is not None
    assert html.text == "hello"
    assert read_page(b"\x7fELF\0\0", "", "http://h/") is None


@pytest.mark.parametrize(
    "name",
    [
        *(
            "UTF-8",
            "utf8",
            "utf-16",
            "utf-16be",
            "GBK",
            "gb18030",
            "Big5",
            "big5-hkscs",
            "EUC-JP",
            "EUC-KR",
            "ISO-2022-JP",
        ),
        *("koi8-r", "koi8-u", "macintosh", "ibm866", "windows-874", "tis-620", "us-ascii", "ascii", "iso-8859-12"),
        *(f"windows-125{number}" for number in range(9)),
        *(f"iso-8859-{number}" for number in range(1, 17)),
    ],
)
def test_each_charset_of_the_web_can_be_read(name: str) -> None:
    body = "tea".encode("utf-16-be" if name == "utf-16be" else "utf-16-le" if name == "utf-16" else "ascii")
    assert decoded(body, f"text/plain; charset={name}") == "tea"
