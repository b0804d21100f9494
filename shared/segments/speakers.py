"""Who says what in a task, where its transcript does not tell."""

from collections.abc import Mapping, Sequence
from typing import Any

Message = Mapping[str, Any]


def owned(messages: Sequence[Message], user: str) -> Sequence[Message]:
    """Each user's message with who said it. ``user``: who began the task.

    Versions before long-term memory did not write who speaks: all of such a task is its beginner's.
    """
    said = [message for message in messages if message.get("role") == "user"]
    if not user or any(message.get("user_id") or message.get("memory_session") for message in said):
        return messages
    return [{**message, "user_id": user} if message.get("role") == "user" else message for message in messages]
