"""What every store of vectors promises: written once, found by whom it belongs to, in the same order everywhere."""

import pytest

from pentad.shared.errors import MemoryOutageError, MemoryRefusedError
from pentad.shared.owners import Owner
from pentad.shared.vectors.points import Collection, Dense, KeptPoint, Point
from pentad.shared.vectors.selection import DenseQuery, Selection, VectorQuery, Whose
from pentad.shared.vectors.vector_store import Vectors
from tests.support.point_maker import ACME, ADA, BOB, OTHER, near, point, point_id, saying

SEEN = Selection(ADA)


async def ids(vectors: Vectors, selection: Selection) -> set[str]:
    return {found.id for found in (await vectors.scroll("memory", selection, 100)).points}


def named(*names: str) -> set[str]:
    return {point_id(name) for name in names}


async def test_what_was_written_is_read_as_it_was(vectors: Vectors) -> None:
    odd = "Ада 猫 \u0000 🐈‍⬛ \u202e end"
    details = {"speaker": "Ada", "asks": True, "turn": 7, "weight": 0.25}
    written = point("a", text=odd, task="task-0-9", position=3, at=1_700_000_000_123, importance=1.0, details=details)
    await vectors.upsert("memory", [written])
    read = await vectors.get("memory", Selection(ADA, ids=(written.id,)))
    assert read == [KeptPoint(written.id, written.payload)]


async def test_the_same_points_again_change_nothing_and_others_replace(vectors: Vectors) -> None:
    await vectors.upsert("memory", [point("a"), point("b")])
    await vectors.upsert("memory", [point("b", text="new"), point("a")])
    assert await vectors.count("memory", SEEN) == 2
    [found] = await vectors.get("memory", Selection(ADA, ids=(point_id("b"),)))
    assert found.payload.text == "new"


async def test_a_search_tells_what_a_point_keeps_now(vectors: Vectors) -> None:
    for text in ("cat", "cat again", "cat at last"):
        await vectors.upsert("memory", [point("a", text=text)])
        for _ in range(2):
            [[found]] = await vectors.search("memory", [saying("cat", SEEN)])
            assert found.payload.text == text
    await vectors.delete("memory", Selection(ADA, ids=(point_id("a"),)))
    assert await vectors.search("memory", [saying("cat", SEEN)]) == [[]]


async def test_a_replaced_point_is_found_by_its_new_words_alone(vectors: Vectors) -> None:
    await vectors.upsert("memory", [point("a", text="cat"), point("b", text="cat dog")])
    await vectors.upsert("memory", [point("a", text="bird")])
    cats, birds = await vectors.search("memory", [saying("cat", SEEN), saying("bird", SEEN)])
    assert [hit.id for hit in cats] == [point_id("b")]
    assert [hit.id for hit in birds] == [point_id("a")]


async def test_dense_hits_come_with_the_cosine_the_nearest_first(vectors: Vectors) -> None:
    long = point("long", dense=(10, 0, 0))
    await vectors.upsert("memory", [point("far", dense=(0, 1, 0)), point("near", dense=(1, 1, 0)), long])
    [found] = await vectors.search("memory", [near((2, 0, 0), SEEN, 2)])
    assert [(hit.id, hit.score) for hit in found] == [(point_id("long"), 1.0), (point_id("near"), 0.70711)]
    assert found[0].payload == long.payload


async def test_equal_hits_come_in_the_order_of_their_ids(vectors: Vectors) -> None:
    await vectors.upsert("memory", [point(str(n), text="same") for n in range(20)])
    dense, sparse = await vectors.search("memory", [near((1, 0, 0), SEEN, 20), saying("same", SEEN, 20)])
    assert [hit.id for hit in dense] == [hit.id for hit in sparse] == sorted(named(*map(str, range(20))))


async def test_rare_words_count_more_by_the_formula_that_is_written_down(vectors: Vectors) -> None:
    texts = {"a": "the cat", "b": "the dog", "c": "the dog", "d": "the bird"}
    await vectors.upsert("memory", [point(name, text=text) for name, text in texts.items()])
    [found] = await vectors.search("memory", [saying("the cat dog", SEEN)])
    assert [(hit.id, hit.score) for hit in found] == [
        (point_id("a"), 1.3093),  # ln(3.5 / 1.5 + 1) + ln(0.5 / 4.5 + 1)
        *((i, 0.79851) for i in sorted(named("b", "c"))),
        (point_id("d"), 0.10536),
    ]


async def test_a_collection_tells_whose_points_it_has(vectors: Vectors) -> None:
    """Who works on all of the memory learns its tenants from what is stored, not from who has an API key."""
    assert await vectors.tenants("memory") == []
    await vectors.upsert(
        "memory", [point("a", Owner("zoo")), point("b", ADA), point("c", BOB), point("d", Owner("gone"))]
    )
    await vectors.delete("memory", Selection(Owner("gone")))
    assert await vectors.tenants("memory") == [ACME.tenant, "zoo"]


