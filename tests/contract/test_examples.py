"""Every message and record has golden examples, and the code reads and writes exactly those (laws 9 and 11)."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from pentad.contracts.commands import (
    EraseCommand,
    InboundMessage,
    MemoryReply,
    MemoryRequest,
    ModelCallCommand,
    ModelCallReply,
    WakeUp,
    command_adapter,
)
from pentad.contracts.dead_letters import DeadLetter
from pentad.contracts.envelope import Contract, Envelope
from pentad.contracts.events import ClientEvent, event_adapter
from pentad.contracts.hooks import HookCommand, HookReply
from pentad.contracts.streams import EVENTS
from pentad.shared.work.entry import complaint
from tests.support.documents.examples import CONTRACTS, FOLDER, Example, compact, examples

ALL = examples()
EXACT = [example for example in ALL if not example.is_input]
VERSIONED = [example for example in EXACT if "version" in example.contract.model_fields]
ENVELOPE = {
    "event_id", "type", "version", "at", "tenant_id", "session_id", "task_id", "correlation_id", "causation_id",
    "traceparent", "deadline", "budget",
}  # fmt: skip
WITHOUT_ENVELOPE = {
    InboundMessage: "made by any producer, which knows none of it; its entry id becomes the causation of what follows",
    WakeUp: "says only that there is mail, and carries no work: each mail says why it exists",
    MemoryRequest: "a call of one method; what it is about, its tenant first, stands in the selection or the points",
    MemoryReply: "what one call gives back to who made it",
    ModelCallCommand: "one question outside of any conversation: it names its tenant and who waits",
    HookCommand: "one hook of one step: it names its tenant, task and step, and who waits",
    HookReply: "what one hook gives back to the step",
    ModelCallReply: "what one model call gives back to who made it",
    EraseCommand: "what a person asks for outside of any conversation: it names what goes, and its tenant",
    DeadLetter: "is about an entry that may be unreadable; its chain says what led there",
}


@pytest.mark.parametrize("name", CONTRACTS)
def test_a_contract_has_an_example_of_each_version(name: str) -> None:
    assert {example.version for example in EXACT if example.kind == name} == {1}


def test_no_example_is_orphaned() -> None:
    inputs = [(e.kind, e.version, e.name) for e in ALL if e.is_input]
    assert {e.kind for e in ALL} == set(CONTRACTS)
    assert set(inputs) <= {(e.kind, e.version, e.name) for e in EXACT}
    assert all(len(e.path.relative_to(FOLDER).parts) == 3 and e.path.suffix == ".json" for e in ALL)


@pytest.mark.parametrize("example", EXACT, ids=str)
def test_an_example_is_read_and_written_back_byte_for_byte(example: Example) -> None:
    wire = compact(example.read())
    assert example.contract.model_validate_json(wire).to_json() == wire


@pytest.mark.parametrize("example", [e for e in ALL if e.is_input], ids=str)
def test_what_a_producer_may_leave_out_is_filled_in(example: Example) -> None:
    same = example.path.with_name(f"{example.name}.json").read_text()
    read = example.contract.model_validate_json
    assert read(example.path.read_text()) == read(same)


@pytest.mark.parametrize("example", EXACT, ids=str)
def test_a_newer_writers_fields_do_not_stop_an_older_reader(example: Example) -> None:
    newer = compact({**example.read(), "x_new": {"deep": [1, None]}, "zz": "later"})
    assert example.contract.model_validate_json(newer).to_json() == compact(example.read())


@pytest.mark.parametrize("example", VERSIONED, ids=str)
@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_an_unknown_version_is_refused_by_name(example: Example, version: Any) -> None:
    with pytest.raises(ValidationError) as refused:
        example.contract.model_validate_json(compact({**example.read(), "version": version}))
    assert complaint(refused.value) == "version: Input should be 1"


@pytest.mark.parametrize("example", EXACT, ids=str)
def test_what_was_read_cannot_be_changed(example: Example) -> None:
    value = example.contract.model_validate_json(example.path.read_text())
    for field in type(value).model_fields:
        with pytest.raises(ValidationError, match="frozen"):
            setattr(value, field, None)


@pytest.mark.parametrize("example", [e for e in EXACT if "type" in e.contract.model_fields], ids=str)
def test_the_type_alone_finds_the_contract(example: Example) -> None:
    adapter: TypeAdapter[Any] = event_adapter if issubclass(example.contract, ClientEvent) else command_adapter
    assert type(adapter.validate_json(example.path.read_text())) is example.contract


@pytest.mark.parametrize("example", [e for e in EXACT if "type" in e.contract.model_fields], ids=str)
def test_another_types_event_is_refused(example: Example) -> None:
    with pytest.raises(ValidationError, match="type"):
        example.contract.model_validate_json(compact({**example.read(), "type": "another"}))


@pytest.mark.parametrize("example", VERSIONED, ids=str)
def test_a_field_that_has_no_default_is_required(example: Example) -> None:
    for name, field in ((each.alias or name, each) for name, each in example.contract.model_fields.items()):
        if field.is_required():
            rest = {key: value for key, value in example.read().items() if key != name}
            with pytest.raises(ValidationError) as refused:
                example.contract.model_validate_json(compact(rest))
            assert complaint(refused.value) == f"{name}: Field required"


@pytest.mark.parametrize("contract", [c for n, c in CONTRACTS.items() if n != "task_record"], ids=lambda c: c.__name__)
def test_everything_that_travels_says_why_it_exists(contract: type[Contract]) -> None:
    assert (contract.model_fields.keys() >= ENVELOPE) == (contract not in WITHOUT_ENVELOPE)
    assert issubclass(contract, Envelope) == (contract not in WITHOUT_ENVELOPE)


def test_an_event_without_its_origin_is_refused() -> None:
    for contract in EVENTS.carries:
        required = {name for name, field in contract.model_fields.items() if field.is_required()}
        assert {"event_id", "at", "tenant_id", "session_id"} <= required
