"""docs/configure.md and docs/deploy.md say the same of settings, secrets and images as the code and the manifests."""

import re
import tomllib

from tests.support.documents.manifests import ROOT, containers, read_base
from tests.support.documents.settings_table import EXAMPLE, example, table, written

DEPLOY_PAGE = ROOT / "docs" / "deploy.md"


def test_the_table_of_settings_is_todays() -> None:
    assert written() == table(), "run: python -m tests.support.documents.settings_table"


def test_the_example_of_an_environment_file_has_every_setting_and_changes_none() -> None:
    assert EXAMPLE.read_text() == example(), "run: python -m tests.support.documents.settings_table"
    assert all(line.startswith("#") for line in example().splitlines() if line)


def test_the_secret_that_the_operator_makes_has_every_key_that_pods_need() -> None:
    text = DEPLOY_PAGE.read_text()
    sources = [
        variable["valueFrom"]["secretKeyRef"]
        for _, _, container in containers(read_base()[1])
        for variable in container["env"]
    ]
    needed = {source["key"] for source in sources}
    assert [key for key in sorted(needed) if f"--from-literal={key}=" not in text] == []


def test_packages_of_tools_are_added_where_pip_is_and_with_the_python_of_the_image() -> None:
    text, dockerfile = DEPLOY_PAGE.read_text(), (ROOT / "Dockerfile").read_text()
    base = re.findall(r"^ARG BUILD=(\S+)$", dockerfile, flags=re.MULTILINE)
    assert re.findall(r"^ +FROM (\S+) AS packages$", text, flags=re.MULTILINE) == base
    asked = re.findall(r"^ +RUN pip.*", text, flags=re.MULTILINE)
    assert asked
    assert all("--python /opt/pentad/bin/python" in line for line in asked), "what is shipped has no pip"


def test_images_that_are_built_on_ours_are_built_on_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    named = set(re.findall(r"\bpentad:(\d[\w.]*\w)", DEPLOY_PAGE.read_text()))
    assert named == {version}