async def test_what_others_keep_changes_no_score(vectors: Vectors) -> None:
    await vectors.upsert("memory", [point("a", text="cat"), point("b", text="dog")])
    before = await vectors.search("memory", [saying("cat", SEEN), near((1, 0, 0), SEEN)])
    others = [point(f"{owner}{n}", owner, text="cat") for owner in (BOB, OTHER, Owner("other")) for n in range(5)]
    await vectors.upsert("memory", others)
    assert await vectors.search("memory", [saying("cat", SEEN), near((1, 0, 0), SEEN)]) == before


async def test_words_of_removed_points_do_not_count(vectors: Vectors) -> None:
    await vectors.upsert("memory", [point("a", text="cat"), point("b", text="dog")])
    before = await vectors.search("memory", [saying("cat dog", SEEN)])
    await vectors.upsert("memory", [point(f"x{n}", text="cat", task="gone") for n in range(30)])
    await vectors.delete("memory", Selection(ADA, tasks=("gone",)))
    assert await vectors.search("memory", [saying("cat dog", SEEN)]) == before


@pytest.mark.parametrize("later", [OTHER, BOB])
async def test_what_is_written_later_for_others_takes_no_place_and_changes_no_score(
    vectors: Vectors, later: Owner
) -> None:
    """A search among points that are all the searcher's may ask less; it must not go on so when others have some."""
    await vectors.upsert("memory", [point("cat"), point("grey cat", dense=(0, 1, 0)), point("dog")])
    asked: list[VectorQuery] = [saying("cat", Selection(ADA), 2), near((1, 0, 0), Selection(ADA), 2)]
    alone = await vectors.search("memory", asked)
    assert [len(hits) for hits in alone] == [2, 2]
    await vectors.upsert("memory", [point(f"{later.user}-{n}", later, "cat") for n in range(20)])
    assert await vectors.search("memory", asked) == alone
    [theirs] = await vectors.search("memory", [saying("cat", Selection(later), 30)])
    assert {hit.payload.owner for hit in theirs} == {later}
    await vectors.delete("memory", Selection(later))
    assert await vectors.search("memory", asked) == alone


async def test_a_point_without_a_vector_is_no_hit_of_it(vectors: Vectors) -> None:
    bare = point("bare")
    await vectors.upsert("memory", [Point(bare.id, bare.payload, {Dense.AROUND: (1, 0, 0)}), point("a", text="cat")])
    text, words = await vectors.search("memory", [near((1, 0, 0), SEEN), saying("cat", SEEN)])
    [around] = await vectors.search("memory", [DenseQuery((1, 0, 0), Dense.AROUND, SEEN, 5)])
    assert {hit.id for hit in text} == {hit.id for hit in words} == named("a")
    assert {hit.id for hit in around} == named("a", "bare")


async def test_a_vector_of_zeros_is_kept_and_near_to_nothing(vectors: Vectors) -> None:
    await vectors.upsert("memory", [point("a", dense=(0, 0, 0)), point("b")])
    [found] = await vectors.search("memory", [near((1, 0, 0), SEEN)])
    assert [(hit.id, hit.score) for hit in found] == [(point_id("b"), 1.0), (point_id("a"), 0.0)]


@pytest.fixture
async def family(vectors: Vectors) -> Vectors:
    """Points of two users, of nobody, and of another tenant with the same user's name."""
    owned = {"ada": ADA, "bob": BOB, "ours": ACME, "theirs": OTHER, "nobody-there": Owner("other")}
    await vectors.upsert("memory", [point(name, owner, text="cat") for name, owner in owned.items()])
    return vectors


@pytest.mark.parametrize(
    ("selection", "names"),
    [
        (Selection(ADA), {"ada", "ours"}),
        (Selection(ACME), {"ours"}),
        (Selection(ADA, Whose.OWN), {"ada"}),
        (Selection(ACME, Whose.OWN), {"ours"}),
        (Selection(ACME, Whose.ALL), {"ada", "bob", "ours"}),
        (Selection(Owner("acme", "carol")), {"ours"}),
        (Selection(Owner("nowhere", "ada")), set()),
    ],
)
async def test_each_way_of_asking_finds_whose_it_names_alone(
    family: Vectors, selection: Selection, names: set[str]
) -> None:
    dense, sparse = await family.search("memory", [near((1, 0, 0), selection), saying("cat", selection)])
    assert await ids(family, selection) == named(*names)
    assert {hit.id for hit in dense} == {hit.id for hit in sparse} == named(*names)
    assert await family.count("memory", selection) == len(names)


async def test_ids_of_another_tenant_or_user_get_nothing_and_delete_nothing(family: Vectors) -> None:
    foreign = tuple(named("bob", "theirs", "nobody-there"))
    assert await family.get("memory", Selection(ADA, ids=foreign)) == []
    await family.delete("memory", Selection(ADA, ids=foreign))
    assert await family.count("memory", Selection(ACME, Whose.ALL)) == 3
    assert await family.count("memory", Selection(OTHER, Whose.ALL)) == 2


