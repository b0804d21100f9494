"""The console's files: what a browser is told with them, and that the bundle of libraries is what its lock makes."""

import hashlib
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from httpx2 import ASGITransport, AsyncClient, Response
from starlette.applications import Starlette

from pentad.services.gateway.console.console_routes import ConsoleRoutes, page_files
from pentad.services.gateway.edge.operations import routes_of
from pentad.services.gateway.edge.problems import ProblemError

_MAX_LINE = 120
"""Characters of a line of the page's modules, as of the code in Python."""
_COMMENT = re.compile(r"^ *(?://|/?\*).*$", re.MULTILINE)
_FOLDER = Path(__file__).parents[3] / "services" / "gateway" / "console"


async def get(path: str, headers: Mapping[str, str] | None = None, *, on: bool = True) -> Response:
    async def refuse(request: Any, error: Exception) -> Any:
        assert isinstance(error, ProblemError)
        return error.response()

    app = Starlette(routes=routes_of(ConsoleRoutes(on=on)), exception_handlers={ProblemError: refuse})
    async with AsyncClient(transport=ASGITransport(app), base_url="http://gateway") as client:
        return await client.get(path, headers=dict(headers or {}))


@pytest.mark.parametrize("path", ["/console", "/console/index.html"])
async def test_a_page_may_load_nothing_from_elsewhere_and_stands_in_no_frame(path: str) -> None:
    answer = await get(path)
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert "unsafe" not in str(policy)
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_a_browser_that_has_a_file_is_told_so_and_another_gets_it_compressed() -> None:
    first = await get("/console/main.js", {"accept-encoding": "gzip"})
    assert (first.status_code, first.headers["content-encoding"]) == (200, "gzip")
    assert first.text == (_FOLDER / "page" / "main.js").read_text()
    again = await get("/console/main.js", {"if-none-match": f'"other", W/{first.headers["etag"]}'})
    assert (again.status_code, again.content) == (304, b"")
    plain = await get("/console/main.js", {"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers


async def test_without_the_last_name_the_way_leads_to_the_page() -> None:
    answer = await get("/console/")
    assert (answer.status_code, answer.headers["location"]) == (307, "../console")


@pytest.mark.parametrize("path", ["/console/../app.py", "/console/%2e%2e/app.py", "/console/__init__.py", "/console/x"])
async def test_nothing_but_the_page_is_served(path: str) -> None:
    assert (await get(path)).status_code == 404


@pytest.mark.parametrize("path", ["/console", "/console/main.js"])
async def test_a_console_that_is_off_is_not_served(path: str) -> None:
    answer = await get(path, on=False)
    assert (answer.status_code, "PENTAD_CONSOLE" in answer.json()["detail"]) == (404, True)


def test_every_module_imports_what_is_there() -> None:
    """No view is missing a file: imports are resolved in the browser alone, and some when a view is first gone to."""
    known = set(page_files())
    assert _imports(page_files()["main.js"].plain.decode()).count("./views/memory.js") == 1
    for name, file in page_files().items():
        if not name.endswith(".js") or name == "vendor.js":
            continue
        for found in _imports(file.plain.decode()):
            target = (Path("/console") / name).parent.joinpath(found)
            resolved = str(target.resolve().relative_to("/")).removeprefix("console/")
            assert resolved in known | {"pentad.js"}, f"{name} imports {found}"


def test_no_line_of_the_page_is_too_long_to_read_and_no_import_is_unused() -> None:
    """Nothing else holds the style of the page's modules: no tool of JavaScript is needed to change them."""
    for name, file in page_files().items():
        if not name.endswith(".js") or name == "vendor.js":
            continue
        text = file.plain.decode()
        assert [line for line in text.splitlines() if len(line) > _MAX_LINE] == [], (
            f"{name} has lines that are too long"
        )
        for imported in _imported_names(text):
            uses = re.findall(rf"(?<![\w$]){re.escape(imported)}(?![\w$])", _COMMENT.sub("", text))
            assert len(uses) > 1, f"{name} imports {imported} and does not use it"


def _imported_names(text: str) -> list[str]:
    lists = re.findall(r"^import \{([^}]*)\} from", text, re.MULTILINE)
    return [each.split(" as ")[-1].strip() for names in lists for each in names.split(",") if each.strip()]


def _imports(text: str) -> list[str]:
    return re.findall(r"""(?:from|import\() ?["'](\.[^"']+)["']""", text)


def test_the_bundle_is_the_one_whose_digest_is_kept() -> None:
    digest = hashlib.sha256((_FOLDER / "page" / "vendor.js").read_bytes()).hexdigest()
    assert digest == (_FOLDER / "vendor" / "vendor.sha256").read_text().strip()


def test_the_bundle_is_what_the_lock_makes(tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("the bundle is made with node and npm, which are not here")
    shutil.copytree(_FOLDER / "vendor", tmp_path / "vendor", ignore=shutil.ignore_patterns("node_modules", "*.sha256"))
    (tmp_path / "page").mkdir()
    command = "npm ci --no-audit --no-fund --silent && npm run --silent bundle"
    made = subprocess.run(command, shell=True, check=False, cwd=tmp_path / "vendor", capture_output=True, timeout=120)
    if made.returncode:
        pytest.skip(f"the packages cannot be had here: {made.stderr.decode()[-200:]}")
    assert (tmp_path / "vendor" / "vendor.sha256").read_text() == (_FOLDER / "vendor" / "vendor.sha256").read_text()
    for name in ("vendor.js", "vendor.licenses.txt"):
        assert (tmp_path / "page" / name).read_bytes() == (_FOLDER / "page" / name).read_bytes()
