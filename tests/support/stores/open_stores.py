"""The servers of stores that a test process has, each started when it is first asked for."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.support.stores.servers import StoreKinds, StoreServer


class OpenStores:
    """One server of each store and kind."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._there: dict[tuple[int, str], StoreServer] = {}

    def get(self, kinds: StoreKinds, kind: str) -> StoreServer:
        """Return the server of this kind; skips with the reason where there is none."""
        key = id(kinds), kind
        if key not in self._there:
            self._there[key] = self._stack.enter_context(kinds.open(kind))
        return self._there[key]


@pytest.fixture(scope="session")
def open_stores() -> Iterator[OpenStores]:
    """The servers of this test process."""
    with ExitStack() as stack:
        yield OpenStores(stack)
