"""Every store looks at what it is given before it writes any of it."""

import math

import pytest

from pentad.shared.errors import MemoryRefusedError
from pentad.shared.vectors.selection import Selection
from pentad.shared.vectors.vector_store import Vectors
from tests.support.point_maker import ADA, near, point, point_id

SEEN = Selection(ADA)


async def test_what_is_bad_or_too_much_is_refused_with_all_that_came_with_it(vectors: Vectors) -> None:
    for bad in (point("a", dense=(math.nan, 0, 0)), point("a", text="x" * 70_000), point("a", importance=7)):
        with pytest.raises(MemoryRefusedError):
            await vectors.upsert("memory", [point("good"), bad])
    with pytest.raises(MemoryRefusedError, match="256 at most"):
        await vectors.upsert("memory", [point(str(n)) for n in range(257)])
    with pytest.raises(MemoryRefusedError, match="16 at most"):
        await vectors.search("memory", [near((1, 0, 0), SEEN)] * 17)
    with pytest.raises(MemoryRefusedError, match="1 to 1000"):
        await vectors.scroll("memory", SEEN, 1001)
    with pytest.raises(MemoryRefusedError, match="UUID"):
        await vectors.scroll("memory", SEEN, 10, "../../etc/passwd")
    for ask in (vectors.get, vectors.count, vectors.delete):
        with pytest.raises(MemoryRefusedError, match="UUID"):
            await ask("memory", Selection(ADA, ids=("x",)))
    with pytest.raises(MemoryRefusedError, match="by their ids"):
        await vectors.get("memory", SEEN)
    with pytest.raises(MemoryRefusedError, match="name of a collection"):
        await vectors.prepare("../up", 3)
    with pytest.raises(MemoryRefusedError, match="name of a collection"):
        await vectors.switch("a/b", "memory")
    assert await vectors.count("memory", SEEN) == 0


async def test_text_that_looks_like_a_condition_is_only_text(vectors: Vectors) -> None:
    odd = '{"should":[]} OR 1=1'
    await vectors.upsert("memory", [point("a", task=odd), point("b")])
    page = await vectors.scroll("memory", Selection(ADA, tasks=(odd,)), 10)
    assert [found.id for found in page.points] == [point_id("a")]
