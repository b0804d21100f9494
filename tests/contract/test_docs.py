"""The links of README and of the pages in docs/ lead to files and headings that exist, and every page is linked to."""

import re
from pathlib import Path

import pytest

from tests.support.documents.manifests import ROOT

MAX_README_BYTES = 11_000
"""README is read in the first ten minutes; the rest is in docs/."""

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"`[^`\n]*`")
_NAMED = re.compile(r"docs/[\w-]+\.md")


def pages() -> list[str]:
    """Paths of the pages that users read, from the top of the repository."""
    tops = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
    return [*tops, *sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/**/*.md"))]


def anchor(heading: str) -> str:
    """The anchor that GitHub gives a heading: lower case, without punctuation, a hyphen for each space."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    """The anchors of all headings of a page."""
    return {anchor(found) for found in re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)}


def links(page: Path) -> list[str]:
    """The links of a page to other places of the repository, those in examples left out."""
    prose = "\n".join(line for line in page.read_text().splitlines() if not line.startswith("    "))
    return [link for link in _LINK.findall(_CODE.sub("", prose)) if "://" not in link]


@pytest.mark.parametrize("page", pages())
def test_the_links_of_a_page_lead_to_files_and_headings(page: str) -> None:
    path, dead = ROOT / page, []
    for link in links(path):
        name, _, heading = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        if not target.exists() or (heading and heading not in anchors(target)):
            dead.append(link)
    assert dead == []


def test_readme_leads_to_every_page() -> None:
    named = {(ROOT / link.partition("#")[0]).resolve() for link in links(ROOT / "README.md")}
    assert [path.name for path in sorted(ROOT.glob("docs/*.md")) if path not in named] == []


def test_readme_is_read_in_ten_minutes() -> None:
    assert len((ROOT / "README.md").read_bytes()) <= MAX_README_BYTES


@pytest.mark.parametrize("suffix", ["py", "yml", "yaml", "toml", "lua"])
def test_pages_that_errors_and_manifests_name_exist(suffix: str) -> None:
    """An error that sends its reader to a page that is gone is worse than one that does not."""
    folders = ("contracts", "shared", "services", "pentad", "k8s", "tests")
    files = [*ROOT.glob(f"*.{suffix}"), *(path for top in folders for path in (ROOT / top).rglob(f"*.{suffix}"))]
    named = {name for path in files for name in _NAMED.findall(path.read_text())}
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
