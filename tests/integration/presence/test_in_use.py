"""What a running process uses is told while it runs, and no longer."""

import asyncio

from pentad.cli.doctor.diagnosis import diagnose
from pentad.shared.event_loop import cancel_all
from pentad.shared.keys import IN_USE
from pentad.shared.presence.announcements import ModelInUse, announce_model
from pentad.shared.store.store import Store
from tests.support.waiting import wait_until

A = ModelInUse(service="task-runner", model="m", place="http://h/v1")
B = ModelInUse(service="embedding", model="simple-384", place=None)


async def test_each_model_is_told_once_and_taken_back_at_the_end(store: Store) -> None:
    async def told() -> tuple[ModelInUse, ...]:
        return (await diagnose(store.url, 1)).in_use

    async def three_keys() -> bool:
        return bool(await store.redis.exists(*(f"{IN_USE}c{n}" for n in range(3))) == 3)

    def tell(name: str, model: ModelInUse) -> asyncio.Task[None]:
        return asyncio.create_task(announce_model(store, name, lambda: model))

    announcing = [tell(f"c{number}", model) for number, model in enumerate((A, A, B))]
    await wait_until("all keys", three_keys)
    assert sorted(map(str, await told())) == sorted(map(str, (A, B)))
    assert 0 < await store.redis.ttl(f"{IN_USE}c0") <= 6, "a killed process takes nothing back"
    await store.redis.set(f"{IN_USE}odd", "of a newer version", ex=5)
    killed = ModelInUse(service="router", model="of a process killed before the clock stepped back", place=None)
    await store.redis.set(f"{IN_USE}killed", killed.model_dump_json(), ex=600)
    await cancel_all(announcing)
    assert await told() == ()
