"""Secrets of a user are erased with the user; those of others, and those that are given later, stay."""

import os

from pentad.shared.secrets.secret_store import SecretOwner
from tests.integration.erasing.erasable import Erasable

ADA, BOB, TENANT, ELSEWHERE = (
    SecretOwner("default", "ada"), SecretOwner("default", "bob"), SecretOwner("default"), SecretOwner("acme", "ada")
)  # fmt: skip


async def test_secrets_go_with_their_user_and_what_comes_later_stays(world: Erasable) -> None:
    task = await world.tell("hello", user_id="ada")
    for owner in (ADA, BOB, TENANT, ELSEWHERE):
        await world.secrets.write(owner, "TOKEN", "old")
    await world.ask("user", task)
    await world.erase()
    assert await world.secrets.read(ADA, "TOKEN") is None
    assert [await world.secrets.read(each, "TOKEN") for each in (BOB, TENANT, ELSEWHERE)] == ["old"] * 3
    await world.secrets.write(ADA, "TOKEN", "new")
    later = await world.store.clock() / 1000 + 1
    os.utime(world.folder / "secrets" / ADA.folder / "TOKEN", (later, later))
    await world.erase()  # delivered again
    assert await world.secrets.read(ADA, "TOKEN") == "new"


async def test_secrets_stay_when_a_session_is_erased(world: Erasable) -> None:
    task = await world.tell("hello", user_id="ada")
    await world.secrets.write(ADA, "TOKEN", "old")
    await world.ask("session", task)
    await world.erase()
    assert await world.secrets.read(ADA, "TOKEN") == "old"


async def test_a_user_without_secrets_is_erased_as_well(world: Erasable) -> None:
    task = await world.tell("hello", user_id="ada")
    await world.ask("user", task)
    await world.erase()
    assert await world.secrets.owners() == []
