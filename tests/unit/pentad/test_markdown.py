"""Markdown of a model is shown plainly while it streams, and nothing is ever shown half."""

import re
import time

import pytest

from pentad.cli.markdown import MAX_HELD, Markdown
from pentad.cli.render import Style, harmless

_TAGS = {"\x1b[1m": "<b>", "\x1b[3m": "<i>", "\x1b[36m": "<c>", "\x1b[2m": "<d>", "\x1b[0m": "</>"}
RULE = "<d>────────</>"
SHOWN = [
    ("plain text, 2*3*4 and a_b_c, __init__ too", "plain text, 2*3*4 and a_b_c, __init__ too"),
    ("# Title\n### **Sub** title\n#hash", "<b>Title</>\n<b>Sub</><b> title</>\n#hash"),
    ("**bold**, *it* and _it_", "<b>bold</>, <i>it</> and <i>it</>"),
    ("***both*** **a *b* c**", "<b>both</> <b>a </><b><i>b</></><b> c</>"),
    ("这是**重点**内容", "这是<b>重点</>内容"),
    ("`a*b*c` and ``a`b``", "<c>a*b*c</> and <c>a`b</>"),
    ("- one\n  * two\n+ [ ] three\n1. four", "• one\n  • two\n• [ ] three\n1. four"),
    ("> one\n>> two", "<d>│ </>one\n<d>│ │ </>two"),
    ("---\n* * *\n--x", f"{RULE}\n{RULE}\n--x"),
    ("```py\n# no\nx = a*b*c\n```\n*it*", f"<d>──────── py</>\n<c># no</>\n<c>x = a*b*c</>\n{RULE}\n<i>it</>"),
    ("~~~\n```\n~~~", f"{RULE}\n<c>```</>\n{RULE}"),
    ("[a guide](https://x/y_(z)) ![](u) [u](u)", "a guide <d>(https://x/y_(z))</> u u"),
    ("[1] (see) [x][y] [z", "[1] (see) [x][y] [z"),
    ("| a | **b** |\n|---|---|", "| a | **b** |\n|---|---|"),
    (r"\*no\* \_no\_ a\b", r"*no* _no_ a\b"),
    ("**never closed\n`nor this\n*", "**never closed\n`nor this\n*"),
    ("wow! ![", "wow! !["),
]  # fmt: skip
HOSTILE = [
    "*",
    "**a",
    "`",
    "``",
    "[",
    "[x](",
    "![",
    "\\",
    "_a ",
    "> ",
    "- ",
    "#",
    "~",
    "* ",
    "[a](b",
    "*a* ",
    "\n`",
    "`" * 3 + "\n",
]


def tagged(text: str) -> str:
    for code, tag in _TAGS.items():
        text = text.replace(code, tag)
    return text


def streamed(text: str, size: int, *, colour: bool = True) -> list[str]:
    markdown = Markdown(Style(colour))
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    return [*map(markdown.feed, pieces), markdown.end_line()]


@pytest.mark.parametrize(("text", "shown"), SHOWN)
def test_it_is_shown_as_it_is_meant(text: str, shown: str) -> None:
    assert tagged("".join(streamed(text, len(text)))) == shown


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("text", [text for text, _ in SHOWN])
def test_it_looks_the_same_however_it_is_cut(text: str, size: int) -> None:
    whole, pieces = ("".join(streamed(text, n)) for n in (len(text), size))
    assert _characters(pieces) == _characters(whole)


def _characters(shown: str) -> list[tuple[str, str]]:
    """Each character that is seen, with the codes that colour it."""
    found, codes = [], ""
    for part in re.split(r"(\x1b\[\d+m)", shown):
        if part.startswith("\x1b"):
            codes = "" if part == "\x1b[0m" else "".join(sorted({*re.findall(r"\x1b\[\d+m", codes), part}))
        else:
            found += [(character, codes) for character in part]
    return found


def test_no_mark_is_seen_before_it_is_known_what_it_means() -> None:
    seen = ""
    for piece in streamed("so **bold** and `code` and [link](http://x) end", 1, colour=False):
        seen += piece
        assert not re.search(r"[*`\[\]]", seen)
    assert seen == "so bold and code and link (http://x) end"


def test_what_is_never_closed_is_shown_once_it_has_waited_long_enough() -> None:
    markdown = Markdown(Style(False))
    assert markdown.feed("**open ") == ""
    shown = "".join(markdown.feed("word ") for _ in range(MAX_HELD // 5))
    assert shown.startswith("**open word word")
    assert len(shown) > MAX_HELD - 10


def test_each_answer_begins_outside_of_the_code_that_the_one_before_left_open() -> None:
    markdown = Markdown(Style(False))
    assert markdown.feed("```\n*code*\n") == "────────\n*code*\n"
    markdown.feed("**half")
    markdown.reset()
    assert markdown.feed("*it* ") + markdown.end_line() == "it "


@pytest.mark.parametrize("unit", HOSTILE)
def test_hostile_text_costs_little_a_delta_and_loses_no_word(unit: str) -> None:
    text = (unit * 20_000)[:20_000] + "word"
    for size in (1, len(text)):
        began = time.process_time()
        shown = "".join(streamed(text, size, colour=False))
        assert time.process_time() - began < 3.0, "bounded work for each character"
        assert shown.endswith("word")
        assert len(shown) <= 3 * len(text)


def test_it_adds_no_control_characters_of_the_models() -> None:
    text = harmless("\x1b]0;title\x07**b\x1b[2J** `c\x9b`")
    assert "\x1b" not in "".join(streamed(text, 1, colour=False))
