"""Secrets are kept where nobody else looks: private files, encrypted with a key, bound to their owner, never shown."""

import os
from base64 import b64encode
from pathlib import Path

import pytest

from pentad.shared.errors import OutageError, SettingsError
from pentad.shared.secrets.secret_store import (
    MAX_SECRET_BYTES,
    SecretKeys,
    SecretOwner,
    SecretStore,
    SecretUnreadableError,
)
from pentad.shared.secrets.user_secrets import UserSecrets
from pentad.shared.settings import load_settings

ALICE, BOB, ALL = SecretOwner("acme", "auth0|alice"), SecretOwner("acme", "bob"), SecretOwner("acme")
KEYS = [bytes([n]) * 32 for n in range(3)]


def store(folder: Path, *keys: bytes) -> SecretStore:
    return SecretStore(str(folder / "secrets"), SecretKeys(keys) if keys else None)


def files_in(folder: Path) -> list[Path]:
    return sorted(each for each in folder.rglob("*") if each.is_file())


@pytest.fixture(params=["plain", "encrypted", "memory"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> SecretStore:
    if request.param == "memory":
        return SecretStore(f"memory://{tmp_path}", SecretKeys(KEYS))
    return store(tmp_path, *(KEYS[:1] if request.param == "encrypted" else ()))


async def test_a_secret_is_read_as_it_was_kept_and_gone_when_it_was_removed(any_store: SecretStore) -> None:
    assert await any_store.read(ALICE, "TOKEN") is None
    await any_store.write(ALICE, "TOKEN", "first")
    await any_store.write(ALICE, "TOKEN", "zweites ü")
    await any_store.write(ALL, "SHARED", "ours")
    assert await any_store.read(ALICE, "TOKEN") == "zweites ü"
    assert await any_store.read(BOB, "TOKEN") is None
    assert await any_store.has(ALICE, "TOKEN")
    assert not await any_store.has(ALL, "TOKEN")
    assert ALL in await any_store.owners()
    assert ALICE in await any_store.owners()
    assert await any_store.remove(ALICE, "TOKEN")
    assert not await any_store.remove(ALICE, "TOKEN")
    assert await any_store.read(ALICE, "TOKEN") is None


async def test_files_and_folders_are_for_this_user_alone(tmp_path: Path) -> None:
    await store(tmp_path).write(ALICE, "TOKEN", "x")
    (file,) = files_in(tmp_path)
    assert file.relative_to(tmp_path) == Path("secrets/acme/auth0%7Calice/TOKEN")
    assert oct(file.stat().st_mode & 0o777) == "0o600"
    for folder in (file.parent, file.parent.parent, file.parent.parent.parent):
        assert oct(folder.stat().st_mode & 0o777) == "0o700"


async def test_an_operators_own_file_is_read_without_its_last_line_end(tmp_path: Path) -> None:
    (tmp_path / "secrets" / "acme").mkdir(parents=True)
    (tmp_path / "secrets" / "acme" / "TOKEN").write_text("mounted\n")
    assert await store(tmp_path, KEYS[0]).read(ALL, "TOKEN") == "mounted"


async def test_an_encrypted_secret_is_not_on_the_disk_and_opens_with_its_key_alone(tmp_path: Path) -> None:
    await store(tmp_path, KEYS[0]).write(ALICE, "TOKEN", "hunter2-hunter2")
    raw = b"".join(each.read_bytes() for each in files_in(tmp_path))
    assert b"hunter2" not in raw
    assert b64encode(b"hunter2-hunter2") not in raw
    for keys in ((), (KEYS[1],)):
        with pytest.raises(SecretUnreadableError) as refused:
            await store(tmp_path, *keys).read(ALICE, "TOKEN")
        assert "TOKEN is encrypted, and no key of PENTAD_SECRET_KEY opens it here" in str(refused.value)


async def test_keys_are_rotated_by_putting_a_new_one_first(tmp_path: Path) -> None:
    await store(tmp_path, KEYS[0]).write(ALICE, "OLD", "1")
    both = store(tmp_path, KEYS[1], KEYS[0])
    await both.write(ALICE, "NEW", "2")
    assert [await both.read(ALICE, name) for name in ("OLD", "NEW")] == ["1", "2"]
    assert await store(tmp_path, KEYS[1]).read(ALICE, "NEW") == "2"


async def test_a_file_that_is_moved_to_another_user_does_not_open_there(tmp_path: Path) -> None:
    it = store(tmp_path, KEYS[0])
    await it.write(ALICE, "TOKEN", "alice's")
    await it.write(BOB, "TOKEN", "bob's")
    files = files_in(tmp_path)
    os.replace(files[0], files[1])
    with pytest.raises(SecretUnreadableError):
        await it.read(BOB, "TOKEN")


@pytest.mark.parametrize("name", ["", "../TOKEN", "a/b", ".hidden", "x" * 65, "a\0"])
async def test_a_name_cannot_lead_elsewhere(name: str, any_store: SecretStore) -> None:
    with pytest.raises(ValueError, match="the name of a secret"):
        await any_store.write(ALL, name, "x")
    with pytest.raises(ValueError, match="the name of a secret"):
        await any_store.read(ALL, name)


@pytest.mark.parametrize(
    "owner", [SecretOwner(".."), SecretOwner("a/b"), SecretOwner("a", "../b"), SecretOwner("a", "")]
)
async def test_an_owner_cannot_lead_elsewhere(owner: SecretOwner, any_store: SecretStore) -> None:
    with pytest.raises(ValueError, match="belongs to a tenant"):
        await any_store.write(owner, "TOKEN", "x")


async def test_a_user_named_by_dots_has_a_folder_of_the_own(tmp_path: Path) -> None:
    it = store(tmp_path)
    await it.write(SecretOwner("acme", ".."), "TOKEN", "x")
    assert (tmp_path / "secrets" / "acme" / "%2E." / "TOKEN").read_text() == "x"


async def test_a_secret_has_a_bound_in_bytes(any_store: SecretStore) -> None:
    for value in ("", "x" * (MAX_SECRET_BYTES + 1)):
        with pytest.raises(ValueError, match=f"1 to {MAX_SECRET_BYTES} bytes"):
            await any_store.write(ALL, "TOKEN", value)
    await any_store.write(ALL, "TOKEN", "x" * MAX_SECRET_BYTES)
    assert len(str(await any_store.read(ALL, "TOKEN"))) == MAX_SECRET_BYTES


async def test_a_user_and_a_secret_of_one_name_are_refused_and_not_mixed_up(tmp_path: Path) -> None:
    it = store(tmp_path)
    await it.write(SecretOwner("acme", "bob"), "TOKEN", "x")
    with pytest.raises(ValueError, match="a user and a secret of this name"):
        await it.write(ALL, "bob", "y")
    await it.write(ALL, "SHARED", "z")
    with pytest.raises(ValueError, match="a user and a secret of this name"):
        await it.write(SecretOwner("acme", "SHARED"), "TOKEN", "x")


async def test_nothing_shows_a_secret(tmp_path: Path) -> None:
    it = store(tmp_path, KEYS[0])
    await it.write(ALICE, "TOKEN", "hunter2")
    secrets = UserSecrets(it)
    found = await secrets.find("acme", "auth0|alice", ["TOKEN", "OTHER"])
    assert (found.values, found.missing) == ({"TOKEN": "hunter2"}, ("OTHER",))
    for shown in (found, secrets, it, SecretKeys(KEYS)):
        assert "hunter2" not in repr(shown) + str(shown)


async def test_a_users_own_secret_goes_before_the_tenants_and_others_have_none(tmp_path: Path) -> None:
    it = store(tmp_path)
    await it.write(ALICE, "TOKEN", "alice's")
    await it.write(ALL, "TOKEN", "everybody's")
    await it.write(ALICE, "OWN", "1")
    secrets = UserSecrets(it)
    assert (await secrets.find("acme", "auth0|alice", ["TOKEN"])).values == {"TOKEN": "alice's"}
    assert (await secrets.find("acme", "bob", ["TOKEN"])).values == {"TOKEN": "everybody's"}
    assert (await secrets.find("acme", None, ["TOKEN"])).values == {"TOKEN": "everybody's"}
    assert (await secrets.find("other", "auth0|alice", ["TOKEN"])).missing == ("TOKEN",)
    assert await secrets.has("acme", "auth0|alice", ["TOKEN", "OWN"])
    assert not await secrets.has("acme", "bob", ["TOKEN", "OWN"])
    assert await secrets.owner_of(["TOKEN"]) == ALL
    assert await secrets.owner_of(["TOKEN", "OWN"]) == ALICE
    assert await secrets.owner_of(["NONE"]) is None


async def test_without_a_store_nobody_has_any() -> None:
    secrets = UserSecrets(SecretStore.of(load_settings({})))
    assert not await secrets.has("acme", None, ["TOKEN"])
    assert await secrets.has("acme", None, [])


async def test_a_store_that_does_not_answer_is_an_outage_without_its_address(tmp_path: Path) -> None:
    it = SecretStore(str(tmp_path / ("hunter2" * 100)))
    with pytest.raises(OutageError) as refused:
        await it.read(ALL, "TOKEN")
    assert str(refused.value) == "the store of PENTAD_SECRETS is unavailable: OSError"


def test_a_kind_of_store_that_nobody_knows_stops_the_start() -> None:
    with pytest.raises(SettingsError) as refused:
        SecretStore("nosuch://user:hunter2@host/x")
    assert str(refused.value).startswith("PENTAD_SECRETS names a store nosuch:// that cannot be used here")
    assert "hunter2" not in str(refused.value)


def test_keys_are_checked_at_the_start() -> None:
    with pytest.raises(SettingsError, match="key 2 is not 32 bytes in base64"):
        load_settings({"PENTAD_SECRET_KEY": f"{b64encode(KEYS[0]).decode()},c2hvcnQ="})
