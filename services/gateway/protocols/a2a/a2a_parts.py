"""The parts of the gateway that A2A stands on. They need no package of its extra."""

from pentad.services.gateway.tasks.approvals import Approvals
from pentad.services.gateway.tasks.control import Control
from pentad.services.gateway.tasks.queries import Queries
from pentad.services.gateway.tasks.task_list import TaskList
from pentad.services.gateway.tasks.turn_follower import TurnFollower
from pentad.services.gateway.tasks.turn_stream import TurnStreams
from pentad.services.gateway.webhooks.push_configs import PushConfigs
from pentad.shared.immutable import immutable
from pentad.shared.workspace.workspace import Workspaces


@immutable
class A2aParts:
    """A2A stands on these parts of the gateway."""

    streams: TurnStreams
    turns: TurnFollower
    queries: Queries
    approvals: Approvals
    control: Control
    tasks: TaskList
    pushes: PushConfigs
    workspaces: Workspaces | None
    shards: int
