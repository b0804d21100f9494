"""What this process knows of the tasks that it handled last."""

from collections import OrderedDict
from typing import Generic, TypeVar

T = TypeVar("T")


class LastTasks(Generic[T]):
    """By task. Of those that were handled longest ago nothing is known any more, as after a start of the process.

    ``most``: how much all of them may weigh together.
    """

    def __init__(self, most: int) -> None:
        self._most, self._weight = most, 0
        self._known: OrderedDict[str, tuple[T, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def get(self, actor: str) -> T | None:
        """What is known of a task."""
        return self._known[actor][0] if actor in self._known else None

    def put(self, actor: str, known: T, weight: int = 1) -> None:
        """Know this of a task from now on; what weighs more than half of all is not kept."""
        self.pop(actor)
        if 2 * weight <= self._most:
            self._known[actor] = known, weight
            self._weight += weight
        while self._weight > self._most:
            self._weight -= self._known.popitem(last=False)[1][1]

    def pop(self, actor: str) -> T | None:
        """What is known of a task; nothing from now on, until it is put back."""
        known, weight = self._known.pop(actor, (None, 0))
        self._weight -= weight
        return known