async def test_erasing_a_user_or_a_tenant_leaves_the_others(family: Vectors) -> None:
    await family.delete("memory", Selection(ADA, Whose.OWN))
    assert await ids(family, Selection(ACME, Whose.ALL)) == named("bob", "ours")
    await family.delete("memory", Selection(ACME, Whose.ALL))
    assert await family.count("memory", Selection(ACME, Whose.ALL)) == 0
    assert await family.count("memory", Selection(OTHER, Whose.ALL)) == 2


async def test_every_condition_narrows(vectors: Vectors) -> None:
    await vectors.upsert(
        "memory",
        [
            point("a"),
            point("b", kind="semantic", at=2000),
            point("c", type="tool_result", task="task-0-2", at=3000),
            point("d", session="s2", at=4000),
        ],
    )
    assert await ids(vectors, Selection(ADA, kinds=("semantic", "none"))) == named("b")
    assert await ids(vectors, Selection(ADA, types=("tool_result",))) == named("c")
    assert await ids(vectors, Selection(ADA, tasks=("task-0-2", "task-0-1"), since=2000)) == named("b", "c", "d")
    assert await ids(vectors, Selection(ADA, sessions=("s2",))) == named("d")
    assert await ids(vectors, Selection(ADA, since=2000, until=4000)) == named("b", "c")
    assert await ids(vectors, Selection(ADA, ids=(point_id("a"), point_id("c")), until=3000)) == named("a")
    assert await ids(vectors, Selection(ADA, ids=())) == set()


async def test_pages_hold_every_point_once_in_one_order(vectors: Vectors) -> None:
    await vectors.upsert("memory", [point(str(n)) for n in range(25)])
    seen: list[str] = []
    cursor = None
    while True:
        page = await vectors.scroll("memory", SEEN, 10, cursor)
        seen += [found.id for found in page.points]
        if (cursor := page.next) is None:
            break
        await vectors.delete("memory", Selection(ADA, ids=(seen[0],)))  # what is behind the cursor moves nothing
    assert seen == sorted(named(*map(str, range(25))))


async def test_collections_stand_beside_each_other_and_an_alias_moves_at_once(vectors: Vectors) -> None:
    await vectors.upsert("memory", [point("a")])
    await vectors.prepare("wider", 4)
    await vectors.prepare("memory", 3)
    await vectors.switch("now", "memory")
    assert await vectors.count("now", SEEN) == 1
    await vectors.upsert("wider", [point("b", dense=(1, 0, 0, 0)), point("c", dense=(1, 0, 0, 0))])
    await vectors.switch("now", "wider")
    assert await vectors.count("now", SEEN) == 2
    assert await vectors.collections() == [Collection("memory", 3, 1, ()), Collection("wider", 4, 2, ("now",))]
    await vectors.drop("memory")
    await vectors.drop("memory")
    assert [there.name for there in await vectors.collections()] == ["wider"]


async def test_a_dropped_collection_takes_its_alias_along_and_comes_back_empty(vectors: Vectors) -> None:
    await vectors.upsert("memory", [point("a")])
    await vectors.switch("now", "memory")
    await vectors.drop("memory")
    with pytest.raises(MemoryRefusedError, match="now"):
        await vectors.count("now", SEEN)
    await vectors.prepare("memory", 3)
    assert await vectors.count("memory", SEEN) == 0


async def test_another_dimension_is_refused_where_a_collection_has_one(vectors: Vectors) -> None:
    with pytest.raises(MemoryRefusedError, match="3 numbers, not 4"):
        await vectors.prepare("memory", 4)
    with pytest.raises(MemoryRefusedError):
        await vectors.upsert("memory", [point("ok"), point("a", dense=(1, 0, 0, 0))])
    with pytest.raises(MemoryRefusedError):
        await vectors.upsert("memory", [point("a", dense=(1, 0, 0, 0))])
    with pytest.raises(MemoryRefusedError):
        await vectors.search("memory", [near((1, 0), SEEN)])
    assert await vectors.count("memory", SEEN) == 0


async def test_a_collection_that_nobody_prepared_is_refused(vectors: Vectors) -> None:
    with pytest.raises(MemoryRefusedError, match="elsewhere"):
        await vectors.upsert("elsewhere", [point("a")])
    with pytest.raises(MemoryRefusedError, match="elsewhere"):
        await vectors.search("elsewhere", [near((1, 0, 0), SEEN)])
    with pytest.raises(MemoryRefusedError, match="elsewhere"):
        await vectors.switch("now", "elsewhere")


async def test_nothing_written_and_nothing_asked_is_no_error(vectors: Vectors) -> None:
    await vectors.upsert("memory", [])
    assert await vectors.search("memory", []) == []


async def test_a_closed_store_says_so_and_closes_twice(vectors: Vectors) -> None:
    await vectors.aclose()
    await vectors.aclose()
    with pytest.raises(MemoryOutageError, match="closed"):
        await vectors.count("memory", SEEN)
