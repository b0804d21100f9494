"""The operator's key of an open gateway that was given none: made once, in the data directory, for this user alone.

An open gateway lets every program of this machine talk to it. Its registries and dead letters are for who may read
this file.
"""

import time
from pathlib import Path
from secrets import token_urlsafe

from pydantic import SecretStr

from pentad.shared.embedded.data_dir import keep_to_ourselves
from pentad.shared.errors import SettingsError
from pentad.shared.private_files import NotPrivateError, PrivateFolder
from pentad.shared.settings import Settings

OPERATOR_KEY = "admin.key"
"""The file's name."""
_READ_TRIES, _PAUSE_S = 20, 0.05
"""How often a file that another process is just making is read again."""


def with_operator_key(settings: Settings) -> Settings:
    """The settings of an open gateway, with the operator's key of the data directory, which is made if there is none.

    Unchanged where ``PENTAD_ADMIN_KEY`` or API keys are set; then a key that was made before does not count any more,
    and its file is removed. Raises ``SettingsError``.
    """
    folder = settings.pentad_data_dir
    if settings.admin_key is not None or settings.api_keys:
        (folder / OPERATOR_KEY).unlink(missing_ok=True)
        return settings
    return settings.model_copy(update={"pentad_admin_key": SecretStr(_kept_key(folder))})


def _kept_key(path: Path) -> str:
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        keep_to_ourselves(path)
        with PrivateFolder(path) as folder:
            for _ in range(_READ_TRIES):
                if key := folder.read(OPERATOR_KEY) or _made_key(folder):
                    return key
                time.sleep(_PAUSE_S)
        why = f"{path / OPERATOR_KEY} holds no key: remove it"
    except NotPrivateError as error:
        why = f"{path} or {OPERATOR_KEY} in it {error}"
    except OSError as error:
        why = f"{path / OPERATOR_KEY} cannot be written ({error.strerror or error})"
    raise SettingsError(f"the operator's key cannot be kept: {why}; or set PENTAD_ADMIN_KEY or PENTAD_DATA_DIR")


def _made_key(folder: PrivateFolder) -> str:
    """A new key in the folder; '' when another process makes one at the same time."""
    key = token_urlsafe(32)
    try:
        folder.make(OPERATOR_KEY, key)
    except FileExistsError:
        return ""
    return key
