"""Secrets of users and tenants as the services use them: looked up by name, known for a few seconds."""

from collections.abc import Iterable, Sequence
from time import monotonic
from typing import Generic, TypeVar

from pentad.shared.immutable import immutable
from pentad.shared.secrets.secret_store import SecretOwner, SecretStore
from pentad.shared.settings import Settings

T = TypeVar("T")

_FRESH_S = 5.0
"""Seconds for which it is known who has what."""
_MAX_KNOWN = 2_000
"""Users whose secrets are remembered."""
_MAX_OWNERS = 1_000
"""Owners that are looked at for one who has all of some secrets."""


@immutable
class FoundSecrets:
    """The values of some secrets, and the names of those that are not there. Its ``repr`` shows no value."""

    values: dict[str, str]
    missing: tuple[str, ...]

    def __repr__(self) -> str:
        return f"FoundSecrets({sorted(self.values)}, missing={self.missing})"


class UserSecrets:
    """Looks secrets up: a user's own goes before the tenant's. Without a store nobody has any.

    Raises ``OutageError`` when the store does not answer.
    """

    def __init__(self, store: SecretStore | None) -> None:
        self._store = store
        self._values = _Known[str | None]()
        self._there = _Known[bool]()

    async def find(self, tenant: str, user: str | None, names: Sequence[str]) -> FoundSecrets:
        """Return the secrets of a user under these names."""
        values: dict[str, str] = {}
        for name in names:
            if (value := await self._value(tenant, user, name)) is not None:
                values[name] = value
        return FoundSecrets(values, tuple(name for name in names if name not in values))

    async def has(self, tenant: str, user: str | None, names: Iterable[str]) -> bool:
        """Return whether a user has all of these. None of them is read."""
        for name in names:
            if not await self._is_there(tenant, user, name):
                return False
        return True

    async def owner_of(self, names: Sequence[str]) -> SecretOwner | None:
        """Return the first who has all of these, tenants before users; None when nobody has."""
        if self._store is None:
            return None
        for owner in (await self._store.owners())[:_MAX_OWNERS]:
            if await self.has(owner.tenant, owner.user, names):
                return owner
        return None

    async def _value(self, tenant: str, user: str | None, name: str) -> str | None:
        if self._store is None:
            return None
        key = (tenant, user, name)
        if not self._values.is_fresh(key):
            value = None
            for owner in _owners(tenant, user):
                value = await self._store.read(owner, name)
                if value is not None:
                    break
            self._values.keep(key, value)
        return self._values.known[key][1]

    async def _is_there(self, tenant: str, user: str | None, name: str) -> bool:
        if self._store is None:
            return False
        key = (tenant, user, name)
        if not self._there.is_fresh(key):
            there = False
            for owner in _owners(tenant, user):
                there = there or await self._store.has(owner, name)
            self._there.keep(key, there)
        return self._there.known[key][1]

    def __repr__(self) -> str:
        return "UserSecrets()"


class _Known(Generic[T]):
    """The findings about names of users, each with its time."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str | None, str], tuple[float, T]] = {}

    def is_fresh(self, key: tuple[str, str | None, str]) -> bool:
        found = self.known.get(key)
        return found is not None and monotonic() - found[0] <= _FRESH_S

    def keep(self, key: tuple[str, str | None, str], value: T) -> None:
        if len(self.known) >= _MAX_KNOWN:
            self.known.clear()
        self.known[key] = monotonic(), value


def _owners(tenant: str, user: str | None) -> Sequence[SecretOwner]:
    """Return in whose folders a user's secrets are, the user's own first."""
    return [SecretOwner(tenant)] if user is None else [SecretOwner(tenant, user), SecretOwner(tenant)]


def secrets_of(settings: Settings) -> UserSecrets:
    """Return the secrets of the settings of a process. Raises ``SettingsError``."""
    return UserSecrets(SecretStore.of(settings))
