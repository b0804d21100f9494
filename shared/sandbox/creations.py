"""Counts what a script makes: the kernel asks before each file and folder, and the script waits for the answer.

Only so is the disk bounded that a script can fill: a limit of the kernel bounds one file, not how many there are. What
is asked is not looked at but counted: whether the script may make a file there, Landlock decides.
"""

import errno
import fcntl
import struct

_RECEIVE, _ANSWER = 0xC0502100, 0xC0182101
"""Requests of the kernel, SECCOMP_IOCTL_NOTIF_RECV and SECCOMP_IOCTL_NOTIF_SEND, for the structures below."""
_QUESTION_BYTES = 80
_ANSWER_FORM = "=QqiI"
"""The id of the question, a value, an error, flags."""
_GO_ON = 1
"""The flag that lets the kernel do what was asked."""


class Creations:
    """The questions of one script. ``listener``: where they arrive; ``most``: how many are allowed."""

    def __init__(self, listener: int, most: int) -> None:
        self._listener, self._left = listener, most

    def answer(self) -> bool:
        """Answer the question that has arrived; returns whether it was allowed."""
        question = bytearray(_QUESTION_BYTES)
        try:
            fcntl.ioctl(self._listener, _RECEIVE, question)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINTR):  # who asked has ended meanwhile
                return True
            raise
        number = struct.unpack_from("=Q", question)[0]
        self._left -= 1
        allowed = self._left >= 0
        answer = struct.pack(_ANSWER_FORM, number, 0, 0 if allowed else -errno.EDQUOT, _GO_ON if allowed else 0)
        try:
            fcntl.ioctl(self._listener, _ANSWER, answer)
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise
        return allowed
