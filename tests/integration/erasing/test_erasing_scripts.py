"""Scripts of a user or a session are erased with it; those of others, and those that are saved later, stay."""

import pytest

from pentad.shared.owners import Owner
from pentad.shared.scripts.stored_script import checked_script
from tests.integration.erasing.erasable import Erasable

ADA, BOB, SESSION, SHARED = (
    Owner("default", "ada"), Owner("default", "bob"), Owner("default", None, "s1"), Owner("default")
)  # fmt: skip


async def kept(world: Erasable, owner: Owner) -> list[str]:
    return [each.script.name for each in await world.scripts.listed(owner)]


@pytest.mark.parametrize(("kind", "erased"), [("user", ADA), ("session", SESSION)])
async def test_scripts_go_with_their_owner_and_what_comes_later_stays(
    world: Erasable, kind: str, erased: Owner
) -> None:
    others = [owner for owner in (ADA, BOB, SESSION, SHARED) if owner != erased]
    task = await world.tell("hello", user_id="ada")
    for owner in (erased, *others):
        await world.scripts.save(owner, checked_script("old", "result = 1", ""), await world.store.clock())
    await world.ask(kind, task)
    await world.erase()
    assert await kept(world, erased) == []
    assert [await kept(world, owner) for owner in others] == [["old"]] * 3
    await world.scripts.save(erased, checked_script("new", "result = 1", ""), await world.store.clock() + 1)
    await world.erase()  # delivered again
    assert await kept(world, erased) == ["new"]
