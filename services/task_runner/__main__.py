"""``python -m services.task_runner``, the same as ``pentad serve task-runner``."""

import sys

from pentad.services.task_runner.app import build
from pentad.shared.service.exits import leave
from pentad.shared.service.run import main_of

if __name__ == "__main__":
    leave(main_of("task-runner", sys.argv[1:], build))
