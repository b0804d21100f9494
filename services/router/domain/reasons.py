"""Why a message went where it did, for a person."""

from pentad.services.router.domain.scoring import Chance, Ranking

_MOST = 3
_PHRASES = {
    "leans": "the message leans on what was said last",
    "answers": "it answers what the task asked",
    "thanks": "it thanks for an answer",
    "words": "it shares words with the last turn",
    "history": "it shares words with what was said there before",
    "meaning": "in meaning it is nearer than to other tasks",
    "request": "it asks for something",
    "begins": "it begins something",
    "like_a_goal": "its words are like those that tasks begin with",
}
"""The signs that can speak for a task or for a new one; the others only speak against."""


def reason_of(ranking: Ranking) -> str:
    """The best chance in words: its probability, and what speaks for it, the weightiest first."""
    best = ranking.best
    what = "a new task" if best.rank is None else "this task"
    return f"{what} is the most likely ({best.probability:.2f}): {', '.join(_spoken_for(best))}"


def _spoken_for(best: Chance) -> list[str]:
    signs = sorted(best.signs.items(), key=lambda sign: -sign[1])
    phrases = [f"{_PHRASES.get(sign, sign)} ({value:+.1f})" for sign, value in signs[:_MOST] if value > 0]
    otherwise = {0: "it was spoken to last", None: "there is nothing that it could go on with"}
    return phrases or [otherwise.get(best.rank, "less speaks against it")]
