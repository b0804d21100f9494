"""Random names that need no system call each."""

import random


def random_hex(digits: int) -> str:
    """Return random hexadecimal digits: unique, and not secret. A forked child has its own sequence."""
    return f"{random.getrandbits(4 * digits):0{digits}x}"
