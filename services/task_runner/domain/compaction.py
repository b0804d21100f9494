"""Chooses the older part of a long conversation, of which prompts are to have a summary, or nothing. Pure.

Calls stay together with their results, the newest message of the person and pinned messages stay where they are, and
so does the end of the conversation.
"""

from collections.abc import Container, Iterator, Sequence

from pentad.shared.actors.compaction import Placed
from pentad.shared.immutable import immutable

KEPT_SHARE = 0.4
"""Share of the room for the conversation that its end may have when the part before it is shortened: the rest is for
the summary and for what comes until the next one."""
_LEAST_SHARE = 0.1
"""Share of the conversation that must be gained, so that it is not shortened at every step."""
_USER, _TOOL = b'{"role":"user"', b'{"role":"tool"'


@immutable
class Costed:
    """A message of the prompt, and what it costs: tokens, or 1 where messages are counted."""

    position: int
    line: bytes
    cost: int

    @property
    def placed(self) -> Placed:
        """The message with its position."""
        return self.position, self.line


def older_part(
    conversation: Sequence[Costed], keep: int, stays: Container[int] = (), notes: Container[int] = ()
) -> list[list[Costed]]:
    """Return the part before the end of a conversation that is to be shortened, in units that stay together; empty if
    nothing is worth it.

    ``keep``: what the end may cost. ``stays``: positions of messages that stay. ``notes``: positions of texts that
    stand for messages already.
    """
    units = list(_units(conversation))
    said = [unit[0] for unit in units if unit[0].line.startswith(_USER) and unit[0].position not in notes]
    newest = said[-1].position if said else -1
    begin, left = len(units), keep
    while begin > 0:
        left -= sum(each.cost for each in units[begin - 1])
        if left < 0 and begin < len(units):
            break
        begin -= 1
    older = [
        unit
        for unit in units[:begin]
        if unit[0].position != newest and not any(each.position in stays for each in unit)
    ]
    gained = [each for unit in older for each in unit]
    least = sum(each.cost for each in conversation) * _LEAST_SHARE
    is_worth_it = sum(each.cost for each in gained) > least and any(each.position not in notes for each in gained)
    return older if is_worth_it else []


def oldest_that_fit(older: Sequence[Sequence[Costed]], most: int) -> list[Costed]:
    """Return the messages of the first units that cost at most this much together; empty if the first costs more."""
    found: list[Costed] = []
    for unit in older:
        most -= sum(each.cost for each in unit)
        if most < 0:
            break
        found += unit
    return found


def _units(conversation: Sequence[Costed]) -> Iterator[list[Costed]]:
    """Cut a conversation where it may be cut: never between calls and their results."""
    unit: list[Costed] = []
    for each in conversation:
        if unit and not each.line.startswith(_TOOL):
            yield unit
            unit = []
        unit.append(each)
    if unit:
        yield unit
