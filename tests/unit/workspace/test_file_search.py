"""A search shows where words or a pattern stand, in bounded time."""

import time

import pytest

from pentad.shared.workspace.file_errors import FileRefusedError
from pentad.shared.workspace.file_search import SearchRequest
from pentad.shared.workspace.workspace import Workspace
from tests.support.slowness import slowness


async def test_words_are_found_in_any_case_with_path_and_line(workspace: Workspace) -> None:
    await workspace.write("a.md", b"Green tea\nblack coffee\n")
    await workspace.write("b/c.txt", b"x\nTEA that is green\n")
    await workspace.write("image.png", b"\x89PNG\r\n\x1a\n\0tea")
    found = await workspace.search(SearchRequest("tea GREEN"))
    assert found == (
        "a.md:1: Green tea\nb/c.txt:2: TEA that is green\n[2 lines in 2 files, 1 that are no text were left out.]"
    )
    assert await workspace.search(SearchRequest("tea", glob="*.txt")) == (
        "b/c.txt:2: TEA that is green\n[1 lines in 1 files.]"
    )
    assert await workspace.search(SearchRequest("nothing")) == (
        "[0 lines in 2 files, 1 that are no text were left out.]"
    )


async def test_a_pattern_is_a_regular_expression(workspace: Workspace) -> None:
    await workspace.write("a.py", b"def one(): ...\nclass Two: ...\n")
    assert "a.py:2: class Two" in await workspace.search(SearchRequest(r"^class \w+", "pattern"))


@pytest.mark.parametrize(
    "pattern", [r"(?=a)b", r"(a)\1", "(", "a{1000}{1000}{1000}", "((a{1,50}){1,50}){1,9}b", "[", "*"]
)
async def test_a_pattern_that_cannot_be_used_is_refused_with_the_reason(workspace: Workspace, pattern: str) -> None:
    await workspace.write("a", b"x")
    with pytest.raises(FileRefusedError, match="the pattern cannot be used"):
        await workspace.search(SearchRequest(pattern, "pattern"))


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(a|a)*b", r"(.*a){20}", r"(a{1,20}){1,18}b", r"(\w{1,9}){1,5}b"])
async def test_a_hostile_pattern_ends_in_time(workspace: Workspace, pattern: str) -> None:
    await workspace.write("a", (b"a" * 16_000 + b"!\n") * 200)
    await workspace.write("b", b"a" * 1_000_000)
    begun = time.process_time()
    await workspace.search(SearchRequest(pattern, "pattern"))
    assert time.process_time() - begun < 10 * slowness()


async def test_the_answer_is_bounded_and_says_that_there_is_more(workspace: Workspace) -> None:
    await workspace.write("a", b"hit and more words of it\n" * 5_000)
    assert "there are more" in (many := await workspace.search(SearchRequest("hit", most_hits=10)))
    assert len(many.splitlines()) == 11
    assert len(await workspace.search(SearchRequest("hit", most_bytes=500))) < 600
    await workspace.write("a", b"hit " * 100_000)
    assert len(await workspace.search(SearchRequest("hit"))) < 400


@pytest.mark.parametrize("query", ["", "  ", "x" * 501])
async def test_an_empty_or_endless_query_is_refused(workspace: Workspace, query: str) -> None:
    with pytest.raises(FileRefusedError, match="1 to 500"):
        await workspace.search(SearchRequest(query))
