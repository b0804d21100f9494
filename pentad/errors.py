"""Errors of the client. Each text is one line that says what to do."""

from pentad.contracts.runs import InstructionRun, ToolRun
from pentad.contracts.turns import TurnEnd
from pentad.shared.errors import PentadError


class ClientError(PentadError):
    """The base of everything that the client raises."""


class GatewayUnreachable(ClientError):  # noqa: N818 - reads as what happened
    """No gateway answers at the address, or it went away and did not come back. Try again later."""


class NotAuthorized(ClientError):  # noqa: N818 - reads as what happened
    """The API key is missing or not known, or the token has ended. Never again with this key or token."""


class NotFound(ClientError):  # noqa: N818 - reads as what happened
    """There is no such task or session, or it belongs to another tenant."""


class Unreadable(NotFound):
    """The stored task or dead letter is damaged, or a newer version wrote it. Ask the gateway's operator."""


class Conflict(ClientError):  # noqa: N818 - reads as what happened
    """The request comes too late: the task has ended."""


class Refused(ClientError):  # noqa: N818 - reads as what happened
    """The gateway understood and said no: the same request never succeeds."""


class RunFailed(ClientError):  # noqa: N818 - reads as what happened
    """An instruction that was run has given no answer. ``run`` says all that is known of it."""

    def __init__(self, run: InstructionRun) -> None:
        error = run.error
        why = f"{error.code}: {error.message}" if error is not None else f"its task is {run.status}"
        super().__init__(f"instruction {run.instruction} gave no answer: {why}")
        self.run = run


class RunWaits(ClientError):  # noqa: N818 - reads as what happens
    """The run of a graph cannot go on without a person. ``task_id``: the task that waits, the run's or one below it.

    ``question``: what is asked; None where the run waits for something else, which ``reason`` names.
    """

    def __init__(self, execution_id: str, task_id: str, reason: str, question: str | None) -> None:
        below = "" if task_id == execution_id else f" (its task {task_id})"
        what = f"has stopped: {reason}" if question is None else f"asks: {question}"
        super().__init__(f"run {execution_id}{below} {what}; say more by add_message(), then call result() again")
        self.execution_id, self.task_id, self.reason, self.question = execution_id, task_id, reason, question


class ToolFailed(ClientError):  # noqa: N818 - reads as what happened
    """A tool that was called outside a conversation has given no result. ``run`` says all that is known of it."""

    def __init__(self, run: ToolRun) -> None:
        why = f"{run.error.code}: {run.error.message}" if run.error is not None else f"its task is {run.status}"
        super().__init__(f"tool {run.tool or ''} gave no result: {why}")
        self.run = run


class ModelCallFailed(ClientError):  # noqa: N818 - reads as what happened
    """A model that was asked outside a conversation gave no answer. ``retry_after``: seconds, where it is known."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class TurnFailed(ClientError):  # noqa: N818 - reads as what happened
    """The turn ended without an answer. ``end``: how, and why."""

    def __init__(self, end: TurnEnd) -> None:
        why = f" ({end.why})" if end.why else ""
        super().__init__(f"the turn ended without an answer: {end.outcome}{why}")
        self.end = end


class WrongGraph(ClientError):  # noqa: N818 - reads as what it is
    """A graph that was built or given has mistakes. ``problems``: all of them, each with its place."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(f"the graph is wrong: {'; '.join(problems)}")
        self.problems = problems


class WrongAnswer(ClientError):  # noqa: N818 - reads as what it is
    """The answer is not what ``output`` asks for. ``answer``: the text or data that it is."""

    def __init__(self, problem: str, answer: object) -> None:
        super().__init__(f"the answer does not fit the output: {problem}")
        self.answer = answer


class Busy(ClientError):  # noqa: N818 - reads as what happened
    """The system is behind and takes nothing new. ``retry_after``: seconds to wait, None when it did not say."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
