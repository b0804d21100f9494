"""The registry of streams, and the words of the contracts, are those that were promised to outsiders."""

import re
from typing import Any

import pytest

from pentad.contracts.asyncapi import carried, type_name
from pentad.contracts.dead_letters import DeadLetter
from pentad.contracts.envelope import Contract
from pentad.contracts.errors import ErrorCode
from pentad.contracts.events import EPHEMERAL, SessionEvent, event_adapter
from pentad.contracts.records import TaskRecord
from pentad.contracts.streams import (
    DEAD,
    EVENTS,
    INBOUND,
    INBOUND_DEAD,
    SERVICES,
    STREAMS,
    Stream,
    queues_of,
)

OUTSIDERS = {"any producer", "a person"}
PARTS = {"tenant": "t1", "session": "s1", "queue": "q1", "reply": "r1"}
COMMON = {"session_id", "task_id", "at"}
EVENT_FIELDS = {
    "message_routed": "message_id decision stage confidence reason candidates scores metadata",
    "control_result": "message_id action content",
    "message_moved": "message_id from_task_id to_task_id emptied effects later_steps",
    "compacted": "from to tokens_before tokens_after",
    "task_start": "goal metadata forked_from",
    "thinking": "step attempt offset content",
    "content": "step attempt offset content",
    "message": "step attempt content finish_reason model model_id ref",
    "tool_call": "tool_call_id tool args ref parent_call_id client",
    "tool_progress": "tool_call_id tool content fraction",
    "tool_result": "tool_call_id tool result error duration_ms ref artifacts",
    "approval_request": "tool_call_id tool args effect args_digest reason expires_at ref needs form approvers",
    "approval": "tool_call_id approved by args reason",
    "task_status": "status reason",
    "node_start": "step",
    "node_end": "step duration_ms next error",
    "task_end": "status reason detail queues finish_reason steps usage",
    "snapshot": "tasks messages",
    "error": "code message message_id retry_after",
}
"""The promise to clients: the fields of each event beside ``session_id task_id at``."""
ENVELOPE = "event_id type version tenant_id correlation_id causation_id traceparent deadline budget parent_task_id node"
CODES = (
    "bad_message unknown_task not_allowed busy budget_exceeded deadline_exceeded model_error tool_error step_limit "
    "graph_error hook_error cursor_expired internal"
)
INBOUND_FIELDS = (
    "content session_id message_id task_id user_id tenant_id instruction metadata deadline budget output_schema state "
    "decides files history tools"
)
TASK_FIELDS = (
    "task_id session_id user_id status goal instruction created_at updated_at steps usage waiting_for archived_at "
    "reason detail completed_at last_user_message_at waiting_for_tools parent_task_id node forked_from"
)
STATES = "pending active waiting stale completed failed cancelled"
WORK = [stream for stream in STREAMS.values() if stream.retention == "consumed"]
ALL = pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)


def key_of(stream: Stream, shard: int = 0) -> str:
    return stream.key(shard, **{name: value for name, value in PARTS.items() if f"{{{name}}}" in stream.template})


def test_keys_of_outsiders_are_as_promised() -> None:
    assert INBOUND.key() == "pentad:inbound"
    assert INBOUND_DEAD.key() == "pentad:dead"
    assert DEAD.key(3) == "pentad:{3}:dead"
    assert EVENTS.key(tenant="default", session="s1") == "pentad:{0}:events:default:s1"


def test_no_two_streams_share_a_key() -> None:
    keys = [key_of(stream, shard) for stream in STREAMS.values() for shard in range(2)]
    outside = 2
    assert len(set(keys)) == len(keys) - outside, "only the two outside of shards are the same in both"


def test_no_key_of_one_stream_can_be_read_as_anothers() -> None:
    """Identifiers have no colon, so a part fills one place only."""
    patterns = {s.name: re.sub(r"\\\{\w+\\\}", "[^:]+", re.escape(s.template)) for s in STREAMS.values()}
    for stream in STREAMS.values():
        matching = [name for name, pattern in patterns.items() if re.fullmatch(pattern, key_of(stream))]
        assert matching == [stream.name]


@ALL
def test_a_row_is_named_as_it_is_filed(stream: Stream) -> None:
    assert STREAMS[stream.name] is stream
    assert stream.description.endswith(".")


@ALL
def test_what_commits_together_lies_in_one_slot(stream: Stream) -> None:
    """All but the two that stand outside carry the shard's hash tag, and no other braces."""
    tags = re.findall(r"\{(.*?)\}", key_of(stream, 7))
    assert tags == ([] if stream in (INBOUND, INBOUND_DEAD) else ["7"])


