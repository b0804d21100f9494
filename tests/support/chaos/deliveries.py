"""What came to the webhooks of a chaos run, compared with the events that its sessions hold in the end. Pure."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.chaos.receiver import Arrival

Held = Mapping[str, Sequence[dict[str, Any]]]
"""The events of each session that webhooks get, in their order, each with its cursor as ``id``."""
_Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class DeliveryCount:
    """The figures of the scorecard."""

    events: int = 0
    sessions: int = 0
    requests: int = 0
    again: int = 0
    """Number of events that were taken more than once, in all."""
    undone: int = 0
    """Number of events that came and that a new primary lacks."""
    missing: int = 0
    faults: tuple[str, ...] = ()

    def line(self) -> str:
        """The figures in one line."""
        return (
            f"webhooks: {self.events} events of {self.sessions} sessions in {self.requests} requests, lost "
            f"{self.missing}, taken again {self.again}, of a history that a failover undid {self.undone}"
        )


def deliveries_counted(
    arrivals: Sequence[Arrival],
    held: Held,
    wants: Callable[[str, dict[str, Any]], bool],
    erased: Callable[[str], bool],
    undone: Callable[[float], bool],
) -> DeliveryCount:
    """Return the figures with each fault in words.

    ``wants``: whether a webhook is to get an event. ``erased``: whether a session's events may be gone. ``undone``:
    whether what came at this time may be of a history that a failover has undone.
    """
    known = {_key(event) for events in held.values() for event in events}
    wanted = {hook: [e for es in held.values() for e in es if wants(hook, e)] for hook in ("all", "one")}
    taken = _taken(arrivals)
    strange = [a for a in arrivals if _key(a.event) not in known and not erased(a.event["session_id"])]
    missing = {hook: [e for e in wanted[hook] if _key(e) not in taken[hook]] for hook in wanted}
    faults = [
        *(f"webhook {hook} never got {_shown(event)}" for hook, events in missing.items() for event in events),
        *(f"webhook {a.webhook} got what nobody holds: {_shown(a.event)}" for a in strange if not undone(a.at)),
        *(f"webhook {a.webhook} got what it did not ask for: {_shown(a.event)}" for a in _unwanted(arrivals, wants)),
        *(f"the signature of {a.delivery} is wrong" for a in arrivals if not a.signed),
        *(fault for hook, events in wanted.items() for fault in _out_of_order(hook, events, taken[hook])),
        *_shared_ids(arrivals),
    ]
    return DeliveryCount(
        events=sum(map(len, wanted.values())),
        sessions=len(held),
        requests=len(arrivals),
        again=sum(1 for a in arrivals if a.taken) - sum(map(len, taken.values())),
        undone=len({_key(a.event) for a in strange}),
        missing=sum(map(len, missing.values())),
        faults=tuple(faults),
    )


def _taken(arrivals: Sequence[Arrival]) -> dict[str, dict[_Key, int]]:
    """Return the place at which each webhook's receiver took each event first."""
    taken: dict[str, dict[_Key, int]] = {"all": {}, "one": {}}
    for place, arrival in enumerate(arrivals):
        if arrival.taken:
            taken[arrival.webhook].setdefault(_key(arrival.event), place)
    return taken


def _unwanted(arrivals: Sequence[Arrival], wants: Callable[[str, dict[str, Any]], bool]) -> list[Arrival]:
    return [a for a in arrivals if not wants(a.webhook, a.event)]


def _out_of_order(hook: str, events: Sequence[dict[str, Any]], taken: Mapping[_Key, int]) -> Iterator[str]:
    """Check that the events of each task were taken in the order in which its session holds them."""
    lanes = defaultdict[tuple[str, str], list[dict[str, Any]]](list)
    for event in events:
        if _key(event) in taken:
            lanes[event["session_id"], event.get("task_id") or ""].append(event)
    for (session, task), lane in lanes.items():
        came = sorted(lane, key=lambda event: taken[_key(event)])
        if came != lane:
            told = ", ".join(f"{event['type']} {event['id']}" for event in came)
            yield f"webhook {hook} got events of {session} {task} in this order: {told}"


def _shared_ids(arrivals: Sequence[Arrival]) -> Iterator[str]:
    """Check that each delivery has one id, and that no other has it."""
    ids, deliveries = defaultdict[Any, set[Any]](set), defaultdict[Any, set[Any]](set)
    for arrival in arrivals:
        ids[arrival.webhook, _key(arrival.event)].add(arrival.delivery)
        deliveries[arrival.delivery].add((arrival.webhook, _key(arrival.event)))
    yield from (f"delivery {what} has the ids {sorted(names)}" for what, names in ids.items() if len(names) > 1)
    yield from (f"id {name} is of several deliveries: {sorted(w)}" for name, w in deliveries.items() if len(w) > 1)


def _key(event: Mapping[str, Any]) -> _Key:
    """Return what tells events apart: after a failover an event may come again with another cursor."""
    return event["session_id"], event["id"], event["event_id"]


def _shown(event: Mapping[str, Any]) -> str:
    return f"{event['type']} {event['id']} of {event['session_id']} {event.get('task_id')}"
