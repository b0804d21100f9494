"""Errors of tools and plugins. Their texts are read by plugin authors and by models: each says what to do."""

from pentad.shared.errors import PentadError


class PluginError(PentadError):
    """A plugin or a tool in it is wrong. Never again: the start stops with this text."""


class InvalidArguments(PentadError):  # noqa: N818 - it names what is wrong, as the model reads it
    """The arguments of a call do not fit. Names the tool and the argument and says what was expected. A tool may raise
    it, too: the model is told its text, and it is no failure of the tool."""


class UnusableResult(PentadError):  # noqa: N818 - it names what is wrong, as the model reads it
    """A tool returned what is neither text nor JSON. The call has run: it is not repeated."""


class SetupFailed(PentadError):  # noqa: N818 - it names what is wrong, as the model reads it
    """The object that a tool belongs to could not be set up. The next call tries again."""
