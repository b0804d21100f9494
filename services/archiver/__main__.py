"""``python -m services.archiver``, the same as ``pentad serve archiver``."""

import sys

from pentad.services.archiver.app import build
from pentad.shared.service.exits import leave
from pentad.shared.service.run import main_of

if __name__ == "__main__":
    leave(main_of("archiver", sys.argv[1:], build))
