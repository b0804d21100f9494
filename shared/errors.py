"""Errors of the shared floor. Each answers one question: try again, or never?"""


class PentadError(Exception):
    """The base of every error that Pentad raises on purpose; its text says what to do."""


class SettingsError(PentadError):
    """A setting is wrong. Names the variable, never its secret. Never again: the start stops."""


class OutageError(PentadError):
    """A store does not answer or refuses to write. Nothing was the entry's fault: wait and try again, count nothing."""


class RefusedWriteError(OutageError):
    """A store has answered that it does not take this now: so much is certain that nothing was written."""


class DamagedError(PentadError):
    """Stored data cannot be read: it is damaged, or of a newer version. It is left as it is for inspection."""


class PoisonError(PentadError):
    """This entry can never be handled. Set it aside with this text as the reason."""


class MemoryOutageError(OutageError):
    """A store of long-term memory is away, full, locked or does not accept our credentials: wait and try again."""


class MemoryTakenError(MemoryOutageError):
    """The embedded memory is open in another process: that one does what is to be done with it."""


class MemoryDamagedError(MemoryOutageError, DamagedError):
    """A store of long-term memory is damaged, or of a newer version. No entry is at fault: all that needs the store
    waits until a person has mended it."""


class MemoryNewerError(MemoryDamagedError):
    """A store of long-term memory was written by a newer version of Pentad: nothing of it is broken, and that version
    can use it."""


class MemoryRefusedError(PentadError):
    """A request to a store of long-term memory can never succeed: it is too large, or of a wrong shape."""
