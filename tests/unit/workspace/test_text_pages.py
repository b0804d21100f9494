"""Pages of text files say what there is; what is no text says what it is."""

import tracemalloc
from pathlib import Path

import pytest

from pentad.shared.workspace.file_errors import FileRefusedError
from pentad.shared.workspace.workspace import FileLimits, Workspace, Workspaces


async def page(workspace: Workspace, data: bytes, offset: int = 1, limit: int = 100, most: int = 10_000) -> str:
    await workspace.write("f", data)
    return str(await workspace.page("f", offset, limit, most))


@pytest.mark.parametrize(
    ("data", "offset", "limit", "shown"),
    [
        (b"a\nb\nc\n", 1, 2, "a\nb\n[Lines 1 to 2 of 3 (6 bytes); go on with offset 3.]"),
        (b"a\nb\nc\n", 3, 2, "c\n[Lines 3 to 3 of 3 (6 bytes); this is the end.]"),
        (b"a\nb", 2, 9, "b\n[Lines 2 to 2 of 2 (3 bytes); this is the end.]"),
        (b"a\r\nb\r\n", 1, 9, "a\nb\n[Lines 1 to 2 of 2 (6 bytes); this is the end.]"),
        (b"", 1, 9, "[The file is empty.]"),
        ("数\n".encode(), 1, 9, "数\n[Lines 1 to 1 of 1 (4 bytes); this is the end.]"),
    ],
)
async def test_a_page_says_where_it_stands(
    workspace: Workspace, data: bytes, offset: int, limit: int, shown: str
) -> None:
    assert await page(workspace, data, offset, limit) == shown


async def test_a_page_beyond_the_end_says_how_much_there_is(workspace: Workspace) -> None:
    assert await page(workspace, b"a\nb\n", 7) == "[There is no line 7: the file has 2 (4 bytes).]"


async def test_a_page_is_bounded_in_bytes_and_a_line_in_characters(workspace: Workspace) -> None:
    text = await page(workspace, b"x" * 1_000_000 + b"\nshort\n")
    assert "[cut: the line has 1,000,000 bytes]\nshort\n" in text
    assert len(text) < 5_000
    many = await page(workspace, b"0123456789\n" * 10_000, most=1_000)
    assert len(many) < 1_100
    assert "go on with offset 91" in many


@pytest.mark.parametrize(
    ("data", "kind"),
    [(b"\x89PNG\r\n\x1a\n\0\0", "image/png"), (b"\0\1\2", "application/octet-stream"), (b"caf\xe9 au lait", "octet")],
)
async def test_what_is_no_text_is_refused_with_what_it_is(workspace: Workspace, data: bytes, kind: str) -> None:
    with pytest.raises(FileRefusedError, match=rf"no text in UTF-8 but .*{kind}.*{len(data)} bytes.*pentad files"):
        await page(workspace, data)


async def test_a_large_file_is_read_in_little_memory(tmp_path: Path) -> None:
    workspace = Workspaces(str(tmp_path), FileLimits(1 << 31, 1 << 32)).open("us", "s")
    folder = await workspace.folder()
    assert folder is not None
    (Path(folder) / "f").write_bytes(b"line\n" * 20 + b"x" * 40_000_000)
    tracemalloc.start()
    try:
        shown = str(await workspace.page("f", 2, 2, 10_000))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert shown.startswith("line\nline\n[Lines 2 to 3 of 21")
    assert peak < 8_000_000
