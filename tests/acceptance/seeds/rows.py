"""Rows of docs/seeds.md and headings of the documents: names the one that a block of a test shows."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "seeds.md"


def rows_of(page: str) -> dict[str, list[str]]:
    """Return the first cells of the page's tables by the headings above them."""
    found: dict[str, list[str]] = {}
    heading, is_body = "", False
    for line in page.splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        if not line.startswith("|"):
            is_body = False
        elif line.startswith("|---"):
            is_body = True
        elif is_body:
            found.setdefault(heading, []).append(line.split("|")[1].strip())
    return found


ROWS = [row for rows in rows_of(PAGE.read_text()).values() for row in rows]


@contextmanager
def shown(beginning: str) -> Iterator[None]:
    """Run a block that shows the row which begins so: what fails in it names the row."""
    [row] = [row for row in ROWS if row.startswith(beginning)]
    try:
        yield
    except Exception as error:
        error.add_note(f"which shows the row {row!r} of docs/seeds.md")
        raise


@contextmanager
def walked(*headings: str) -> Iterator[None]:
    """Run a block that shows what headings of the module's document ask for: what fails in it names them."""
    try:
        yield
    except Exception as error:
        error.add_note(f"which shows {headings} of the document")
        raise
