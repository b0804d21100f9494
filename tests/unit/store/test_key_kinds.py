"""Which of the keys of a command somebody else has written."""

import pytest

from pentad.contracts.streams import (
    ARCHIVE,
    DEAD,
    EMBED,
    EVENTS,
    HOOKS,
    INBOUND,
    MODEL_CALLS,
    SESSION_WAKE,
    TASK_WAKE,
    TOOL_CALLS,
)
from pentad.shared.keys import (
    GATEWAY_ADDRESS,
    GRAPHS_PUBLISHED,
    GRAPHS_REGISTRY,
    HOOKS_PUBLISHED,
    INBOUND_LEASE,
    POLICIES_REGISTRY,
    SCHEDULES_DUE,
    SCHEDULES_SET,
    SCHEDULES_TURN,
    WEBHOOKS_REGISTRY,
    SessionKeys,
    TaskKeys,
    attempts,
    bell,
    callback,
    callbacks,
    dedup,
    load,
    model_call_wanted,
    schedule,
    schedule_list,
    session_index,
    sign_in,
    timers,
    token_lock,
    waiting_webhooks,
    webhook_due,
    webhook_lane,
    webhook_lease,
    webhook_state,
)
from pentad.shared.store.trouble import kind_of, strangers

TASK, SESSION = TaskKeys(3, "acme", "mail"), SessionKeys(3, "acme", "mail")


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        (
            "stream",
            [s.key(3, queue="gpu", tenant="t", session="s") for s in (INBOUND, SESSION_WAKE, TASK_WAKE, EVENTS)],
        ),
        ("stream", [s.key(3, queue="gpu") for s in (TOOL_CALLS, EMBED, ARCHIVE, MODEL_CALLS, HOOKS, DEAD)] + [bell(3)]),
        ("hash", [TASK.header, SESSION.header, TASK.calls, TASK.big, load(3), attempts(3), INBOUND_LEASE]),
        ("hash", [GRAPHS_PUBLISHED, GRAPHS_REGISTRY, HOOKS_PUBLISHED, POLICIES_REGISTRY]),
        ("zset", [TASK.messages, TASK.signals, SESSION.messages, SESSION.signals, timers(3), session_index(3, "acme")]),
        ("zset", [SCHEDULES_DUE, SCHEDULES_SET, schedule_list("acme")]),
        ("hash", [schedule("acme", "news")]),
        ("string", [SCHEDULES_TURN]),
        ("zset", [waiting_webhooks(3), webhook_due(3, "wh-1"), callbacks(3)]),
        ("hash", [WEBHOOKS_REGISTRY, webhook_state(3, "wh-1"), SESSION.webhook_cursors, TASK.push_configs]),
        ("list", [webhook_lane(3, "wh-1", "acme/mail/task-3-1")]),
        ("string", [webhook_lease(3), callback(3, SESSION.callback_id("m"))]),
        ("list", [TASK.log, TASK.steps, SESSION.turns]),
        (
            "string",
            [dedup(3, "acme", "s", "m"), model_call_wanted(3, "5f0c"), GATEWAY_ADDRESS, *sign_in("s"), token_lock("p")],
        ),
        (None, ["pentad:{3}:unheard-of", "pentad:unheard-of", "other"]),
    ],
)
def test_what_each_key_holds(kind: str | None, keys: list[str]) -> None:
    assert {key: kind_of(key) for key in keys} == dict.fromkeys(keys, kind)


def test_only_what_is_wrong_is_named() -> None:
    found = {TASK.header: "hash", TASK.messages: "string", TASK.log: "none", "pentad:new": "set"}
    assert strangers(found) == [f"{TASK.messages} is a string, not a zset"]
    assert strangers({TASK.header: "hash", "pentad:new": "set"}) == ["pentad:new is a set"]
