"""What is there once a process has started stays there, so the garbage collector need not look at it again."""

import gc

_ours = False


def own_process() -> None:
    """Say that this process runs Pentad and nothing else: what it keeps in memory is ours to settle."""
    global _ours
    _ours = True


def settle() -> None:
    """Collect, and leave what is left out of every later collection. Blocks for 50 to 200 ms: call it at the start.

    A full collection looks at all that is tracked, and stops the process meanwhile. Of some 300,000 objects nearly all
    are modules, classes and schemas that never go. Somebody else's program is left as it is: its objects do go.
    """
    if not _ours:
        return
    gc.collect()
    gc.freeze()
