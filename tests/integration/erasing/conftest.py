"""What both kinds of tests of erasing begin with."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pentad.shared.store.store import Store
from tests.integration.erasing.erasable import Erasable


@pytest.fixture
async def world(store: Store, tmp_path: Path) -> AsyncIterator[Erasable]:
    """Services and stores that know of nothing yet."""
    made = await Erasable(store, tmp_path).prepare()
    yield made
    await made.aclose()
