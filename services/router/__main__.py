"""``python -m services.router``, the same as ``pentad serve router``."""

import sys

from pentad.services.router.app import build
from pentad.shared.service.exits import leave
from pentad.shared.service.run import main_of

if __name__ == "__main__":
    leave(main_of("router", sys.argv[1:], build))
