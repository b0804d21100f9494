"""How a task begins and begins again, and how a message comes to it: the same for who routes and for who moves."""

from pentad.contracts.commands import InboundMessage
from pentad.contracts.graphs import GraphSpec
from pentad.contracts.ids import encoded_id, milliseconds
from pentad.contracts.instructions import Instruction
from pentad.shared.actors.commit import Commit
from pentad.shared.actors.mail import SessionMessage, UserMail
from pentad.shared.instructions.instruction_list import graph_kept_under, kept_under, version_of
from pentad.shared.keys import TURNS_KEPT, SessionKeys, TaskKeys, task_index
from pentad.shared.kinds import USER

_GOAL_LENGTH = 500
_TURN_CHARS = 4_000
"""Characters that a session remembers of each message that was said elsewhere."""


def goal_of(content: str) -> str:
    """A task's goal: its first message, short enough for a header."""
    return content if len(content) <= _GOAL_LENGTH else content[: _GOAL_LENGTH - 1] + "…"


def begin(
    commit: Commit,
    task: TaskKeys,
    session: str,
    message: InboundMessage,
    runs: str,
    ttl_s: int,
    runnable: Instruction | GraphSpec | None,
) -> None:
    """A task that nobody has had before. ``runs``: the name of its instruction or graph, which is kept with it if it is
    known. ``ttl_s``: how long the index of tasks is kept."""
    commit.expect(task.header, "none")
    commit.set(
        task.header,
        status="active",
        session=encoded_id(session),
        user=message.user_id or "",
        goal=goal_of(message.content),
        instruction=runs,
    )
    if isinstance(runnable, GraphSpec):
        keep_graph(commit, task, runnable, runnable.entry)
    elif runnable is not None:
        keep_instruction(commit, task, runnable.with_output(message.output_schema))
    commit.stamp(task.header, "updated")
    commit.begin(task, SessionKeys(task.shard, task.tenant, session), message.user_id)
    commit.expire(task_index(task.shard, task.tenant), ttl_s)


def keep_instruction(commit: Commit, task: TaskKeys, instruction: Instruction) -> None:
    """The version that the task runs is kept with it: changing or deleting the instruction changes nothing for it."""
    version = version_of(instruction)
    commit.set_once(task.big, kept_under(version), instruction.to_json())
    commit.set(task.header, instruction_version=version)
    if instruction.on_message == "queue":
        commit.set(task.header, queues=1)


def keep_graph(commit: Commit, task: TaskKeys, graph: GraphSpec, entry: str, until: str = "") -> None:
    """The version of the graph that the task runs is kept with it, like that of an instruction.

    ``entry``: key of the node with which its runs begin; ``until``: key of the node before which they end, '' for none.
    """
    version = version_of(graph)
    commit.set_once(task.big, graph_kept_under(version), graph.to_json())
    commit.set(task.header, graph=version, entry=entry, until=until, node=entry)


def reopen(commit: Commit, task: TaskKeys) -> None:
    """An ended task goes on: what its end has set up is taken back."""
    commit.set(task.header, status="active", reason="")
    commit.stamp(task.header, "updated")
    commit.untimer(task, "archive", "deadline")


def hand_over(
    commit: Commit, session: SessionKeys, task: TaskKeys, mail: UserMail, ttl_s: int, *, reopened: bool
) -> None:
    """A message comes to a task, and into its session's last turns; the task has its time and deadline from now on."""
    message = mail.message
    commit.set(task.header, said_at=milliseconds(mail.at))
    if deadline := message.due:
        commit.set(task.header, deadline=deadline)
        commit.due(task, "deadline", deadline)
    elif reopened:
        commit.set(task.header, deadline=0)
    commit.post(task, USER, mail.to_json())
    for each in message.history or ():
        earlier = SessionMessage(role=each.role, content=each.content[:_TURN_CHARS], task_id=task.task, at=mail.at)
        commit.push(session.turns, earlier.to_json(), TURNS_KEPT)
    turn = SessionMessage(
        role="user", content=message.content, task_id=task.task, at=mail.at, message_id=message.message_id
    )
    commit.push(session.turns, turn.to_json(), TURNS_KEPT)
    commit.expire(session.turns, ttl_s)
