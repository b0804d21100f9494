"""Random names without asking the kernel for each."""

import random


def random_hex(digits: int) -> str:
    """So many random hexadecimal digits: unique, and no secret. A child that is forked begins elsewhere."""
    return f"{random.getrandbits(4 * digits):0{digits}x}"
