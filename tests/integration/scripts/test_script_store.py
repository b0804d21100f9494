"""Scripts are kept by owner, in a folder and in a store of objects, with bounds on names, versions and numbers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from pentad.shared.errors import DamagedError, OutageError, SettingsError
from pentad.shared.owners import Owner
from pentad.shared.scripts.script_store import ScriptStore
from pentad.shared.scripts.stored_script import (
    MAX_DESCRIPTION_CHARS,
    MAX_SCRIPT_BYTES,
    MAX_SCRIPTS,
    MAX_VERSIONS,
    ScriptRefusedError,
    checked_script,
    digest_of,
)

ALICE, BOB, SHARED = Owner("acme", "alice"), Owner("acme", "bob"), Owner("acme")
SESSION = Owner("acme", None, "alice")


@pytest.fixture(params=["folder", "objects"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "folder":
        yield str(tmp_path / "scripts")
        return
    place = f"memory://{tmp_path}/scripts"
    yield place
    files, root = fsspec.core.url_to_fs(place)
    if files.exists(root):
        files.rm(root, recursive=True)


@pytest.fixture
def store(url: str) -> ScriptStore:
    return ScriptStore(url)


def script(name: str = "sum", code: str = "result = 1", description: str = "Adds.") -> Any:
    return checked_script(name, code, description)


async def code_of(store: ScriptStore, owner: Owner, name: str = "sum", digest: str | None = None) -> str | None:
    found = await store.read(owner, name, digest)
    return None if found is None else found.script.code


async def test_a_script_is_read_as_it_was_saved_and_by_its_owner_alone(store: ScriptStore) -> None:
    saved = await store.save(ALICE, script(code="result = 'ü'"), 1_000)
    found = await store.read(ALICE, "sum")
    assert found is not None
    assert (found.script, found.version) == (script(code="result = 'ü'"), saved)
    for other in (BOB, SHARED, SESSION, Owner("other", "alice"), Owner("acme", "session-alice")):
        assert await store.read(other, "sum") is None
        assert await store.listed(other) == []


async def test_the_last_version_counts_and_earlier_ones_are_found_by_digest(store: ScriptStore) -> None:
    for number in range(3):
        await store.save(ALICE, script(code=f"result = {number}"), 1_000)  # a clock may stand still
    assert await code_of(store, ALICE) == "result = 2"
    assert await code_of(store, ALICE, digest=digest_of("result = 0")[:6]) == "result = 0"
    assert await code_of(store, ALICE, digest="0" * 16) is None
    assert len(await store.versions(ALICE, "sum")) == 3


async def test_saving_the_same_again_makes_no_version_but_another_description_does(store: ScriptStore) -> None:
    first = await store.save(ALICE, script(), 1_000)
    assert await store.save(ALICE, script(), 2_000) == first
    await store.save(ALICE, script(description="Adds all."), 3_000)
    assert len(await store.versions(ALICE, "sum")) == 2
    assert [kept.script.description for kept in await store.listed(ALICE)] == ["Adds all."]


async def test_the_oldest_version_goes_when_there_are_too_many(store: ScriptStore) -> None:
    for number in range(MAX_VERSIONS + 3):
        await store.save(ALICE, script(code=f"result = {number}"), 1_000 + number)
    assert len(await store.versions(ALICE, "sum")) == MAX_VERSIONS
    assert await code_of(store, ALICE, digest=digest_of("result = 2")) is None
    assert await code_of(store, ALICE, digest=digest_of("result = 3")) == "result = 3"


async def test_no_more_scripts_are_kept_than_an_owner_may_have(store: ScriptStore) -> None:
    for number in range(MAX_SCRIPTS):
        await store.save(ALICE, script(f"s{number}"), 1_000)
    with pytest.raises(ScriptRefusedError, match=f"{MAX_SCRIPTS} scripts are kept here already"):
        await store.save(ALICE, script("one-more"), 2_000)
    await store.save(ALICE, script("s0", "result = 2"), 2_000)
    await store.save(BOB, script("one-more"), 2_000)
    assert len(await store.listed(ALICE)) == MAX_SCRIPTS


async def test_what_is_erased_goes_with_all_versions_and_what_came_later_stays(store: ScriptStore) -> None:
    await store.save(ALICE, script("old", "result = 1"), 1_000)
    await store.save(ALICE, script("both", "result = 1"), 1_000)
    await store.save(ALICE, script("both", "result = 2"), 3_000)
    await store.save(BOB, script("old"), 1_000)
    await store.remove_all(ALICE, 2_000)
    assert [kept.script.name for kept in await store.listed(ALICE)] == ["both"]
    assert len(await store.versions(ALICE, "both")) == 1
    assert await code_of(store, BOB, "old") is not None
    await store.remove_all(SESSION, 2_000)


async def test_a_version_is_taken_back_alone(store: ScriptStore) -> None:
    await store.save(ALICE, script(), 1_000)
    second = await store.save(ALICE, script(code="result = 2"), 2_000)
    await store.take_back(ALICE, "sum", second)
    await store.take_back(ALICE, "sum", second)
    assert await code_of(store, ALICE) == "result = 1"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda data: b"", "it is damaged"),
        (lambda data: data[:-5], "it is damaged"),
        (lambda data: data.replace(b'"version":1', b'"version":2'), "a newer version of Pentad wrote it"),
        (lambda data: data.replace(b"result = 1", b"result = 2"), "its file holds another one"),
        (lambda data: data.replace(b'"sum"', b'"mus"'), "its file holds another one"),
        (lambda data: b"[" * 1_000_000, "it is damaged"),
    ],
)
async def test_a_damaged_script_is_told_and_no_other_is_lost(
    store: ScriptStore, url: str, change: Any, why: str
) -> None:
    await store.save(ALICE, script(), 1_000)
    await store.save(ALICE, script("fine"), 1_000)
    files, root = fsspec.core.url_to_fs(url)
    (path,) = [path for path in files.find(root) if "/sum/" in path]
    files.pipe_file(path, change(files.cat_file(path)))
    with pytest.raises(DamagedError, match=why):
        await store.read(ALICE, "sum")
    assert [kept.script.name for kept in await store.listed(ALICE)] == ["fine"]
    await store.save(ALICE, script(), 2_000)
    assert await code_of(store, ALICE) == "result = 1"


async def test_files_of_others_beside_are_no_scripts(store: ScriptStore, url: str) -> None:
    await store.save(ALICE, script(), 1_000)
    files, root = fsspec.core.url_to_fs(url)
    (path,) = files.find(root)
    folder = path.rpartition("/")[0]
    for name in ("000000000009999-ABC.json", "x.json", "000000000009999-0123456789abcdef.json.part"):
        files.pipe_file(f"{folder}/{name}", b"{}")
    nameless = f"{folder.rpartition('/')[0]}/No-Name"
    files.makedirs(nameless)
    files.pipe_file(f"{nameless}/000000000009999-0123456789abcdef.json", b"{}")
    assert [kept.script.name for kept in await store.listed(ALICE)] == ["sum"]


@pytest.mark.parametrize("name", ["", "A", "a b", "../a", "a/b", ".", "ü", "a" * 65, "a\n", "-a", "%41"])
async def test_what_is_no_name_names_no_file(store: ScriptStore, name: str) -> None:
    with pytest.raises(ScriptRefusedError, match="no name of a script"):
        checked_script(name, "result = 1", "")
    assert await store.read(ALICE, name) is None
    assert await store.versions(ALICE, name) == []


@pytest.mark.parametrize(
    ("code", "description", "why"),
    [
        ("x" * (MAX_SCRIPT_BYTES + 1), "", "split it into several"),
        ("ü" * (MAX_SCRIPT_BYTES // 2 + 1), "", "split it into several"),
        (" \n", "", "there is no code"),
        ("result = 1", "x" * (MAX_DESCRIPTION_CHARS + 1), "make it shorter"),
        ("def (:", "", "it is no Python: invalid syntax"),
        ("a\0", "", "it is no Python"),
        ("(" * 60_000, "", "it is no Python"),
    ],
)
def test_a_script_that_cannot_be_kept_is_refused_with_the_reason(code: str, description: str, why: str) -> None:
    with pytest.raises(ScriptRefusedError, match=why):
        checked_script("a", code, description)


async def test_a_store_that_is_away_is_an_outage(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutageError, match="the store of scripts"):
        await ScriptStore(str(tmp_path / "file")).save(ALICE, script(), 1_000)


def test_an_unknown_kind_of_store_is_refused_at_the_start() -> None:
    with pytest.raises(SettingsError, match="PENTAD_SCRIPTS names a store nowhere://"):
        ScriptStore("nowhere://bucket")


async def test_files_of_scripts_are_for_this_user_alone(tmp_path: Path) -> None:
    await ScriptStore(str(tmp_path / "scripts")).save(ALICE, script(), 1_000)
    for path in (tmp_path / "scripts").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
