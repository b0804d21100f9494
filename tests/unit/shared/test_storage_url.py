"""A store that a setting names is checked at the start, and opened when it is used."""

from pathlib import Path

import pytest

from pentad.shared.errors import SettingsError
from pentad.shared.storage_url import StorageUrl, is_local


@pytest.mark.parametrize("before", ["", "file://", "local://"])
def test_a_folder_is_this_machines_however_it_is_written(tmp_path: Path, before: str) -> None:
    place = StorageUrl("PENTAD_FILES", f"{before}{tmp_path}/")
    fs, root = place.open()
    assert (place.is_local, place.folder, root, is_local(fs)) == (True, str(tmp_path), str(tmp_path), True)


def test_objects_are_no_folder() -> None:
    place = StorageUrl("PENTAD_FILES", "memory://there/")
    fs, root = place.open()
    assert (place.is_local, root.strip("/"), is_local(fs)) == (False, "there", False)


@pytest.mark.parametrize("url", ["nowhere://key:secret@host/x", "s4://bucket", f"{'x' * 900}://y", "a b://c"])
def test_a_kind_of_store_that_nobody_knows_is_refused_with_the_settings_name(url: str) -> None:
    with pytest.raises(SettingsError, match="PENTAD_RECORDS_URL names a store") as refused:
        StorageUrl("PENTAD_RECORDS_URL", url)
    assert "secret" not in str(refused.value)


def test_an_address_is_not_shown() -> None:
    assert "key" not in repr(StorageUrl("PENTAD_FILES", "memory://key:secret@x"))