@pytest.mark.parametrize("stream", WORK, ids=lambda stream: stream.name)
def test_work_has_a_group_and_a_place_for_what_fails(stream: Stream) -> None:
    assert stream.group in SERVICES
    assert stream.readers == (stream.group,)
    assert stream.dead is not None
    sibling = STREAMS[stream.dead]
    assert sibling.carries == (DeadLetter,)
    assert ("{shard}" in sibling.template) == ("{shard}" in stream.template), "set aside in one transaction"
    assert stream.group in sibling.writers


@pytest.mark.parametrize("stream", [s for s in STREAMS.values() if s not in WORK], ids=lambda stream: stream.name)
def test_what_is_no_work_has_neither(stream: Stream) -> None:
    assert (stream.group, stream.dead) == (None, None)


@ALL
def test_writers_and_readers_are_known(stream: Stream) -> None:
    assert stream.carries
    assert stream.writers
    assert stream.readers
    assert {*stream.writers, *stream.readers} <= {*SERVICES, *OUTSIDERS}


def test_every_service_reads_something() -> None:
    assert {reader for stream in STREAMS.values() for reader in stream.readers} >= set(SERVICES)


def test_the_work_of_a_shard_is_all_listed_for_trimming() -> None:
    listed = queues_of(4, ("default", "slow"))
    assert {stream.name for stream, _ in listed} == {stream.name for stream in WORK if stream is not INBOUND}
    assert [key for stream, key in listed if stream.name == "tool-calls"] == [
        "pentad:{4}:tools:default",
        "pentad:{4}:tools:slow",
    ]


def _subclasses(base: type[Contract]) -> set[type[Contract]]:
    return {base}.union(*(_subclasses(child) for child in base.__subclasses__()))


def test_whatever_has_a_type_or_a_version_is_carried_or_kept() -> None:
    declared = {
        contract
        for contract in _subclasses(Contract)
        if contract.__module__.startswith("pentad.contracts.") and "version" in contract.model_fields
    }
    bases = {contract for contract in declared if contract.__subclasses__()}
    assert declared - bases == {*carried(), TaskRecord}


def test_no_two_contracts_share_a_name() -> None:
    names = [type_name(contract) for contract in carried()]
    assert len(set(names)) == len(names)


def test_events_are_those_promised() -> None:
    assert {type_name(contract): contract for contract in EVENTS.carries}.keys() == EVENT_FIELDS.keys()
    assert {type_name(contract) for contract in _members(SessionEvent)} == EVENT_FIELDS.keys()
    assert event_adapter.core_schema["type"] == "tagged-union"


def _members(union: Any) -> tuple[type[Contract], ...]:
    found: tuple[type[Contract], ...] = union.__origin__.__args__
    return found


@pytest.mark.parametrize("contract", EVENTS.carries, ids=type_name)
def test_an_event_has_the_fields_promised_and_the_envelope(contract: type[Contract]) -> None:
    own = set(EVENT_FIELDS[type_name(contract)].split())
    assert {field.alias or name for name, field in contract.model_fields.items()} == own | COMMON | set(
        ENVELOPE.split()
    )


def test_deltas_and_progress_alone_are_not_durable() -> None:
    assert {"thinking", "content", "tool_progress"} == EPHEMERAL


def test_values_of_events_are_those_promised() -> None:
    schema = {name: _choices(name) for name in ("message_routed", "task_status", "task_end")}
    assert schema == {
        "message_routed": ["new", "append", "reopen", "control", "rejected"],
        "task_status": ["pending", "active", "waiting", "stale"],
        "task_end": ["completed", "failed", "cancelled"],
    }


def _choices(name: str) -> list[str]:
    (contract,) = (c for c in EVENTS.carries if type_name(c) == name)
    properties = contract.model_json_schema()["properties"]
    found: list[str] = (properties.get("decision") or properties["status"])["enum"]
    return found


def test_error_codes_are_those_promised() -> None:
    assert [code.value for code in ErrorCode] == CODES.split()


def test_the_inbound_message_has_the_fields_promised() -> None:
    (contract,) = INBOUND.carries
    assert contract.model_fields.keys() == {*INBOUND_FIELDS.split(), "version", "traceparent"}
    schema = contract.model_json_schema()
    assert schema["required"] == ["content"]
    assert schema["properties"]["tenant_id"]["default"] == "default"
    assert schema["properties"]["instruction"]["default"] is None  # what its task runs; a new one's: the executor


def test_a_task_has_the_fields_promised() -> None:
    task = TaskRecord.model_json_schema()["$defs"]["Task"]["properties"]
    assert list(task) == TASK_FIELDS.split()
    assert task["status"]["enum"] == STATES.split()


def test_usage_and_budget_have_the_fields_promised() -> None:
    parts = {name: list(part["properties"]) for name, part in TaskRecord.model_json_schema()["$defs"].items()}
    assert parts["TaskUsage"] == ["input_tokens", "output_tokens", "usd", "cached_tokens"]
    budget = INBOUND.carries[0].model_json_schema()["$defs"]["Budget"]["properties"]
    assert list(budget) == ["tokens", "usd", "steps"]
