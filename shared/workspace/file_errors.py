"""Errors of workspaces: what a tool, a client or an operator is told of a file that cannot be had."""

from pentad.shared.errors import PentadError


class FileRefusedError(PentadError):
    """The path, the file or the change is not allowed. Never again: the text says what to do."""


class FileMissingError(FileRefusedError):
    """There is no such file in this workspace."""


class FileChangedError(FileRefusedError):
    """The file is not, or no longer, as the caller of a change expects it."""


class FileTooLargeError(FileRefusedError):
    """The file would have more bytes than one may have."""


class WorkspaceFullError(FileRefusedError):
    """The change would exceed a limit of the workspace."""
