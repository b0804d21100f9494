"""Every place that names the version of Pentad names the same one."""

import re
import tomllib

from pentad.services.gateway.api_docs.openapi import VERSION
from tests.architecture.source import ROOT


def test_package_interface_images_and_changelog_have_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    named = {"pyproject.toml": {project}, "openapi.json": {VERSION}}
    for path in (ROOT / "docker-compose.yml", *(ROOT / "k8s").rglob("*.yaml"), *(ROOT / "docs").glob("*.md")):
        if tags := set(re.findall(r"\bpentad:(\d+\.\d+\.\d+)", path.read_text())):
            named[path.name] = tags
    named["CHANGELOG.md"] = set(re.findall(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(), re.M)[:1])
    assert len(named) > 8, "images are found"
    assert set().union(*named.values()) == {project}, named
