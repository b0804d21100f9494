"""``python -m services.embedding``, the same as ``pentad serve embedding``."""

import sys

from pentad.services.embedding.app import build
from pentad.shared.service.exits import leave
from pentad.shared.service.run import main_of

if __name__ == "__main__":
    leave(main_of("embedding", sys.argv[1:], build))
