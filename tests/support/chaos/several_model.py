"""The model of a chaos run with several tasks in a session: it plays each message's plan, and routes messages.

Now and then it routes a message to a wrong task, or answers in prose.
"""

import json
import random
from collections.abc import Iterable, Mapping
from typing import Any

from tests.support.chaos.plan import Model
from tests.support.chaos.talk import Saying, by_reference, reference, session_of
from tests.support.models.replies import Reply, say

_WRONG, _PROSE = 0.06, 0.1


class SeveralModel(Model):
    """Plays the plans of ``sayings``, the messages of the run."""

    def __init__(self, rng: random.Random, sayings: Iterable[Saying]) -> None:
        super().__init__()
        self._rng = rng
        self._sayings: dict[str, Saying] = {**by_reference((*sayings,))}
        self.asked_where = 0
        """Number of times that the model was asked to route a message."""

    def learn(self, saying: Saying) -> None:
        """Add a message with its plan."""
        self._sayings.update(by_reference([saying]))

    def script(self, request: dict[str, Any]) -> Reply:
        messages = request["messages"]
        if messages[1]["content"].startswith('{"tasks":'):
            self.asked_where += 1
            return self._where(json.loads(messages[1]["content"]))
        last = max(i for i, m in enumerate(messages) if m["role"] == "user")
        if not reference(messages[last]["content"]):
            return super().script(request)
        saying = self._sayings[reference(messages[last]["content"])]
        done = sum(1 for m in messages[last:] if m["role"] == "assistant")
        if done < len(saying.steps):
            return self.asks(saying.number, saying.steps[done])
        return self.answers(saying.number, f"This is done as you wished: {saying.content}")

    def _where(self, question: Mapping[str, Any]) -> Reply:
        chance = self._rng.random()
        if chance < _PROSE:
            return say("It belongs to the task with the same subject, I should think.")
        meant = self._sayings[reference(question["message"])]
        like = [task["task"] for task in question["tasks"] if self._is_about(task["began_with"], meant)]
        named = like[0] if like else "new"
        if chance < _PROSE + _WRONG:
            named = self._rng.choice(["new", *(task["task"] for task in question["tasks"])])
        return say(json.dumps({"task": named, "confidence": 0.95, "reason": "it is about that"}))

    def _is_about(self, began_with: str, meant: Saying) -> bool:
        began = self._sayings.get(reference(began_with))
        return began is not None and _subject(began) == _subject(meant)


def _subject(saying: Saying) -> tuple[int, int]:
    return session_of(saying.number), saying.subject
