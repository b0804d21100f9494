"""``python -m services.gateway``, the same as ``pentad serve gateway``."""

import sys

from pentad.services.gateway.app import build
from pentad.shared.service.exits import leave
from pentad.shared.service.run import main_of

if __name__ == "__main__":
    leave(main_of("gateway", sys.argv[1:], build))
