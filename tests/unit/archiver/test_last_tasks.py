"""What is known of tasks is bounded by what it weighs; the oldest is forgotten first."""

from pentad.services.archiver.ended_tasks import RecentTasks


def test_the_task_that_was_handled_longest_ago_is_forgotten_first() -> None:
    known = RecentTasks[int](10)
    for number in range(10):
        known.put(f"t/{number}", number)
    known.put("t/0", 100)
    known.put("t/10", 10)
    assert (known.get("t/1"), known.get("t/0"), known.get("t/10"), len(known)) == (None, 100, 10, 10)


def test_what_is_taken_is_known_no_more_and_its_place_is_free() -> None:
    known = RecentTasks[int](20)
    for _ in range(50):
        known.put("t/1", 1, 2)
        assert (known.pop("t/1"), known.pop("t/1"), len(known)) == (1, None, 0)
    for number in range(30):
        known.put(f"t/{number}", number, 2)
    assert len(known) == 10


def test_a_task_that_weighs_more_than_half_is_not_kept_and_the_others_stay() -> None:
    known = RecentTasks[int](100)
    known.put("t/1", 1, 50)
    known.put("t/2", 2, 51)
    known.put("t/1", 3, 1 << 60)
    assert (known.get("t/1"), known.get("t/2"), len(known)) == (None, None, 0)
