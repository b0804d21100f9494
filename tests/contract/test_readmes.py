"""Each service's README says what it consumes and emits: the streams that the registry gives it, by their keys."""

import re
from pathlib import Path

import pytest

from pentad.contracts.streams import SERVICES, STREAMS, Service, Stream

SERVICE_FOLDERS = Path(__file__).parents[2] / "services"


def shown(stream: Stream) -> str:
    """A stream's key as documents write it."""
    return re.sub(r"\{(\w+)\}", lambda found: found[1].upper(), stream.template).replace(":SHARD:", ":{SHARD}:")


def part(service: Service, name: str) -> str:
    """One paragraph of a service's README."""
    text = (SERVICE_FOLDERS / service.replace("-", "_") / "README.md").read_text()
    found = re.search(rf"\*\*{name}\*\*(.*?)\n\n", text, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("service", SERVICES)
def test_a_readme_names_what_its_service_reads_and_writes(service: Service) -> None:
    read, written = part(service, "Consumes"), part(service, "Emits")
    streams = STREAMS.values()
    assert [shown(s) for s in streams if service in s.readers and f"`{shown(s)}`" not in read] == []
    assert [shown(s) for s in streams if service in s.writers and f"`{shown(s)}`" not in written] == []


@pytest.mark.parametrize("service", SERVICES)
def test_the_files_that_a_readme_names_are_there(service: Service) -> None:
    folder = SERVICE_FOLDERS / service.replace("-", "_")
    rows = re.findall(r"^\| (`.*?) \|", (folder / "README.md").read_text(), re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`([\w/.]+)`", row)]
    assert named
    assert [name for name in named if not ((folder / name).exists() or (folder / "domain" / name).exists())] == []
