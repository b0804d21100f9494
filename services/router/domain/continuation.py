"""A message that makes sense only as the continuation of the one task there is."""

from pentad.shared.digests.task_digest import TaskDigest, Utterance


def only_continues(message: Utterance, task: TaskDigest) -> bool:
    """A few words that answer, refer back, or name a number, a time or a place, and begin nothing: "and Beijing?".

    Not where the talk has come to its end with a goodbye. ``task``: the session's one live task.
    """
    cues = message.cues
    begins = cues.opener or cues.greeting or cues.indefinite
    return cues.short and not begins and not task.closed and (cues.refers or cues.gives_something)
