"""The rules by which active tasks have places, each with the change of the scripts' text that drops it."""

from tests.support.interleave.rule import Edit, Rule

PLACE_RULES = (
    Rule(
        "so_many_tasks_are_active",
        (
            Edit("take", "wait_in_session or of_session > tonumber(ARGV[9])", "wait_in_session"),
            Edit("take", "of_tenant <= tonumber(ARGV[10])", "true"),
        ),
        "limits",
        first=2,
    ),
    Rule("a_place_ends_with_its_task", (Edit("commit", "local rests = waits == ''", "local rests = false"),), "limits"),
    Rule(
        "a_free_place_goes_to_who_waits",
        (Edit("commit", "if taken[3] or taken[4] then give_places", "if false then give_places"),),
        "limits",
    ),
    Rule(
        "who_came_first_is_first",
        (Edit("_lib", "call('ZPOPMIN', queue)", "call('ZPOPMAX', queue)"),),
        "limits",
        first=0,
    ),
    Rule(
        "who_has_left_the_queue_gets_no_place",
        (
            Edit("commit", "call('ZREM', of_session, header .. ' ' .. actor)", "call('ZREM', of_session, '')"),
            Edit("_lib", "redis.pcall('HGET', header, 'place') == place", "true"),
        ),
        "limits",
        first=31,
    ),
    Rule(
        "who_gets_a_place_is_woken",
        (
            Edit(
                "_lib",
                "    call('HSET', header, 'place', 'a')\n    wake_once(header, stream, actor)",
                "    call('HSET', header, 'place', 'a')",
            ),
        ),
        "limits",
        first=2,
    ),
    Rule(
        "a_place_that_comes_meanwhile_is_noticed",
        (Edit("commit", "if not rests and call('HGET', header, 'place') == 'a' then rewake = true end"),),
        "limits",
        first=12,
        rare=True,
    ),
)
"""Rules of places, all noticed under the stress ``limits``, in which few tasks may be active."""
