"""Tools that need secrets are offered to the users who have them; those of clients are kept for a while alone."""

import weakref
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from pentad.contracts.client_tools import ClientTool
from pentad.contracts.instructions import Instruction
from pentad.contracts.tools import ToolSpec
from pentad.services.task_runner.client_tools import OfferedClientTools
from pentad.services.task_runner.prompt import Toolbox
from pentad.services.task_runner.tool_catalog import ToolCatalog
from pentad.services.task_runner.toolboxes import PromptFacts, Toolboxes, ToolUser
from pentad.shared.secrets.secret_store import SecretOwner, SecretStore
from pentad.shared.secrets.user_secrets import UserSecrets

SPECS = {
    "open": ToolSpec(name="open"),
    "s__a": ToolSpec(name="s__a", secrets=["A"]),
    "s__ab": ToolSpec(name="s__ab", secrets=["A", "B"]),
}
FACTS = PromptFacts(False, False, False, "")


class Shelf(ToolCatalog):
    """A catalog of given tools."""

    def __init__(self, secrets: UserSecrets | None = None) -> None:
        super().__init__(None, secrets)  # type: ignore[arg-type]

    async def _read(self) -> Any:
        self.silent = MappingProxyType({})
        return dict(SPECS)


class Models:
    """Models whose windows are not known."""

    def window(self, _: Any) -> None:
        return None


@pytest.fixture
async def catalog(tmp_path: Path) -> Shelf:
    store = SecretStore(str(tmp_path))
    await store.write(SecretOwner("acme", "alice"), "A", "1")
    await store.write(SecretOwner("acme"), "B", "2")
    await store.write(SecretOwner("acme", "bob"), "B", "3")
    return Shelf(UserSecrets(store))


@pytest.mark.parametrize(("user", "kept"), [("alice", set()), ("bob", {"s__a", "s__ab"}), (None, {"s__a", "s__ab"})])
async def test_a_tool_is_kept_from_who_lacks_one_of_its_secrets(
    catalog: Shelf, user: str | None, kept: set[str]
) -> None:
    await catalog.specs()
    assert await catalog.kept_from("acme", user) == kept
    assert await catalog.kept_from("other", user) == {"s__a", "s__ab"}


async def test_each_user_has_a_toolbox_of_what_is_offered(catalog: Shelf) -> None:
    boxes, asks = Toolboxes(catalog, Models()), Instruction(name="i", system_prompt="p")  # type: ignore[arg-type]
    alice = await boxes.of(asks, {}, FACTS, ToolUser("acme", "alice"))
    bob = await boxes.of(asks, {}, FACTS, ToolUser("acme", "bob"))
    assert {"open", "s__a", "s__ab"} <= set(alice.specs)
    assert "open" in bob.specs
    assert not {"s__a", "s__ab"} & set(bob.specs)
    assert await boxes.of(asks, {}, FACTS, ToolUser("acme", "alice")) is alice
    assert alice.digest != bob.digest


async def test_tools_of_clients_are_forgotten_and_push_nobody_elses_out(catalog: Shelf) -> None:
    boxes, asks = Toolboxes(catalog, Models()), Instruction(name="i", system_prompt="p")  # type: ignore[arg-type]
    alice = await boxes.of(asks, {}, FACTS, ToolUser("acme", "alice"))
    made = list[weakref.ref[Toolbox]]()
    for number in range(300):
        specs = {"get_place": ClientTool(name="get_place", description=f"{number}").spec}
        client = OfferedClientTools(f"{number}", specs)
        box = await boxes.of(asks, {}, FACTS, ToolUser("acme", "alice"), client)
        assert await boxes.of(asks, {}, FACTS, ToolUser("acme", "alice"), client) is box
        made.append(weakref.ref(box))
    assert sum(each() is not None for each in made) < 20
    assert await boxes.of(asks, {}, FACTS, ToolUser("acme", "alice")) is alice


async def test_while_the_store_of_secrets_does_not_answer_such_tools_are_not_offered(tmp_path: Path) -> None:
    catalog = Shelf(UserSecrets(SecretStore(str(tmp_path / ("x" * 5_000)))))
    await catalog.specs()
    assert await catalog.kept_from("acme", "alice") == {"s__a", "s__ab"}


async def test_without_tools_that_need_secrets_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = Shelf()
    monkeypatch.setitem(SPECS, "s__a", SPECS["open"])
    monkeypatch.setitem(SPECS, "s__ab", SPECS["open"])
    await catalog.specs()
    assert await catalog.kept_from("acme", None) == frozenset()
