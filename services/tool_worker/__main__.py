"""``python -m services.tool_worker``, the same as ``pentad serve tool-worker``."""

import sys

from pentad.services.tool_worker.app import build
from pentad.shared.service.exits import leave
from pentad.shared.service.run import main_of

if __name__ == "__main__":
    leave(main_of("tool-worker", sys.argv[1:], build))
